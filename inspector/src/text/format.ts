// Numbers, times and sizes for people.

export function ms(value: number | undefined | null): string {
  if (value === undefined || value === null || Number.isNaN(value)) return "";
  if (value < 0.005) return "0 ms";
  if (value < 0.095) return `${value.toFixed(2)} ms`;
  if (value < 9.95) return `${value.toFixed(1)} ms`;
  if (value < 999.5) return `${Math.round(value)} ms`;
  if (value < 59_950) return `${(value / 1000).toFixed(1)} s`;
  return `${Math.floor(value / 60_000)} min ${Math.round((value % 60_000) / 1000)} s`;
}

export function bytes(value: number): string {
  if (value < 1000) return `${value} B`;
  if (value < 999_500) return `${(value / 1000).toFixed(value < 9950 ? 1 : 0)} kB`;
  return `${(value / 1_000_000).toFixed(1)} MB`;
}

/** 14:02:31.204, in the time zone of the reader. */
export function clock(seconds: number, fraction = true): string {
  const date = new Date(seconds * 1000);
  const two = (part: number): string => String(part).padStart(2, "0");
  const time = `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
  return fraction ? `${time}.${String(date.getMilliseconds()).padStart(3, "0")}` : time;
}

export function ago(seconds: number, now: number): string {
  const passed = Math.max(0, now - seconds);
  if (passed < 5) return "just now";
  if (passed < 90) return `${Math.round(passed)} s ago`;
  if (passed < 5400) return `${Math.round(passed / 60)} min ago`;
  if (passed < 129_600) return `${Math.round(passed / 3600)} h ago`;
  return `${Math.round(passed / 86_400)} days ago`;
}

export const count = (number: number, one: string, many = `${one}s`): string => `${number.toLocaleString("en")} ${number === 1 ? one : many}`;

/** A rough guess: models count about four bytes of English or JSON as one token. */
export const tokens = (size: number): number => Math.ceil(size / 4);

/** How many levels of lists and objects are inside of a value; undefined if it takes too long to find out. */
export function levels(value: unknown, most = 100_000): number | undefined {
  let level: unknown[] = [value];
  for (let count = 0; ; count++) {
    const next: unknown[] = [];
    for (const one of level) {
      if (one === null || typeof one !== "object") continue;
      const parts = Object.values(one);
      most -= parts.length + 1;
      if (most < 0) return undefined;
      for (const part of parts) next.push(part);
    }
    if (next.length === 0) return count;
    level = next;
  }
}

const MOST_INDENTED = 64;

/** JSON for people. What is deep or very large has no line breaks: the indentation grows with the square of the depth. */
export function pretty(value: unknown): string {
  return (levels(value) ?? MOST_INDENTED) < MOST_INDENTED ? (JSON.stringify(value, null, 2) ?? "") : flat(value);
}

/** As JSON.stringify, whose stack ends in some browsers at a few thousand levels. */
function flat(value: unknown): string {
  const out: string[] = [];
  const todo: (string | { value: unknown })[] = [{ value }]; // from the end: text that is written as it is, and values
  for (let next = todo.pop(); next !== undefined; next = todo.pop()) {
    if (typeof next === "string") out.push(next);
    else if (next.value === null || typeof next.value !== "object") out.push(JSON.stringify(next.value) ?? "null");
    else {
      const list = Array.isArray(next.value);
      const parts = Object.entries(next.value).filter(([, part]) => list || part !== undefined);
      out.push(list ? "[" : "{");
      todo.push(list ? "]" : "}");
      for (const [at, [key, part]] of [...parts.entries()].reverse()) todo.push({ value: part }, `${at > 0 ? "," : ""}${list ? "" : `${JSON.stringify(key)}:`}`);
    }
  }
  return out.join("");
}

export const sizeOf = (text: string): number => new TextEncoder().encode(text).length;

/** Percentiles by the nearest rank. */
export function percentile(values: number[], part: number): number | undefined {
  if (values.length === 0) return undefined;
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.max(0, Math.ceil(part * sorted.length) - 1))];
}

export function plural(list: string[], most = 3): string {
  return list.length <= most ? list.join(", ") : `${list.slice(0, most).join(", ")} and ${list.length - most} more`;
}
