// The drawer at the bottom: traffic of all clients, the page's own HTTP requests, logs, and the history of calls.

import type { JSX } from "preact";
import { useMemo, useRef, useState } from "preact/hooks";
import type { Exchange } from "../mcp/client";
import type { JsonObject, Message } from "../mcp/types";
import { type CallRecord, call, calls, callsVersion, clearLogs, client, exchanges, exchangeVersion, forgetCall, forgetHistory, logVersion, logs, pinCall, showCall, toast } from "../state/app";
import { type LogEvent, devLink, devState, forgetEvents, leftOut } from "../state/dev";
import { go, route, toQuery } from "../state/route";
import { drawerHeight, drawerOpen, drawerTab, narrow } from "../state/settings";
import { type Row, clientName, clients, filterable, forgetTraffic, paused, rowMs, rowRemark, rowStatus, rows, serverCalls, touch, trafficVersion } from "../state/traffic";
import { parseFilter } from "../text/filter";
import { bytes, clock, ms } from "../text/format";
import { JsonText } from "./json";
import { Badge, CopyButton, Empty, Status, Tabs, VirtualList, download } from "./parts";
import { setDraft } from "./tool";
import { PlaceLink, Traceback } from "./traceback";
import { Waterfall } from "./waterfall";

type Tab = "traffic" | "network" | "logs" | "history";
const TABS: { id: Tab; label: string }[] = [
  { id: "traffic", label: "Traffic" },
  { id: "network", label: "Network" },
  { id: "logs", label: "Logs" },
  { id: "history", label: "History" },
];
const isTab = (text: string): text is Tab => TABS.some((tab) => tab.id === text);

export function Drawer(): JSX.Element {
  const full = isTab(route.value.view);
  const open = full || drawerOpen.value;
  const tab: Tab = full ? (route.value.view as Tab) : isTab(drawerTab.value) ? drawerTab.value : "traffic";
  const [filters, setFilters] = useState<Record<Tab, string>>({ traffic: "", network: "", logs: "", history: "" });
  const filter = full && route.value.query.q !== undefined && filters[tab] === "" ? route.value.query.q : filters[tab];
  const setFilter = (text: string): void => setFilters({ ...filters, [tab]: text });
  const pick = (next: Tab): void => {
    drawerTab.value = next;
    drawerOpen.value = true;
    if (full) go(next);
  };
  const height = narrow.value ? (open ? "62vh" : "") : open ? `${drawerHeight.value}px` : "";
  return (
    <section class={`drawer${open ? " open" : ""}${full ? " full" : ""}`} aria-label="Traffic, logs and history" style={full ? {} : { height }}>
      {open && !full && <Grip />}
      <header class="drawer-head">
        <Tabs tabs={TABS} value={open ? tab : ("" as Tab)} onChange={pick} label="Traffic, network, logs, history" />
        {open && <Controls tab={tab} filter={filter} setFilter={setFilter} />}
        <span class="grow" />
        <button type="button" class="icon-button" aria-label={full ? "Make smaller" : "Make larger"} title={full ? "Smaller" : "Larger"} onClick={() => (full ? history.back() : go(tab))}>
          {full ? "⤡" : "⤢"}
        </button>
        {!full && (
          <button
            type="button"
            class="icon-button"
            aria-label={open ? "Close the drawer" : "Open the drawer"}
            aria-expanded={open}
            onClick={() => {
              drawerOpen.value = !drawerOpen.value;
            }}
          >
            {open ? "▾" : "▴"}
          </button>
        )}
      </header>
      {open && (
        <div class="drawer-body">
          {tab === "traffic" && <Traffic filter={filter} />}
          {tab === "network" && <Network filter={filter} />}
          {tab === "logs" && <Logs filter={filter} />}
          {tab === "history" && <History filter={filter} />}
        </div>
      )}
    </section>
  );
}

