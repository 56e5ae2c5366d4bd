// The list on the left: everything that the server offers, with how long each tool takes.

import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import type { Icon } from "../mcp/types";
import { callsVersion, client, connection, cursors, listProblems, loading, nextPage, percentiles, prompts, resources, statistics, tasks, templates, tools } from "../state/app";
import { route, routeHash } from "../state/route";
import { stored } from "../state/settings";
import { ms } from "../text/format";
import { ServerIcon, Sparkline, VirtualList } from "./parts";

interface Head {
  kind: "head";
  id: string;
  title: string;
  count: number;
  folded: boolean;
  problem: string | undefined;
}

interface Entry {
  kind: "entry";
  view: string;
  name: string;
  title: string;
  sub: string;
  icons: Icon[] | undefined;
}

interface More {
  kind: "more";
  method: string;
}

type Line = Head | Entry | More;

const folded = stored<string[]>("folded", []);
export const search = { focus: (): void => undefined };

export function Sidebar(): JSX.Element {
  connection.value;
  const [query, setQuery] = useState("");
  const input = useRef<HTMLInputElement>(null);
  search.focus = () => {
    input.current?.focus();
    input.current?.select();
  };
  const lines = useMemo(() => {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    const fits = (entry: Entry): boolean => words.every((word) => `${entry.title} ${entry.name}`.toLowerCase().includes(word));
    const groups: [string, string, string, Entry[]][] = [
      ["tools", "Tools", "tools/list", tools.value.map((one) => ({ kind: "entry", view: "tools", name: one.name, title: one.title ?? one.annotations?.title ?? one.name, sub: one.name, icons: one.icons }))],
      ["resources", "Resources", "resources/list", resources.value.map((one) => ({ kind: "entry", view: "resources", name: one.uri, title: one.title ?? one.name, sub: one.uri, icons: one.icons }))],
      ["templates", "Templates", "resources/templates/list", templates.value.map((one) => ({ kind: "entry", view: "templates", name: one.uriTemplate, title: one.title ?? one.name, sub: one.uriTemplate, icons: one.icons }))],
      ["prompts", "Prompts", "prompts/list", prompts.value.map((one) => ({ kind: "entry", view: "prompts", name: one.name, title: one.title ?? one.name, sub: one.name, icons: one.icons }))],
    ];
    const out: Line[] = [];
    for (const [id, title, method, entries] of groups) {
      const shown = words.length > 0 ? entries.filter(fits) : entries;
      const problem = listProblems.value[method];
      if (shown.length === 0 && !problem) continue;
      const closed = folded.value.includes(id) && words.length === 0;
      out.push({ kind: "head", id, title, count: shown.length, folded: closed, problem });
      if (!closed) out.push(...shown);
      if (!closed && cursors.value[method] !== undefined) out.push({ kind: "more", method });
    }
    return out;
  }, [query, tools.value, resources.value, templates.value, prompts.value, folded.value, listProblems.value, cursors.value]);
  const move = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    const entries = lines.filter((line): line is Entry => line.kind === "entry");
    if (event.key === "Enter" && entries[0] && query) location.hash = routeHash(entries[0].view, entries[0].name);
    if (!step) return;
    event.preventDefault();
    const at = entries.findIndex((entry) => entry.view === route.value.view && entry.name === route.value.name);
    const next = entries[Math.max(0, Math.min(entries.length - 1, at + step))];
    if (next) location.hash = routeHash(next.view, next.name);
  };
  const at = lines.findIndex((line) => line.kind === "entry" && line.view === route.value.view && line.name === route.value.name);
  return (
    <nav class="sidebar" aria-label="What the server offers" onKeyDown={move}>
      <div class="search">
        <input type="search" ref={input} placeholder="Search" aria-label="Search tools, resources and prompts" value={query} onInput={(event) => setQuery(event.currentTarget.value)} />
        <kbd>/</kbd>
      </div>
      {lines.length === 0 && <p class="idle">{client.value?.phase === "failed" ? "Not connected." : loading.value ? "Connecting …" : query ? "Nothing fits." : "The server offers nothing yet."}</p>}
      <VirtualList items={lines} heights={(line) => (line.kind === "head" ? 32 : line.kind === "more" || line.title === line.sub ? 36 : 48)} render={(line) => (line.kind === "head" ? <HeadLine key={`h${line.id}`} line={line} /> : line.kind === "more" ? <button type="button" class="small-button more" key={`m${line.method}`} onClick={() => void nextPage(line.method)}>Next page</button> : <EntryLine key={`${line.view}${line.name}`} line={line} />)} label="Tools, resources and prompts" scrollTo={at < 0 ? undefined : at} />
      <Foot />
    </nav>
  );
}

function HeadLine({ line }: { line: Head }): JSX.Element {
  const toggle = (): void => {
    folded.value = folded.value.includes(line.id) ? folded.value.filter((one) => one !== line.id) : [...folded.value, line.id];
  };
  return (
    <button type="button" class="side-head" aria-expanded={!line.folded} onClick={toggle} title={line.problem}>
      <span>{line.title}</span>
      {line.problem && <span class="bad-text">could not be listed</span>}
      <span class="grow" />
      <span>{line.count.toLocaleString("en")}</span>
    </button>
  );
}

function EntryLine({ line }: { line: Entry }): JSX.Element {
  const here = route.value.view === line.view && route.value.name === line.name;
  const stats = line.view === "tools" ? statistics.value[line.name] : undefined;
  const p50 = stats && percentiles(stats).p50;
  return (
    <a class={`side-entry${line.title === line.sub ? " short" : ""}`} href={routeHash(line.view, line.name)} aria-current={here ? "page" : undefined}>
      <span class="side-title">
        <ServerIcon icons={line.icons} />
        <span class="clip">{line.title}</span>
        <span class="grow" />
        {stats && <Sparkline values={stats.last.slice(-60)} bad={stats.errors > 0} />}
        {line.title === line.sub && p50 !== undefined && <span class="side-time">{ms(p50)}</span>}
      </span>
      {line.title !== line.sub && (
        <span class="side-sub">
          <span class="clip">{line.sub}</span>
          <span class="grow" />
          {p50 !== undefined && <span class="side-time">{ms(p50)}</span>}
        </span>
      )}
    </a>
  );
}

function Foot(): JSX.Element {
  callsVersion.value;
  const open = tasks.value.filter((one) => one.task.status === "working" || one.task.status === "input_required").length;
  const links: [string, string, number][] = [
    ["tasks", "Tasks", open],
    ["server", "Server", 0],
  ];
  return (
    <div class="side-foot">
      {links.map(([view, title, count]) => (
        <a key={view} href={routeHash(view)} aria-current={route.value.view === view ? "page" : undefined}>
          {title}
          {count > 0 && <span class="counter">{count}</span>}
        </a>
      ))}
    </div>
  );
}
