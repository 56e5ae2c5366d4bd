import assert from "node:assert/strict";
import { test } from "node:test";
import { headerValue, methodHeaders, paramHeaders } from "../src/mcp/headers";
import { SseParser } from "../src/mcp/sse";
import { expandTemplate, templateVariables } from "../src/mcp/uritemplate";
import { fromQuery, parseRoute, routeHash, toQuery } from "../src/state/route";
import { type Copied, cli, copyAs, curl, python, pytest, shell } from "../src/text/copyas";
import { isEmpty, lineDiff, listDiff } from "../src/text/diff";
import { type Filterable, parseFilter } from "../src/text/filter";
import { ago, bytes, levels, ms, percentile, pretty } from "../src/text/format";
import { type Block, inline, looksLikeMarkdown, markdown, safeHref, safeImage } from "../src/text/markdown";
import { csv, tableOf } from "../src/text/tables";

test("SSE: events are the same wherever the chunks end", () => {
  const text = "\ufeff: comment\r\nid: 7\r\nevent: batch\r\ndata: a\r\ndata: b\r\n\r\ndata:c\n\nretry: 100\rdata: d\r\revent: none\n\n";
  const whole = new SseParser().push(text);
  assert.deepEqual(whole, [
    { event: "batch", data: "a\nb", id: "7" },
    { event: "message", data: "c", id: "7" },
    { event: "message", data: "d", id: "7", retry: 100 },
  ]);
  for (let size = 1; size < 9; size++) {
    const parser = new SseParser();
    const found = [];
    for (let at = 0; at < text.length; at += size) found.push(...parser.push(text.slice(at, at + size)));
    assert.deepEqual(found, whole, `chunks of ${size}`);
  }
});

test("levels of JSON, and text of it that no depth can break", () => {
  assert.deepEqual([1, {}, [1], { a: [{}], b: 1 }].map((value) => levels(value)), [0, 0, 1, 2]);
  assert.equal(levels(Array.from({ length: 100 }), 50), undefined);
  assert.equal(pretty({ a: [1] }), '{\n  "a": [\n    1\n  ]\n}');
  const deep = "[".repeat(50_000) + "]".repeat(50_000);
  assert.equal(levels(JSON.parse(deep)), 49_999);
  assert.equal(pretty(JSON.parse(deep)), deep);
  const wide = { a: Array.from({ length: 100_000 }, (_, at) => at), 'b"': { c: null, d: undefined, e: [true, "x\n", {}, []] } };
  assert.equal(pretty(wide), JSON.stringify(wide));
});

test("SSE: an event without its blank line has not come yet", () => {
  const parser = new SseParser();
  assert.deepEqual(parser.push("data: half\n"), []);
  assert.deepEqual(parser.push("\n"), [{ event: "message", data: "half" }]);
});

test("headers: what is not plain ASCII goes as Base64", () => {
  assert.equal(headerValue("add"), "add");
  assert.equal(headerValue("a b"), "a b");
  assert.equal(headerValue(" a"), "=?base64?IGE=?=");
  assert.equal(headerValue("né"), "=?base64?bsOp?=");
  assert.equal(headerValue("=?base64?YQ==?="), "=?base64?PT9iYXNlNjQ/WVE9PT89?=");
  assert.deepEqual(methodHeaders("tools/call", { name: "add" }), { "Mcp-Method": "tools/call", "Mcp-Name": "add" });
  assert.deepEqual(methodHeaders("resources/read", { uri: "a://b" }), { "Mcp-Method": "resources/read", "Mcp-Name": "a://b" });
  assert.deepEqual(methodHeaders("tools/list", {}), { "Mcp-Method": "tools/list" });
  assert.deepEqual(methodHeaders("tasks/get", { taskId: "t" }), { "Mcp-Method": "tasks/get", "Mcp-Name": "t" });
});

test("headers: parameters that the schema marks, also nested ones; null and absent ones not", () => {
  const schema = { properties: { region: { type: "string", "x-mcp-header": "Region" }, n: { type: "integer", "x-mcp-header": "N" }, o: { properties: { b: { type: "boolean", "x-mcp-header": "B" } } }, none: { "x-mcp-header": "None" } } };
  assert.deepEqual(paramHeaders(schema, { region: "eu", n: 4, o: { b: false }, none: null }), { "Mcp-Param-Region": "eu", "Mcp-Param-N": "4", "Mcp-Param-B": "false" });
});

