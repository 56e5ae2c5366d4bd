// Markdown to a tree that has no HTML in it: what looks like a tag is text. Links keep only schemes that are harmless.
// Blocks: headings, paragraphs, lists (with tasks), quotes, code, tables, rules. Inline: code, strong, emphasis, strike, links, images.

export type Inline =
  | string
  | { kind: "code"; text: string }
  | { kind: "strong" | "em" | "del"; inner: Inline[] }
  | { kind: "link"; href: string; inner: Inline[] }
  | { kind: "image"; src: string; alt: string }
  | { kind: "break" };

export type Block =
  | { kind: "heading"; level: number; inner: Inline[] }
  | { kind: "paragraph"; inner: Inline[] }
  | { kind: "code"; language: string; text: string }
  | { kind: "quote"; blocks: Block[] }
  | { kind: "list"; ordered: boolean; start: number; items: { checked: boolean | undefined; blocks: Block[] }[] }
  | { kind: "table"; align: string[]; head: Inline[][]; rows: Inline[][][] }
  | { kind: "rule" };

const MAX_DEPTH = 12;
const MAX_TEXT = 400_000;
const HEADING = /^ {0,3}(#{1,6})(?:\s([^]*))?$/;
const FENCE = /^ {0,3}(`{3,}|~{3,})([^`]*)$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(\s+|$)/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const QUOTE = /^ {0,3}> ?/;
const DELIMITER = /^\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?$/; // of a line without spaces around it
const SCHEMES = /^(https?|mailto):/i;

/** A link that may be followed: http, https, mailto, or none at all. Others (javascript:, data:, file:) are refused. */
export function safeHref(href: string): string | undefined {
  const clean = href.trim().replace(/[\u0000-\u0020]/g, "");
  if (SCHEMES.test(clean)) return clean;
  return /^[a-z][a-z0-9+.-]*:/i.test(clean) ? undefined : clean;
}

/** An image that needs no other machine: only data: images are shown. */
export const safeImage = (src: string): string | undefined => (/^data:image\/(png|jpeg|gif|webp|svg\+xml);base64,[A-Za-z0-9+/=\s]+$/i.test(src) ? src : undefined);

export function markdown(text: string): Block[] {
  return blocks(text.slice(0, MAX_TEXT).replace(/\r\n?/g, "\n").replace(/\t/g, "    ").split("\n"), 0);
}

function blocks(lines: string[], depth: number): Block[] {
  const out: Block[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] as string;
    if (line.trim() === "") {
      at++;
      continue;
    }
    const found = first(lines, at, depth);
    if (found) {
      out.push(found.block);
      at = found.next;
      continue;
    }
    const paragraph: string[] = [];
    while (at < lines.length && (lines[at] as string).trim() !== "" && (paragraph.length === 0 || !interrupts(lines, at))) paragraph.push(lines[at++] as string);
    out.push({ kind: "paragraph", inner: inline(paragraph.map((part) => part.trimStart()).join("\n")) });
  }
  return out;
}

function interrupts(lines: string[], at: number): boolean {
  const line = lines[at] as string;
  const item = ITEM.exec(line);
  return HEADING.test(line) || FENCE.test(line) || QUOTE.test(line) || RULE.test(line) || (item !== null && (item[3] ?? "") !== "" && !/^\s*([2-9]|\d\d+)[.)]/.test(line));
}

type Reader = (lines: string[], at: number, depth: number) => { block: Block; next: number } | undefined;

const READERS: Reader[] = [fence, heading, table, rule, quote, list, indented];

/** What the first reader that knows this line makes of it. */
function first(lines: string[], at: number, depth: number): ReturnType<Reader> {
  for (const read of READERS) {
    const found = read(lines, at, depth);
    if (found) return found;
  }
  return undefined;
}

function fence(lines: string[], at: number): ReturnType<Reader> {
  const open = FENCE.exec(lines[at] as string);
  if (!open) return undefined;
  const mark = open[1] as string;
  const close = new RegExp(`^ {0,3}${mark[0] === "`" ? "`" : "~"}{${mark.length},}\\s*$`);
  let end = at + 1;
  while (end < lines.length && !close.test(lines[end] as string)) end++;
  return { block: { kind: "code", language: (open[2] ?? "").trim().split(/\s/, 1)[0] ?? "", text: lines.slice(at + 1, end).join("\n") }, next: end + 1 };
}