function Grip(): JSX.Element {
  const drag = (event: PointerEvent): void => {
    event.preventDefault();
    const from = event.clientY + drawerHeight.value;
    const move = (next: PointerEvent): void => {
      drawerHeight.value = Math.round(Math.max(120, Math.min(window.innerHeight - 200, from - next.clientY)));
    };
    const up = (): void => {
      window.removeEventListener("pointermove", move);
      window.removeEventListener("pointerup", up);
    };
    window.addEventListener("pointermove", move);
    window.addEventListener("pointerup", up);
  };
  const keys = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowUp" ? 24 : event.key === "ArrowDown" ? -24 : 0;
    if (step) drawerHeight.value = Math.max(120, Math.min(window.innerHeight - 200, drawerHeight.value + step));
  };
  return <div class="grip" role="separator" aria-orientation="horizontal" aria-label="Height of the drawer" aria-valuenow={drawerHeight.value} tabIndex={0} onPointerDown={drag} onKeyDown={keys} />;
}

const HINTS: Record<Tab, string> = {
  traffic: "method:tools/call status:error client:claude* >500ms",
  network: "status, method or text",
  logs: "level:warning or text",
  history: "name, status or argument",
};

function Controls({ tab, filter, setFilter }: { tab: Tab; filter: string; setFilter: (text: string) => void }): JSX.Element {
  const problem = tab === "traffic" || tab === "history" ? parseFilter(filter).problem : undefined;
  const clear = (): void => {
    if (tab === "traffic") {
      forgetTraffic();
      void forgetEvents().catch(() => undefined);
    } else if (tab === "network") {
      exchanges.length = 0;
      exchangeVersion.value++;
    } else if (tab === "logs") clearLogs();
    else forgetHistory();
  };
  return (
    <>
      <input type="search" class={`filter mono${problem ? " wrong" : ""}`} aria-label={`Filter the ${tab}`} placeholder={HINTS[tab]} title={problem ?? HINTS[tab]} value={filter} onInput={(event) => setFilter(event.currentTarget.value)} />
      {problem && (
        <span class="bad-text small filter-problem" role="alert">
          {problem}
        </span>
      )}
      {tab === "traffic" && <Rate />}
      {tab === "traffic" && (
        <button
          type="button"
          class="pill"
          aria-pressed={paused.value}
          onClick={() => {
            paused.value = !paused.value;
          }}
        >
          {paused.value ? "Resume" : "Pause"}
        </button>
      )}
      <button type="button" class="pill" onClick={() => exportAll(tab)}>
        Export
      </button>
      <button type="button" class="pill" onClick={clear}>
        Clear
      </button>
    </>
  );
}

function exportAll(tab: Tab): void {
  const all: Record<Tab, () => unknown[]> = {
    traffic: () => rows.flatMap((row) => [row.request, row.answer].filter(Boolean)),
    network: () => exchanges.map((one) => ({ ...one, headers: hide(one.headers) })),
    logs: () => logs,
    history: () => calls.value.map(({ kind, name, arguments: args, revision, began, ms: time, human, rounds, status, result, error }) => ({ method: kind, name, arguments: args, revision, began, ms: time, human, rounds, status, result, error })),
  };
  const lines = all[tab]();
  download(`${tab}.jsonl`, `${lines.map((line) => JSON.stringify(line)).join("\n")}\n`, "application/x-ndjson");
  toast("good", `Exported ${lines.length} ${lines.length === 1 ? "line" : "lines"} to ${tab}.jsonl`);
}

/** How many calls came in the last five seconds, per second. */
function Rate(): JSX.Element | null {
  trafficVersion.value;
  const since = Date.now() / 1000 - 5;
  let count = 0;
  for (let at = rows.length - 1; at >= 0 && (rows[at] as Row).time > since; at--) if ((rows[at] as Row).type === "request") count++;
  const left = leftOut.value;
  return (
    <span class="dim small rate" title={left > 0 ? `${left.toLocaleString("en")} events were left out because there were too many` : "Requests of all clients"}>
      {(count / 5).toFixed(count > 0 && count < 50 ? 1 : 0)} calls/s{left > 0 ? ` · ${left.toLocaleString("en")} left out` : ""}
    </span>
  );
}