test("RFC 6570: the examples of its sections 1.2 and 3.2", () => {
  const values = { var: "value", hello: "Hello World!", path: "/foo/bar", x: "1024", y: "768", empty: "", list: ["red", "green", "blue"], base: "http://example.com/home/" };
  const cases: [string, string][] = [
    ["{var}", "value"], ["{hello}", "Hello%20World%21"], ["{+path}/here", "/foo/bar/here"], ["{#path,x}", "#/foo/bar,1024"], ["{x,hello,y}", "1024,Hello%20World%21,768"], ["{.x,y}", ".1024.768"], ["{/var,x}/here", "/value/1024/here"],
    ["{;x,y,empty}", ";x=1024;y=768;empty"], ["{?x,y,empty}", "?x=1024&y=768&empty="], ["?fixed=yes{&x}", "?fixed=yes&x=1024"], ["{var:3}", "val"], ["{list}", "red,green,blue"], ["{list*}", "red,green,blue"], ["{/list*}", "/red/green/blue"], ["{?list*}", "?list=red&list=green&list=blue"], ["{+base}index", "http://example.com/home/index"], ["O{undef}X", "OX"], ["{?undef,x}", "?x=1024"],
  ];
  for (const [template, wanted] of cases) assert.equal(expandTemplate(template, values), wanted, template);
  assert.deepEqual(templateVariables("a://{x}/{+path*}{?q,x:3}"), ["x", "path", "q"]);
});

const entry: Filterable = { method: "tools/call", name: "add", client: "claude-code stdio", status: "tool error", era: "handshake", transport: "stdio", revision: "2025-11-25", direction: "in", type: "request", ms: 612, text: '{"a":1}' };

test("the filter: every term must hold", () => {
  const yes = ["", "method:tools/call", "method:tools/*", "status:error", "status:tool", "client:claude*", "client:claude", ">500ms", "<2s", ">=612", "add", '"tool error"', "-ping", "-status:ok", "method:tools/call status:error >500ms", "era:handshake dir:in type:request revision:2025*", "tool:add", "client:*"];
  const no = ["method:prompts/*", "status:ok", ">1s", "<500ms", "-add", "sub", "method:tools/call status:ok", "client:cursor*"];
  for (const text of yes) assert.equal(parseFilter(text).test(entry), true, text);
  for (const text of no) assert.equal(parseFilter(text).test(entry), false, text);
});

test("the filter: what it does not understand is said, and does not hide anything by itself", () => {
  assert.match(parseFilter(">fast").problem ?? "", /not a time/);
  assert.match(parseFilter("methud:x").problem ?? "", /not known/);
  assert.equal(parseFilter(">500ms method:tools/call").problem, undefined);
  assert.equal(parseFilter("birds://species").problem, undefined);
});

const kinds = (blocks: Block[]): string[] => blocks.map((block) => block.kind);

test("Markdown: blocks", () => {
  const text = "# Title\n\nText **bold** and *slanted*,\nnext line.\n\n- one\n- two\n  - nested\n- [x] done\n\n1. first\n2. second\n\n> quote\n\n```python\nx = 1\n```\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n---\n\n    indented";
  const tree = markdown(text);
  assert.deepEqual(kinds(tree), ["heading", "paragraph", "list", "list", "quote", "code", "table", "rule", "code"]);
  const list = tree[2];
  assert.equal(list?.kind === "list" && list.items.length, 3);
  assert.equal(list?.kind === "list" && list.items[1]?.blocks[1]?.kind, "list");
  assert.equal(list?.kind === "list" && list.items[2]?.checked, true);
  const table = tree[6];
  assert.deepEqual(table?.kind === "table" && table.align, ["left", "right"]);
  assert.deepEqual(table?.kind === "table" && table.rows, [[["1"], ["2"]]]);
  const code = tree[5];
  assert.deepEqual(code?.kind === "code" && [code.language, code.text], ["python", "x = 1"]);
});