function indented(lines: string[], at: number): ReturnType<Reader> {
  if (!/^ {4}/.test(lines[at] as string)) return undefined;
  let end = at;
  while (end < lines.length && (/^ {4}/.test(lines[end] as string) || (lines[end] as string).trim() === "")) end++;
  const text = lines.slice(at, end).map((line) => line.slice(4)).join("\n").trimEnd();
  return { block: { kind: "code", language: "", text }, next: end };
}

function heading(lines: string[], at: number): ReturnType<Reader> {
  const match = HEADING.exec(lines[at] as string);
  return match ? { block: { kind: "heading", level: (match[1] as string).length, inner: inline(headingText(match[2] ?? "")) }, next: at + 1 } : undefined;
}

/** Without the marks at its end. Not in the expression: that would take cubic time for a line of spaces. */
function headingText(text: string): string {
  const trimmed = text.trim();
  let end = trimmed.length;
  while (end > 0 && trimmed[end - 1] === "#") end--;
  return trimmed.slice(0, end).trimEnd();
}

const cells = (line: string): string[] =>
  line
    .trim()
    .replace(/^\||(?<!\\)\|$/g, "")
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replace(/\\\|/g, "|"));

function table(lines: string[], at: number): ReturnType<Reader> {
  const next = lines[at + 1];
  if (next === undefined || !(lines[at] as string).includes("|") || !DELIMITER.test(next.trim()) || !next.includes("-")) return undefined;
  const head = cells(lines[at] as string);
  const align = cells(next).map((cell) => (cell.endsWith(":") ? (cell.startsWith(":") ? "center" : "right") : "left"));
  if (head.length !== align.length) return undefined;
  const rows: Inline[][][] = [];
  let end = at + 2;
  while (end < lines.length && (lines[end] as string).trim() !== "" && (lines[end] as string).includes("|")) {
    const row = cells(lines[end++] as string);
    rows.push(head.map((_, column) => inline(row[column] ?? "")));
  }
  return { block: { kind: "table", align, head: head.map((cell) => inline(cell)), rows }, next: end };
}

function rule(lines: string[], at: number): ReturnType<Reader> {
  return RULE.test(lines[at] as string) ? { block: { kind: "rule" }, next: at + 1 } : undefined;
}

function quote(lines: string[], at: number, depth: number): ReturnType<Reader> {
  if (!QUOTE.test(lines[at] as string) || depth >= MAX_DEPTH) return undefined;
  let end = at;
  while (end < lines.length && (lines[end] as string).trim() !== "" && (QUOTE.test(lines[end] as string) || !interrupts(lines, end))) end++;
  return { block: { kind: "quote", blocks: blocks(lines.slice(at, end).map((line) => line.replace(QUOTE, "")), depth + 1) }, next: end };
}

function list(lines: string[], at: number, depth: number): ReturnType<Reader> {
  const first = ITEM.exec(lines[at] as string);
  if (!first || depth >= MAX_DEPTH) return undefined;
  const ordered = /\d/.test(first[2] as string);
  const mark = (first[2] as string).slice(-1);
  const items: { checked: boolean | undefined; blocks: Block[] }[] = [];
  let end = at;
  while (end < lines.length) {
    const match = ITEM.exec(lines[end] as string);
    if (!match || (match[2] as string).slice(-1) !== mark || RULE.test(lines[end] as string)) break;
    const width = (match[1] as string).length + (match[2] as string).length + Math.min(Math.max((match[3] as string).length, 1), 4);
    const inside = [(lines[end] as string).slice(width)];
    end++;
    while (end < lines.length) {
      const line = lines[end] as string;
      const indent = line.length - line.trimStart().length;
      const blank = line.trim() === "";
      if (blank && !belongs(lines, end, width)) break;
      if (!blank && indent < width && (ITEM.test(line) || interrupts(lines, end) || (lines[end - 1] as string).trim() === "")) break;
      inside.push(indent >= width ? line.slice(width) : line.trimStart());
      end++;
    }
    const task = /^\[([ xX])\]\s+/.exec(inside[0] as string);
    if (task) inside[0] = (inside[0] as string).slice(task[0].length);
    items.push({ checked: task ? task[1] !== " " : undefined, blocks: blocks(inside, depth + 1) });
    while (end < lines.length && (lines[end] as string).trim() === "" && ITEM.test(lines[end + 1] ?? "")) end++;
  }
  return { block: { kind: "list", ordered, start: ordered ? Number.parseInt(first[2] as string, 10) : 1, items }, next: end };
}

