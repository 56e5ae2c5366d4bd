// What changed: between two lists of tools, and line by line between two texts.

import { equal } from "../schema/validate";

export interface ListDiff {
  added: string[];
  removed: string[];
  changed: string[];
}

export function listDiff<T>(before: T[], after: T[], key: (item: T) => string): ListDiff {
  const old = new Map(before.map((item) => [key(item), item]));
  const now = new Map(after.map((item) => [key(item), item]));
  return {
    added: [...now.keys()].filter((name) => !old.has(name)),
    removed: [...old.keys()].filter((name) => !now.has(name)),
    changed: [...now].filter(([name, item]) => old.has(name) && !equal(old.get(name), item)).map(([name]) => name),
  };
}

export const isEmpty = (diff: ListDiff): boolean => diff.added.length + diff.removed.length + diff.changed.length === 0;

export interface Line {
  mark: " " | "+" | "-";
  text: string;
}

const MOST_LINES = 1500;

/** The longest common subsequence of lines; texts that are too long are only said to differ. */
export function lineDiff(before: string, after: string): Line[] {
  const a = before.split("\n").slice(0, MOST_LINES);
  const b = after.split("\n").slice(0, MOST_LINES);
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const one = a.slice(head, a.length - tail);
  const two = b.slice(head, b.length - tail);
  const same = (lines: string[]): Line[] => lines.map((text) => ({ mark: " ", text }));
  return [...same(a.slice(0, head)), ...middle(one, two), ...same(a.slice(a.length - tail))];
}

function middle(a: string[], b: string[]): Line[] {
  const width = b.length + 1;
  const table = new Uint16Array((a.length + 1) * width);
  for (let i = a.length - 1; i >= 0; i--)
    for (let j = b.length - 1; j >= 0; j--) table[i * width + j] = a[i] === b[j] ? (table[(i + 1) * width + j + 1] as number) + 1 : Math.max(table[(i + 1) * width + j] as number, table[i * width + j + 1] as number);
  const out: Line[] = [];
  let i = 0;
  let j = 0;
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) {
      out.push({ mark: " ", text: a[i++] as string });
      j++;
    } else if (j >= b.length || (i < a.length && (table[(i + 1) * width + j] as number) >= (table[i * width + j + 1] as number))) out.push({ mark: "-", text: a[i++] as string });
    else out.push({ mark: "+", text: b[j++] as string });
  }
  return out;
}
