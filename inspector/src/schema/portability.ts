// What in a tool would trouble some of the clients that are in use: hints, not errors. Each rule names who is troubled.

import type { Schema, Tool } from "../mcp/types";

export interface Hint {
  rule: string;
  where: string;
  text: string;
}

const NAME = /^[A-Za-z0-9_-]{1,64}$/;
const PROPERTY = /^[A-Za-z0-9_.-]{1,64}$/;
const FORMATS = new Set(["date", "date-time", "time", "email", "uri", "uuid", "hostname", "ipv4", "ipv6", "duration"]);
const RARE = ["not", "if", "then", "else", "patternProperties", "dependentRequired", "dependentSchemas", "propertyNames", "contains", "unevaluatedProperties", "$dynamicRef"];
const MAX_DEPTH = 5;

export function portability(tool: Tool): Hint[] {
  const hints: Hint[] = [];
  const add = (rule: string, where: string, text: string): void => void hints.push({ rule, where, text });
  if (!NAME.test(tool.name)) add("name", "name", "Some clients accept only letters, digits, _ and - in a name, 64 at most.");
  if (!tool.description) add("description", "description", "Without a description a model cannot know when to use the tool.");
  else if (tool.description.length > 1024) add("description", "description", `OpenAI's API takes 1,024 characters of description; this one has ${tool.description.length}.`);
  const schema = tool.inputSchema;
  if (typeof schema !== "object" || schema === null) {
    add("schema", "inputSchema", "The schema is missing; every client needs one.");
    return hints;
  }
  if (schema.type !== "object") add("root", "inputSchema", "The root must be of type object.");
  for (const key of ["anyOf", "oneOf", "allOf"] as const) if (schema[key]) add("root", "inputSchema", `${key} at the root is refused by the APIs of Anthropic and OpenAI.`);
  walk(schema, "", 0, add);
  return hints;
}

function walk(schema: Schema, where: string, depth: number, add: (rule: string, where: string, text: string) => void): void {
  if (typeof schema !== "object" || schema === null || depth > 24) return;
  const here = where || "inputSchema";
  if (depth === MAX_DEPTH + 1) add("depth", here, `More than ${MAX_DEPTH} levels: OpenAI's strict mode stops here.`);
  if (Array.isArray(schema.type)) add("type", here, "A list of types is not understood by Gemini; anyOf is.");
  if (typeof schema.$ref === "string" && !schema.$ref.startsWith("#")) add("ref", here, "A reference to another document is not followed by clients.");
  if (schema.prefixItems) add("tuple", here, "prefixItems (a tuple) is not understood by OpenAI's strict mode and Gemini.");
  for (const key of RARE) if (schema[key] !== undefined) add("keyword", here, `${key} is ignored or refused by several clients.`);
  if (schema.enum?.some((value) => typeof value !== "string")) add("enum", here, "Values of an enum that are not text are refused by Gemini.");
  if (schema.type === "array" && schema.items === undefined && !schema.prefixItems) add("items", here, "A list without items is refused by OpenAI and Gemini.");
  if (typeof schema.format === "string" && !FORMATS.has(schema.format)) add("format", here, `The format ${schema.format} is not known to OpenAI's strict mode.`);
  for (const [name, child] of Object.entries(schema.properties ?? {})) {
    const inside = where ? `${where}.${name}` : name;
    if (!PROPERTY.test(name)) add("property", inside, "Anthropic's API accepts letters, digits, _ . and - in the names of arguments.");
    if (depth === 0 && !child.description && !child.title) add("description", inside, "An argument without a description is often filled in wrongly.");
    walk(child, inside, depth + 1, add);
  }
  if (typeof schema.items === "object") walk(schema.items, `${where}[]`, depth + 1, add);
  for (const key of ["anyOf", "oneOf", "allOf"] as const) if (depth > 0) for (const child of schema[key] ?? []) walk(child, where, depth, add);
  for (const [name, child] of Object.entries(schema.$defs ?? {})) walk(child, name, 1, add);
}
