// Reading a schema: local references, merged allOf, and the null branch of what may be null.

import type { Schema } from "../mcp/types";

const MAX_HOPS = 32;
const MAX_PARTS = 100;

/** The schema that a local `$ref` names; undefined if it names none. */
export function lookup(ref: string, root: Schema): Schema | undefined {
  if (!ref.startsWith("#")) return undefined;
  if (ref === "#") return root;
  let node: unknown = root;
  for (const part of ref.slice(1).split("/").slice(1)) {
    const key = decodeURIComponent(part).replace(/~1/g, "/").replace(/~0/g, "~");
    if (typeof node !== "object" || node === null || !Object.hasOwn(node, key)) return undefined;
    node = (node as Record<string, unknown>)[key];
  }
  return typeof node === "object" && node !== null ? (node as Schema) : undefined;
}

const known = new WeakMap<Schema, WeakMap<Schema, Schema>>();

/** Follow `$ref`, with the keywords beside it laid over, and merge `allOf`. Each part of a document is read once. */
export function resolve(schema: Schema | boolean | undefined, root: Schema, depth = 0): Schema {
  if (typeof schema !== "object" || schema === null) return {};
  const here = known.get(root) ?? new WeakMap<Schema, Schema>();
  known.set(root, here);
  const before = here.get(schema);
  if (before) return before;
  here.set(schema, {}); // for one that is a part of itself
  const found = followed(schema, root, depth);
  here.set(schema, found);
  return found;
}

function followed(schema: Schema, root: Schema, depth: number): Schema {
  let node = schema;
  for (let hop = 0; hop < MAX_HOPS && typeof node.$ref === "string"; hop++) {
    const { $ref, ...beside } = node;
    node = { ...(lookup($ref, root) ?? { description: `The reference ${$ref} leads nowhere.` }), ...beside };
  }
  if (!Array.isArray(node.allOf)) return node;
  const { allOf, ...own } = node;
  if (depth >= MAX_HOPS) return own;
  return allOf.slice(0, MAX_PARTS).map((part) => resolve(part, root, depth + 1)).reduce<Schema>(merge, own);
}

function merge(one: Schema, other: Schema): Schema {
  const merged: Schema = { ...other, ...one };
  if (one.properties || other.properties) merged.properties = { ...one.properties, ...other.properties, ...one.properties };
  if (one.required || other.required) merged.required = [...new Set([...(one.required ?? []), ...(other.required ?? [])])];
  return merged;
}

export function typesOf(schema: Schema): string[] {
  if (Array.isArray(schema.type)) return schema.type;
  if (typeof schema.type === "string") return [schema.type];
  if (schema.properties || schema.additionalProperties !== undefined) return ["object"];
  if (schema.items || schema.prefixItems) return ["array"];
  return [];
}