test("Markdown: inline", () => {
  assert.deepEqual(inline("a **b *c* d** `x*y` ~~z~~ \\*"), ["a ", { kind: "strong", inner: ["b ", { kind: "em", inner: ["c"] }, " d"] }, " ", { kind: "code", text: "x*y" }, " ", { kind: "del", inner: ["z"] }, " ", "*"]);
  assert.deepEqual(inline("snake_case_name"), ["snake_case_name"]);
  assert.deepEqual(inline("[a](https://b.org/x_(y)) and https://c.org."), [{ kind: "link", href: "https://b.org/x_(y)", inner: ["a"] }, " and ", { kind: "link", href: "https://c.org", inner: ["https://c.org"] }, "."]);
});

test("Markdown is safe: tags are text, links that run something are none, images come from nowhere else", () => {
  assert.deepEqual(inline("<script>alert(1)</script>"), ["<script>alert(1)</script>"]);
  for (const href of ["javascript:alert(1)", " JaVaScRiPt:alert(1)", "java\tscript:alert(1)", "data:text/html,x", "vbscript:x", "file:///etc/passwd"]) assert.equal(safeHref(href), undefined, href);
  assert.deepEqual(inline("[x](javascript:alert)"), [{ kind: "em", inner: ["x"] }]);
  assert.equal(safeHref("https://a.org"), "https://a.org");
  assert.equal(safeImage("https://a.org/x.png"), undefined);
  assert.equal(safeImage("data:image/png;base64,AAAA"), "data:image/png;base64,AAAA");
  assert.equal(JSON.stringify(inline("![p](https://a.org/x.png)")).includes('"image"'), false);
});

test("Markdown takes linear time for texts that are made to be slow", () => {
  const start = performance.now();
  for (const text of ["*".repeat(20_000), "[".repeat(20_000), "`".repeat(20_001), "**a".repeat(5000), "> ".repeat(3000), "- ".repeat(3000), "<".repeat(20_000), "_a_".repeat(5000), "![](".repeat(4000)]) markdown(text);
  const most = 400_000;
  for (const text of [`|\n${" ".repeat(most)}x`, `\`\`\`${"a".repeat(most)}\``, `\`\`\`${" ".repeat(most)}\``, "- a|b\n-|-\n\n".repeat(most / 100), "> a|b\n".repeat(most / 80)]) markdown(text);
  for (const text of ["[".repeat(most), "[a](".repeat(most / 4), `|${"a".repeat(most)}`]) looksLikeMarkdown(text);
  assert.ok(performance.now() - start < 4000, `${performance.now() - start} ms`);
});

test("Markdown is guessed only from its marks", () => {
  assert.equal(looksLikeMarkdown("# Title"), true);
  assert.equal(looksLikeMarkdown("a **b** c"), true);
  assert.equal(looksLikeMarkdown("just a sentence - with a dash"), false);
});

test("tables: CSV with quotes, and lists of objects", () => {
  assert.deepEqual(csv('a,b\r\n"x, ""y""",2\n\n3,"multi\nline"\n'), { columns: ["a", "b"], rows: [['x, "y"', "2"], ["3", "multi\nline"]], left: 0 });
  assert.deepEqual(tableOf([{ a: 1 }, { a: 2, b: "x" }]), { columns: ["a", "b"], rows: [[1, null], [2, "x"]], left: 0 });
  assert.equal(tableOf([{ a: 1 }]), undefined);
  assert.equal(tableOf([1, 2]), undefined);
  assert.equal(tableOf(Array.from({ length: 700 }, () => ({ a: 1 })))?.left, 200);
});

const copied: Copied = { method: "tools/call", name: "add", arguments: { a: 1, text: "it's", on: true, none: null }, endpoint: "http://127.0.0.1:8000/mcp", target: "server.py", revision: "2026-07-28", withToken: false, result: { content: [{ type: "text", text: "2" }], structuredContent: { result: 2 } } };

test("copy as curl: the headers and the body of the revision", () => {
  const text = curl(copied);
  assert.match(text, /^curl -sS http:\/\/127\.0\.0\.1:8000\/mcp/);
  for (const part of ["'MCP-Protocol-Version: 2026-07-28'", "'Mcp-Method: tools/call'", "'Mcp-Name: add'", `"text":"it'\\''s"`]) assert.ok(text.includes(part), part);
  const old = curl({ ...copied, revision: "2025-06-18", withToken: true });
  for (const part of ["SESSION=$(curl", '"method":"initialize"', "notifications/initialized", '"Mcp-Session-Id: $SESSION"', '"Authorization: Bearer $TOKEN"']) assert.ok(old.includes(part), part);
});