// ---------------------------------------------------------------- traffic

function Traffic({ filter }: { filter: string }): JSX.Element {
  trafficVersion.value;
  const [picked, setPicked] = useState<string | undefined>(undefined);
  const test = useMemo(() => parseFilter(filter).test, [filter]);
  const list = (filter.trim() === "" ? [...rows] : rows.filter((row) => test(filterable(row)))).reverse();
  const most = Math.max(1, ...list.slice(0, 200).map((row) => rowMs(row) ?? 0));
  const row = picked === undefined ? undefined : rows.find((one) => one.key === picked);
  return (
    <div class={`split${row ? " showing" : ""}`}>
      {list.length === 0 ? (
        <Empty title={rows.length === 0 ? "No message yet." : "No message fits the filter."}>
          <p class="dim">{devLink.value === "open" ? "What any client sends and gets is shown here." : "Only the messages of this page are shown. Open the address that the terminal printed, with its token, to see those of every client."}</p>
        </Empty>
      ) : (
        <VirtualList items={list} heights={() => 30} label="Messages" class="traffic" render={(one) => <TrafficRow key={one.key} row={one} most={most} picked={one.key === picked} onPick={() => setPicked(one.key === picked ? undefined : one.key)} />} />
      )}
      {row && <TrafficDetail row={row} close={() => setPicked(undefined)} />}
    </div>
  );
}

function TrafficRow({ row, most, picked, onPick }: { row: Row; most: number; picked: boolean; onPick: () => void }): JSX.Element {
  const status = rowStatus(row);
  const time = rowMs(row);
  const who = clients.get(row.client);
  return (
    <button type="button" class="t-row" aria-current={picked ? "true" : undefined} onClick={onPick}>
      <span class="t-time mono">{clock(row.time)}</span>
      <span class="t-client clip" title={`${row.transport} · ${row.revision}`}>
        {clientName(row.client)}
        <span class="dim">{who?.name === "redstart-inspector" ? "" : ` · ${row.transport} · ${row.revision}`}</span>
      </span>
      <span class="t-method mono clip">
        <span class="dim" title={row.direction === "in" ? "from the client" : "from the server"}>
          {row.direction === "in" ? "→" : "←"}
        </span>{" "}
        {row.method}
      </span>
      <span class="t-name mono clip">{row.name}</span>
      <span class="t-bar" aria-hidden="true">
        {time !== undefined && <span class={status === "tool error" || status === "error" ? "bad" : ""} style={{ width: `${Math.max(3, (time / most) * 100)}%` }} />}
      </span>
      <span class="t-ms mono">{ms(time)}</span>
      <span class="t-status clip">
        {row.pinned && <span title="pinned">📌 </span>}
        <Status status={status} /> <span class="dim">{rowRemark(row)}</span>
      </span>
    </button>
  );
}

function replay(row: Row, edit: boolean): void {
  const message = JSON.parse(row.request?.text ?? "{}") as Message;
  const params = message.params ?? {};
  if (row.method === "tools/call") {
    const name = String(params.name);
    const args = (params.arguments ?? {}) as JsonObject;
    setDraft(name, args);
    go("tools", name, toQuery(args));
    if (!edit) void call("tools/call", name, args);
  } else if (row.method === "prompts/get") {
    const args = (params.arguments ?? {}) as Record<string, string>;
    go("prompts", String(params.name), args);
    if (!edit) void call("prompts/get", String(params.name), args);
  } else if (row.method === "resources/read") {
    go("resources", String(params.uri));
    void call("resources/read", String(params.uri), {});
  } else {
    const { _meta: _gone, ...rest } = params;
    client.value?.request(row.method, rest).then(
      () => toast("good", `${row.method} was sent again`),
      (error: Error) => toast("bad", `${row.method} failed`, [error.message]),
    );
  }
}

