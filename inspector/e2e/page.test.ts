// Every feature of the page, as a person uses it.

import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, afterEach, before, describe, test } from "node:test";
import type { Page } from "playwright-core";
import { Chrome, HERE, PYTHON, type Running, callTool, dev, done, drawer, eventually, folderWith, freePort, missing, remove, setRevision, started, tooWide, visit } from "./harness";

const MODERN = "2026-07-28";
async function setHeader(page: Page, name: string, value: string): Promise<void> {
  await page.getByLabel("Name of header 1").fill(name);
  await page.getByLabel("Value of header 1").fill(value);
}

/** Until somebody listens there. */
async function answers(port: number): Promise<void> {
  for (let wait = 0; wait < 200; wait++) {
    if (await fetch(`http://127.0.0.1:${port}/`).catch(() => undefined)) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error(`nobody listens on port ${port}`);
}
const field = (page: Page, path: string) => page.locator(`[data-field="${path}"]`);

describe("the page", { skip: missing ?? false, timeout: 600_000 }, () => {
  let server: Running;
  let chrome: Chrome;

  before(async () => {
    server = await dev(folderWith("kitchen.py"), "kitchen.py");
    chrome = await Chrome.start();
  });
  afterEach(async () => {
    await chrome.closePages();
    assert.deepEqual(chrome.foreign, [], "a request left the machine");
    assert.deepEqual(chrome.errors, [], "the page had errors");
  });
  after(async () => {
    await chrome?.stop();
    await server?.stop();
    if (server) remove(server.folder);
  });

  test("opens on a tool, connected; the token leaves the address", async () => {
    const page = await chrome.open(server.url);
    await page.getByRole("heading", { level: 1, name: "Add two numbers" }).waitFor();
    assert.ok(!page.url().includes("token"));
    await eventually(() => page.locator(".health").innerText(), (found) => assert.match(found, /1 client|clients/));
    await eventually(() => page.locator(".view-title .badge").allInnerTexts().then((texts) => texts.join(" ")), (found) => assert.equal(found, "read-only idempotent closed world"));
    await eventually(() => page.locator(".view-title .icon").count(), (found) => assert.equal(found, 1));
    await eventually(() => page.locator(".place").innerText(), (found) => assert.match(found, /kitchen\.py:\d+/));
  });

  test("paints first within 300 ms", async (context) => {
    const times: number[] = [];
    for (let round = 0; round < 12 && !times.some((time) => time <= 300); round++) {
      const page = await chrome.open(server.url);
      times.push(await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? Number.POSITIVE_INFINITY));
      await chrome.closePages();
    }
    context.diagnostic(`first contentful paint: ${times.map((time) => time.toFixed(0)).join(", ")} ms`);
    assert.ok(Math.min(...times) <= 300, String(times)); // the best one: others use this machine, too
  });

  test("lists come in pages of five and are all there", async () => {
    const page = await chrome.open(server.url);
    await visit(page, "#/server");
    await page.getByText("17 tools in 4 pages").waitFor();
    await visit(page, "#/server?tab=connection");
    await page.getByLabel("Read lists page by page").check();
    await page.locator(".side-head", { hasText: "Tools" }).getByText("5", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Next page" }).first().click();
    await page.locator(".side-head", { hasText: "Tools" }).getByText("10", { exact: true }).waitFor();
  });

  test("a form is checked before it is sent; JSON and form are the same arguments", async () => {
    const page = await chrome.open(server.url);
    const sent: string[] = [];
    page.on("request", (request) => {
      if (request.postData()?.includes('"tools/call"')) sent.push(request.postData() ?? "");
    });
    await visit(page, "#/tools/add");
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.getByText("a is required").waitFor();
    assert.equal(sent.length, 0);
    await field(page, "a").locator("input").fill("x");
    await page.getByText("a must be a whole number").waitFor();
    await field(page, "a").locator("input").fill("40");
    await eventually(() => page.locator(".problem").count(), (found) => assert.equal(found, 0));
    await page.getByRole("tab", { name: "JSON" }).click();
    await eventually(() => page.getByLabel("Arguments as JSON").inputValue(), (found) => assert.deepEqual(JSON.parse(found), { a: 40, b: 2 }));
    await page.getByLabel("Arguments as JSON").fill('{"a": 5,');
    await page.getByText("This is not JSON").waitFor();
    await page.getByLabel("Arguments as JSON").fill('{"a": 5, "b": 6}');
    await page.getByRole("tab", { name: "Form" }).click();
    await eventually(() => field(page, "a").locator("input").inputValue(), (found) => assert.equal(found, "5"));
    await page.keyboard.press("Control+Enter");
    await done(page, "ok");
    await eventually(() => page.locator(".result .plain").innerText(), (found) => assert.equal(found, "11"));
    assert.equal(sent.length, 1);
  });

  test("nested objects, rows, unions, choices, free names, dates, null", async () => {
    const page = await chrome.open(server.url);
    await visit(page, "#/tools/reserve");
    await field(page, "day").locator("input").fill("2026-12-24");
    await field(page, "guests").getByRole("button", { name: "+ Add row" }).click();
    await field(page, "guests.0.name").locator("textarea").fill("Ada");
    await field(page, "guests.0.diet").locator("select").selectOption({ label: "vegan" });
    await field(page, "guests.0.address").getByRole("button", { name: "+ Add address" }).click();
    await field(page, "guests.0.address.street").locator("textarea").fill("Main street");
    await field(page, "guests").getByRole("button", { name: "+ Add row" }).last().click();
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await field(page, "guests.1.name").locator("textarea").fill("Bob");
    await field(page, "guests").getByRole("button", { name: "remove row 2" }).click();
    await field(page, "payment").getByRole("button", { name: "cash" }).click();
    await field(page, "payment.amount").locator("input").fill("12.5");
    await field(page, "wishes").getByRole("checkbox", { name: "quiet" }).check();
    await field(page, "notes").getByRole("button", { name: "+ Add notes" }).click();
    await field(page, "notes").getByPlaceholder("name of a new entry").fill("cake");
    await field(page, "notes").getByRole("button", { name: "+ Add entry" }).click();
    await field(page, "notes.cake").locator("textarea").fill("chocolate");
    await field(page, "smoking").getByRole("button", { name: "true" }).click();
    await page.getByRole("tab", { name: "JSON" }).click();
    assert.deepEqual(JSON.parse(await page.getByLabel("Arguments as JSON").inputValue()), {
      day: "2026-12-24",
      guests: [{ name: "Ada", diet: "vegan", address: { city: "Bern", street: "Main street" } }],
      payment: { kind: "cash", amount: 12.5 },
      wishes: ["quiet"],
      notes: { cake: "chocolate" },
      smoking: true,
    });
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await done(page, "ok");
    await page.getByRole("tab", { name: "Structured" }).click();
    await eventually(() => page.locator(".result .json").innerText(), (found) => assert.match(found, /"pays": "cash"/));
  });

  test("a schema of its own: reference, pattern, limits, e-mail, hints of portability", async () => {
    const page = await chrome.open(server.url);
    await visit(page, "#/tools/search");
    await field(page, "code").locator("textarea").fill("ab");
    await field(page, "limit").locator("input").fill("99");
    await field(page, "mail").locator("input").fill("nobody");
    await field(page, "level").locator("select").selectOption("1");
    await page.getByRole("button", { name: "Call", exact: true }).click();
    for (const text of ["code must match ^[A-Z]{3}$", "limit must be at most 50", "mail must be an e-mail address"]) await page.getByText(text).waitFor();
    await page.getByText(/portability hint/).click();
    await page.getByText("prefixItems (a tuple)").waitFor();
    await page.getByRole("button", { name: "Send anyway" }).click();
    await done(page, "tool error");
  });

  test("text, Markdown, image, sound and links of a result; nothing in it can run", async () => {
    const page = await chrome.open(server.url);
    const result = await callTool(page, "everything");
    await done(page, "ok");
    await eventually(() => result.locator(".markdown table tbody tr").count(), (found) => assert.equal(found, 2));
    await eventually(() => result.locator(".markdown script").count(), (found) => assert.equal(found, 0));
    await eventually(() => result.locator(".markdown a").evaluateAll((links) => links.map((link) => (link as HTMLAnchorElement).href)), (found) => assert.deepEqual(found, ["https://example.org/"]));
    await eventually(() => result.locator("figure img").evaluate((image) => [(image as HTMLImageElement).naturalWidth, (image as HTMLImageElement).naturalHeight]), (found) => assert.deepEqual(found, [160, 90]));
    assert.ok((await result.locator("audio").evaluate((audio) => new Promise<number>((ready) => { const sound = audio as HTMLAudioElement; if (sound.readyState > 0) ready(sound.duration); else sound.onloadedmetadata = () => ready(sound.duration); }))) > 0.05);
    await page.getByRole("tab", { name: "Model sees" }).click();
    await page.getByText(/about \d+ tokens/).waitFor();
    await page.getByRole("tab", { name: "Raw" }).click();
    await eventually(() => result.innerText(), (found) => assert.match(found, /→ sent tools\/call/));
    await page.getByRole("tab", { name: "Result" }).click();
    await result.getByText("The menu").click();
    await page.getByRole("heading", { level: 1, name: "Menu" }).waitFor();
  });

  test("a list of objects is a table, and fits its schema", async () => {
    const page = await chrome.open(server.url);
    await callTool(page, "table");
    await done(page, "ok");
    await page.getByRole("tab", { name: "Structured" }).click();
    await page.getByText("It fits the output schema.").waitFor();
    await eventually(() => page.locator(".result thead th").allInnerTexts(), (found) => assert.deepEqual(found, ["dish", "price", "vegan"]));
    await eventually(() => page.locator(".result tbody tr").count(), (found) => assert.equal(found, 3));
  });

  test("isError is an error, in the result, the traffic and the history", async () => {
    const page = await chrome.open(server.url);
    await callTool(page, "refuse", "?why=no+flour");
    await done(page, "tool error");
    await page.getByText("It does not work: no flour.").first().waitFor();
    await page.locator(".t-row", { hasText: "refuse" }).locator(".badge:text-is('tool error')").waitFor();
    await drawer(page, "History");
    await page.locator(".h-row", { hasText: "refuse" }).locator(".badge:text-is('tool error')").waitFor();
  });

  test("an exception shows its Python traceback, with the frames of the project", async () => {
    const page = await chrome.open(server.url);
    const result = await callTool(page, "broken");
    await done(page, "tool error");
    await result.getByText("ZeroDivisionError").first().waitFor();
    await eventually(() => result.locator(".frames").innerText(), (found) => assert.match(found, /kitchen\.py:\d+[^]*return 1 \/ by/));
    await visit(page, "#/resources/kitchen%3A%2F%2Fnowhere");
    await page.getByText("Protocol error -32602").waitFor();
  });

  test("progress has a bar, log lines are beside it, cancel ends the call", async () => {
    const page = await chrome.open(server.url);
    const result = await callTool(page, "bake", "?minutes=30");
    await page.waitForFunction(() => Number(document.querySelector("[role=progressbar]")?.getAttribute("aria-valuenow") ?? 0) >= 20);
    await result.getByText(/minute \d+ of 30/).waitFor();
    await done(page, "ok");
    await result.getByText("the oven is on").waitFor();
    await result.locator(".badge.level-warning").waitFor();
    await callTool(page, "wait");
    await result.getByText("waiting", { exact: true }).waitFor();
    await page.getByRole("button", { name: "Cancel call" }).click();
    await done(page, "cancelled");
    await page.locator(".t-row", { hasText: "wait" }).locator(".badge:text-is('cancelled')").waitFor();
  });

  for (const revision of [MODERN, "2025-11-25", "2025-06-18"]) {
    test(`questions in ${revision}: a form, rounds as one call, human time apart, decline`, async () => {
      const page = await chrome.open(server.url);
      await setRevision(page, revision);
      await page.evaluate(() => {
        const seen = { moved: 0 }; // how often the question lay below a bar that would go a moment later
        (window as unknown as { seen: typeof seen }).seen = seen;
        const look = (): void => {
          if (document.querySelector(".question") && document.querySelector(".running [role=progressbar]")) seen.moved++;
        };
        new MutationObserver(look).observe(document.body, { subtree: true, childList: true });
      });
      await callTool(page, "book");
      const question = page.getByRole("region", { name: "The server asks" });
      await question.getByText("Where to?").waitFor();
      await question.getByRole("button", { name: "Answer" }).click();
      await question.getByText(/city (is required|must not be empty)/).waitFor();
      await field(page, "city").locator("textarea").fill("Bern");
      await question.getByRole("button", { name: "Answer" }).click();
      await question.getByText("2 nights in Bern?").waitFor();
      await question.locator("button:text-is('true'), button:text-is('Yes')").first().click();
      await question.getByRole("button", { name: "Answer" }).click();
      await done(page, "ok");
      await page.getByText("Booked Bern, 2 nights, aisle.").first().waitFor();
      await eventually(() => page.locator(".summary").innerText(), (found) => assert.match(found, /3 rounds ·\s.* \+ .* you/));
      await eventually(() => page.locator(".waterfall").innerText(), (found) => assert.ok(found.includes("you"), found));
      await page.getByText("2 questions answered").waitFor();
      assert.deepEqual(await page.evaluate(() => (window as unknown as { seen: object }).seen), { moved: 0 });
      await callTool(page, "book");
      await question.getByRole("button", { name: "as JSON" }).click();
      await question.getByLabel("Answer as JSON").fill('{"city": "Ulm", "nights": 3}');
      await question.getByRole("button", { name: "Answer" }).click();
      await question.getByText("3 nights in Ulm?").waitFor();
      await question.getByRole("button", { name: "Cancel", exact: true }).click();
      await page.getByText("Not booked.").first().waitFor();
      await callTool(page, "book");
      await question.getByRole("button", { name: "Decline" }).click();
      await page.getByText("not booked: declined").first().waitFor();
    });
  }

  test("a page to visit: host, full address, consent", async () => {
    const page = await chrome.open(server.url);
    await callTool(page, "sign_in");
    const question = page.getByRole("region", { name: "The server asks" });
    await question.getByText("Open a page at example.org?").waitFor();
    await question.getByText("https://example.org/sign-in?state=1").waitFor();
    await eventually(() => question.getByRole("link", { name: "Open the page" }).getAttribute("rel"), (found) => assert.equal(found, "noopener noreferrer"));
    await question.getByRole("button", { name: "Go on" }).click();
    await page.getByText("signed in: accepted").first().waitFor();
  });

  for (const revision of [MODERN, "2025-11-25"]) {
    test(`samples and roots are answered by hand in ${revision}`, async () => {
      const page = await chrome.open(server.url);
      await setRevision(page, revision);
      await callTool(page, "sample");
      await page.getByText("What is a redstart?").waitFor();
      await page.getByLabel("Your answer").fill("A bird.");
      await page.getByRole("button", { name: "Send", exact: true }).click();
      await page.getByText("The model says: A bird.").first().waitFor();
      await callTool(page, "roots");
      await page.getByLabel("One URI on each line").fill("file:///srv/one\nfile:///srv/two");
      await page.getByRole("button", { name: "Send", exact: true }).click();
      await page.getByText("file:///srv/one, file:///srv/two").first().waitFor();
    });
  }

  test("a question finds its person on another view", async () => {
    const page = await chrome.open(server.url);
    await callTool(page, "book");
    await page.getByText("Where to?").waitFor();
    await visit(page, "#/tools/hello");
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await done(page, "ok");
    await visit(page, "#/tools/book");
    await page.getByText("Where to?").waitFor();
    await page.getByRole("button", { name: "Cancel", exact: true }).click();
    await page.getByText("not booked: cancelled").first().waitFor();
  });

  test("history: run again, edit, pin, compare; it outlives the page", async () => {
    const page = await chrome.open(server.url);
    await callTool(page, "add", "?a=1&b=1");
    await done(page, "ok");
    await callTool(page, "add", "?a=2&b=2");
    await page.locator(".result .plain:text-is('4')").waitFor();
    await page.getByRole("tab", { name: "Compare" }).click();
    await page.locator(".diff .plus").first().waitFor();
    await drawer(page, "History");
    const first = page.locator(".h-row", { hasText: '{"a":1,"b":1}' });
    await first.getByRole("button", { name: "Pin" }).click();
    await page.reload();
    await page.locator(".side-entry").first().waitFor();
    await drawer(page, "History");
    await first.getByRole("button", { name: "Unpin" }).waitFor();
    await first.getByRole("button", { name: "Run again" }).click();
    await page.locator(".result .plain:text-is('2')").waitFor();
    await first.first().getByRole("button", { name: "Edit" }).click();
    await field(page, "a").locator("input").fill("7");
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.locator(".result .plain:text-is('8')").waitFor();
    await page.getByLabel("Filter the history").fill("status:ok add");
    await eventually(() => page.locator(".h-row").count(), (found) => assert.ok(found >= 3, String(found)));
  });

  test("resources: Markdown, CSV as a table, an image", async () => {
    const page = await chrome.open(server.url);
    await visit(page, "#/resources/kitchen%3A%2F%2Fmenu");
    await page.locator(".markdown h3").waitFor();
    await visit(page, "#/resources/kitchen%3A%2F%2Fprices");
    await page.locator(".result td:text-is('tart, apple')").waitFor();
    await visit(page, "#/resources/kitchen%3A%2F%2Fpicture");
    await page.locator(".result figure img").waitFor();
    await visit(page, "#/resources/kitchen%3A%2F%2Fdish%2Fsoup"); // one that no list has
    await page.locator(".view-title h1:text-is('kitchen://dish/soup')").waitFor();
    await eventually(() => page.locator(".view-title").getByText("kitchen://dish/soup").count(), (found) => assert.equal(found, 1));
  });

  for (const revision of [MODERN, "2025-11-25"]) {
    test(`a subscription counts updates and reads again in ${revision}`, async () => {
      const page = await chrome.open(server.url);
      const stream = revision === MODERN ? undefined : page.waitForResponse((response) => response.request().method() === "GET" && new URL(response.url()).pathname === "/mcp");
      await setRevision(page, revision);
      await stream; // what tells of updates is open
      await visit(page, "#/resources/kitchen%3A%2F%2Fmenu");
      const subscribe = revision === MODERN ? "subscriptions/listen" : "resources/subscribe";
      const subscribed = page.waitForResponse((response) => [subscribe, "kitchen://menu"].every((part) => response.request().postData()?.includes(part)));
      await page.getByRole("button", { name: /Subscribe/ }).click();
      await page.locator(".counter:text-is('0')").waitFor();
      await subscribed;
      const spoken = spawnSync(PYTHON, ["-m", "redstart", "call", `${server.origin}/mcp`, "change_menu"], { encoding: "utf8" });
      assert.equal(spoken.status, 0, spoken.stderr);
      const level = /menu (\d+)/.exec(spoken.stdout)?.[1];
      await page.locator(".counter:text-is('1')").waitFor();
      await page.getByRole("heading", { name: `Menu ${level}` }).waitFor();
    });
  }

  test("templates: completion, the expanded URI, JSON as a tree that folds", async () => {
    const page = await chrome.open(server.url);
    await visit(page, "#/templates/kitchen%3A%2F%2Fdish%2F%7Bname%7D");
    await page.getByRole("combobox", { name: /name/ }).fill("s");
    await page.getByRole("option", { name: "sandwich" }).waitFor();
    await eventually(() => page.getByRole("option").allInnerTexts(), (found) => assert.deepEqual(found, ["soup", "salad", "sandwich"]));
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("Enter");
    await page.getByText("kitchen://dish/salad").first().waitFor();
    await page.getByRole("button", { name: "Read", exact: true }).click();
    await page.locator(".result .j-key:text('\"nested\"')").click();
    await page.getByText("1 key }").waitFor();
  });

  test("prompts: completion, chat bubbles", async () => {
    const page = await chrome.open(server.url);
    await visit(page, "#/prompts/plan");
    await page.getByRole("button", { name: "Get the prompt" }).click();
    await page.getByText("dish is required").waitFor();
    await page.getByRole("combobox", { name: /dish/ }).fill("t");
    await page.getByRole("option", { name: "tart" }).click();
    await page.getByRole("button", { name: "Get the prompt" }).click();
    await eventually(() => page.locator(".bubble .role").allInnerTexts(), (found) => assert.deepEqual(found, ["user", "assistant"]));
    await eventually(() => page.locator(".bubble.user").innerText(), (found) => assert.match(found, /dinner with tart for 4/));
    await visit(page, "#/prompts/tidy");
    await page.getByText("Tidy the kitchen.").waitFor();
  });

  for (const revision of [MODERN, "2025-11-25"]) {
    test(`a tool runs as a task in ${revision}, and is on the board`, async () => {
      const page = await chrome.open(server.url);
      await setRevision(page, revision);
      await visit(page, "#/tools/simmer?minutes=20");
      if (revision !== MODERN) await page.getByLabel("as a task").check();
      await page.getByRole("button", { name: "Call", exact: true }).click();
      await visit(page, "#/tasks");
      const working = page.getByRole("region", { name: "Working" });
      await working.getByText("simmer").waitFor();
      const ready = page.getByRole("region", { name: "Done" });
      await ready.getByText("simmer").first().waitFor();
      await ready.getByRole("button", { name: "Open" }).first().click();
      await page.getByText("simmered for 20 minutes").first().waitFor();
      await visit(page, "#/tools/simmer?minutes=400");
      if (revision !== MODERN) await page.getByLabel("as a task").check();
      await page.getByRole("button", { name: "Call", exact: true }).click();
      await visit(page, "#/tasks");
      await working.getByRole("button", { name: "Cancel task" }).click();
      await page.getByRole("region", { name: "Cancelled" }).getByText("simmer").first().waitFor();
    });
  }

  test("logs of handlers, with levels", async () => {
    const page = await chrome.open(server.url);
    await callTool(page, "bake", "?minutes=1");
    await done(page, "ok");
    await drawer(page, "Logs");
    await page.locator(".l-row", { hasText: "the oven is on" }).first().waitFor();
    await page.getByLabel("Filter the logs").fill("level:warning");
    await page.locator(".l-row", { hasText: "it is done" }).first().waitFor();
    await eventually(() => page.locator(".l-row", { hasText: "the oven is on" }).count(), (found) => assert.equal(found, 0));
  });

  test("traffic of every client: who, what, how long; filter, raw JSON, traceback, waterfall, replay", async () => {
    const page = await chrome.open(server.url);
    const other = 'import asyncio, sys\nfrom redstart import Client\nasync def main():\n    async with Client(sys.argv[1], protocol="2025-06-18") as c:\n        await c.call_tool("add", {"a": 3, "b": 4})\n        await c.call_tool("broken", {"by": 0})\nasyncio.run(main())';
    const spoken = spawnSync(PYTHON, ["-c", other, `${server.origin}/mcp`], { encoding: "utf8" });
    assert.equal(spoken.status, 0, spoken.stderr);
    const filter = page.getByLabel("Filter the traffic");
    await filter.fill('-client:"this page" revision:2025-06-18 method:tools/call');
    await page.locator(".t-row").nth(1).waitFor();
    await eventually(() => page.locator(".t-row").count(), (found) => assert.equal(found, 2));
    assert.ok(!(await page.locator(".t-row").first().innerText()).includes("this page"));
    await filter.fill('-client:"this page" revision:2025-06-18 status:error');
    await eventually(() => page.locator(".t-row").count(), (found) => assert.equal(found, 1));
    await page.locator(".t-row").click();
    const detail = page.getByRole("complementary", { name: "One message" });
    await detail.getByText("ZeroDivisionError").first().waitFor();
    await eventually(() => detail.locator(".waterfall").innerText(), (found) => assert.match(found, /handler/));
    await eventually(() => detail.innerText(), (found) => assert.match(found, /"name": "broken"/));
    await filter.fill('-client:"this page" revision:2025-06-18 tool:add');
    await page.locator(".t-row").click();
    await detail.getByRole("button", { name: "Edit and replay" }).click();
    await page.waitForFunction(() => document.querySelector<HTMLInputElement>('[data-field="a"] input')?.value === "3");
    await detail.getByRole("button", { name: "Replay", exact: true }).click();
    await page.locator(".result .plain:text-is('7')").waitFor();
    await filter.fill(">1000s");
    await page.getByText("No message fits the filter.").waitFor();
    await filter.fill("metod:x");
    await page.getByText(/“metod:” is not known/).waitFor();
    await visit(page, "#/server?tab=clients");
    await page.locator("tr", { hasText: "2025-06-18" }).first().waitFor();
  });

  test("waterfall with the phases of the server, percentiles and sparkline of the tool", async () => {
    const page = await chrome.open(server.url);
    await callTool(page, "add", "?a=1");
    await done(page, "ok");
    await page.locator(".result .fall", { hasText: "handler" }).waitFor();
    const labels = page.locator(".result .fall [role=rowheader]");
    for (const label of ["queue", "validate", "handler", "encode"]) await eventually(() => labels.allInnerTexts(), (found) => assert.ok(found.includes(label), found.join(" ")));
    await page.getByRole("button", { name: "Call", exact: true }).click();
    await page.locator(".stats", { hasText: /p50.*p95.*p99/s }).waitFor();
    await page.locator(".side-entry[aria-current=page] .spark").waitFor();
  });

  test("every revision works, and the wire says so", async () => {
    const page = await chrome.open(server.url);
    for (const revision of [MODERN, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]) {
      await setRevision(page, revision);
      await drawer(page, "Network");
      await page.getByRole("button", { name: "Clear" }).click();
      const asked = page.waitForRequest((request) => request.postData()?.includes('"tools/call"') ?? false);
      await callTool(page, "add", "?a=1&b=1");
      const headers = (await asked).headers();
      assert.equal(headers["mcp-protocol-version"], revision);
      assert.equal(headers["mcp-method"], revision === MODERN ? "tools/call" : undefined);
      assert.equal(headers["mcp-name"], revision === MODERN ? "add" : undefined);
      assert.equal(headers["mcp-session-id"] !== undefined, revision !== MODERN);
      await done(page, "ok");
      await page.locator(".n-row", { hasText: "tools/call" }).first().click();
      await page.getByRole("complementary", { name: "One HTTP request" }).getByText(revision).first().waitFor();
      await page.getByRole("button", { name: "Close", exact: true }).click();
    }
  });

  test("pretend that the client lacks something", async () => {
    const page = await chrome.open(server.url);
    const result = await callTool(page, "abilities");
    await done(page, "ok");
    await page.getByRole("tab", { name: "Structured" }).click();
    await eventually(() => result.innerText(), (found) => assert.match(found, /"elicit": true/));
    await page.getByTitle("Pretend that the client lacks something").first().click();
    await page.getByLabel(/Elicitation, forms/).check();
    await page.keyboard.press("Escape");
    await page.locator(".health .dot.on").waitFor();
    await callTool(page, "abilities");
    await done(page, "ok");
    await result.getByText('"elicit": false').waitFor();
    await callTool(page, "book");
    await page.locator(".summary .badge.bad").waitFor();
  });

  test("copy as curl, Python, CLI and pytest: each of them runs", async () => {
    const page = await chrome.open(server.url);
    await callTool(page, "add", "?a=20&b=22");
    await done(page, "ok");
    const copied = async (way: string): Promise<string> => {
      await page.locator(".copy-as").getByRole("button", { name: way, exact: true }).click();
      await page.getByText(/^Copied: /).first().waitFor();
      const text = await page.evaluate(() => navigator.clipboard.readText());
      await page.getByRole("button", { name: "Dismiss" }).first().click();
      return text;
    };
    const run = (command: string, args: string[]): string => {
      const ran = spawnSync(command, args, { encoding: "utf8", cwd: server.folder, timeout: 60_000, env: { ...process.env, PATH: `${join(PYTHON, "..")}:${process.env.PATH}` } });
      return ran.stdout + ran.stderr;
    };
    assert.match(run("bash", ["-c", await copied("curl")]), /"structuredContent":\{"result":42\}/);
    assert.match(run(PYTHON, ["-c", await copied("Python")]), /42/);
    const command = await copied("CLI");
    assert.equal(command, "redstart call kitchen.py add a=20 b=22");
    assert.match(run("bash", ["-c", command]), /42/);
    writeFileSync(join(server.folder, "test_copied.py"), await copied("pytest"));
    assert.match(run(PYTHON, ["-m", "pytest", "-q", "test_copied.py", "-p", "no:cacheprovider"]), /1 passed/);
    await setRevision(page, "2025-06-18");
    await visit(page, "#/tools/add?a=20&b=22");
    assert.match(run("bash", ["-c", await copied("curl")]), /"result":42/);
  });

  test("deep links: arguments in the address, run at once", async () => {
    const page = await chrome.open(server.url);
    await page.goto(`${server.origin}/#/tools/add?a=19&b=23&run`);
    await page.locator(".result .plain:text-is('42')").waitFor();
    assert.ok(page.url().endsWith("#/tools/add?a=19&b=23"));
    await field(page, "a").locator("input").fill("20");
    await page.waitForFunction(() => location.hash.includes("a=20"));
  });

  test("the command palette goes everywhere and does things, by keyboard", async () => {
    const page = await chrome.open(server.url);
    await page.keyboard.press("Control+k");
    await page.getByPlaceholder(/A tool, a resource/).fill("prices");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Prices" }).waitFor();
    await page.keyboard.press("Control+k");
    await page.getByPlaceholder(/A tool, a resource/).fill("theme dark");
    await page.keyboard.press("Enter");
    await page.locator('html[data-theme="dark"]').waitFor();
    await page.keyboard.press("Control+k");
    await page.getByPlaceholder(/A tool, a resource/).waitFor();
    await page.keyboard.press("Escape");
    await page.locator(".palette").waitFor({ state: "detached" });
    await page.keyboard.press("/");
    await page.keyboard.type("bak");
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Bake slowly" }).waitFor();
  });

  test("keys that come faster than the frames of the screen count", async () => {
    const page = await chrome.open(server.url);
    await visit(page, "#/tools/add");
    await field(page, "a").locator("input").waitFor();
    const sent = page.waitForRequest((request) => request.postData()?.includes('"tools/call"') ?? false);
    await page.evaluate(async () => {
      const input = document.querySelector<HTMLInputElement>('[data-field="a"] input') as HTMLInputElement;
      input.value = "41";
      input.dispatchEvent(new Event("input", { bubbles: true }));
      for (let turn = 0; turn < 20; turn++) await null; // what was typed is rendered, and no frame has passed
      input.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", ctrlKey: true, bubbles: true, cancelable: true }));
    });
    assert.equal(JSON.parse((await sent).postData() ?? "").params.arguments.a, 41);
    await done(page, "ok");
    const focused = await page.evaluate(async () => {
      document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "k", ctrlKey: true, bubbles: true, cancelable: true }));
      for (let turn = 0; turn < 20; turn++) await null;
      return document.activeElement?.getAttribute("aria-label");
    });
    assert.equal(focused, "Search everything");
  });

  test("the command palette has what comes while it is open", async () => {
    const page = await chrome.open("about:blank", { ready: false });
    let letThrough = (): void => undefined;
    const held = new Promise<void>((done) => {
      letThrough = done;
    });
    await page.route("**/*", async (request) => {
      if (request.request().postData()?.includes("resources/list")) await held;
      await request.continue();
    });
    const asked = page.waitForRequest((request) => request.postData()?.includes("resources/list") ?? false);
    await page.goto(server.url);
    await asked;
    await page.keyboard.press("Control+k");
    await page.getByPlaceholder(/A tool, a resource/).fill("prices");
    await eventually(() => page.locator(".palette [role=option]", { hasText: /^ResourcePrices/ }).count(), (found) => assert.equal(found, 0));
    letThrough();
    await page.locator(".palette [role=option]", { hasText: /^ResourcePrices/ }).waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("heading", { level: 1, name: "Prices" }).waitFor();
  });

  test("a storm of calls is batched to at most twenty updates a second, and the page stays usable", async (context) => {
    const page = await chrome.open(server.url);
    const storm = 'import asyncio, sys\nfrom redstart import Client\nasync def main():\n    async with Client(sys.argv[1]) as c:\n        for _ in range(30):\n            await asyncio.gather(*(c.call_tool("hello") for _ in range(50)))\nasyncio.run(main())';
    await page.evaluate(() => {
      const seen = { changes: 0, began: performance.now() };
      (window as unknown as { seen: typeof seen }).seen = seen;
      new MutationObserver(() => seen.changes++).observe(document.querySelector(".drawer-body") as Node, { childList: true, subtree: true, characterData: true });
    });
    const child = spawn(PYTHON, ["-c", storm, `${server.origin}/mcp`]);
    const ended = new Promise<number | null>((over) => child.on("exit", over));
    await page.locator(".t-row", { hasText: "hello" }).first().waitFor();
    await callTool(page, "add", "?a=1&b=1");
    await done(page, "ok");
    assert.equal(await ended, 0);
    const rate = await page.evaluate(() => {
      const { changes, began } = (window as unknown as { seen: { changes: number; began: number } }).seen;
      return changes / ((performance.now() - began) / 1000);
    });
    context.diagnostic(`${rate.toFixed(1)} updates of the list a second`);
    assert.ok(rate <= 22, `${rate} updates a second`);
    await visit(page, "#/tools/hello");
    await page.locator(".stats", { hasText: /1,?5\d\d calls|\d{3,} calls/ }).waitFor();
  });

  test("install snippets for several clients", async () => {
    const page = await chrome.open(server.url);
    await page.getByRole("button", { name: "Install" }).click();
    await page.getByRole("button", { name: "VS Code" }).click();
    await eventually(() => page.locator(".snippet").first().innerText(), (found) => assert.match(found, /kitchen/));
    await eventually(() => page.locator(".install .segments button").count(), (found) => assert.ok(found >= 5, String(found)));
  });

  test("rules of WCAG AA in both themes, on the views that have the most in them", async () => {
    for (const theme of ["light", "dark"] as const) {
      const page = await chrome.open(server.url, { theme });
      for (const hash of ["#/tools/reserve", "#/tools/broken?run", "#/resources/kitchen%3A%2F%2Fprices", "#/prompts/plan?dish=tart", "#/tasks", "#/server?tab=connection", "#/server?tab=install", "#/traffic", "#/history", "#/logs", "#/network"]) {
        await visit(page, hash);
        await page.waitForTimeout(300);
        await chrome.accessible(page, `${hash} (${theme})`);
      }
      await visit(page, "#/tools/book?run");
      await page.getByText("Where to?").waitFor();
      await chrome.accessible(page, `a question (${theme})`);
      await page.keyboard.press("Control+k");
      await chrome.accessible(page, `the palette (${theme})`);
    }
  });

  test("nothing is wider than a screen of 390, 768 or 1280 pixels", async () => {
    for (const width of [390, 768, 1280]) {
      const page = await chrome.open(server.url, { width });
      for (const hash of ["#/", "#/tools/reserve", "#/tools/everything?run", "#/tools/broken?run", "#/resources/kitchen%3A%2F%2Fprices", "#/templates/kitchen%3A%2F%2Fdish%2F%7Bname%7D", "#/prompts/plan", "#/tasks", "#/server", "#/server?tab=connection", "#/server?tab=install", "#/server?tab=clients", "#/traffic", "#/history", "#/logs", "#/network"]) {
        await visit(page, hash);
        await page.waitForTimeout(250);
        await eventually(() => tooWide(page), (found) => assert.deepEqual(found, [], `${hash} at ${width}`));
      }
    }
  });
});