/** Whether what follows a blank line is still inside of the item. */
function belongs(lines: string[], at: number, width: number): boolean {
  const next = lines[at + 1];
  return next !== undefined && next.trim() !== "" && next.length - next.trimStart().length >= width;
}

// Each alternative is bounded by what it must begin and end with, so that the time is linear in practice.
const INLINE =
  /(?<escape>\\[!-/:-@[-`{-~])|(?<code>(?<!`)(?<ticks>`{1,8})(?!`)(?<codeText>[^]{1,4000}?)(?<!`)\k<ticks>(?!`))|(?<image>!\[(?<alt>[^\]\n]{0,500})\]\(\s*<?(?<src>[^()\s>]{0,200000})>?(?:\s+"[^"\n]{0,500}")?\s*\))|(?<link>\[(?<linkText>(?:[^[\]\n]|\[[^\]\n]{0,200}\]){1,1000})\]\(\s*<?(?<href>(?:[^()\s>]|\([^()\s]{0,500}\)){0,4000})>?(?:\s+"[^"\n]{0,500}")?\s*\))|(?<auto><(?<autoText>https?:\/\/[^\s<>]{1,2000}|[^\s<>@]{1,100}@[^\s<>@]{1,200})>)|(?<bare>\bhttps?:\/\/[^\s<>"'`]{1,2000}(?<![.,;:!?)]))|(?<strong>(?<bold>\*\*|__)(?=\S)(?<strongText>[^\n]{1,2000}?)\k<bold>)|(?<strike>~~(?=\S)(?<strikeText>[^\n~]{1,2000})~~)|(?<em>(?<![\w*])(?<slant>[*_])(?=[^\s*_])(?<emText>[^\n*_]{1,2000}?)\k<slant>(?!\w))|(?<hard>(?: {2,}|\\)\n)/g;

export function inline(text: string, depth = 0): Inline[] {
  if (depth > MAX_DEPTH) return [text];
  const out: Inline[] = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    if (match.index > from) out.push(text.slice(from, match.index));
    out.push(piece(match, depth));
    from = match.index + match[0].length;
  }
  if (from < text.length) out.push(text.slice(from));
  return out;
}

function piece(match: RegExpMatchArray, depth: number): Inline {
  const found = match.groups ?? {};
  const part = (name: string): string => found[name] ?? "";
  if (found.escape) return match[0].slice(1);
  if (found.code) return { kind: "code", text: part("codeText").replace(/\n/g, " ").replace(/^ (.+) $/, "$1") };
  if (found.image) {
    const src = safeImage(part("src"));
    return src ? { kind: "image", src, alt: part("alt") } : link(part("src"), [part("alt") || part("src")]);
  }
  if (found.link) return link(part("href"), inline(part("linkText"), depth + 1));
  if (found.auto) return link(part("autoText").includes("://") ? part("autoText") : `mailto:${part("autoText")}`, [part("autoText")]);
  if (found.bare) return link(match[0], [match[0]]);
  if (found.strong) return { kind: "strong", inner: inline(part("strongText"), depth + 1) };
  if (found.strike) return { kind: "del", inner: inline(part("strikeText"), depth + 1) };
  if (found.em) return { kind: "em", inner: inline(part("emText"), depth + 1) };
  return { kind: "break" };
}

function link(href: string, inner: Inline[]): Inline {
  const safe = safeHref(href);
  return safe === undefined ? { kind: "em", inner } : { kind: "link", href: safe, inner };
}

const LOOKED_AT = 4000;

/** Whether a text is likely to be Markdown, when nobody has said so: by its beginning, because the expressions are not linear. */
export function looksLikeMarkdown(whole: string): boolean {
  const text = whole.slice(0, LOOKED_AT);
  return /^ {0,3}(#{1,6} |[-*+] |\d+[.)] |> |```|\|.*\|)/m.test(text) || /\*\*[^*\n]+\*\*|`[^`\n]+`|\[[^\]\n]+\]\([^)\n]+\)/.test(text);
}
