// Patterns of a server, matched in steps that are counted: the browser's own engine goes back and tries again, and can take
// for ever. A pattern becomes a list of instructions, and all ways through it are followed at once (Thompson, 1968). Single
// characters are tested by the browser. References to groups and lookbehind are left to the server.

/** Counts steps; throws when there were too many. */
export type Spend = (steps: number) => void;

type Edge = (before: string | undefined, after: string | undefined) => boolean;
type Plain = { kind: "char"; test: RegExp } | { kind: "edge"; test: Edge } | { kind: "look"; ahead: Program; wanted: boolean };
type Node = Plain | { kind: "row"; parts: Node[] } | { kind: "either"; parts: Node[] } | { kind: "repeat"; part: Node; min: number; max: number };
interface Fork {
  kind: "fork";
  to: number[];
}
type Step = Plain | Fork | { kind: "end" };
type Program = Step[];

const MAX_SOURCE = 2000;
const MAX_PROGRAM = 5000;
const MAX_KEPT = 200;
const TOKEN = /\((?:\?(?:<(?![=!])[^>]*>|[:=!]))?|\[(?:\\[^]|[^\]\\])*\]|\\(?:[pP]\{[^}]*\}|u\{[^}]*\}|u[dD][89abAB]..\\u[dD][c-fC-F]..|u....|x..|c.|[^])|[^]/uy;
const COUNT = /(?:([*+?])|\{(\d+)(,?)(\d*)\})\??/uy;
const EDGES: Record<string, Edge> = {
  "^": (before) => before === undefined,
  $: (_, after) => after === undefined,
  "\\b": (before, after) => isWord(before) !== isWord(after),
  "\\B": (before, after) => isWord(before) === isWord(after),
};

const isWord = (char: string | undefined): boolean => char !== undefined && /^\w$/.test(char);

class Unknown extends Error {}

class Reader {
  private at = 0;
  constructor(private readonly source: string) {}

  private take(expression: RegExp): RegExpExecArray | null {
    expression.lastIndex = this.at;
    const match = expression.exec(this.source);
    if (match) this.at += match[0].length;
    return match;
  }

  either(): Node {
    const parts: Node[] = [this.row()];
    while (this.source[this.at] === "|") {
      this.at++;
      parts.push(this.row());
    }
    return parts.length === 1 ? (parts[0] as Node) : { kind: "either", parts };
  }

  private row(): Node {
    const parts: Node[] = [];
    while (this.at < this.source.length && !")|".includes(this.source[this.at] as string)) parts.push(this.counted(this.atom()));
    return { kind: "row", parts };
  }

  private atom(): Node {
    const token = (this.take(TOKEN) as RegExpExecArray)[0];
    if (token.startsWith("(")) {
      if (this.source[this.at] === "?") throw new Unknown(); // lookbehind, and flags inside of a pattern
      const inner = this.either();
      this.at++;
      return token === "(?=" || token === "(?!" ? { kind: "look", ahead: program(inner), wanted: token === "(?=" } : inner;
    }
    const edge = Object.hasOwn(EDGES, token) ? EDGES[token] : undefined;
    if (edge) return { kind: "edge", test: edge };
    if (/^\\[1-9k]/.test(token)) throw new Unknown();
    return { kind: "char", test: new RegExp(`^${token}$`, "u") };
  }

  private counted(part: Node): Node {
    const [found, mark, least, comma, most] = this.take(COUNT) ?? [""];
    if (!found) return part;
    if (mark) return { kind: "repeat", part, min: mark === "+" ? 1 : 0, max: mark === "?" ? 1 : Number.POSITIVE_INFINITY };
    const min = Number(least);
    return { kind: "repeat", part, min, max: most ? Number(most) : comma ? Number.POSITIVE_INFINITY : min };
  }
}

function program(node: Node): Program {
  const out: Program = [];
  let written = 0;
  const write = (one: Node): void => {
    if (++written > MAX_PROGRAM) throw new Unknown();
    if (one.kind === "row") one.parts.forEach(write);
    else if (one.kind === "either") {
      const fork: Fork = { kind: "fork", to: [] };
      const ends: Fork[] = [];
      out.push(fork);
      for (const part of one.parts) {
        fork.to.push(out.length);
        write(part);
        const end: Fork = { kind: "fork", to: [] };
        ends.push(end);
        out.push(end);
      }
      for (const end of ends) end.to.push(out.length);
    } else if (one.kind === "repeat") repeat(one.part, one.min, one.max);
    else out.push(one);
  };
  const repeat = (part: Node, min: number, max: number): void => {
    for (let count = 0; count < min; count++) write(part);
    const skip: Fork[] = [];
    for (let count = min; count < (max === Number.POSITIVE_INFINITY ? min + 1 : max); count++) {
      const fork: Fork = { kind: "fork", to: [out.length + 1] };
      skip.push(fork);
      out.push(fork);
      const begin = out.length - 1;
      write(part);
      if (max === Number.POSITIVE_INFINITY) out.push({ kind: "fork", to: [begin] });
    }
    for (const fork of skip) fork.to.push(out.length);
  };
  write(node);
  out.push({ kind: "end" });
  return out;
}

/** Whether the program fits a part of the text: one that begins at `from`, or anywhere after it. */
function runs(steps: Program, chars: string[], from: number, anywhere: boolean, spend: Spend): boolean {
  const seen = new Int32Array(steps.length).fill(-1);
  let now: number[] = [];
  const follow = (first: number, at: number, into: number[]): boolean => {
    const open = [first];
    for (let next = open.pop(); next !== undefined; next = open.pop()) {
      if (seen[next] === at) continue;
      seen[next] = at;
      spend(1);
      const step = steps[next] as Step;
      if (step.kind === "end") return true;
      if (step.kind === "char") into.push(next);
      else if (step.kind === "fork") for (const to of step.to) open.push(to);
      else if (step.kind === "edge" ? step.test(chars[at - 1], chars[at]) : runs(step.ahead, chars, at, false, spend) === step.wanted) open.push(next + 1);
    }
    return false;
  };
  for (let at = from; at <= chars.length; at++) {
    const coming: number[] = [];
    for (const state of now) if ((steps[state] as { test: RegExp }).test.test(chars[at - 1] as string) && follow(state + 1, at, coming)) return true;
    if ((anywhere || at === from) && follow(0, at, coming)) return true;
    if (coming.length === 0 && !anywhere) return false;
    now = coming;
  }
  return false;
}

const kept = new Map<string, Program | undefined>();

function compiled(source: string): Program | undefined {
  if (kept.has(source)) return kept.get(source);
  let found: Program | undefined;
  try {
    if (source.length <= MAX_SOURCE && new RegExp(source, "u")) found = program(new Reader(source).either());
  } catch {
    // Not a pattern of this dialect, or one that is left to the server.
  }
  if (kept.size >= MAX_KEPT) kept.clear();
  kept.set(source, found);
  return found;
}

/** Whether a pattern fits a part of the text; undefined if that is left to the server. */
export function matches(source: string, text: string, spend: Spend): boolean | undefined {
  const steps = compiled(source);
  return steps && runs(steps, [...text], 0, true, spend);
}