describe("the page and a server that changes", { skip: missing ?? false, timeout: 300_000 }, () => {
  let chrome: Chrome;
  before(async () => {
    chrome = await Chrome.start();
  });
  after(() => chrome?.stop());
  afterEach(() => chrome.closePages());

  test("a save shows what has changed; a broken one shows the error and keeps the tools", async () => {
    const folder = folderWith("kitchen.py");
    const file = join(folder, "kitchen.py");
    const server = await dev(folder, "kitchen.py");
    try {
      const page = await chrome.open(server.url);
      const source = readFileSync(file, "utf8");
      const more = source.replace("@server.tool(title=\"Hello\")", '@server.tool(title="Good bye")\ndef bye() -> str:\n    """Say good bye."""\n    return "bye"\n\n\n@server.tool(title="Hello")').replace('"""Greet. It takes no arguments."""', '"""Greet in another way."""');
      writeFileSync(file, more);
      await page.getByText(/Reloaded in \d+ ms: \+1 tool, ~1 changed/).waitFor();
      await page.getByText("+ bye").waitFor();
      await page.getByText("~ hello").waitFor();
      await page.getByText("Show what changed").click();
      await page.locator(".diff .plus", { hasText: "Greet in another way." }).waitFor();
      await page.locator(".side-entry", { hasText: "Good bye" }).waitFor();
      writeFileSync(file, `${more}\nraise RuntimeError("burnt")\n`);
      const overlay = page.getByRole("alert", { name: "The last save could not be loaded" });
      await overlay.getByText("burnt").first().waitFor();
      await eventually(() => overlay.locator(".frames").innerText(), (found) => assert.match(found, /raise RuntimeError/));
      await callTool(page, "bye");
      await page.locator(".result .plain:text-is('bye')").waitFor();
      writeFileSync(file, source);
      await overlay.waitFor({ state: "detached" });
      await page.locator(".side-entry", { hasText: "Good bye" }).waitFor({ state: "detached" });
    } finally {
      await server.stop();
      remove(folder);
    }
  });

  test("the page connects again by itself when the server was away", async () => {
    const folder = folderWith("kitchen.py");
    let server = await dev(folder, "kitchen.py");
    const port = Number(new URL(server.url).port);
    try {
      const page = await chrome.open(server.url);
      await setRevision(page, "2025-11-25");
      await server.stop();
      await page.getByText("The server does not answer.").waitFor();
      server = await dev(folder, "kitchen.py", port);
      await page.locator(".health .dot.on").waitFor({ timeout: 30_000 });
      await callTool(page, "hello");
      await done(page, "ok");
    } finally {
      await server.stop();
      remove(folder);
    }
  });

  test("words of a table and names of the history are whole on a narrow page; messages of clients are counted", async () => {
    const folder = folderWith();
    const long = "a stripe or a dark mask at the eye, and a throat of another colour";
    writeFileSync(join(folder, "wide.py"), `from redstart import Server\nserver = Server("wide")\n@server.tool\ndef differences(of: str) -> str:\n    return """| | One | Other |\n|---|---|---|\n| **colour** | ${long} | ${long} |\n"""\n`);
    const server = await dev(folder, "wide.py");
    try {
      const page = await chrome.open(server.url, { width: 390 });
      const result = await callTool(page, "differences", `?of=${encodeURIComponent(long)}`);
      await done(page, "ok");
      const lines = (inside: Element): number => inside.getClientRects().length;
      await eventually(() => result.locator(".markdown td strong").evaluate(lines), (found) => assert.equal(found, 1));
      await eventually(() => tooWide(page), (found) => assert.deepEqual(found, []));
      await drawer(page, "History");
      await eventually(() => page.locator(".h-open .strong").evaluate((name) => name.scrollWidth > name.clientWidth), (found) => assert.equal(found, false));
      await visit(page, "#/server?tab=clients");
      await page.waitForFunction(() => Number(document.querySelector("td.number")?.textContent) >= 2);
    } finally {
      await server.stop();
      remove(folder);
    }
  });

  test("a server with a token: refused, then let in; the token is in no storage", async () => {
    const folder = folderWith("guarded.py");
    const server = await dev(folder, "guarded.py");
    try {
      const page = await chrome.open(server.url, { ready: false });
      await page.getByText("The server refuses the connection.").waitFor();
      await page.getByRole("button", { name: "Set a token or headers" }).click();
      await page.getByLabel(/Bearer token/).fill("s3cret-token");
      await setHeader(page, "X-Team", "blue");
      await page.getByRole("button", { name: "Connect anew" }).click();
      await page.locator(".side-entry", { hasText: "whoami" }).waitFor();
      await callTool(page, "whoami");
      await page.locator(".result .plain:text-is('ada')").waitFor();
      await callTool(page, "team");
      await page.locator(".result .plain:text-is('blue')").waitFor();
      const kept = await page.evaluate(() => JSON.stringify({ ...localStorage }) + JSON.stringify({ ...sessionStorage }));
      assert.ok(!kept.includes("s3cret-token"));
      await drawer(page, "Network");
      await page.locator(".n-row", { hasText: "tools/call" }).first().click();
      assert.ok(!(await page.locator(".detail").innerText()).includes("s3cret-token"));
    } finally {
      await server.stop();
      remove(folder);
    }
  });

  for (const revision of [MODERN, "2025-11-25"]) {
    test(`the demo: a newcomer identifies a bird by clicking, in ${revision}`, async () => {
      const server = await dev(join(HERE, "../.."), "examples/birds/server.py");
      try {
        const page = await chrome.open(server.url);
        await setRevision(page, revision);
        await page.getByRole("button", { name: "Call", exact: true }).click();
        const question = page.getByRole("region", { name: "The server asks" });
        for (let round = 0; round < 12; round++) {
          await page.locator(".question, .summary .badge.good").first().waitFor();
          if ((await page.locator(".summary .badge.good").count()) > 0) break;
          const text = await question.locator(".question-text").innerText();
          await question.locator(".choice").first().click();
          await question.getByRole("button", { name: "Answer" }).click();
          await page.waitForFunction((before) => document.querySelector(".question-text")?.textContent !== before, text);
        }
        await done(page, "ok");
        await page.getByText(/That was the/).first().waitFor();
        await page.locator(".t-row", { hasText: "identify_bird" }).first().waitFor();
        await page.locator(".resource-link").first().click();
        await page.locator(".markdown table").waitFor();
      } finally {
        await server.stop();
      }
    });
  }

  test("two thousand tools scroll without jank", async (context) => {
    const folder = folderWith("many.py");
    const server = await dev(folder, "many.py");
    try {
      const page = await chrome.open(server.url);
      await page.locator(".side-head", { hasText: "2,000" }).waitFor();
      const found = await page.evaluate(async () => {
        const box = document.querySelector(".sidebar .virtual") as HTMLElement;
        const frames: number[] = [];
        let last = performance.now();
        for (let step = 0; step < 90; step++) {
          box.scrollTop += 1000;
          await new Promise((next) => requestAnimationFrame(next));
          const now = performance.now();
          frames.push(now - last);
          last = now;
        }
        frames.sort((a, b) => a - b);
        return { median: frames[45] as number, worst: frames[85] as number, nodes: box.querySelectorAll("*").length, end: box.scrollTop > 60_000 };
      });
      context.diagnostic(`frames while scrolling: median ${found.median.toFixed(1)} ms, 95th ${found.worst.toFixed(1)} ms, ${found.nodes} nodes in the list`);
      assert.ok(found.end);
      assert.ok(found.nodes < 600, `${found.nodes} nodes`);
      assert.ok(found.median < 34, `${found.median} ms`);
      await page.keyboard.press("/");
      await page.keyboard.type("tool_1234");
      await page.locator(".side-entry", { hasText: "tool_1234" }).click();
      await page.getByRole("heading", { level: 1, name: "tool_1234" }).waitFor();
    } finally {
      await server.stop();
      remove(folder);
    }
  });

  test("without the token the page is a plain client that shows its own traffic", async () => {
    const folder = folderWith("kitchen.py");
    const server = await dev(folder, "kitchen.py");
    try {
      const page = await chrome.open(`${server.origin}/`);
      await callTool(page, "add", "?a=1&b=1");
      await done(page, "ok");
      await page.locator(".t-row", { hasText: "add" }).first().waitFor();
      await page.locator(".result .fall", { hasText: "server" }).waitFor();
    } finally {
      await server.stop();
      remove(folder);
    }
  });
});

