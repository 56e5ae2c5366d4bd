// JSON as a tree that folds, with the kinds of values told apart by more than colour, and a box to edit it.

import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { Json } from "../mcp/types";
import { levels, pretty } from "../text/format";
import { CopyButton, LongText, MOST_TEXT, download } from "./parts";

const MOST_CHILDREN = 200;
const LONG_TEXT = 600;
/** More levels are not opened: the browser would need a stack as deep as they are. */
const MOST_LEVELS = 100;
/** From here on no level is indented: a narrow screen has no room left. */
const MOST_INDENTS = 12;
/** What is deeper than this opens several levels at once. */
const DEEP = 20;

function Leaf({ value }: { value: Json }): JSX.Element {
  const [most, setMost] = useState(LONG_TEXT);
  if (typeof value === "string") {
    return (
      <span class="j-string">
        {JSON.stringify(value.slice(0, most))}
        {value.length > most && (
          <button type="button" class="link" onClick={() => setMost(most + MOST_TEXT)}>
            … {(value.length - most).toLocaleString("en")} more characters
          </button>
        )}
      </span>
    );
  }
  return <span class={`j-${value === null ? "null" : typeof value}`}>{String(value)}</span>;
}

function Branch({ name, value, depth, open: wanted, last }: { name: string | undefined; value: Json; depth: number; open: number; last: boolean }): JSX.Element {
  const [open, setOpen] = useState(depth < wanted);
  const [most, setMost] = useState(MOST_CHILDREN);
  const [more, setMore] = useState(0);
  const label = name === undefined ? null : <span class="j-key">{JSON.stringify(name)}: </span>;
  const comma = last ? "" : ",";
  if (value === null || typeof value !== "object") {
    return (
      <div class="j-line">
        {label}
        <Leaf value={value} />
        {comma}
      </div>
    );
  }
  const list = Array.isArray(value);
  const keys = list ? value : Object.keys(value);
  const [from, to] = list ? ["[", "]"] : ["{", "}"];
  const inside = open && depth < MOST_LEVELS ? 0 : (levels(value, 20_000) ?? 0);
  if (keys.length === 0) {
    return (
      <div class="j-line">
        {label}
        {from}
        {to}
        {comma}
      </div>
    );
  }
  if (depth >= MOST_LEVELS) {
    return (
      <div class="j-line">
        {label}
        {from}
        <span class="j-fold"> {inside > 0 ? `${inside.toLocaleString("en")} more levels` : "more levels"} that are not shown: </span>
        <CopyButton text={() => pretty(value)} what="what is inside" label="copy" /> <SaveButton value={value} label="save" /> {to}
        {comma}
      </div>
    );
  }
  return (
    <div class="j-branch">
      <button
        type="button"
        class="j-line j-toggle"
        aria-expanded={open}
        onClick={() => {
          setOpen(!open);
          setMore(inside > DEEP ? 10 : 0);
        }}
      >
        <span class="j-arrow" aria-hidden="true">
          {open ? "▾" : "▸"}
        </span>
        {label}
        {from}
        {!open && (
          <span class="j-fold">
            {" "}
            {keys.length.toLocaleString("en")} {list ? (keys.length === 1 ? "entry" : "entries") : keys.length === 1 ? "key" : "keys"}
            {inside > DEEP ? `, ${inside.toLocaleString("en")} levels` : ""} {to}
            {comma}
          </span>
        )}
      </button>
      {open && (
        <>
          <div class={depth < MOST_INDENTS ? "j-inside" : ""}>
            {keys.slice(0, most).map((key, at) => (
              <Branch key={list ? at : (key as string)} name={list ? undefined : (key as string)} value={list ? (key as Json) : (value[key as string] as Json)} depth={depth + 1} open={more > 0 ? depth + more : wanted} last={at === keys.length - 1} />
            ))}
            {keys.length > most && (
              <button type="button" class="link" onClick={() => setMost(most + 1000)}>
                … {(keys.length - most).toLocaleString("en")} more
              </button>
            )}
          </div>
          <div class="j-line">
            {to}
            {comma}
          </div>
        </>
      )}
    </div>
  );
}

function SaveButton({ value, label }: { value: Json | undefined; label: string }): JSX.Element {
  return (
    <button type="button" class="link" onClick={() => download("value.json", pretty(value))}>
      {label}
    </button>
  );
}

export function JsonTree({ value, open = 3, copy = true }: { value: Json | undefined; open?: number; copy?: boolean }): JSX.Element {
  return (
    <div class="json">
      {copy && (
        <div class="json-copy">
          <CopyButton text={() => pretty(value)} what="JSON" /> <SaveButton value={value} label="Save" />
        </div>
      )}
      <Branch name={undefined} value={value ?? null} depth={0} open={open} last />
    </div>
  );
}

/** Text that should be JSON; if it is not, as it is. */
export function JsonText({ text, open = 3 }: { text: string; open?: number }): JSX.Element {
  try {
    return <JsonTree value={JSON.parse(text) as Json} open={open} />;
  } catch {
    return <LongText class="code" text={text} />;
  }
}

/** An editor of JSON text; what is wrong is said with its line. */
export function JsonEditor({ value, onChange, rows = 12, label }: { value: Json | undefined; onChange: (value: Json) => void; rows?: number; label: string }): JSX.Element {
  const [text, setText] = useState<string | undefined>(undefined);
  const shown = text ?? JSON.stringify(value ?? {}, null, 2);
  const problem = text === undefined ? undefined : parseProblem(text);
  const edit = (next: string): void => {
    setText(next);
    if (parseProblem(next) === undefined) onChange(JSON.parse(next) as Json);
  };
  return (
    <div class="json-edit">
      <textarea
        class="mono"
        rows={Math.max(3, Math.min(24, Math.max(rows, shown.split("\n").length)))}
        spellcheck={false}
        aria-label={label}
        aria-invalid={problem !== undefined}
        value={shown}
        onInput={(event) => edit(event.currentTarget.value)}
        onBlur={() => problem === undefined && setText(undefined)}
      />
      {problem !== undefined && (
        <p class="problem" role="alert">
          This is not JSON: {problem}
        </p>
      )}
    </div>
  );
}

function parseProblem(text: string): string | undefined {
  try {
    JSON.parse(text);
    return undefined;
  } catch (error) {
    const message = (error as Error).message;
    const at = /position (\d+)/.exec(message)?.[1];
    if (at === undefined || /line \d+/.test(message)) return message;
    const before = text.slice(0, Number(at)).split("\n");
    return `${message} (line ${before.length}, column ${(before[before.length - 1] ?? "").length + 1})`;
  }
}
