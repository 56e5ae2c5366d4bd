// JSON Schema 2020-12 for values that a person typed: each problem with its path, in words. External references are not followed.

import type { Json, JsonObject, Schema } from "../mcp/types";
import { matches } from "./pattern";
import { lookup } from "./resolve";

export type Path = (string | number)[];
export interface Problem {
  path: Path;
  message: string;
}

export const MAX_LEVELS = 64; // of the value
const MAX_DEPTH = 256; // of schemas within schemas, also of those for one and the same value
const MAX_STEPS = 2_000_000;
const COST = 10; // of a schema and of a problem, in steps of a pattern
const MAX_PROBLEMS = 200;

class TooMuch extends Error {}
let left = 0;
let skipped = { levels: 0, parts: 0 };

/** A schema can be made to take for ever, by references and alternatives. Steps are counted, over all of one value. */
function spend(steps: number): void {
  left -= steps;
  if (left < 0) throw new TooMuch();
}

const FORMATS: Record<string, [test: RegExp | ((text: string) => boolean), wording: string]> = {
  email: [/^[^\s@]+@[^\s@]+$/, "an e-mail address"],
  uri: [(text) => /^[A-Za-z][A-Za-z0-9+.-]*:\S+$/.test(text), "a URI such as https://example.org"],
  date: [(text) => /^\d{4}-\d\d-\d\d$/.test(text) && !Number.isNaN(Date.parse(text)), "a date such as 2026-07-28"],
  "date-time": [
    (text) => /^\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:?\d\d)?$/.test(text) && !Number.isNaN(Date.parse(text)),
    "a date and time such as 2026-07-28T12:00:00Z",
  ],
  time: [/^\d\d:\d\d(:\d\d(\.\d+)?)?([Zz]|[+-]\d\d:?\d\d)?$/, "a time such as 12:30:00"],
  uuid: [/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i, "a UUID"],
  ipv4: [/^((25[0-5]|2[0-4]\d|1?\d?\d)(\.|$)){4}$/, "an IPv4 address"],
  ipv6: [/^[0-9a-f:.]{2,45}$/i, "an IPv6 address"],
  hostname: [/^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/i, "a host name"],
};

function typeOf(value: Json): string {
  if (value === null) return "null";
  if (Array.isArray(value)) return "array";
  return typeof value;
}

const WORDS: Record<string, string> = { string: "text", object: "an object", array: "a list", number: "a number", integer: "a whole number", boolean: "true or false", null: "null" };

function isType(value: Json, type: string): boolean {
  if (type === "integer") return typeof value === "number" && Number.isInteger(value);
  return typeOf(value) === type;
}

export function equal(one: unknown, other: unknown): boolean {
  if (one === other) return true;
  if (typeof one !== "object" || typeof other !== "object" || one === null || other === null || Array.isArray(one) !== Array.isArray(other)) return false;
  const a = Object.entries(one).filter(([, value]) => value !== undefined);
  const b = other as Record<string, unknown>;
  return a.length === Object.values(b).filter((value) => value !== undefined).length && a.every(([key, value]) => Object.hasOwn(b, key) && equal(value, b[key]));
}

/** Equal values have the same text. */
function canonical(value: Json): string {
  return JSON.stringify(value, (_, part: unknown) => (typeof part === "object" && part !== null && !Array.isArray(part) ? Object.fromEntries(Object.entries(part).sort(([a], [b]) => (a < b ? -1 : 1))) : part));
}

const show = (value: Json): string => {
  const text = JSON.stringify(value);
  return text.length > 40 ? `${text.slice(0, 39)}…` : text;
};

/** What was found, and what was not looked at: levels beyond MAX_LEVELS, or parts that would take too long. */
export interface Verdict {
  problems: Problem[];
  unchecked: "levels" | "parts" | undefined;
}

/** The problems of a value, in the order of the schema. A schema that would take too long is left to the server. */
export function judge(value: Json, schema: Schema | boolean, root: Schema): Verdict {
  left = MAX_STEPS;
  skipped = { levels: 0, parts: 0 };
  try {
    const problems = check(value, schema, root, [], 0);
    return { problems, unchecked: skipped.parts > 0 ? "parts" : skipped.levels > 0 ? "levels" : undefined };
  } catch (error) {
    if (error instanceof TooMuch || error instanceof RangeError) return { problems: [], unchecked: "parts" }; // RangeError: the stack, by values that are compared
    throw error;
  }
}

