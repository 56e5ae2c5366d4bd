// Real servers and a real Chromium. Without Chromium the tests are skipped, with the reason.

import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { type Browser, type BrowserContext, type Locator, type Page, chromium } from "playwright-core";

// The bundled tests are in inspector/.tests/e2e.
export const HERE = resolve(dirname(fileURLToPath(import.meta.url)), "../../e2e");
export const PYTHON = process.env.PYTHON ?? "python3";
const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];

function findChromium(): string | undefined {
  const named = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].filter((path): path is string => Boolean(path));
  return named.find((path) => existsSync(path));
}

const program = findChromium();
/** Why the tests cannot run here; undefined if they can. */
export const missing: string | undefined = program === undefined ? "Chromium is not installed (apt-get install chromium), and CHROMIUM does not name one" : spawnSync(PYTHON, ["-c", "import redstart"]).status !== 0 ? `${PYTHON} cannot import redstart; run make e2e` : undefined;

export function freePort(): Promise<number> {
  return new Promise((done, failed) => {
    const server = createServer();
    server.on("error", failed);
    server.listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => done(typeof address === "object" && address ? address.port : 0));
    });
  });
}

export interface Running {
  url: string; // with the token
  origin: string;
  folder: string;
  process: ChildProcess;
  output: () => string;
  stop: () => Promise<void>;
}

/** A new folder with a copy of files of e2e/. */
export function folderWith(...files: string[]): string {
  const folder = mkdtempSync(join(tmpdir(), "inspector-"));
  for (const file of files) cpSync(join(HERE, file), join(folder, file));
  return folder;
}

/** `redstart dev FILE` in a folder. */
export async function dev(folder: string, file: string, port?: number): Promise<Running> {
  return await started(folder, ["dev", file, "--port", String(port ?? (await freePort())), "--no-open"]);
}

/** A home of nobody: no picture shows where this machine keeps things. */
const HOME = mkdtempSync(join(tmpdir(), "home-"));
process.on("exit", () => remove(HOME));

/** A command of redstart in a folder; resolved as soon as it has printed the address of the inspector. */
export async function started(folder: string, words: string[], more: Record<string, string> = {}): Promise<Running> {
  const { XDG_CONFIG_HOME: _config, DISPLAY: _display, ...env } = process.env;
  const child = spawn(PYTHON, ["-m", "redstart", ...words], { cwd: folder, stdio: ["ignore", "pipe", "pipe"], env: { ...env, HOME, PYTHONUNBUFFERED: "1", ...more } });
  let text = "";
  const ended = new Promise<void>((done) => child.on("exit", () => done()));
  const url = await new Promise<string>((done, failed) => {
    const timer = setTimeout(() => failed(new Error(`The server did not start in time:\n${text}`)), 40_000);
    const read = (chunk: Buffer): void => {
      text += chunk.toString();
      const found = /http:\/\/127\.0\.0\.1:\d+\/\S*#token=\S+/.exec(text.replace(/\u001b\[[0-9;]*m/g, ""));
      if (!found) return;
      clearTimeout(timer);
      done(found[0]);
    };
    child.stdout?.on("data", read);
    child.stderr?.on("data", read);
    child.on("exit", (code) => failed(new Error(`The server ended with ${code}:\n${text}`)));
  });
  const stop = async (): Promise<void> => {
    child.kill("SIGTERM");
    const hard = setTimeout(() => child.kill("SIGKILL"), 5000);
    await ended;
    clearTimeout(hard);
  };
  return { url, origin: new URL(url).origin, folder, process: child, output: () => text, stop };
}

export class Chrome {
  private constructor(private readonly browser: Browser) {}

  /** What was asked of another machine, and errors of the page: both must stay empty. */
  readonly foreign: string[] = [];
  readonly errors: string[] = [];
  private readonly contexts: BrowserContext[] = [];