function TrafficDetail({ row, close }: { row: Row; close: () => void }): JSX.Element {
  trafficVersion.value; // the row is the same object when its answer comes
  const own = row.call === undefined ? undefined : serverCalls.get(row.call);
  const again = row.direction === "in" && row.type === "request" && !row.request?.cut && !devState.value?.redacted;
  const runnable = ["tools/call", "prompts/get", "resources/read"].includes(row.method);
  return (
    <aside class="detail" aria-label="One message">
      <div class="detail-head">
        <span class="strong mono clip">
          {row.method} {row.name}
        </span>
        <span class="grow" />
        {again && (
          <button type="button" class="small-button" onClick={() => replay(row, false)}>
            Replay
          </button>
        )}
        {again && runnable && (
          <button type="button" class="small-button" onClick={() => replay(row, true)}>
            Edit and replay
          </button>
        )}
        <button
          type="button"
          class="small-button"
          aria-pressed={row.pinned}
          onClick={() => {
            row.pinned = !row.pinned;
            touch();
          }}
        >
          {row.pinned ? "Unpin" : "Pin"}
        </button>
        <button type="button" class="icon-button" aria-label="Close" onClick={close}>
          ×
        </button>
      </div>
      <p class="small dim">
        {clientName(row.client)} · {row.transport} · {row.revision}
        {row.answer?.status ? ` · HTTP ${row.answer.status}` : ""}
        {row.request ? ` · ${bytes(row.request.size)} in` : ""}
        {row.answer ? ` · ${bytes(row.answer.size)} back` : ""}
      </p>
      {own && own.timings && <Waterfall record={{ ms: undefined, human: own.human ?? 0 }} server={own} />}
      {own?.error && <Traceback failure={own.error} />}
      {row.request && (
        <details open>
          <summary>{row.type === "notification" ? "Notification" : "Request"}</summary>
          <JsonText text={row.request.text} open={4} />
          {row.request.cut && <p class="dim small">The message is longer; its beginning is shown.</p>}
        </details>
      )}
      {row.answer && (
        <details open>
          <summary>Answer</summary>
          <JsonText text={row.answer.text} open={4} />
          {row.answer.cut && <p class="dim small">The message is longer; its beginning is shown.</p>}
        </details>
      )}
      {row.request?.headers && (
        <details>
          <summary>Headers of the request</summary>
          <HeaderTable headers={row.request.headers} />
        </details>
      )}
    </aside>
  );
}