/** The problems only. */
export function validate(value: Json, schema: Schema | boolean, root: Schema): Problem[] {
  return judge(value, schema, root).problems;
}

/** Whether all of a value was looked at in what this does. */
function whole(work: () => boolean): boolean {
  const { levels, parts } = skipped;
  return work() && skipped.levels === levels && skipped.parts === parts;
}

function check(value: Json, schema: Schema | boolean, root: Schema, path: Path, depth: number): Problem[] {
  spend(COST);
  if (schema === true || schema === undefined) return [];
  if (schema === false) return [{ path, message: "is not allowed here" }];
  if (path.length >= MAX_LEVELS || depth > MAX_DEPTH) {
    skipped[path.length >= MAX_LEVELS ? "levels" : "parts"]++;
    return [];
  }
  const problems: Problem[] = [];
  const say = (message: string, at: Path = path): void => {
    spend(COST);
    problems.push({ path: at, message });
  };
  const inner = (part: Json, sub: Schema | boolean, at: Path = path): Problem[] => check(part, sub, root, at, depth + 1);
  const number = (key: string): number | undefined => (typeof schema[key] === "number" ? (schema[key] as number) : undefined);

  if (typeof schema.$ref === "string") {
    const target = lookup(schema.$ref, root);
    if (target) problems.push(...inner(value, target));
  }
  const types = schema.type === undefined ? [] : Array.isArray(schema.type) ? schema.type : [schema.type];
  if (types.length > 0 && !types.some((type) => isType(value, type))) {
    say(`must be ${types.map((type) => WORDS[type] ?? type).join(" or ")}`);
    return problems;
  }
  if (Array.isArray(schema.enum)) spend(schema.enum.length);
  if (Array.isArray(schema.enum) && !schema.enum.some((option) => equal(option, value))) say(`must be one of ${schema.enum.slice(0, 8).map(show).join(", ")}${schema.enum.length > 8 ? ", …" : ""}`);
  if ("const" in schema && !equal(schema.const, value)) say(`must be ${show(schema.const as Json)}`);

  if (typeof value === "number") numbers(value, number, say);
  else if (typeof value === "string") strings(value, schema, number, say);
  else if (Array.isArray(value)) arrays(value, schema, number, say, inner, path, problems);
  else if (typeof value === "object" && value !== null) objects(value, schema, number, say, inner, path, problems);

  combined(value, schema, say, inner, problems);
  return problems.slice(0, MAX_PROBLEMS);
}

type Say = (message: string, at?: Path) => void;
type Limit = (key: string) => number | undefined;
type Inner = (part: Json, sub: Schema | boolean, at?: Path) => Problem[];

function numbers(value: number, number: Limit, say: Say): void {
  const [min, max, above, below, step] = ["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"].map(number);
  if (min !== undefined && value < min) say(`must be at least ${min}`);
  if (max !== undefined && value > max) say(`must be at most ${max}`);
  if (above !== undefined && value <= above) say(`must be more than ${above}`);
  if (below !== undefined && value >= below) say(`must be less than ${below}`);
  if (step !== undefined && step > 0 && Math.abs(value / step - Math.round(value / step)) > 1e-9) say(`must be a multiple of ${step}`);
  if (Number.isInteger(value) && !Number.isSafeInteger(value)) say("is too large to be sent exactly; edit as JSON does not help, send it as text if the tool allows it");
}

function strings(value: string, schema: Schema, number: Limit, say: Say): void {
  const length = [...value].length;
  const [min, max] = ["minLength", "maxLength"].map(number);
  if (min !== undefined && length < min) say(min === 1 ? "must not be empty" : `must have at least ${min} characters`);
  if (max !== undefined && length > max) say(`must have at most ${max} characters; it has ${length}`);
  if (typeof schema.pattern === "string" && matches(schema.pattern, value, spend) === false) say(`must match ${schema.pattern}`);
  const format = typeof schema.format === "string" ? FORMATS[schema.format] : undefined;
  if (format && !(format[0] instanceof RegExp ? format[0].test(value) : format[0](value))) say(`must be ${format[1]}`);
}

