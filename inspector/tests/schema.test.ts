import assert from "node:assert/strict";
import { test } from "node:test";
import type { Json, Schema, Tool } from "../src/mcp/types";
import { blank, branchOf, formNode, initial, kindWord } from "../src/schema/form";
import { matches } from "../src/schema/pattern";
import { portability } from "../src/schema/portability";
import { lookup, resolve } from "../src/schema/resolve";
import { judge, pathText, validate } from "../src/schema/validate";

const problems = (value: Json, schema: Schema): string[] => validate(value, schema, schema).map((one) => `${pathText(one.path)} ${one.message}`.trim());

test("a local reference is followed, one that leads nowhere says so", () => {
  const root: Schema = { $defs: { "a/b": { type: "string" } } };
  assert.deepEqual(lookup("#/$defs/a~1b", root), { type: "string" });
  assert.equal(lookup("https://example.org/x.json", root), undefined);
  assert.match(resolve({ $ref: "#/$defs/none" }, root).description ?? "", /leads nowhere/);
  assert.equal(resolve({ $ref: "#/$defs/a~1b", title: "T" }, root).title, "T");
});

test("allOf is merged: properties and required of all parts", () => {
  const node = formNode({ allOf: [{ properties: { a: { type: "string" } }, required: ["a"] }, { properties: { b: { type: "integer" } } }] }, {});
  assert.equal(node.kind, "object");
  assert.deepEqual(node.kind === "object" && node.fields.map((field) => [field.name, field.required]), [["a", true], ["b", false]]);
});

test("the kinds of fields", () => {
  const cases: [Schema, string, string][] = [
    [{ type: "string" }, "string", "text"],
    [{ type: "string", format: "date" }, "string", "date"],
    [{ type: "integer" }, "number", "integer"],
    [{ type: "number" }, "number", "number"],
    [{ type: "boolean" }, "boolean", "boolean"],
    [{ type: "null" }, "null", "null"],
    [{ enum: ["a", "b"] }, "choice", "choice"],
    [{ const: 1 }, "choice", "choice"],
    [{ oneOf: [{ const: "a", title: "A" }, { const: "b", title: "B" }] }, "choice", "choice"],
    [{ type: "array", items: { type: "string" } }, "array", "list"],
    [{ type: "array", items: { enum: ["a", "b"] } }, "multi", "choices"],
    [{ anyOf: [{ type: "string" }, { type: "integer" }] }, "union", "one of several"],
    [{ type: ["string", "integer"] }, "union", "one of several"],
    [{ type: "object", properties: {} }, "object", "object"],
    [{}, "any", "any JSON"],
  ];
  for (const [schema, kind, word] of cases) {
    const node = formNode(schema, schema);
    assert.equal(node.kind, kind, JSON.stringify(schema));
    assert.equal(kindWord(node), word);
  }
});

test("the null branch is a property of the field, in each way of writing it", () => {
  for (const schema of [{ anyOf: [{ type: "string" }, { type: "null" }] }, { type: ["string", "null"] }, { oneOf: [{ type: "null" }, { type: "string" }] }] as Schema[]) {
    const node = formNode(schema, schema);
    assert.equal(node.kind, "string");
    assert.equal(node.nullable, true);
  }
  const choice = formNode({ enum: ["a", null] }, {});
  assert.equal(choice.kind === "choice" && choice.options.length, 1);
  assert.equal(choice.nullable, true);
  const ref = formNode({ anyOf: [{ $ref: "#/$defs/P" }, { type: "null" }], description: "own" }, { $defs: { P: { type: "object", properties: { x: { type: "number" } }, description: "theirs" } } });
  assert.equal(ref.kind, "object");
  assert.equal(ref.description, "own");
});

test("a union names its branches by title, tag, reference or type", () => {
  const root: Schema = { $defs: { Cat: { type: "object", properties: { kind: { const: "cat" } } }, Dog: { type: "object", properties: { bark: { type: "string" } } } } };
  const node = formNode({ oneOf: [{ $ref: "#/$defs/Cat" }, { $ref: "#/$defs/Dog" }, { type: "array", items: { type: "integer" } }, { title: "Other", type: "string" }] }, root);
  assert.deepEqual(node.kind === "union" && node.branches.map((branch) => branch.label), ["cat", "Dog", "list of integer", "Other"]);
  assert.equal(node.kind === "union" && branchOf([1], node.branches, root), 2);
  assert.equal(node.kind === "union" && branchOf("text", node.branches, root), 3);
});