  static async start(): Promise<Chrome> {
    return new Chrome(await chromium.launch({ executablePath: program as string, args: FLAGS }));
  }

  async open(url: string, options: { width?: number; height?: number; theme?: "light" | "dark"; scale?: number; ready?: boolean } = {}): Promise<Page> {
    const { width = 1280, height = 800, theme = "light", scale = 1, ready = true } = options;
    const context = await this.browser.newContext({ viewport: { width, height }, colorScheme: theme, deviceScaleFactor: scale, reducedMotion: "reduce", locale: "en-GB", timezoneId: "UTC" });
    this.contexts.push(context);
    if (url.startsWith("http")) await context.grantPermissions(["clipboard-read", "clipboard-write"], { origin: new URL(url).origin });
    const page = await context.newPage();
    page.setDefaultTimeout(10_000);
    context.on("request", (request) => {
      const target = new URL(request.url());
      if (!["data:", "blob:", "file:"].includes(target.protocol) && target.hostname !== "127.0.0.1") this.foreign.push(request.url());
    });
    page.on("pageerror", (error) => this.errors.push(String(error.stack ?? error)));
    page.on("console", (message) => {
      if (message.type() === "error" && /Content Security Policy|Uncaught/.test(message.text())) this.errors.push(message.text());
    });
    await page.goto(url);
    if (ready) await page.locator('main[aria-busy="false"]').waitFor();
    return page;
  }

  async closePages(): Promise<void> {
    await Promise.all(this.contexts.splice(0).map((context) => context.close()));
  }

  async stop(): Promise<void> {
    await this.closePages();
    await this.browser.close();
  }

  /** Run the rules of WCAG 2 A and AA over the page as it is now. */
  async accessible(page: Page, where: string): Promise<void> {
    const source = readFileSync(join(HERE, "../node_modules/axe-core/axe.min.js"), "utf8");
    await page.evaluate(source);
    const found = await page.evaluate(async () => {
      const axe = (window as unknown as { axe: { run: (what: Document, how: object) => Promise<{ violations: { id: string; help: string; nodes: { target: string[]; failureSummary: string }[] }[] }> } }).axe;
      const result = await axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"] });
      return result.violations.map((one) => `${one.id}: ${one.help}: ${one.nodes.slice(0, 3).map((node) => `${node.target.join(" ")} ${node.failureSummary.split("\n").slice(1, 2).join("")}`).join(" | ")}`);
    });
    assert.deepEqual(found, [], `${where} breaks rules of WCAG AA`);
  }
}

/** What is wider than the place that it has: the page, its bar, its middle. */
export async function tooWide(page: Page): Promise<string[]> {
  return await page.evaluate(() => [document.documentElement, ...document.querySelectorAll("main, .topbar, .panel, .banner")].filter((box) => box.scrollWidth > box.clientWidth + 1).map((box) => `${box.tagName} ${box.className} ${box.scrollWidth} > ${box.clientWidth}`));
}

/** Read until what was read holds: a page shows a moment later what has happened. The last failure is the test's. */
export async function eventually<T>(read: () => Promise<T>, holds: (found: T) => void): Promise<void> {
  const end = performance.now() + 10_000;
  for (;;) {
    try {
      return holds(await read());
    } catch (failure) {
      if (performance.now() > end) throw failure;
    }
    await new Promise((done) => setTimeout(done, 25));
  }
}

/** Go to a place of the page by its address. */
export async function visit(page: Page, hash: string): Promise<void> {
  await page.evaluate((next) => {
    location.hash = next;
  }, hash);
}

export async function callTool(page: Page, name: string, query = ""): Promise<Locator> {
  await visit(page, `#/tools/${name}${query}`);
  await page.locator("h1").waitFor();
  await page.getByRole("button", { name: "Call", exact: true }).click();
  return page.getByRole("region", { name: "Result" });
}

export const done = (page: Page, status: string): Promise<void> => page.locator(`.summary .badge:text-is("${status}")`).waitFor();

