// Build the page (default) or its tests (--tests). The same sources give the same bytes: CI compares them.
import { build } from "esbuild";
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";

const HERE = dirname(fileURLToPath(import.meta.url));
const args = process.argv.slice(2);
const common = { absWorkingDir: HERE, bundle: true, jsx: "automatic", jsxImportSource: "preact", logLevel: "warning" };

async function page(out) {
  await rm(out, { recursive: true, force: true });
  await mkdir(out, { recursive: true });
  await build({
    ...common,
    entryPoints: { inspector: "src/main.tsx" },
    outdir: out,
    format: "esm",
    target: "es2022",
    minify: true,
    legalComments: "none",
    charset: "utf8",
    loader: { ".woff2": "copy" },
    assetNames: "[name]",
    external: ["./inter.woff2", "./jetbrains-mono.woff2"],
  });
  for (const file of ["index.html", "icon.svg"]) await copyFile(join(HERE, "src", file), join(out, file));
  for (const file of await readdir(join(HERE, "fonts"))) await copyFile(join(HERE, "fonts", file), join(out, file === "LICENSE" ? "FONTS-LICENSE" : file));
  const packages = ["preact", "@preact/signals"];
  const notices = await Promise.all(packages.map(async (name) => `${name}\n\n${await readFile(join(HERE, "node_modules", name, "LICENSE"), "utf8")}`));
  await writeFile(join(out, "LICENSES"), notices.join("\n"));
}

async function tests() {
  await rm(join(HERE, ".tests"), { recursive: true, force: true });
  for (const [from, to] of [["tests", "unit"], ["e2e", "e2e"]]) {
    const names = (await readdir(join(HERE, from))).filter((name) => name.endsWith(".test.ts") || name.endsWith(".test.tsx"));
    await build({
      ...common,
      entryPoints: names.map((name) => join(from, name)),
      outdir: join(".tests", to),
      outExtension: { ".js": ".mjs" },
      format: "esm",
      platform: "node",
      target: "node20",
      packages: "external",
      sourcemap: "inline",
    });
  }
}

if (args[0] === "--tests") await tests();
else await page(resolve(HERE, args[0] ?? "../src/redstart/inspector/static"));