test("copy as Python, command line and test", () => {
  assert.equal(python({ a: [1, true, null], b: "x\n" }), '{"a": [1, True, None], "b": "x\\n"}');
  assert.match(copyAs("Python", copied), /await client\.call_tool\("add", \{"a": 1, "text": "it's", "on": True, "none": None\}\)/);
  assert.match(copyAs("Python", { ...copied, revision: "2025-11-25" }), /protocol="2025-11-25"/);
  assert.equal(cli(copied), "redstart call server.py add a=1 'text=it'\\''s' on=true none=null");
  assert.equal(cli({ ...copied, arguments: { s: "5", o: { x: 1 } } }), `redstart call server.py add 's="5"' 'o={"x":1}'`);
  assert.equal(cli({ ...copied, method: "resources/read", name: "a://b", arguments: {} }), "redstart read server.py a://b");
  assert.match(pytest(copied), /from server import server[^]*async def test_add\(mcp_client\)[^]*assert not result\.is_error\n {4}assert result\.structured == \{"result": 2\}/);
  assert.match(pytest({ ...copied, result: { content: [{ type: "text", text: "no" }], isError: true } }), /assert result\.is_error\n {4}assert result\.content\[0\]\.text == "no"/);
  assert.match(pytest({ ...copied, target: "app/main.py:app", revision: "2025-06-18" }), /from main import app[^]*@pytest\.mark\.mcp\(revisions=\["2025-06-18"\]\)/);
  assert.match(pytest({ ...copied, target: copied.endpoint }), /async with Client\("http:[^]*result = asyncio\.run\(run\(\)\)/);
  assert.equal(shell("a b"), "'a b'");
});

test("differences of lists and of lines", () => {
  const diff = listDiff([{ n: "a", v: 1 }, { n: "b", v: 1 }], [{ n: "b", v: 2 }, { n: "c", v: 1 }], (item) => item.n);
  assert.deepEqual(diff, { added: ["c"], removed: ["a"], changed: ["b"] });
  assert.equal(isEmpty(listDiff([1], [1], String)), true);
  assert.deepEqual(lineDiff("a\nb\nc", "a\nx\nc").map((line) => `${line.mark}${line.text}`), [" a", "-b", "+x", " c"]);
});

test("routes: names and arguments survive the way into the address and back", () => {
  const args = { a: 1, text: "5", plain: "x y&z", list: [1, "2"], none: null };
  const hash = routeHash("tools", "a/b c?d#e", toQuery(args));
  const route = parseRoute(hash);
  assert.deepEqual([route.view, route.name], ["tools", "a/b c?d#e"]);
  assert.deepEqual(fromQuery(route.query, new Set(["text", "plain"])), args);
  assert.deepEqual(parseRoute("#/tools/add?a=1&run").query, { a: "1", run: "" });
  assert.deepEqual(fromQuery({ a: "1", run: "" }, new Set()), { a: 1 });
  assert.deepEqual(fromQuery({ zip: "01234", n: "01234" }, new Set(["zip"])), { zip: "01234", n: "01234" });
});

test("numbers for people", () => {
  assert.deepEqual([0.02, 1.24, 41.2, 612, 6200, 125_000].map(ms), ["0.02 ms", "1.2 ms", "41 ms", "612 ms", "6.2 s", "2 min 5 s"]);
  assert.deepEqual([12, 1500, 45_000, 2_500_000].map(bytes), ["12 B", "1.5 kB", "45 kB", "2.5 MB"]);
  assert.equal(ago(100, 102), "just now");
  assert.equal(ago(0, 7200), "2 h ago");
  assert.deepEqual([0.5, 0.95, 0.99].map((part) => percentile([1, 2, 3, 4, 5, 6, 7, 8, 9, 10], part)), [5, 10, 10]);
  assert.equal(percentile([], 0.5), undefined);
});

test("a heading takes linear time, whatever is in it", () => {
  const began = performance.now();
  const tree = markdown(`#${" ".repeat(100_000)}a\u2028a\n\n## two ##\n\n# ###`);
  assert.ok(performance.now() - began < 2000);
  assert.deepEqual(
    tree.map((block) => (block.kind === "heading" ? block.inner : block.kind)),
    [["a\u2028a"], ["two"], []],
  );
});