describe("any other server", { skip: missing ?? false, timeout: 300_000 }, () => {
  let chrome: Chrome;
  before(async () => {
    chrome = await Chrome.start();
  });
  after(() => chrome?.stop());
  afterEach(async () => {
    await chrome.closePages();
    assert.deepEqual(chrome.foreign, [], "a request left the machine");
    assert.deepEqual(chrome.errors, [], "the page had errors");
  });

  test("the browser is led to the page by a file that is removed, and has the token", async () => {
    const folder = folderWith("kitchen.py");
    const browser = join(folder, "browser");
    writeFileSync(browser, '#!/bin/sh\nprintf %s "$1" > "$0.url.new"; mv "$0.url.new" "$0.url"\n');
    chmodSync(browser, 0o700);
    const server = await started(folder, ["dev", "kitchen.py", "--port", "0"], { DISPLAY: ":0", BROWSER: `${browser} %s` });
    try {
      for (let wait = 0; wait < 200 && !existsSync(`${browser}.url`); wait++) await new Promise((done) => setTimeout(done, 50));
      const file = readFileSync(`${browser}.url`, "utf8");
      assert.match(file, /^file:/);
      const page = await chrome.open(file);
      assert.equal(new URL(page.url()).origin, server.origin);
      await page.locator(".health", { hasText: "client" }).waitFor(); // who is connected is known only with the token
      assert.equal(existsSync(new URL(file)), false);
    } finally {
      await server.stop();
      remove(folder);
    }
  });

  test("the servers of a file, one after the other", async () => {
    const folder = folderWith("kitchen.py", "guarded.py");
    const long = "the-company-wide-server-of-all-documents";
    const run = (file: string): object => ({ command: PYTHON, args: ["-m", "redstart", "run", file] });
    writeFileSync(join(folder, "mcp.json"), JSON.stringify({ mcpServers: { kitchen: run("kitchen.py"), guard: run("guarded.py"), [long]: { url: "http://127.0.0.1:9/a/long/way/to/an/endpoint/where/nobody/listens/mcp" } } }));
    const server = await started(folder, ["inspect", "--config", "mcp.json", "--no-open", "--port", "0"]);
    try {
      const page = await chrome.open(server.url);
      await page.getByRole("heading", { level: 1, name: "Add two numbers" }).waitFor();
      const other = await chrome.open(server.url); // another page goes along
      await page.getByTitle("Servers of the file").click();
      await page.getByRole("radio", { name: /^guard/ }).click();
      for (const one of [page, other]) await one.locator(".side-entry", { hasText: "whoami" }).waitFor();
      await other.close();
      await eventually(() => page.locator(".side-entry", { hasText: "Reserve a table" }).count(), (found) => assert.equal(found, 0));
      await page.keyboard.press("Control+k");
      await page.keyboard.type("kitchen");
      await page.getByRole("option", { name: /kitchen/ }).first().waitFor();
      await page.keyboard.press("Enter");
      await page.locator(".side-entry", { hasText: "Reserve a table" }).waitFor();
      await chrome.accessible(page, "a server of a file");

      // By keyboard: the arrows move, what has the focus is seen, and the menu closes when the focus leaves it.
      const menu = page.getByTitle("Servers of the file");
      await menu.focus();
      await page.keyboard.press("Enter");
      await page.keyboard.press("ArrowUp");
      const last = page.getByRole("radio", { name: new RegExp(`^${long}`) });
      await eventually(() => last.evaluate((entry) => entry === document.activeElement && getComputedStyle(entry).outlineStyle), (found) => assert.equal(found, "solid"));
      await page.keyboard.press("Tab");
      await last.waitFor({ state: "detached" });
      await menu.click();
      await last.click();
      await page.getByText("is the server running, and are host and port right?").first().waitFor();
      for (const theme of ["dark", "light"] as const) {
        await page.emulateMedia({ colorScheme: theme });
        for (const width of [390, 768, 1280]) {
          await page.setViewportSize({ width, height: 800 });
          await eventually(() => tooWide(page), (found) => assert.deepEqual(found, [], `at ${width}`));
          await menu.click();
          await eventually(() => tooWide(page), (found) => assert.deepEqual(found, [], `the menu at ${width}`));
          await chrome.accessible(page, `the menu of servers at ${width} (${theme})`);
          await page.keyboard.press("Escape");
          await page.getByRole("button", { name: "Try again" }).click({ trial: true }); // nothing lies over it
        }
      }
    } finally {
      await server.stop();
      remove(folder);
    }
  });

  test("a server that does not answer: what happened is said, on both widths", async () => {
    const folder = folderWith("kitchen.py");
    const ends = "import sys; sys.exit('KEY is not set')";
    for (const [words, title, more] of [
      [[`http://127.0.0.1:${await freePort()}/mcp`], "The server cannot be reached.", "is the server running"],
      [["--", "no-such-program"], "The server cannot be started.", "No such file"],
      [["--", PYTHON, "-c", ends], "The server has ended.", "KEY is not set"],
    ] as const) {
      const server = await started(folder, ["inspect", "--no-open", "--port", "0", ...words]);
      try {
        for (const width of [1280, 390]) {
          const page = await chrome.open(server.url, { ready: false, width });
          await page.locator(".empty", { hasText: title }).filter({ hasText: more }).waitFor();
          await eventually(() => page.getByText("refuse").count(), (found) => assert.equal(found, 0));
          await eventually(() => page.getByRole("button", { name: "Set a token or headers" }).count(), (found) => assert.equal(found, 0));
          await eventually(() => page.getByTitle("Protocol revision").innerText(), (found) => assert.match(found, /auto/));
          await visit(page, "#/tools/add?a=1"); // a link to a tool that is not known yet
          await page.getByRole("button", { name: "Try again" }).click({ trial: true });
          await eventually(() => page.getByText("There is no tool").count(), (found) => assert.equal(found, 0));
          await eventually(() => tooWide(page), (found) => assert.deepEqual(found, []));
        }
        await chrome.closePages();
      } finally {
        await server.stop();
      }
    }
    remove(folder);
  });

  test("a URL that wants a sign-in: begun and ended in the page; and one that wants a token", async () => {
    const folder = folderWith("signed.py", "guarded.py");
    for (const [file, token] of [["signed.py", ""], ["guarded.py", "s3cret-token"]] as const) {
      const behind = await started(folder, ["dev", file, "--no-open", "--port", "0"]);
      const server = await started(folder, ["inspect", `${behind.origin}/mcp`, "--no-open", "--port", "0"]);
      try {
        const page = await chrome.open(server.url, { ready: false, width: token ? 1280 : 390 });
        const shown: string[] = [];
        await page.getByText("The server refuses the connection.").waitFor();
        if (token) {
          await page.getByRole("button", { name: "Set a token or headers" }).click();
          await page.getByLabel(/Bearer token/).fill(token);
          await setHeader(page, "X-Team", "blue");
          page.on("request", (request) => shown.push(request.headers().authorization ?? ""));
          await page.getByRole("button", { name: "Connect anew" }).click();
        } else {
          const begin = page.getByRole("button", { name: "Sign in with OAuth" });
          await begin.click({ trial: true }); // nothing lies over it
          await begin.press("Enter");
          const link = page.getByRole("link", { name: `Sign in at ${new URL(behind.origin).host}` });
          await link.waitFor();
          await eventually(() => link.evaluate((found) => found === document.activeElement && getComputedStyle(found).outlineStyle), (found) => assert.equal(found, "solid"));
          await eventually(() => tooWide(page), (found) => assert.deepEqual(found, []));
          for (const theme of ["light", "dark"] as const) {
            await page.emulateMedia({ colorScheme: theme });
            await chrome.accessible(page, `a sign-in (${theme})`);
          }
          const opened = page.waitForEvent("popup");
          await link.click();
          const other = await opened;
          await other.getByText("page asks for nothing").waitFor(); // as it was registered
          await other.getByRole("link", { name: "I am Ada" }).click();
          await other.getByText("You are signed in.").waitFor();
        }
        await page.locator(".side-entry", { hasText: "whoami" }).waitFor();
        await callTool(page, "whoami");
        await page.locator(".result .plain:text-is('ada')").waitFor();
        await eventually(() => page.getByRole("link", { name: /^Sign in at/ }).count(), (found) => assert.equal(found, 0));
        if (token) {
          await callTool(page, "team");
          await page.locator(".result .plain:text-is('blue')").waitFor();
          assert.equal(shown.join(""), ""); // the process of the inspector sends the token, not the page
        } else {
          await page.setViewportSize({ width: 1280, height: 800 });
          await visit(page, "#/server?tab=connection");
          await page.getByText("Sign in with OAuth", { exact: true }).click();
          await page.getByLabel(/^Client id/).fill("by-hand");
          await page.getByLabel(/^Scopes/).fill("notes");
          await page.getByRole("button", { name: "Sign in", exact: true }).click();
          const opened = page.waitForEvent("popup");
          await page.getByRole("link", { name: /^Sign in at/ }).click();
          await (await opened).getByText("by-hand asks for notes").waitFor();
        }
      } finally {
        await server.stop();
        await behind.stop();
        await chrome.closePages();
      }
    }
    remove(folder);
  });

  test("results that are very large or very deep are shown in part, at once; a file has all of it", async () => {
    const folder = folderWith("large.py");
    const port = await freePort();
    const behind = spawn(PYTHON, ["large.py", String(port)], { cwd: folder, stdio: "ignore" });
    await answers(port);
    const server = await started(folder, ["inspect", `http://127.0.0.1:${port}/mcp`, "--no-open", "--port", "0"]);
    try {
      const page = await chrome.open(server.url);
      await page.getByTitle("Protocol revision").getByText("2025-06-18").waitFor(); // what the server has chosen
      const result = page.getByRole("region", { name: "Result" });
      const call = async (name: string): Promise<void> => {
        await callTool(page, name);
        await done(page, "ok");
      };
      const tab = (name: string): Promise<void> => result.getByRole("tab", { name, exact: true }).click();
      const saved = async (click: () => Promise<void>): Promise<string> => {
        const [file] = await Promise.all([page.waitForEvent("download"), click()]);
        return readFileSync(await file.path(), "utf8");
      };
      const longest = await page.evaluateHandle(() => {
        const found = { ms: 0 };
        new PerformanceObserver((list) => list.getEntries().forEach((one) => { found.ms = Math.max(found.ms, one.duration); })).observe({ type: "longtask" });
        return found;
      });

      // Megabytes of text: the beginning, more of it, and all of it as a file.
      await call("text");
      await eventually(() => result.locator(".plain").innerText(), (found) => assert.equal(found.length, 100_000));
      await result.getByText("5,180,000 more characters are not shown.").waitFor();
      await result.getByRole("button", { name: "Show more" }).click();
      await result.getByText("4,680,000 more characters are not shown.").waitFor();
      assert.equal((await saved(() => result.getByRole("button", { name: "Save all" }).click())).length, 5_280_000);
      await tab("Model sees");
      await result.getByText("5,180,000 more characters are not shown.").waitFor();

      await call("keys");
      await tab("Structured");
      await result.getByRole("button", { name: "… 4,800 more" }).click();
      await result.getByText('"key 1199":').waitFor();
      await call("numbers");
      await tab("Structured");
      await result.getByRole("button", { name: "… 99,800 more" }).waitFor();
      assert.equal(JSON.parse(await saved(() => result.getByRole("button", { name: "Save" }).click())).result.length, 100_000);

      // A text that is JSON of ten thousand levels: a click opens ten, up to the hundredth; the rest is a file.
      await call("nested");
      await result.getByText("1 key, 9,997 levels").waitFor();
      for (let opened = 0; opened < 10; opened++) await result.locator(".j-toggle[aria-expanded=false]").last().click();
      await result.getByText("9,900 more levels that are not shown:").waitFor();
      const rest = await saved(() => result.getByRole("button", { name: "save" }).click());
      assert.equal(rest.split("{").length - 1, 9900);
      await page.setViewportSize({ width: 390, height: 800 });
      await eventually(() => tooWide(page), (found) => assert.deepEqual(found, []));
      await page.setViewportSize({ width: 1280, height: 800 });
      await tab("Structured");
      await result.getByText("1 key, 896 levels").waitFor();
      await result.getByText("The first 64 levels fit the output schema. What is nested deeper was not checked.").waitFor();
      await result.getByRole("button", { name: "Copy" }).click();
      await eventually(() => page.evaluate(() => navigator.clipboard.readText()), (found) => assert.equal(found.length, 900 * 7 + 12));
      await callTool(page, "nested");
      await page.getByRole("tab", { name: "Compare" }).click();
      await result.getByText("The same as the call before this one.").waitFor();

      // What Python cannot read ends the call, with the reason.
      await callTool(page, "abyss");
      await done(page, "error");
      await result.getByText("nested too deeply to be read").waitFor();
      const { ms } = await longest.jsonValue();
      assert.ok(ms < 1500, `the page stood still for ${ms} ms`); // one text of 5 MB took 3,400 on a busy machine
    } finally {
      await server.stop();
      behind.kill();
      remove(folder);
    }
  });

  test("metadata goes with every request; without the notification stream none is opened", async () => {
    const folder = folderWith("kitchen.py");
    const server = await dev(folder, "kitchen.py");
    try {
      const page = await chrome.open(server.url);
      await visit(page, "#/server?tab=connection");
      await page.getByLabel("Metadata of every request").fill('{"org.example/team": "blue"}');
      await page.getByRole("button", { name: "Connect anew" }).click();
      await page.getByTitle("Pretend that the client lacks something").click();
      await page.getByLabel(/Notification stream/).check();
      await page.keyboard.press("Escape");
      await page.getByText("Open streams").waitFor();
      await page.waitForFunction(() => [...document.querySelectorAll(".facts div")].some((row) => row.textContent === "Open streamsnone"));
      await callTool(page, "add", "?a=1&b=1");
      await done(page, "ok");
      await page.getByRole("tab", { name: "Raw" }).click();
      await page.getByText("org.example/team").first().waitFor();
    } finally {
      await server.stop();
      remove(folder);
    }
  });
});
