// The filter of the traffic: `method:tools/call status:error client:claude* name:add era:modern dir:in >500ms -ping word`.
// All terms must hold. A term with a minus in front must not.

export interface Filterable {
  method: string;
  name: string;
  client: string;
  status: string;
  era: string;
  transport: string;
  revision: string;
  direction: string;
  type: string;
  ms: number | undefined;
  text: string;
}

const KEYS: Record<string, (entry: Filterable) => string> = {
  method: (entry) => entry.method,
  name: (entry) => entry.name,
  tool: (entry) => (entry.method === "tools/call" ? entry.name : ""),
  client: (entry) => entry.client,
  status: (entry) => entry.status,
  era: (entry) => entry.era,
  transport: (entry) => entry.transport,
  revision: (entry) => entry.revision,
  dir: (entry) => entry.direction,
  type: (entry) => entry.type,
};
const UNITS: Record<string, number> = { us: 0.001, µs: 0.001, ms: 1, s: 1000, "": 1 };
const TIME = /^([<>]=?)(\d+(?:\.\d+)?)(us|µs|ms|s|)$/;
// What people type for a status, beside the words that are shown.
const SYNONYMS: Record<string, string[]> = { error: ["error", "tool error", "lost"], failed: ["error", "tool error"], ok: ["ok", "sent"], waiting: ["waiting", "input required"] };

type Test = (entry: Filterable) => boolean;

export interface Filter {
  test: Test;
  problem: string | undefined;
}

export const filterKeys = Object.keys(KEYS);

function glob(pattern: string): (text: string) => boolean {
  const source = pattern.toLowerCase().replace(/[.+?^${}()|[\]\\]/g, "\\$&").replace(/\*+/g, ".*");
  const expression = pattern.includes("*") ? new RegExp(`^${source}$`) : new RegExp(source);
  return (text) => expression.test(text.toLowerCase());
}

function words(text: string): string[] {
  return [...text.matchAll(/-?(?:[A-Za-z]+:)?"[^"]*"|\S+/g)].map((match) => match[0]);
}

export function parseFilter(text: string): Filter {
  const tests: Test[] = [];
  let problem: string | undefined;
  for (const raw of words(text.slice(0, 500))) {
    const not = raw.startsWith("-") && raw.length > 1;
    const term = not ? raw.slice(1) : raw;
    const test = one(term, (said) => {
      problem ??= said;
    });
    if (test) tests.push(not ? (entry) => !test(entry) : test);
  }
  return { test: (entry) => tests.every((test) => test(entry)), problem };
}

function one(term: string, complain: (said: string) => void): Test | undefined {
  const time = TIME.exec(term);
  if (time) {
    const limit = Number(time[2]) * (UNITS[time[3] ?? ""] ?? 1);
    const compare: Record<string, (value: number) => boolean> = { ">": (v) => v > limit, ">=": (v) => v >= limit, "<": (v) => v < limit, "<=": (v) => v <= limit };
    return (entry) => entry.ms !== undefined && (compare[time[1] as string] as (value: number) => boolean)(entry.ms);
  }
  if (/^[<>]/.test(term)) {
    complain(`“${term}” is not a time: write >500ms or <2s`);
    return undefined;
  }
  const colon = term.indexOf(":");
  const key = colon > 0 ? term.slice(0, colon).toLowerCase() : "";
  const read = KEYS[key];
  if (read) {
    const wanted = term.slice(colon + 1).replace(/^"|"$/g, "");
    if (wanted === "" || wanted === "*") return undefined;
    const synonyms = key === "status" ? SYNONYMS[wanted.toLowerCase()] : undefined;
    if (synonyms) return (entry) => synonyms.includes(read(entry));
    const fits = glob(wanted);
    return (entry) => fits(read(entry));
  }
  if (key && /^[a-z]+$/.test(key) && !term.includes("//")) complain(`“${key}:” is not known; there are ${Object.keys(KEYS).join(", ")}`);
  const needle = term.replace(/^"|"$/g, "").toLowerCase();
  const has = (part: string): boolean => part.toLowerCase().includes(needle);
  return (entry) => has(entry.method) || has(entry.name) || has(entry.client) || has(entry.status) || has(entry.text);
}