export async function setRevision(page: Page, revision: string): Promise<void> {
  await page.getByTitle("Protocol revision").first().click();
  await page.getByRole("radio", { name: revision }).click();
  await page.waitForFunction((wanted) => document.querySelector('[title="Protocol revision"]')?.textContent?.includes(wanted), revision);
  await page.locator(".health .dot.on").waitFor();
  await page.locator(".side-entry").first().waitFor();
}

export async function drawer(page: Page, tab: string): Promise<void> {
  await page.locator(".drawer").getByRole("tab", { name: tab }).click();
}

// ---------------------------------------------------------------- pictures

const SHOTS = join(HERE, "shots");
const LOOK = join(HERE, "../.shots");
/** Times and what depends on them; the rest of a picture must be the same each time. */
const STILL = ".stats, .place, .side-time, .spark, .summary .dim, .running-line .dim, .rate { display: none !important; } .t-time, .t-ms, .t-bar, .fall-track, .fall-time, .health { visibility: hidden !important; } .snippet pre { height: 40px; overflow: hidden; visibility: hidden !important; } * { caret-color: transparent !important; }";
const DIFFERENT = 48; // of 255, in one channel
const MOST_DIFFERENT = 0.012; // of all pixels

/** Compare what is shown with the committed picture; with UPDATE=1 write it. */
export async function shoot(page: Page, name: string): Promise<void> {
  await page.addStyleTag({ content: STILL });
  await page.mouse.move(0, 0);
  await page.evaluate(() => document.fonts.ready);
  const file = join(SHOTS, `${name}.png`);
  mkdirSync(LOOK, { recursive: true });
  const take = async (): Promise<Buffer> => {
    const picture = await page.screenshot({ animations: "disabled" });
    writeFileSync(join(LOOK, `${name}.png`), picture);
    return picture;
  };
  if (process.env.LOOK) return void (await take()); // pictures of full size for people, not to compare
  if (process.env.UPDATE) {
    mkdirSync(SHOTS, { recursive: true });
    writeFileSync(file, await take());
    return;
  }
  assert.ok(existsSync(file), `There is no picture ${name} to compare with: look at .shots/${name}.png, then run UPDATE=1 make e2e`);
  await eventually(
    async () => await difference(page, readFileSync(file), await take()),
    (share) => assert.ok(share <= MOST_DIFFERENT, `${name}: ${(share * 100).toFixed(2)} % of the pixels are different; look at .shots/${name}.png`),
  );
}

async function difference(page: Page, one: Buffer, other: Buffer): Promise<number> {
  return await page.evaluate(
    async ([a, b, least]) => {
      // An image, because the page's policy does not let it fetch a data: URL.
      const decode = (data: string): Promise<ImageData> =>
        new Promise((done, failed) => {
          const image = new Image();
          image.onload = () => {
            const context = new OffscreenCanvas(image.width, image.height).getContext("2d") as OffscreenCanvasRenderingContext2D;
            context.drawImage(image, 0, 0);
            done(context.getImageData(0, 0, image.width, image.height));
          };
          image.onerror = () => failed(new Error("not a picture"));
          image.src = `data:image/png;base64,${data}`;
        });
      const [x, y] = [await decode(a as string), await decode(b as string)];
      if (x.width !== y.width || x.height !== y.height) return 1;
      let count = 0;
      for (let at = 0; at < x.data.length; at += 4) {
        const far = Math.max(Math.abs((x.data[at] as number) - (y.data[at] as number)), Math.abs((x.data[at + 1] as number) - (y.data[at + 1] as number)), Math.abs((x.data[at + 2] as number) - (y.data[at + 2] as number)));
        if (far > (least as number)) count++;
      }
      return count / (x.width * x.height);
    },
    [one.toString("base64"), other.toString("base64"), DIFFERENT] as const,
  );
}

export function remove(folder: string): void {
  rmSync(folder, { recursive: true, force: true });
}
