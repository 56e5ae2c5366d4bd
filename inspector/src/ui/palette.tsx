// Ctrl-K: everything by name.

import { signal, useComputed } from "@preact/signals";
import type { JSX } from "preact";
import { useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { REVISIONS } from "../mcp/client";
import { connect, forgetHistory, prompts, refresh, resources, templates, toast, tools } from "../state/app";
import { devState, forgetEvents, reloadServer, switchServer } from "../state/dev";
import { go } from "../state/route";
import { type Theme, drawerOpen, drawerTab, revision, theme } from "../state/settings";
import { forgetTraffic } from "../state/traffic";

interface Command {
  kind: string;
  title: string;
  sub: string;
  run: () => void;
}

const shown = signal(false);
export const palette = {
  open: (): void => {
    shown.value = true;
  },
  isOpen: (): boolean => shown.value,
};

/** All letters in order; better the closer together, best at the beginning of words. Zero is no match. */
export function score(text: string, query: string): number {
  const hay = text.toLowerCase();
  const needle = query.toLowerCase();
  if (!needle) return 1;
  const whole = hay.indexOf(needle);
  if (whole >= 0) return 1000 - whole - hay.length / 100 + (whole === 0 || /[\s_\-./:]/.test(hay[whole - 1] ?? "") ? 500 : 0);
  let at = 0;
  let points = 0;
  for (const char of needle.replace(/\s+/g, "")) {
    const next = hay.indexOf(char, at);
    if (next < 0) return 0;
    points += next === at ? 5 : /[\s_\-./:]/.test(hay[next - 1] ?? " ") ? 3 : 1;
    at = next + 1;
  }
  return points;
}

function commands(): Command[] {
  const drawer = (tab: string): (() => void) => () => {
    drawerTab.value = tab;
    drawerOpen.value = true;
  };
  const actions: Command[] = [
    { kind: "Go to", title: "Tasks", sub: "", run: () => go("tasks") },
    { kind: "Go to", title: "Server", sub: "capabilities, instructions", run: () => go("server") },
    { kind: "Go to", title: "Connection", sub: "token, headers, log level", run: () => go("server", "", { tab: "connection" }) },
    { kind: "Go to", title: "Install", sub: "snippets for clients", run: () => go("server", "", { tab: "install" }) },
    { kind: "Go to", title: "Clients", sub: "who is connected", run: () => go("server", "", { tab: "clients" }) },
    ...["traffic", "network", "logs", "history"].map((tab) => ({ kind: "Go to", title: (tab[0] as string).toUpperCase() + tab.slice(1), sub: "", run: drawer(tab) })),
    { kind: "Do", title: "Refresh the lists", sub: "", run: () => void refresh() },
    ...(devState.value?.canReload ? [{ kind: "Do", title: "Reload the server", sub: devState.value.target, run: () => void reloadServer() }] : []),
    {
      kind: "Do",
      title: "Clear the traffic",
      sub: "",
      run: () => {
        forgetTraffic();
        void forgetEvents().catch(() => undefined);
      },
    },
    {
      kind: "Do",
      title: "Clear the history",
      sub: "pinned calls stay",
      run: () => {
        forgetHistory();
        toast("info", "The history is empty");
      },
    },
    ...(["auto", "light", "dark"] as Theme[]).map((one) => ({
      kind: "Theme",
      title: one,
      sub: "",
      run: () => {
        theme.value = one;
      },
    })),
    ...(devState.value?.servers ?? []).filter((one) => one.name && one.name !== devState.value?.upstream?.name).map((one) => ({ kind: "Server", title: one.name, sub: one.shown, run: () => void switchServer(one.name) })),
    ...["auto", ...REVISIONS].map((one) => ({
      kind: "Protocol",
      title: one,
      sub: "",
      run: () => {
        revision.value = one;
        connect();
      },
    })),
  ];
  return [
    ...tools.value.map((one) => ({ kind: "Tool", title: one.title ?? one.name, sub: one.name, run: () => go("tools", one.name) })),
    ...resources.value.map((one) => ({ kind: "Resource", title: one.title ?? one.name, sub: one.uri, run: () => go("resources", one.uri) })),
    ...templates.value.map((one) => ({ kind: "Template", title: one.title ?? one.name, sub: one.uriTemplate, run: () => go("templates", one.uriTemplate) })),
    ...prompts.value.map((one) => ({ kind: "Prompt", title: one.title ?? one.name, sub: one.name, run: () => go("prompts", one.name) })),
    ...actions,
  ];
}

const MOST = 60;

export function Palette(): JSX.Element | null {
  return shown.value ? <PaletteBox /> : null;
}

function PaletteBox(): JSX.Element {
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(0);
  const input = useRef<HTMLInputElement>(null);
  const box = useRef<HTMLDivElement>(null);
  const before = useRef(document.activeElement as HTMLElement | null);
  // The lists may come, or change, while the palette is open.
  const all = useComputed(commands).value;
  const list = useMemo(
    () =>
      all
        .map((command) => ({ command, points: Math.max(score(command.title, query), score(command.sub, query), score(`${command.kind} ${command.title}`, query) * 0.9) }))
        .filter((one) => one.points > 0)
        .sort((a, b) => (query ? b.points - a.points : 0))
        .slice(0, MOST)
        .map((one) => one.command),
    [query, all],
  );
  const close = (): void => {
    shown.value = false;
    before.current?.focus?.();
  };
  const run = (command: Command | undefined): void => {
    if (!command) return;
    shown.value = false;
    command.run();
  };
  // Before the next key comes, not with the next frame: what is typed at once belongs into the field.
  useLayoutEffect(() => input.current?.focus(), []);
  useLayoutEffect(() => box.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" }), [at, list]);
  const keys = (event: KeyboardEvent): void => {
    if (event.key === "Escape") close();
    else if (event.key === "ArrowDown") setAt((at + 1) % Math.max(1, list.length));
    else if (event.key === "ArrowUp") setAt((at - 1 + list.length) % Math.max(1, list.length));
    else if (event.key === "Enter") run(list[at]);
    else if (event.key !== "Tab") return;
    event.preventDefault();
    event.stopPropagation();
  };
  return (
    <div class="backdrop" onPointerDown={(event) => event.target === event.currentTarget && close()}>
      <div class="palette" role="dialog" aria-modal="true" aria-label="Command palette" onKeyDown={keys}>
        <input
          ref={input}
          type="text"
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant={`palette-${at}`}
          aria-label="Search everything"
          placeholder="A tool, a resource, a prompt, a command …"
          value={query}
          onInput={(event) => {
            setQuery(event.currentTarget.value);
            setAt(0);
          }}
        />
        <div class="palette-list" id="palette-list" role="listbox" aria-label="Found" ref={box}>
          {list.map((command, index) => (
            <div key={`${command.kind}${command.title}${command.sub}`} id={`palette-${index}`} role="option" aria-selected={index === at} onPointerMove={() => setAt(index)} onClick={() => run(command)}>
              <span class="palette-kind">{command.kind}</span>
              <span class="clip">{command.title}</span>
              {command.sub !== command.title && <span class="mono small dim clip">{command.sub}</span>}
            </div>
          ))}
          {list.length === 0 && <p class="idle">Nothing fits.</p>}
        </div>
      </div>
    </div>
  );
}