test("a schema that contains itself makes a form and a first value", () => {
  const root: Schema = { type: "object", properties: { name: { type: "string" }, children: { type: "array", items: { $ref: "#" } }, next: { $ref: "#" } }, required: ["name", "next"] };
  assert.equal(formNode(root, root).kind, "object");
  assert.equal(typeof initial(root, root), "object");
});

test("a form begins with defaults, examples and what is required", () => {
  const schema: Schema = { type: "object", properties: { a: { type: "integer", default: 3 }, b: { type: "string", examples: ["x"] }, c: { type: "string" }, d: { type: "object", properties: { e: { type: "boolean", default: true } } }, f: { type: "array", items: { type: "integer", minimum: 2 }, minItems: 2 }, g: { const: "only" } }, required: ["b", "c", "d", "f", "g"] };
  assert.deepEqual(initial(schema, schema), { a: 3, b: "x", d: { e: true }, f: [2, 2], g: "only" });
  assert.equal(blank({ type: "string" }, {}), "");
  assert.equal(blank({ type: "integer", minimum: 5 }, {}), 5);
});

test("free names are rows where the schema allows them", () => {
  const open = formNode({ type: "object", additionalProperties: { type: "integer" } }, {});
  assert.deepEqual(open.kind === "object" && open.extra, { type: "integer" });
  const closed = formNode({ type: "object", properties: { a: {} }, additionalProperties: false }, {});
  assert.equal(closed.kind === "object" && closed.extra, undefined);
});

test("validation says what is wrong, where", () => {
  const schema: Schema = { type: "object", properties: { n: { type: "integer", minimum: 1, maximum: 9 }, s: { type: "string", minLength: 2, pattern: "^[a-z]+$" }, tags: { type: "array", items: { type: "string" }, minItems: 1, uniqueItems: true }, o: { type: "object", properties: { x: { enum: ["a", "b"] } }, required: ["x"], additionalProperties: false } }, required: ["n"] };
  assert.deepEqual(problems({ n: 5, s: "ab", tags: ["a"], o: { x: "a" } }, schema), []);
  assert.deepEqual(problems({}, schema), ["n is required"]);
  assert.deepEqual(problems({ n: 0 }, schema), ["n must be at least 1"]);
  assert.deepEqual(problems({ n: 1.5 }, schema), ["n must be a whole number"]);
  assert.deepEqual(problems({ n: "x" }, schema), ["n must be a whole number"]);
  assert.deepEqual(problems({ n: 1, s: "A" }, schema), ["s must have at least 2 characters", "s must match ^[a-z]+$"]);
  assert.deepEqual(problems({ n: 1, tags: [] }, schema), ["tags must have at least 1 entry"]);
  assert.deepEqual(problems({ n: 1, tags: ["a", "a"] }, schema), ["tags must not have an entry twice"]);
  assert.deepEqual(problems({ n: 1, tags: ["a", 1] }, schema), ["tags[1] must be text"]);
  assert.deepEqual(problems({ n: 1, o: { y: 1 } }, schema), ["o.x is required", "o.y is not known to the tool"]);
  assert.deepEqual(problems({ n: 1, o: { x: "c" } }, schema), ['o.x must be one of "a", "b"']);
});

test("unions: the problems of the nearest branch", () => {
  const schema: Schema = { anyOf: [{ type: "object", properties: { kind: { const: "a" }, n: { type: "integer" } }, required: ["kind", "n"] }, { type: "string" }] };
  assert.deepEqual(problems({ kind: "a", n: 1 }, schema), []);
  assert.deepEqual(problems({ kind: "a", n: "x" }, schema), ["n must be a whole number"]);
  assert.equal(problems(5, schema).length, 1);
  assert.deepEqual(problems(5, { oneOf: [{ type: "integer" }, { type: "number" }] }), ["fits more than one of the alternatives"]);
});

test("other keywords: not, if, dependentRequired, patternProperties, prefixItems, propertyNames, contains, multipleOf", () => {
  assert.equal(problems(3, { not: { type: "integer" } }).length, 1);
  assert.deepEqual(problems({ a: 1 }, { if: { required: ["a"] }, then: { required: ["b"] } }), ["b is required"]);
  assert.deepEqual(problems({ a: 1 }, { dependentRequired: { a: ["b"] } }), ["b is required together with a"]);
  assert.deepEqual(problems({ x1: "a" }, { patternProperties: { "^x": { type: "integer" } }, additionalProperties: false }), ["x1 must be a whole number"]);
  assert.deepEqual(problems([1, "a"], { prefixItems: [{ type: "string" }, { type: "string" }] }), ["[0] must be text"]);
  assert.equal(problems({ Ab: 1 }, { propertyNames: { pattern: "^[a-z]+$" } }).length, 1);
  assert.equal(problems([1], { contains: { type: "string" } }).length, 1);
  assert.deepEqual(problems(0.3, { multipleOf: 0.1 }), []);
  assert.equal(problems(0.25, { multipleOf: 0.1 }).length, 1);
});