function arrays(value: Json[], schema: Schema, number: Limit, say: Say, inner: Inner, path: Path, problems: Problem[]): void {
  const [min, max] = ["minItems", "maxItems"].map(number);
  const entries = (count: number): string => (count === 1 ? "1 entry" : `${count} entries`);
  if (min !== undefined && value.length < min) say(`must have at least ${entries(min)}`);
  if (max !== undefined && value.length > max) say(`must have at most ${entries(max)}`);
  if (schema.uniqueItems === true && new Set(value.map(canonical)).size < value.length) say("must not have an entry twice");
  const tuple = Array.isArray(schema.prefixItems) ? schema.prefixItems : [];
  value.forEach((item, at) => {
    const sub = tuple[at] ?? schema.items;
    if (sub !== undefined) problems.push(...inner(item, sub, [...path, at]));
  });
  const wanted = schema.contains as Schema | undefined;
  if (wanted !== undefined && number("minContains") !== 0 && !value.some((item) => inner(item, wanted).length === 0)) say("lacks an entry that must be there");
}

function objects(value: JsonObject, schema: Schema, number: Limit, say: Say, inner: Inner, path: Path, problems: Problem[]): void {
  const present = Object.entries(value).filter((entry): entry is [string, Json] => entry[1] !== undefined);
  for (const name of schema.required ?? []) if (value[name] === undefined) say("is required", [...path, name]);
  const [min, max] = ["minProperties", "maxProperties"].map(number);
  if (min !== undefined && present.length < min) say(`must have at least ${min} ${min === 1 ? "entry" : "entries"}`);
  if (max !== undefined && present.length > max) say(`must have at most ${max} entries`);
  const patterns = Object.entries((schema.patternProperties ?? {}) as Record<string, Schema>);
  for (const [name, part] of present) {
    const own = schema.properties && Object.hasOwn(schema.properties, name) ? schema.properties[name] : undefined;
    let known = own !== undefined;
    if (own !== undefined) problems.push(...inner(part, own, [...path, name]));
    for (const [pattern, sub] of patterns) {
      if (matches(pattern, name, spend) !== true) continue;
      known = true;
      problems.push(...inner(part, sub, [...path, name]));
    }
    if (!known && schema.additionalProperties === false) say("is not known to the tool", [...path, name]);
    else if (!known && typeof schema.additionalProperties === "object") problems.push(...inner(part, schema.additionalProperties, [...path, name]));
    if (typeof schema.propertyNames === "object" && inner(name, schema.propertyNames as Schema).length > 0) say("is not a name that is allowed", [...path, name]);
  }
  for (const [name, needs] of Object.entries((schema.dependentRequired ?? {}) as Record<string, string[]>)) {
    if (value[name] !== undefined) for (const need of needs) if (value[need] === undefined) say(`is required together with ${name}`, [...path, need]);
  }
}

function combined(value: Json, schema: Schema, say: Say, inner: Inner, problems: Problem[]): void {
  for (const part of schema.allOf ?? []) problems.push(...inner(value, part));
  for (const key of ["anyOf", "oneOf"] as const) {
    const branches = schema[key];
    if (!Array.isArray(branches) || branches.length === 0) continue;
    let results: Problem[][] = [];
    const sure = whole(() => (results = branches.map((branch) => inner(value, branch))).length > 0);
    const fitting = results.filter((result) => result.length === 0).length;
    if (fitting === 0) problems.push(...nearest(results, say));
    else if (key === "oneOf" && fitting > 1 && sure) say("fits more than one of the alternatives");
  }
  if (schema.not !== undefined && whole(() => inner(value, schema.not as Schema).length === 0)) say("is a value that is ruled out");
  if (schema.if !== undefined) {
    const next = inner(value, schema.if as Schema).length === 0 ? schema.then : schema.else;
    if (next !== undefined) problems.push(...inner(value, next as Schema));
  }
}

/** The problems of the branch that came nearest: the one whose problems lie deepest. */
function nearest(results: Problem[][], say: Say): Problem[] {
  const depth = (result: Problem[]): number => result.reduce((most, problem) => Math.max(most, problem.path.length), 0);
  const deepest = results.reduce((most, result) => Math.max(most, depth(result)), 0);
  const best = results.filter((result) => depth(result) === deepest);
  const one = best.sort((a, b) => a.length - b.length)[0];
  if (best.length === 1 || (one && one.some((problem) => problem.path.length > 0))) return one ?? [];
  say([...new Set(best.flat().map((problem) => problem.message))].join(", or "));
  return [];
}

/** `tags[0].name`, for a person. */
export function pathText(path: Path): string {
  return path.reduce<string>((text, part) => (typeof part === "number" ? `${text}[${part}]` : text ? `${text}.${part}` : part), "");
}
