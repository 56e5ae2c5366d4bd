// The bar at the top: who the server is, how the page talks to it, and what it pretends not to know.

import type { JSX } from "preact";
import { type Lack, REVISIONS } from "../mcp/client";
import { client, connect, connection, serverName } from "../state/app";
import { devLink, devState, switchServer } from "../state/dev";
import { go } from "../state/route";
import { type Theme, isDark, lacks, narrow, revision, theme } from "../state/settings";
import { clients, trafficVersion } from "../state/traffic";
import { clock, count } from "../text/format";
import { Popover, ServerIcon } from "./parts";
import { palette } from "./palette";

export const sidebarShown = { toggle: (): void => undefined };

const LACKS: [Lack, string, string][] = [
  ["form", "Elicitation, forms", "Questions with a form cannot be asked."],
  ["url", "Elicitation, pages", "Nobody can be sent to a web page."],
  ["sampling", "Sampling", "The server cannot use the client's model."],
  ["roots", "Roots", "The client names no folders."],
  ["tasks", "Tasks", "The extension of 2026-07-28; calls are answered directly."],
  ["progress", "Progress", "No progress token is sent."],
  ["logging", "Logging", "No log level is asked for."],
  ["stream", "Notification stream", "Lists do not change by themselves, and nothing is heard outside of a call."],
];

export function TopBar(): JSX.Element {
  connection.value;
  const own = client.value;
  return (
    <header class="topbar">
      <button type="button" class="icon-button only-narrow" aria-label="Show the list" onClick={() => sidebarShown.toggle()}>
        ☰
      </button>
      {/* Beside the menu of servers a small screen does not say the name twice. */}
      <a class={`brand${(devState.value?.servers?.length ?? 0) > 1 ? " beside" : ""}`} href="#/" title={`${serverName.value}: the inspector of redstart`}>
        <ServerIcon icons={own?.serverInfo?.icons} fallback={<img class="icon" src="/_redstart/static/icon.svg" alt="" />} />
        <span class="clip">{serverName.value}</span>
      </a>
      <ServerSwitch />
      <Health />
      <span class="grow" />
      <ProtocolSwitch />
      <LackSwitch />
      <button type="button" class="pill only-wide" onClick={() => go("server", "", { tab: "install" })}>
        Install
      </button>
      <ThemeSwitch />
      <button type="button" class="kbd-button" onClick={() => palette.open()} title="All commands" aria-label="Ctrl K: all commands">
        <kbd>Ctrl K</kbd>
      </button>
    </header>
  );
}

/** The servers of the file that `redstart inspect --config` was given. */
function ServerSwitch(): JSX.Element | null {
  const list = devState.value?.servers ?? [];
  const now = devState.value?.upstream?.name;
  if (list.length < 2) return null;
  return (
    <Popover
      title="Servers of the file"
      align="left"
      label={
        <>
          <span class="only-wide">Server </span>
          <span class="strong clip">{now}</span> ▾
        </>
      }
    >
      {(close) => (
        <div class="menu servers" role="radiogroup" aria-label="Servers of the file">
          {list.map((one) => (
            <button
              type="button"
              key={one.name}
              role="radio"
              aria-checked={one.name === now}
              onClick={() => {
                close();
                if (one.name !== now) void switchServer(one.name);
              }}
            >
              <span class="strong wrap">{one.name}</span>
              <span class="dim small mono clip">{one.shown}</span>
            </button>
          ))}
        </div>
      )}
    </Popover>
  );
}

function Health(): JSX.Element {
  connection.value;
  trafficVersion.value;
  const own = client.value;
  const state = devState.value;
  const open = [...clients.values()].filter((one) => one.open !== false).length;
  const good = own?.phase === "open";
  const parts: string[] = [];
  if (good) parts.push(devLink.value === "open" ? count(open, "client") : "connected");
  else parts.push(own?.phase === "failed" ? (own.failure?.reason ? "not connected" : "refused") : own?.phase === "lost" ? "reconnecting …" : "connecting …");
  if (good && state?.reload) parts.push(state.reload.error ? "reload failed" : `reloaded ${clock(state.reload.at, false)}`);
  const bad = !good || Boolean(state?.reload?.error);
  return (
    <button type="button" class="pill health" onClick={() => go("server", "", { tab: state?.reload?.error ? "reload" : good ? "clients" : "connection" })} title={good ? "Clients and connection" : own?.failure?.message}>
      <span class={`dot ${bad ? "off" : "on"}`} />
      <span role="status" class={narrow.value && (good || (state?.servers?.length ?? 0) > 1) ? "hidden" : ""}>
        {parts[0]}
        {parts[1] && <span class="only-wide"> · {parts[1]}</span>}
      </span>
    </button>
  );
}

function ProtocolSwitch(): JSX.Element {
  connection.value; // each part that shows the client must read it: what reads signals is not drawn anew with its parent
  const own = client.value;
  const known = devState.value?.protocols ?? REVISIONS;
  const label = revision.value === "auto" && own?.phase !== "failed" ? (own?.revision ?? "auto") : revision.value;
  return (
    <Popover
      title="Protocol revision"
      label={
        <>
          <span class="only-wide">Protocol </span>
          <span class="strong">{label}</span> ▾
        </>
      }
    >
      {(close) => (
        <div class="menu" role="radiogroup" aria-label="Protocol revision">
          {["auto", ...REVISIONS.filter((one) => known.includes(one))].map((one) => (
            <button
              type="button"
              key={one}
              role="radio"
              aria-checked={revision.value === one}
              onClick={() => {
                revision.value = one;
                close();
                connect();
              }}
            >
              <span class="mono">{one}</span>
              <span class="dim small">{one === "auto" ? "the newest that the server speaks" : one === REVISIONS[0] ? "stateless" : "initialize, session"}</span>
            </button>
          ))}
        </div>
      )}
    </Popover>
  );
}

function LackSwitch(): JSX.Element {
  const count = lacks.value.length;
  return (
    <Popover
      title="Pretend that the client lacks something"
      label={
        <>
          <span class="only-wide">Pretend the client lacks</span>
          <span class="only-narrow">Lacks</span> {count > 0 ? <span class="counter">{count}</span> : <span class="only-wide">…</span>} ▾
        </>
      }
    >
      {() => (
        <div class="menu">
          {LACKS.map(([lack, title, text]) => (
            <label key={lack} class="menu-check">
              <input
                type="checkbox"
                checked={lacks.value.includes(lack)}
                onChange={(event) => {
                  lacks.value = event.currentTarget.checked ? [...lacks.value, lack] : lacks.value.filter((one) => one !== lack);
                  connect();
                }}
              />
              <span>
                {title}
                <br />
                <span class="dim small">{text}</span>
              </span>
            </label>
          ))}
        </div>
      )}
    </Popover>
  );
}

const NEXT: Record<Theme, Theme> = { auto: "light", light: "dark", dark: "auto" };

export function nextTheme(): void {
  theme.value = NEXT[theme.value];
}

function ThemeSwitch(): JSX.Element {
  return (
    <button type="button" class="icon-button" onClick={nextTheme} title={`Theme: ${theme.value}`} aria-label={`Theme: ${theme.value}. Change it`}>
      {theme.value === "auto" ? "◐" : isDark.value ? "☾" : "☀"}
    </button>
  );
}