test("formats", () => {
  const bad: [string, string][] = [["email", "x"], ["uri", "no scheme"], ["date", "2026-13-40"], ["date-time", "yesterday"], ["uuid", "1"], ["ipv4", "300.1.1.1"], ["time", "noon"]];
  const good: [string, string][] = [["email", "a@b.org"], ["uri", "https://a.org/x"], ["date", "2026-07-28"], ["date-time", "2026-07-28T10:00:00Z"], ["uuid", "123e4567-e89b-12d3-a456-426614174000"], ["ipv4", "127.0.0.1"], ["time", "12:30"], ["unheard-of", "anything"]];
  for (const [format, text] of bad) assert.equal(problems(text, { type: "string", format }).length, 1, format);
  for (const [format, text] of good) assert.deepEqual(problems(text, { type: "string", format }), [], format);
});

test("bounds: deep schemas and patterns that are not ours do not hang or throw", () => {
  const loop: Schema = { $ref: "#" };
  assert.deepEqual(problems({}, loop), []);
  assert.deepEqual(problems("x", { pattern: "(?P<a>x)" }), []);
  assert.equal(problems(2 ** 60, { type: "integer" }).length, 1);
});

test("portability: hints name the rule and the place", () => {
  const tool: Tool = { name: "bad name!", inputSchema: { type: "object", properties: { "sp ace": { type: ["string", "null"] }, list: { type: "array" }, pair: { type: "array", prefixItems: [{ type: "string" }] } }, anyOf: [{}] } };
  const rules = portability(tool).map((hint) => `${hint.rule} ${hint.where}`);
  for (const wanted of ["name name", "description description", "root inputSchema", "property sp ace", "type sp ace", "items list", "tuple pair"]) assert.ok(rules.includes(wanted), `${wanted} in ${rules.join("; ")}`);
  assert.deepEqual(portability({ name: "add", description: "Add.", inputSchema: { type: "object", properties: { a: { type: "integer", description: "A number." } } } }), []);
});

// ---------------------------------------------------------------- schemas of a hostile server

const quick = <T>(work: () => T): T => {
  const start = performance.now();
  const result = work();
  assert.ok(performance.now() - start < 4000, `${performance.now() - start} ms`);
  return result;
};

test("a pattern fits what the browser's own engine says that it fits", () => {
  const patterns = ["", "^a*$", "^(ab|a)(c|bcd)$", "a{2,3}b?", "^a{2}$", "^(?:a|b){1,}?c", "[^a-c]", "[\\]\\d-]+$", "^\\w+@\\w+\\.org$", "\\bab\\b", "\\Ba", "^.$", "^\\p{L}+$", "^\\u{1F600}$", "^\\uD83D\\uDE00$", "\\x61\\u0062", "^(?<word>a+)$", "^(?=.*\\d)(?=.*[a-z]).{3,}$", "^(?!.*ab)", "^(a?){3}$", "^(|a)+$", "a|^b|c$", "^((a{0,2}){0,2}b)*$", "\\/\\.\\$\\^", "^[a-z]{2}(-[A-Z]{2})?$", "^\\s*$", "\\0", "(a*)*b", "x*"];
  const texts = ["", "a", "aa", "aaa", "ab", "abc", "abcd", "abbcd", "b", "c", "bc", "aabb", "😀", "ä", "a1z", "12]", "x@y.org", "/.$^", "en-GB", "en", " \t\n", "ab ab", "baab", "\0", "Ab3"];
  const free = (): void => undefined;
  for (const pattern of patterns) for (const text of texts) assert.equal(matches(pattern, text, free), new RegExp(pattern, "u").test(text), `${pattern} on ${JSON.stringify(text)}`);
  for (const pattern of ["(a)\\1", "(?<n>a)\\k<n>", "(?<=a)b", "(?<!a)b", "(", "a{1000}{1000}", "((){9999}){9999}", "a".repeat(5000)]) assert.equal(matches(pattern, "ab", free), undefined, pattern);
});

