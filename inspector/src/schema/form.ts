// A JSON Schema as a form: what a person is shown for each part of a value. Pure; children are made when they are asked for,
// so that a schema which contains itself is no problem.

import type { Json, JsonObject, Schema } from "../mcp/types";
import { resolve, typesOf } from "./resolve";
import { validate } from "./validate";

export interface Option {
  value: Json;
  label: string;
}

export interface Field {
  name: string;
  required: boolean;
  schema: Schema;
}

interface Common {
  title: string | undefined;
  description: string | undefined;
  nullable: boolean;
  fallback: Json | undefined;
  examples: Json[];
  schema: Schema;
}

export type FormNode = Common &
  (
    | { kind: "object"; fields: Field[]; extra: Schema | undefined }
    | { kind: "array"; item: Schema; tuple: Schema[]; min: number; max: number }
    | { kind: "choice"; options: Option[] }
    | { kind: "multi"; options: Option[]; min: number; max: number }
    | { kind: "union"; branches: { label: string; schema: Schema }[] }
    | { kind: "string"; format: string; long: boolean }
    | { kind: "number"; integer: boolean; min: number | undefined; max: number | undefined }
    | { kind: "boolean" }
    | { kind: "null" }
    | { kind: "any" }
  );

const MAX_DEPTH = 12;
const MAX_PARTS = 2000;
/** The parts that the beginning of one form may still have: a schema that contains itself twice would have no end. */
interface Budget {
  left: number;
}

const isNull = (schema: Schema): boolean => schema.type === "null" || (schema.const === null && "const" in schema);

function common(node: Schema, nullable: boolean): Common {
  return {
    title: typeof node.title === "string" ? node.title : undefined,
    description: typeof node.description === "string" ? node.description : undefined,
    nullable,
    fallback: node.default,
    examples: Array.isArray(node.examples) ? node.examples : [],
    schema: node,
  };
}

/** The options of an enumeration, in any of the ways in which schemas write them. */
function options(node: Schema): Option[] | undefined {
  const label = (value: Json): string => (typeof value === "string" ? value : JSON.stringify(value));
  if ("const" in node) return [{ value: node.const as Json, label: label(node.const as Json) }];
  if (Array.isArray(node.enum)) {
    const names = Array.isArray(node.enumNames) ? (node.enumNames as unknown[]) : [];
    return node.enum.map((value, at) => ({ value, label: typeof names[at] === "string" ? (names[at] as string) : label(value) }));
  }
  const branches = node.oneOf ?? node.anyOf;
  if (branches?.length && branches.every((branch) => typeof branch === "object" && "const" in branch)) {
    return branches.map((branch) => ({ value: branch.const as Json, label: branch.title ?? label(branch.const as Json) }));
  }
  return undefined;
}

function branchLabel(schema: Schema, root: Schema, at: number): string {
  const node = resolve(schema, root);
  if (node.title) return node.title;
  const tag = Object.values(node.properties ?? {}).map((property) => options(resolve(property, root))).find((list) => list?.length === 1);
  if (tag?.[0]) return tag[0].label;
  const named = typeof schema.$ref === "string" ? schema.$ref.split("/").pop() : undefined;
  if (named) return named;
  const types = typesOf(node);
  if (types[0] === "array" && typeof node.items === "object") return `list of ${typesOf(resolve(node.items, root))[0] ?? "values"}`;
  return types.join(" or ") || `option ${at + 1}`;
}

/** What to show for a schema. */
export function formNode(schema: Schema | undefined, root: Schema, depth = 0): FormNode {
  let node = resolve(schema, root);
  let nullable = false;
  const list = options(node) ? undefined : (node.anyOf ?? node.oneOf);
  if (list) {
    const rest = list.filter((branch) => !isNull(resolve(branch, root)));
    nullable = rest.length < list.length;
    if (rest.length === 1) {
      const { anyOf: _any, oneOf: _one, ...own } = node;
      node = { ...resolve(rest[0], root), ...own };
      if (depth >= MAX_DEPTH) return { ...common(own, nullable), kind: "any" }; // the only alternative to itself
      const only = formNode(node, root, depth + 1);
      return { ...only, nullable: nullable || only.nullable };
    }
    const inner = { ...node, anyOf: rest };
    if (options(inner)) return { ...common(node, nullable), kind: "choice", options: options(inner) as Option[] };
    const base = Object.fromEntries(Object.entries(node).filter(([key]) => ["properties", "required", "type"].includes(key)));
    const branches = rest.map((branch, at) => {
      const own = resolve(branch, root);
      const both = base.properties ? { ...base, ...own, properties: { ...(base.properties as object), ...own.properties } } : branch;
      return { label: branchLabel(branch, root, at), schema: both as Schema };
    });
    return { ...common(node, nullable), kind: "union", branches };
  }
  const listed = options(node);
  if (listed) {
    const rest = listed.filter((option) => option.value !== null);
    nullable = rest.length < listed.length || typesOf(node).includes("null");
    return { ...common(node, nullable), kind: "choice", options: rest };
  }
  const types = typesOf(node);
  const plain = types.filter((type) => type !== "null");
  nullable = plain.length < types.length;
  if (plain.length > 1) {
    const whole = plain.includes("integer") && plain.includes("number") ? plain.filter((type) => type !== "integer") : plain;
    return { ...common(node, nullable), kind: "union", branches: whole.map((type) => ({ label: type, schema: { ...node, type } })) };
  }
  return { ...common(node, nullable), ...typed(plain[0] ?? (nullable ? "null" : ""), node, root) };
}

