// Deep links: `#/tools/add?a=1&b=[2,3]`, `#/resources/birds%3A%2F%2Ftraits`, `#/traffic?q=status:error`.

import { signal } from "@preact/signals";
import type { Json, JsonObject } from "../mcp/types";

export interface Route {
  view: string;
  name: string;
  query: Record<string, string>;
}

export function parseRoute(hash: string): Route {
  const text = hash.replace(/^#\/?/, "");
  const [path = "", search = ""] = [text.split("?")[0], text.includes("?") ? text.slice(text.indexOf("?") + 1) : ""];
  const slash = path.indexOf("/");
  const view = slash < 0 ? path : path.slice(0, slash);
  const query: Record<string, string> = {};
  for (const [key, value] of new URLSearchParams(search)) query[key] = value;
  return { view, name: slash < 0 ? "" : decode(path.slice(slash + 1)), query };
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Names of tools stay readable in the address; what would end the path is escaped. */
const escape = (text: string): string => encodeURIComponent(text).replace(/%(2F|3A|40|2C|24|3B)/gi, (part) => (part === "%2F" || part === "%3A" ? part : decodeURIComponent(part)));

export function routeHash(view: string, name = "", query: Record<string, string> = {}): string {
  const search = new URLSearchParams(query).toString();
  return `#/${view}${name ? `/${escape(name)}` : ""}${search ? `?${search}` : ""}`;
}

/** Arguments in a query: text as it is, unless it would be read as something else; all else as JSON. */
export function toQuery(value: JsonObject): Record<string, string> {
  const out: Record<string, string> = {};
  for (const [key, part] of Object.entries(value)) {
    if (part === undefined) continue;
    out[key] = typeof part === "string" && !isJson(part) ? part : JSON.stringify(part);
  }
  return out;
}

/** `texts` are the arguments that are text whatever they look like. */
export function fromQuery(query: Record<string, string>, texts: Set<string>): JsonObject {
  const out: JsonObject = {};
  for (const [key, text] of Object.entries(query)) {
    if (key === "run") continue;
    if (texts.has(key) && !/^"[^]*"$/.test(text)) out[key] = text;
    else out[key] = isJson(text) ? (JSON.parse(text) as Json) : text;
  }
  return out;
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

export const route = signal<Route>({ view: "", name: "", query: {} });

export function followRoute(): void {
  const read = (): void => {
    route.value = parseRoute(location.hash);
  };
  window.addEventListener("hashchange", read);
  read();
}

export function go(view: string, name = "", query: Record<string, string> = {}): void {
  location.hash = routeHash(view, name, query);
}

/** Change the address without a new entry in the history. */
export function replaceRoute(view: string, name: string, query: Record<string, string>): void {
  const hash = routeHash(view, name, query);
  if (location.hash === hash) return;
  history.replaceState(null, "", hash);
  route.value = parseRoute(hash);
}