test("a pattern that is made to be slow ends", () => {
  const long = "a".repeat(10_000);
  for (const pattern of ["^(a+)+$", "^(a|a)*$", "^(a|aa)+$", "a*a*a*a*a*a*b", "^(?=(a+)+b)", "(?=a*b)c", "^(([a-z])+.)+[A-Z]([a-z])+$", "^(a?){500}a{500}$"]) {
    quick(() => problems({ text: `${long}!`, [`${long}!`]: 1 }, { properties: { text: { type: "string", pattern } }, patternProperties: { [pattern]: {} } }));
  }
  assert.deepEqual(quick(() => problems("aaa!", { pattern: "^(a+)+$" })), ["must match ^(a+)+$"]);
});

test("a schema that would have no end is left to the server", () => {
  const bomb: Schema = { $defs: Object.fromEntries(Array.from({ length: 60 }, (_, at) => [`d${at}`, { allOf: [{ $ref: `#/$defs/d${at + 1}` }, { $ref: `#/$defs/d${at + 1}` }] }])), $ref: "#/$defs/d0" };
  assert.deepEqual(quick(() => problems({}, bomb)), []);
  assert.equal(quick(() => formNode(bomb, bomb)).kind, "any");
  const twice: Schema = { type: "object", properties: { a: { $ref: "#" }, b: { $ref: "#" }, c: { $ref: "#" } }, required: ["a", "b", "c"] };
  assert.equal(typeof quick(() => initial(twice, twice)), "object");
  const rows: Schema = { type: "array", minItems: 20, items: { $ref: "#" } };
  assert.ok(Array.isArray(quick(() => initial(rows, rows))));
  for (const own of [{ anyOf: [{ $ref: "#" }] }, { allOf: [{ $ref: "#" }], type: "object" }, { anyOf: [{ $ref: "#" }, { type: "string" }] }] as Schema[]) {
    quick(() => formNode(own, own));
    quick(() => initial(own, own));
    quick(() => problems("x", own));
  }
  let nested: Schema = { type: "string" };
  for (let at = 0; at < 40; at++) nested = { anyOf: [nested, { type: "null" }] };
  quick(() => formNode(nested, nested));
});

test("large values are checked in linear time", () => {
  const many = Array.from({ length: 20_000 }, (_, at) => ({ at, name: `n${at}` }));
  assert.deepEqual(quick(() => problems(many, { uniqueItems: true })), []);
  assert.deepEqual(problems([{ a: 1, b: 2 }, { b: 2, a: 1 }], { uniqueItems: true }), ["must not have an entry twice"]);
  const words = Array.from({ length: 20_000 }, (_, at) => `w${at}`);
  quick(() => problems(words, { items: { enum: words } }));
  quick(() => problems(many, { items: { anyOf: [{ required: words.slice(0, 1000) }, { type: "string" }] } }));
});

test("what is nested too deeply to be checked is said", () => {
  const nest = (levels: number, ground: Json): Json => {
    let value = ground;
    for (let level = 1; level < levels; level++) value = { in: value };
    return value;
  };
  const tree: Schema = { anyOf: [{ type: "string" }, { type: "object", properties: { in: { $ref: "#" } }, additionalProperties: false }] };
  assert.deepEqual(judge(nest(64, "ground"), tree, tree), { problems: [], unchecked: undefined });
  assert.match(judge(nest(64, 5), tree, tree).problems[0]?.message ?? "", /must be/);
  assert.deepEqual(judge(nest(65, 5), tree, tree), { problems: [], unchecked: "levels" });
  assert.deepEqual(judge(nest(5000, 5), tree, tree), { problems: [], unchecked: "levels" });

  const loop: Schema = { $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/a" } } };
  assert.deepEqual(judge(1, loop, loop), { problems: [], unchecked: "parts" });
  const wide: Schema = { $ref: "#/$defs/a", $defs: { a: { anyOf: [{ $ref: "#/$defs/a" }, { $ref: "#/$defs/a" }] } } };
  assert.deepEqual(judge(1, wide, wide), { problems: [], unchecked: "parts" });
  const once: Schema = { type: "array", uniqueItems: true };
  assert.deepEqual(judge([nest(50_000, 1), nest(50_000, 1)], once, once), { problems: [], unchecked: "parts" });
});

test("what was not checked is not held against a value", () => {
  const deep: Schema = { $ref: "#/$defs/a", $defs: { a: { $ref: "#/$defs/a" } } };
  const root: Schema = { not: { $ref: "#/$defs/a" }, oneOf: [{ $ref: "#/$defs/a" }, { type: "integer" }], $defs: deep.$defs };
  assert.deepEqual(judge(1, root, root), { problems: [], unchecked: "parts" });
});