type Typed = FormNode extends infer N ? (N extends FormNode ? Omit<N, keyof Common> : never) : never;

function typed(type: string, node: Schema, root: Schema): Typed {
  const limit = (key: string): number | undefined => (typeof node[key] === "number" ? (node[key] as number) : undefined);
  switch (type) {
    case "object": {
      const required = new Set(node.required ?? []);
      const fields = Object.entries(node.properties ?? {}).map(([name, schema]) => ({ name, schema, required: required.has(name) }));
      const more = node.additionalProperties;
      const open = more === undefined ? (fields.length === 0 ? {} : undefined) : more === true ? {} : more === false ? undefined : more;
      return { kind: "object", fields, extra: open };
    }
    case "array": {
      const item = typeof node.items === "object" ? node.items : {};
      const min = limit("minItems") ?? 0;
      const max = limit("maxItems") ?? Number.POSITIVE_INFINITY;
      const picks = options(resolve(item, root));
      if (picks && node.uniqueItems !== false && picks.length <= 40 && !node.prefixItems) return { kind: "multi", options: picks, min, max };
      const tuple = Array.isArray(node.prefixItems) ? node.prefixItems : [];
      return { kind: "array", item, tuple, min: Math.max(min, tuple.length), max: tuple.length && node.items === false ? tuple.length : max };
    }
    case "string":
      return { kind: "string", format: String(node.format ?? node.contentEncoding ?? ""), long: isLong(node) };
    case "integer":
    case "number":
      return { kind: "number", integer: type === "integer", min: limit("minimum") ?? limit("exclusiveMinimum"), max: limit("maximum") ?? limit("exclusiveMaximum") };
    case "boolean":
      return { kind: "boolean" };
    case "null":
      return { kind: "null" };
    default:
      return { kind: "any" };
  }
}

const LONG = /\b(code|text|body|markdown|sql|query|html|content|prompt|script)\b/i;

function isLong(node: Schema): boolean {
  if (node.format) return false;
  if (typeof node.maxLength === "number") return node.maxLength > 200;
  return [node.title, node.default].some((part) => typeof part === "string" && part.includes("\n")) || (typeof node.contentMediaType === "string" && LONG.test(node.contentMediaType));
}

/** What a field begins with: its default, its first example, or the least value of its kind that is required. */
export function initial(schema: Schema | undefined, root: Schema, depth = 0, budget: Budget = { left: MAX_PARTS }): Json | undefined {
  if (budget.left-- <= 0 || depth > MAX_DEPTH) return undefined;
  const node = formNode(schema, root);
  const given = node.fallback !== undefined ? node.fallback : node.examples[0];
  if (given !== undefined) return copied(given, budget);
  switch (node.kind) {
    case "object": {
      const out: JsonObject = {};
      for (const field of node.fields) {
        const inner = resolve(field.schema, root);
        if (field.required || inner.default !== undefined) {
          const value = initial(field.schema, root, depth + 1, budget);
          if (value !== undefined && value !== null) out[field.name] = value;
        }
      }
      return out;
    }
    case "array":
      return Array.from({ length: Math.min(node.min, 20) }, (_, at) => blank(node.tuple[at] ?? node.item, root, depth + 1, budget));
    case "multi":
      return [];
    case "choice":
      return node.options.length === 1 ? node.options[0]?.value : undefined;
    case "union":
      return initial(node.branches[0]?.schema, root, depth + 1, budget);
    case "null":
      return null;
    default:
      return undefined;
  }
}

function copied(value: Json, budget: Budget): Json {
  const text = JSON.stringify(value);
  budget.left -= text.length / 100;
  return JSON.parse(text) as Json;
}

/** The value with which a row or a branch begins when it must have one. */
export function blank(schema: Schema | undefined, root: Schema, depth = 0, budget: Budget = { left: MAX_PARTS }): Json {
  const first = initial(schema, root, depth, budget);
  const node = formNode(schema, root);
  if (first !== undefined) return first;
  switch (node.kind) {
    case "string":
      return "";
    case "number":
      return node.min ?? 0;
    case "boolean":
      return false;
    case "choice":
      return node.options[0]?.value ?? null;
    default:
      return null;
  }
}

/** Which branch of a union a value belongs to: the first that accepts it, else the first of its type, else the first. */
export function branchOf(value: Json | undefined, branches: { schema: Schema }[], root: Schema): number {
  if (value === undefined) return 0;
  const fits = branches.findIndex((branch) => validate(value, branch.schema, root).length === 0);
  if (fits >= 0) return fits;
  const kind = value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
  const near = branches.findIndex((branch) => typesOf(resolve(branch.schema, root)).some((type) => type === kind || (type === "integer" && kind === "number")));
  return Math.max(near, 0);
}

/** A short word for the kind of a value: what stands beside a field's name. */
export function kindWord(node: FormNode): string {
  switch (node.kind) {
    case "number":
      return node.integer ? "integer" : "number";
    case "string":
      return node.format || "text";
    case "choice":
      return "choice";
    case "multi":
      return "choices";
    case "array":
      return "list";
    case "union":
      return "one of several";
    case "any":
      return "any JSON";
    default:
      return node.kind;
  }
}