function HeaderTable({ headers }: { headers: Record<string, string> }): JSX.Element {
  return (
    <table class="headers mono small">
      <tbody>
        {Object.entries(headers).map(([name, value]) => (
          <tr key={name}>
            <th>{name}</th>
            <td class="wrap">{value}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

// ---------------------------------------------------------------- network

const hide = (headers: Record<string, string>): Record<string, string> => Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, /authorization|token|key|secret|cookie|password/i.test(name) ? "…" : value]));

function Network({ filter }: { filter: string }): JSX.Element {
  exchangeVersion.value;
  const [picked, setPicked] = useState<number | undefined>(undefined);
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const list = exchanges.filter((one) => words.every((word) => `${one.verb} ${one.method} ${one.name} ${one.status} ${one.body}`.toLowerCase().includes(word))).reverse();
  const one = exchanges.find((exchange) => exchange.n === picked);
  const base = Date.now() - performance.now();
  return (
    <div class={`split${one ? " showing" : ""}`}>
      {list.length === 0 ? (
        <Empty title="No request yet." />
      ) : (
        <VirtualList
          items={list}
          heights={() => 30}
          label="HTTP requests of this page"
          class="traffic"
          render={(exchange) => (
            <button type="button" class="t-row n-row" key={exchange.n} aria-current={exchange.n === picked ? "true" : undefined} onClick={() => setPicked(exchange.n === picked ? undefined : exchange.n)}>
              <span class="t-time mono">{clock((base + exchange.began) / 1000)}</span>
              <span class="mono">{exchange.verb}</span>
              <span class="t-method mono clip">{exchange.method || "(stream)"}</span>
              <span class="t-name mono clip">{exchange.name}</span>
              <span class="t-ms mono">{exchange.ended === undefined ? "open" : ms(exchange.ended - exchange.began)}</span>
              <span class="t-status clip">
                <Badge kind={exchange.failure ? "bad" : exchange.status === undefined ? "info" : exchange.status < 300 ? "good" : "bad"}>{exchange.failure ?? exchange.status ?? "sent"}</Badge>{" "}
                <span class="dim">{exchange.responseHeaders["content-type"]}</span>
              </span>
            </button>
          )}
        />
      )}
      {one && <NetworkDetail exchange={one} close={() => setPicked(undefined)} />}
    </div>
  );
}

function NetworkDetail({ exchange, close }: { exchange: Exchange; close: () => void }): JSX.Element {
  exchangeVersion.value;
  return (
    <aside class="detail" aria-label="One HTTP request">
      <div class="detail-head">
        <span class="strong mono clip">
          {exchange.verb} {exchange.url}
        </span>
        <span class="grow" />
        <button type="button" class="icon-button" aria-label="Close" onClick={close}>
          ×
        </button>
      </div>
      <p class="small dim">
        {exchange.status ? `HTTP ${exchange.status}` : (exchange.failure ?? "waiting")} · first byte after {ms((exchange.firstByte ?? exchange.ended ?? exchange.began) - exchange.began)}
        {exchange.ended === undefined ? " · still open" : ` · ended after ${ms(exchange.ended - exchange.began)}`}
      </p>
      <details open>
        <summary>Request headers</summary>
        <HeaderTable headers={hide(exchange.headers)} />
      </details>
      {exchange.body && (
        <details open>
          <summary>Request body</summary>
          <JsonText text={exchange.body} open={3} />
        </details>
      )}
      <details>
        <summary>Response headers</summary>
        <HeaderTable headers={hide(exchange.responseHeaders)} />
      </details>
      {exchange.received.length > 0 && (
        <details open>
          <summary>
            {exchange.received.length} {exchange.received.length === 1 ? "message" : "messages"} received
          </summary>
          {exchange.received.slice(-20).map((text, at) => (
            <JsonText key={at} text={text} open={3} />
          ))}
        </details>
      )}
    </aside>
  );
}

// ---------------------------------------------------------------- logs

const LEVELS = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];

function Logs({ filter }: { filter: string }): JSX.Element {
  logVersion.value;
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const level = words.find((word) => word.startsWith("level:"))?.slice(6);
  const least = level === undefined ? 0 : Math.max(0, LEVELS.indexOf(level));
  const plain = words.filter((word) => !word.startsWith("level:"));
  const fits = (entry: LogEvent): boolean => LEVELS.indexOf(entry.level.toLowerCase()) >= least && plain.every((word) => `${entry.text} ${entry.logger} ${entry.source}`.toLowerCase().includes(word));
  const list = logs.filter(fits);
  const [open, setOpen] = useState<number | undefined>(undefined);
  if (list.length === 0) {
    return (
      <Empty title={logs.length === 0 ? "No log line yet." : "No line fits."}>
        <p class="dim">What handlers say with ctx.info(…) and, in development, what Python's logging says, is shown here.</p>
      </Empty>
    );
  }
  const entry = list.find((one) => one.seq === open);
  return (
    <div class={`split${entry ? " showing" : ""}`}>
      <VirtualList
        items={list}
        heights={() => 28}
        stick
        label="Log lines"
        role="log"
        class="traffic"
        render={(one) => (
          <button type="button" class="l-row" key={`${one.seq}${one.source}`} aria-current={one.seq === open ? "true" : undefined} onClick={() => setOpen(one.seq === open ? undefined : one.seq)}>
            <span class="t-time mono">{clock(one.time)}</span>
            <Badge kind={`level-${one.level.toLowerCase()}`}>{one.level.toLowerCase()}</Badge>
            <span class="mono small dim clip">{one.logger || one.source}</span>
            <span class="clip l-text">{one.text}</span>
          </button>
        )}
      />
      {entry && (
        <aside class="detail" aria-label="One log line">
          <div class="detail-head">
            <span class="strong">{entry.level}</span> <span class="mono small dim">{entry.logger}</span> <PlaceLink place={entry.place} />
            <span class="grow" />
            <CopyButton text={entry.text} what="the line" />
            <button type="button" class="icon-button" aria-label="Close" onClick={() => setOpen(undefined)}>
              ×
            </button>
          </div>
          <pre class="plain">{entry.text}</pre>
          {entry.error && <Traceback failure={entry.error} />}
        </aside>
      )}
    </div>
  );
}

// ---------------------------------------------------------------- history

const VIEWS = { "tools/call": "tools", "prompts/get": "prompts", "resources/read": "resources" } as const;

export function openCall(record: CallRecord): void {
  showCall(record, record.kind, record.name);
  if (record.kind === "tools/call") setDraft(record.name, record.arguments);
  go(VIEWS[record.kind], record.name, record.kind === "tools/call" ? toQuery(record.arguments) : (record.arguments as Record<string, string>));
}

function History({ filter }: { filter: string }): JSX.Element {
  callsVersion.value;
  const test = useMemo(() => parseFilter(filter).test, [filter]);
  const list = calls.value.filter((one) => test({ method: one.kind, name: one.name, client: "this page", status: one.status, era: "", transport: "http", revision: one.revision, direction: "in", type: "request", ms: one.ms, text: JSON.stringify(one.arguments) }));
  const order = useRef<CallRecord[]>([]);
  order.current = [...list.filter((one) => one.pinned), ...list.filter((one) => !one.pinned)];
  if (list.length === 0) {
    return (
      <Empty title={calls.value.length === 0 ? "No call yet." : "No call fits."}>
        <p class="dim">Every call of this page is kept here, in this browser only, to run again or to change and run again.</p>
      </Empty>
    );
  }
  return (
    <VirtualList
      items={order.current}
      heights={() => 32}
      label="Calls of this page"
      class="traffic"
      render={(one) => (
        <div class="h-row" key={one.key}>
          <span class="t-time mono">{clock(one.began / 1000, false)}</span>
          <button type="button" class="h-open" onClick={() => openCall(one)} title="Show it">
            <span class="mono strong clip">{one.name}</span> <span class="mono small dim clip">{Object.keys(one.arguments).length > 0 ? JSON.stringify(one.arguments) : ""}</span>
          </button>
          <span class="t-ms mono">
            {ms(one.ms)}
            {one.human > 0 && <span class="dim"> + {ms(one.human)} you</span>}
          </span>
          <span class="mono small dim only-wide">{one.revision}</span>
          <Status status={one.status} />
          <span class="h-tools">
            <button
              type="button"
              class="link"
              onClick={() => {
                openCall(one);
                void call(one.kind, one.name, one.arguments);
              }}
            >
              Run again
            </button>
            {one.kind === "tools/call" && (
              <button
                type="button"
                class="link"
                onClick={() => {
                  setDraft(one.name, one.arguments);
                  showCall(undefined, one.kind, one.name);
                  go("tools", one.name, toQuery(one.arguments));
                }}
              >
                Edit
              </button>
            )}
            <button type="button" class="link" aria-pressed={one.pinned} onClick={() => pinCall(one)}>
              {one.pinned ? "Unpin" : "Pin"}
            </button>
            <button type="button" class="link" aria-label="Forget this call" onClick={() => forgetCall(one)}>
              ×
            </button>
          </span>
        </div>
      )}
    />
  );
}

