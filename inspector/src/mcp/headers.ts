// The Mcp-* headers of 2026-07-28: which ones a request carries, and how their values are written.

import type { Json, JsonObject, Schema } from "./types";

const PLAIN = /^[\x21-\x7e]([\x20\x09\x21-\x7e]*[\x21-\x7e])?$/;
const SENTINEL = /^=\?base64\?.*\?=$/;

/** A value as a header can carry it: plain ASCII, or Base64 between marks. */
export function headerValue(text: string): string {
  if (text === "" || (PLAIN.test(text) && !SENTINEL.test(text))) return text;
  let binary = "";
  for (const byte of new TextEncoder().encode(text)) binary += String.fromCharCode(byte);
  return `=?base64?${btoa(binary)}?=`;
}

const NAMED: Record<string, string> = {
  "tools/call": "name",
  "prompts/get": "name",
  "resources/read": "uri",
  "tasks/get": "taskId",
  "tasks/update": "taskId",
  "tasks/cancel": "taskId",
};

export function methodHeaders(method: string, params: JsonObject): Record<string, string> {
  const headers: Record<string, string> = { "Mcp-Method": method };
  const key = NAMED[method];
  const name = key === undefined ? undefined : params[key];
  if (typeof name === "string") headers["Mcp-Name"] = headerValue(name);
  return headers;
}

/** Mcp-Param-* headers: properties that the schema marks with `x-mcp-header`, at any depth of `properties`. */
export function paramHeaders(schema: Schema | undefined, value: Json | undefined): Record<string, string> {
  const headers: Record<string, string> = {};
  const walk = (node: Schema | undefined, part: Json | undefined): void => {
    if (!node || typeof node !== "object" || part === null || typeof part !== "object" || Array.isArray(part)) return;
    for (const [name, child] of Object.entries(node.properties ?? {})) {
      const inner = part[name];
      if (inner === undefined || inner === null || typeof child !== "object") continue;
      const header = child["x-mcp-header"];
      if (typeof header === "string" && typeof inner !== "object") headers[`Mcp-Param-${header}`] = headerValue(String(inner));
      else walk(child, inner);
    }
  };
  walk(schema, value);
  return headers;
}
