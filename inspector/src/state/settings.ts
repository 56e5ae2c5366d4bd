// What a person has chosen. Theme, revision and abilities are remembered; tokens and headers never leave memory.

import { type Signal, effect, signal } from "@preact/signals";
import type { Lack } from "../mcp/client";
import type { JsonObject } from "../mcp/types";

function remembered<T>(key: string, fallback: T): T {
  try {
    const text = localStorage.getItem(`redstart:${key}`);
    return text === null ? fallback : (JSON.parse(text) as T);
  } catch {
    return fallback;
  }
}

export function remember(key: string, value: unknown): void {
  try {
    localStorage.setItem(`redstart:${key}`, JSON.stringify(value));
  } catch {
    // A full or forbidden storage loses the choice, nothing else.
  }
}

export function stored<T>(key: string, fallback: T): Signal<T> {
  const held = signal<T>(remembered(key, fallback));
  effect(() => remember(key, held.value));
  return held;
}

export type Theme = "auto" | "light" | "dark";

export const theme = stored<Theme>("theme", "auto");
export const revision = stored<string>("revision", "auto");
export const lacks = stored<Lack[]>("lacks", []);
export const logLevel = stored<string>("logLevel", "debug");
// On a telephone the drawer would hide what it is about.
export const drawerOpen = stored<boolean>("drawer", !matchMedia("(max-width: 760px)").matches);
export const drawerTab = stored<string>("drawerTab", "traffic");
export const drawerHeight = stored<number>("drawerHeight", 240);
/** Lists are read page by page, when a person asks for the next one. */
export const paged = stored<boolean>("paged", false);
export const bearer = signal("");
export const headers = signal<[string, string][]>([]);
/** Merged into `_meta` of every request. */
export const metadata = signal<JsonObject>({});
export const narrow = signal(false);

const dark = matchMedia("(prefers-color-scheme: dark)");
export const isDark = signal(dark.matches);

export function followTheme(): void {
  const apply = (): void => {
    isDark.value = theme.value === "dark" || (theme.value === "auto" && dark.matches);
    document.documentElement.dataset.theme = isDark.value ? "dark" : "light";
  };
  dark.addEventListener("change", apply);
  effect(apply);
  const small = matchMedia("(max-width: 760px)");
  const measure = (): void => {
    narrow.value = small.matches;
  };
  small.addEventListener("change", measure);
  measure();
}
