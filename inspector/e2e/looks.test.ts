// A picture of each view, in both themes, at 1280 and 390 pixels, some also at 768, compared with the committed ones.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { Page } from "playwright-core";
import { Chrome, PYTHON, type Running, callTool, dev, done, folderWith, missing, remove, setRevision, shoot, started, visit } from "./harness";

const close = async (page: Page): Promise<void> => {
  const button = page.getByRole("button", { name: "Close the drawer" });
  if (await button.count()) await button.click();
};

interface View {
  name: string;
  drawer?: boolean;
  go: (page: Page) => Promise<void>;
}

const VIEWS: View[] = [
  { name: "home", drawer: true, go: async (page) => void (await page.locator(".side-entry").first().waitFor()) },
  {
    name: "tool",
    go: async (page) => {
      await callTool(page, "add", "?a=40&b=2");
      await done(page, "ok");
      await page.locator(".result .fall", { hasText: "encode" }).waitFor();
    },
  },
  {
    name: "form",
    go: async (page) => {
      const args = { day: "2026-12-24", guests: JSON.stringify([{ name: "Ada", diet: "vegan", address: { street: "Main street", city: "Bern" } }]), payment: '{"kind":"cash","amount":12.5}', wishes: '["quiet"]', smoking: "true" };
      await visit(page, `#/tools/reserve?${new URLSearchParams(args)}`);
      await page.locator('[data-field="guests.0.name"]').waitFor();
    },
  },
  {
    name: "problems",
    go: async (page) => {
      await visit(page, "#/tools/search?code=ab&limit=99&mail=nobody");
      await page.getByRole("button", { name: "Call", exact: true }).click();
      await page.getByText("limit must be at most 50").waitFor();
    },
  },
  {
    name: "result",
    go: async (page) => {
      await callTool(page, "everything");
      await done(page, "ok");
      await page.locator("figure img").waitFor();
    },
  },
  {
    name: "failure",
    go: async (page) => {
      await callTool(page, "broken");
      await done(page, "tool error");
      await page.locator(".frames").waitFor();
      // The id of an error is another one each time.
      await page.evaluate(() => {
        for (const box of document.querySelectorAll<HTMLElement>(".result .content, .traceback-foot")) box.innerHTML = box.innerHTML.replace(/[0-9a-f]{8}/g, "0badc0de");
        for (const link of document.querySelectorAll(".frames a")) link.textContent = (link.textContent ?? "").replace(/^.*\//, "");
      });
    },
  },
  {
    name: "question",
    go: async (page) => {
      await callTool(page, "book");
      await page.getByText("Where to?").waitFor();
      await page.locator('[data-field="city"] textarea').fill("Bern");
    },
  },
  {
    name: "resource",
    go: async (page) => {
      await visit(page, "#/resources/kitchen%3A%2F%2Fprices");
      await page.locator(".result table").waitFor();
    },
  },
  {
    name: "template",
    go: async (page) => {
      await visit(page, "#/templates/kitchen%3A%2F%2Fdish%2F%7Bname%7D?name=salad");
      await page.getByRole("button", { name: "Read", exact: true }).click();
      await page.locator(".result .json").waitFor();
    },
  },
  {
    name: "prompt",
    go: async (page) => {
      await visit(page, "#/prompts/plan?dish=tart&guests=6");
      await page.getByRole("button", { name: "Get the prompt" }).click();
      await page.locator(".bubble.assistant").waitFor();
    },
  },
  { name: "server", go: async (page) => (await visit(page, "#/server"), void (await page.getByText("Instructions for the model").waitFor())) },
  { name: "connection", go: async (page) => (await visit(page, "#/server?tab=connection"), void (await page.getByText("More headers").waitFor())) },
  { name: "install", go: async (page) => (await visit(page, "#/server?tab=install"), void (await page.locator(".snippet").first().waitFor())) },
  {
    name: "traffic",
    go: async (page) => {
      await visit(page, "#/traffic");
      await page.getByLabel("Filter the traffic").fill("tool:broken");
      await page.locator(".t-row").first().click();
      await page.locator(".detail .traceback").waitFor();
      await page.evaluate(() => document.querySelectorAll(".detail .json, .detail .traceback, .t-status .dim, .t-row:not([aria-current])").forEach((box) => box.remove()));
    },
  },
  {
    name: "history",
    go: async (page) => {
      await visit(page, "#/history");
      await page.locator(".h-row").first().waitFor();
    },
  },
  {
    name: "logs",
    go: async (page) => {
      await callTool(page, "bake", "?minutes=1");
      await done(page, "ok");
      await visit(page, "#/logs");
      await page.getByLabel("Filter the logs").fill("oven");
      await page.locator(".l-row").first().waitFor();
      await page.evaluate(() => document.querySelectorAll(".l-row").forEach((row, at) => at > 0 && row.parentElement?.remove()));
    },
  },
  {
    name: "palette",
    go: async (page) => {
      await visit(page, "#/tools/hello");
      await page.locator("h1").waitFor();
      await page.keyboard.press("Control+k");
      await page.getByPlaceholder(/A tool, a resource/).fill("menu");
      await page.getByRole("option").first().waitFor();
    },
  },
];

const LOOKS: [theme: "light" | "dark", width: number][] = [
  ["light", 1280],
  ["light", 390],
  ["dark", 1280],
  ["dark", 390],
];

describe("looks", { skip: missing ?? false, timeout: 600_000 }, () => {
  let server: Running;
  let chrome: Chrome;
  before(async () => {
    server = await dev(folderWith("kitchen.py"), "kitchen.py");
    chrome = await Chrome.start();
  });
  after(async () => {
    await chrome?.stop();
    await server?.stop();
    if (server) remove(server.folder);
  });

  for (const [theme, width] of LOOKS) {
    test(`${theme}, ${width} pixels`, async () => {
      const page = await chrome.open(server.url, { theme, width, height: 800, scale: process.env.LOOK ? 1 : 0.5 });
      const wrong: string[] = [];
      await close(page);
      for (const view of VIEWS) {
        await view.go(page);
        await shoot(page, `${view.name}-${theme}-${width}`).catch((error: Error) => wrong.push(error.message));
        if (view.name === "palette" || view.name === "question") await page.keyboard.press("Escape");
      }
      assert.deepEqual(wrong, []);
      await chrome.closePages();
    });
  }

  test("tasks", async () => {
    for (const [theme, width] of LOOKS) {
      const page = await chrome.open(server.url, { theme, width, scale: process.env.LOOK ? 1 : 0.5 });
      await close(page);
      await setRevision(page, "2025-11-25");
      await visit(page, "#/tools/simmer?minutes=2");
      await page.getByLabel("as a task").check();
      await page.getByRole("button", { name: "Call", exact: true }).click();
      await visit(page, "#/tasks");
      await page.getByRole("region", { name: "Done" }).getByText("simmer").first().waitFor();
      // Tasks of the pages before this one are there, too: those without a button.
      await page.addStyleTag({ content: ".task:not(:has(button)) { display: none } .task .dim, .column h2 .dim { visibility: hidden }" });
      await page.getByRole("region", { name: "Done" }).getByRole("button", { name: "Open" }).waitFor();
      await shoot(page, `tasks-${theme}-${width}`);
      await chrome.closePages();
    }
  });

  test("the menu of servers, and a sign-in", async () => {
    const folder = folderWith("kitchen.py", "signed.py");
    const kitchen = { command: PYTHON, args: ["-m", "redstart", "run", "kitchen.py"] };
    writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: { kitchen, "a-server-with-a-rather-long-name": kitchen } }));
    const behind = await dev(folder, "signed.py");
    const many = await started(folder, ["inspect", "--config", "mcp.json", "--no-open", "--port", "0"]);
    const signed = await started(folder, ["inspect", `${behind.origin}/mcp`, "--no-open", "--port", "0"]);
    const wrong: string[] = [];
    const look = async (page: Page, name: string): Promise<void> => {
      await close(page);
      await page.evaluate(() => {
        for (const box of document.querySelectorAll<HTMLElement>(".banner, .menu .mono")) box.innerHTML = box.innerHTML.replace(/127\.0\.0\.1:\d+/g, "mcp.example.com").replace(/^\/\S+/, "python"); // as on any machine
      });
      await shoot(page, name).catch((error: Error) => wrong.push(error.message));
    };
    try {
      const first = await chrome.open(signed.url, { ready: false });
      await first.getByRole("button", { name: "Sign in with OAuth" }).click();
      await first.getByRole("link", { name: /^Sign in at/ }).waitFor();
      for (const [theme, width] of [...LOOKS, ["light", 768], ["dark", 768]] as const) {
        const options = { theme, width, scale: process.env.LOOK ? 1 : 0.5 };
        const menu = await chrome.open(many.url, options);
        await menu.locator(".side-entry").first().waitFor();
        await close(menu);
        await menu.getByTitle("Servers of the file").click();
        await look(menu, `servers-${theme}-${width}`);
        const banner = await chrome.open(signed.url, { ...options, ready: false });
        await banner.getByRole("link", { name: /^Sign in at/ }).waitFor();
        await look(banner, `sign-in-${theme}-${width}`);
        await chrome.closePages();
      }
      assert.deepEqual(wrong, []);
    } finally {
      await Promise.all([many.stop(), signed.stop(), behind.stop()]);
      remove(folder);
    }
  });

  test("a save that cannot be loaded, and one that can", async () => {
    const folder = folderWith("kitchen.py");
    const file = join(folder, "kitchen.py");
    const source = readFileSync(file, "utf8");
    const own = await dev(folder, "kitchen.py");
    try {
      for (const [theme, width] of LOOKS) {
        const page = await chrome.open(`${own.url}`, { theme, width, scale: process.env.LOOK ? 1 : 0.5 });
        await close(page);
        await visit(page, "#/tools/hello");
        writeFileSync(file, `${source}\nraise RuntimeError("burnt")\n`);
        await page.locator(".overlay .frames").waitFor();
        await page.evaluate(() => document.querySelectorAll(".frames a").forEach((link) => { link.textContent = (link.textContent ?? "").replace(/^.*\//, ""); }));
        await shoot(page, `overlay-${theme}-${width}`);
        writeFileSync(file, source.replace("Greet. It takes", "Say hello. It takes"));
        await page.getByText("~ hello").waitFor(); // only this one: what was before the page was opened is no news
        await page.evaluate(() => { for (const title of document.querySelectorAll(".toast .strong")) title.textContent = (title.textContent ?? "").replace(/\d+ ms/, "40 ms"); });
        await shoot(page, `reloaded-${theme}-${width}`);
        writeFileSync(file, source);
        await page.getByText("~ hello").nth(1).waitFor();
        await chrome.closePages();
      }
    } finally {
      await own.stop();
      remove(folder);
    }
  });
});
