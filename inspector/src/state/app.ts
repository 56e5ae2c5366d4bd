// The page's own work: the connection, the lists, the calls it makes with their questions, and the tasks they become.

import { batch, computed, signal } from "@preact/signals";
import { Client, type Exchange, MODERN, McpError } from "../mcp/client";
import type { InputRequest, Json, JsonObject, Message, Prompt, Resource, ResourceTemplate, Task, Tool } from "../mcp/types";
import { type ListDiff, isEmpty, listDiff } from "../text/diff";
import { percentile, plural } from "../text/format";
import { type DevEvent, type DevState, type Failure, type LogEvent, type ReloadEvent, type Statistics, beginAnew, devLink, devState, followServer, readState } from "./dev";
import { bearer, headers, lacks, logLevel, metadata, paged, remember, revision } from "./settings";
import { callOfId, clients, isOwn, paused, serverCalls, takeCall, takeMessage, takeOwn, touch, trafficVersion } from "./traffic";

// ---------------------------------------------------------------- toasts

export interface Toast {
  id: number;
  kind: "info" | "good" | "bad" | "ask";
  title: string;
  lines: string[];
  href?: string | undefined;
  label?: string | undefined;
}

export const toasts = signal<Toast[]>([]);
let toastId = 0;

export function toast(kind: Toast["kind"], title: string, lines: string[] = [], href?: string, label?: string): number {
  const id = ++toastId;
  toasts.value = [...toasts.value.slice(-4), { id, kind, title, lines, href, label }];
  if (kind !== "ask") setTimeout(() => dismiss(id), kind === "bad" ? 12_000 : 6000);
  return id;
}

export function dismiss(id: number): void {
  toasts.value = toasts.value.filter((one) => one.id !== id);
}

// ---------------------------------------------------------------- connection and lists

/** Counts up when something of the connection has changed. */
export const connection = signal(0);
export const client = signal<Client | undefined>(undefined);
export const tools = signal<Tool[]>([]);
export const resources = signal<Resource[]>([]);
export const templates = signal<ResourceTemplate[]>([]);
export const prompts = signal<Prompt[]>([]);
export const loading = signal(true);
export const listProblems = signal<Record<string, string>>({});
export const pages = signal<Record<string, number>>({});
export const exchanges: Exchange[] = [];
export const exchangeVersion = signal(0);
export const updates = signal<Record<string, number>>({}); // notifications of a change, per subscribed URI
export const serverName = computed(() => {
  connection.value;
  const info = client.value?.serverInfo;
  if (devState.value?.upstream) return info?.title || info?.name || devState.value.upstream.name || "server";
  return devState.value?.server?.title || info?.title || devState.value?.server?.name || info?.name || "server";
});

let exchangeDue = false;
function touchExchanges(): void {
  if (exchangeDue) return;
  exchangeDue = true;
  setTimeout(() => {
    exchangeDue = false;
    exchangeVersion.value++;
  }, 50);
}

let connectedAt = 0;

export function connect(): void {
  client.value?.close();
  connectedAt = 0;
  const relayed = devState.value?.mode === "inspect"; // then the server's own process sends token and headers
  const settings = { revision: revision.value, lacks: new Set(lacks.value), token: relayed ? "" : bearer.value, headers: relayed ? {} : Object.fromEntries(headers.value.filter(([name]) => name)), logLevel: logLevel.value, meta: metadata.value };
  const next = new Client(devState.value?.path ?? "/mcp", settings, {
    changed: () => {
      if (client.value !== next) return;
      connection.value++;
      if (next.phase === "open" && next.connectedAt !== connectedAt) {
        connectedAt = next.connectedAt;
        loadHistory();
        void refresh();
      }
    },
    notified: (message) => {
      if (client.value === next) notified(message);
    },
    exchanged: (exchange) => {
      if (exchanges[exchanges.length - 1]?.n !== exchange.n && !exchanges.includes(exchange)) {
        exchanges.push(exchange);
        if (exchanges.length > 600) exchanges.splice(0, 100);
      }
      touchExchanges();
    },
    message: (direction, message, exchange) => {
      if (devLink.value !== "open" && devLink.value !== "connecting") takeOwn(direction, message, next.revision, exchange.status, exchange.headers);
    },
    asked: (request) => ask(undefined, request, "server"),
  });
  client.value = next;
  void next.connect();
}

function can(name: string): boolean {
  return client.value?.capabilities[name] !== undefined;
}

async function load<T>(capability: string, method: string, key: string, into: { value: T[] }): Promise<ListDiff | undefined> {
  const own = client.value;
  if (!own || !can(capability)) {
    into.value = [];
    return undefined;
  }
  try {
    const before = into.value;
    let count = 0;
    let next: string | undefined;
    const items = await own.list<T>(method, key, (sofar, cursor) => {
      count++;
      next = cursor;
      if (count === 1 && before.length === 0) into.value = [...sofar]; // the first page is shown at once
      return !paged.value;
    });
    if (client.value !== own) return undefined;
    into.value = items;
    pages.value = { ...pages.value, [method]: count };
    cursors.value = { ...cursors.value, [method]: paged.value ? next : undefined };
    const { [method]: _gone, ...rest } = listProblems.value;
    listProblems.value = rest;
    return listDiff(before, items, (item) => String((item as { uri?: string }).uri ?? (item as { uriTemplate?: string }).uriTemplate ?? (item as { name: string }).name));
  } catch (error) {
    listProblems.value = { ...listProblems.value, [method]: (error as Error).message };
    return undefined;
  }
}

/** Where the next page of a list begins, if lists are read page by page. */
export const cursors = signal<Record<string, string | undefined>>({});
const HOMES: Record<string, [key: string, into: { value: unknown[] }]> = {
  "tools/list": ["tools", tools],
  "prompts/list": ["prompts", prompts],
  "resources/list": ["resources", resources],
  "resources/templates/list": ["resourceTemplates", templates],
};

export async function nextPage(method: string): Promise<void> {
  const [key, into] = HOMES[method] as [string, { value: unknown[] }];
  let next: string | undefined;
  try {
    const more = await client.value?.list<unknown>(method, key, (_, cursor) => {
      next = cursor;
      return false;
    }, cursors.value[method]);
    into.value = [...into.value, ...(more ?? [])];
    pages.value = { ...pages.value, [method]: (pages.value[method] ?? 1) + 1 };
    cursors.value = { ...cursors.value, [method]: next };
  } catch (error) {
    toast("bad", "The next page could not be read", [(error as Error).message]);
  }
}

const LISTS = {
  tools: () => load("tools", "tools/list", "tools", tools),
  prompts: () => load("prompts", "prompts/list", "prompts", prompts),
  resources: () => load("resources", "resources/list", "resources", resources),
  templates: () => load("resources", "resources/templates/list", "resourceTemplates", templates),
};

export async function refresh(): Promise<void> {
  const first = tools.value.length + prompts.value.length + resources.value.length + templates.value.length === 0;
  if (first) loading.value = true;
  await Promise.all(Object.values(LISTS).map((read) => read()));
  loading.value = false;
}

function notified(message: Message): void {
  const changed = /^notifications\/(tools|prompts|resources)\/list_changed$/.exec(message.method ?? "")?.[1];
  if (changed) void changedList(changed as "tools" | "prompts" | "resources");
  if (message.method === "notifications/resources/updated") {
    const uri = String(message.params?.uri ?? "");
    updates.value = { ...updates.value, [uri]: (updates.value[uri] ?? 0) + 1 };
  }
  if (message.method === "notifications/message" && devLink.value !== "open") {
    const data = message.params?.data;
    addLog({ seq: ++logSeq, time: Date.now() / 1000, kind: "log", level: String(message.params?.level ?? "info"), logger: String(message.params?.logger ?? ""), text: logText(data), source: "context" });
  }
  if (message.method === "notifications/tasks" || message.method === "notifications/tasks/status") takeTask(message.params as unknown as Task);
}

async function changedList(which: "tools" | "prompts" | "resources"): Promise<void> {
  const diffs = which === "resources" ? [await LISTS.resources(), await LISTS.templates()] : [await LISTS[which]()];
  if (devLink.value === "open" && devState.value?.canReload) return; // the reload event says it better
  for (const diff of diffs) if (diff && !isEmpty(diff)) toast("info", `The list of ${which} has changed`, diffLines(diff));
}

const diffLines = (diff: ListDiff): string[] =>
  [
    diff.added.length > 0 ? `+ ${plural(diff.added)}` : "",
    diff.changed.length > 0 ? `~ ${plural(diff.changed)}` : "",
    diff.removed.length > 0 ? `− ${plural(diff.removed)}` : "",
  ].filter(Boolean);

// ---------------------------------------------------------------- what the server tells

export const logs: LogEvent[] = [];
export const logVersion = signal(0);
let logSeq = 0;
let logDue = false;

const logText = (data: Json | undefined): string => (typeof data === "string" ? data : (JSON.stringify(data) ?? "")).slice(0, 65_536); // as much as the server shows

export function addLog(entry: LogEvent): void {
  logs.push(entry);
  if (logs.length > 5000) logs.splice(0, 1000);
  if (logDue) return;
  logDue = true;
  setTimeout(() => {
    logDue = false;
    logVersion.value++;
  }, 50);
}

export function clearLogs(): void {
  logs.length = 0;
  logVersion.value++;
}

export const reloadFailure = signal<Failure | undefined>(undefined);
export const lastReload = signal<ReloadEvent | undefined>(undefined);
/** Durations per tool; the server's own where it tells them. */
export const statistics = signal<Record<string, Statistics>>({});

export function start(): void {
  let connected = false;
  void followServer(
    (state: DevState | undefined) => {
      if (state) {
        for (const one of state.clients ?? []) clients.set(one.id, one);
        for (const call of state.calls ?? []) takeCall(call);
        statistics.value = state.tools ?? {};
        reloadFailure.value = state.reload?.error ?? undefined;
      }
      if (!connected) {
        connected = true;
        connect();
      }
      touch();
    },
    (events, included) =>
      batch(() => {
        fresh = {};
        for (const event of events) takeEvent(event, event.seq > included);
        if (Object.keys(fresh).length > 0) statistics.value = { ...statistics.value, ...fresh };
      }),
  );
}

/** What each client has sent by now: an event tells only that one comes, changes or goes. */
export async function countClients(): Promise<void> {
  const state = await readState().catch(() => undefined);
  for (const one of state?.clients ?? []) clients.set(one.id, one);
  touch();
}

function takeEvent(event: DevEvent, news: boolean): void {
  switch (event.kind) {
    case "message":
      if (!paused.value) takeMessage(event);
      touch();
      break;
    case "call":
      takeCall(event);
      if (news && event.state === "done" && event.method === "tools/call" && event.name && event.outcome !== "input_required") count(event.name, event.ms, event.outcome);
      touch();
      touchCalls();
      break;
    case "client":
      if (news || !clients.has(event.client.id)) clients.set(event.client.id, { ...event.client, open: event.change !== "went" && event.client.open !== false });
      touch();
      break;
    case "log":
      addLog(event);
      break;
    case "reload":
      if (news) reloaded(event);
      else if (!event.error) lastReload.value = event;
      break;
    case "task":
      otherTask(event);
      break;
    case "upstream":
      if (!news || !devState.value?.upstream) break;
      if (event.name !== devState.value.upstream.name) beginAnew(); // another page has chosen it
      else devState.value = { ...devState.value, upstream: { ...devState.value.upstream, signIn: event.signIn ?? null } };
      break;
  }
}

/** What the events of one batch add to the statistics. */
let fresh: Record<string, Statistics> = {};
const SAMPLES = 512;

function count(name: string, ms: number | undefined, outcome: string | null | undefined): void {
  if (ms === undefined) return;
  const old = fresh[name] ?? statistics.value[name] ?? { count: 0, errors: 0, last: [] };
  fresh[name] = { count: old.count + 1, errors: old.errors + (outcome === "ok" ? 0 : 1), last: [...old.last, ms].slice(-SAMPLES) };
}

/** Percentiles are for those who look: they are made when a tool is shown. */
export function percentiles(stats: Statistics): { p50: number | undefined; p95: number | undefined; p99: number | undefined } {
  if (stats.p50 !== undefined) return { p50: stats.p50, p95: stats.p95, p99: stats.p99 };
  return { p50: percentile(stats.last, 0.5), p95: percentile(stats.last, 0.95), p99: percentile(stats.last, 0.99) };
}

function reloaded(event: ReloadEvent): void {
  lastReload.value = event;
  if (devState.value) devState.value = { ...devState.value, reload: { count: (devState.value.reload?.count ?? 0) + 1, at: event.time, ms: event.ms, error: event.error } };
  reloadFailure.value = event.error ?? undefined;
  if (event.error) return;
  const lines = (["tools", "prompts", "resources", "templates"] as const).flatMap((which) => {
    const diff = event[which];
    if (!diff) return [];
    return diffLines({ added: diff.added, removed: diff.removed, changed: diff.changed.map((one) => one.name) }).map((line) => (which === "tools" ? line : `${line} (${which})`));
  });
  const total = (key: "added" | "removed" | "changed"): number => event.tools?.[key]?.length ?? 0;
  const short = [total("added") ? `+${total("added")} ${total("added") === 1 ? "tool" : "tools"}` : "", total("changed") ? `~${total("changed")} changed` : "", total("removed") ? `−${total("removed")} removed` : ""].filter(Boolean).join(", ");
  toast("good", `Reloaded in ${Math.round(event.ms)} ms${short ? `: ${short}` : ""}`, lines.length > 0 ? lines : ["Nothing changed in the lists."], "#/server?tab=reload", lines.length > 0 ? "Show what changed" : undefined);
  void refresh();
}

// ---------------------------------------------------------------- calls

export type Kind = "tools/call" | "prompts/get" | "resources/read";

export interface Question {
  key: string;
  call: string | undefined;
  request: InputRequest;
  began: number;
  resolve: (answer: JsonObject) => void;
  reject: (error: Error) => void;
}

export interface Piece {
  kind: "server" | "human";
  from: number;
  to: number | undefined;
}

export interface CallRecord {
  key: string;
  kind: Kind;
  name: string;
  arguments: JsonObject;
  revision: string;
  began: number;
  ms: number | undefined;
  human: number;
  rounds: number;
  status: "running" | "waiting" | "ok" | "tool error" | "error" | "cancelled";
  result: JsonObject | undefined;
  error: { message: string; code: number | undefined; data: Json | undefined; status: number | undefined } | undefined;
  progress: { progress: number; total?: number; message?: string } | undefined;
  logs: { level: string; text: string }[];
  ids: string[];
  messages: { direction: "in" | "out"; message: Message }[];
  pieces: Piece[];
  answered: { request: InputRequest; answer: JsonObject; ms: number }[];
  task: string | undefined;
  pinned: boolean;
  restored: boolean;
}

export const calls = signal<CallRecord[]>([]); // newest first
export const callsVersion = signal(0);
export const questions = signal<Question[]>([]);
/** The call that a view shows; without an entry the newest of its kind and name. */
export const shown = signal<Record<string, string>>({});
const controls = new Map<string, AbortController>();
let callCount = 0;
let callsAt = 0;
let callsDue = false;

/** Tell the views, at most twenty times a second; at once where a person is asked, so that nothing moves afterwards. */
export function touchCalls(atOnce = false): void {
  const now = performance.now();
  if (callsDue && !atOnce) return;
  if (atOnce || now - callsAt >= 50) {
    callsAt = now;
    callsVersion.value++;
    return;
  }
  callsDue = true;
  setTimeout(() => {
    callsDue = false;
    callsAt = performance.now();
    callsVersion.value++;
  }, 50);
}

export const viewKey = (kind: Kind, name: string): string => `${kind} ${name}`;

export function currentCall(kind: Kind, name: string): CallRecord | undefined {
  callsVersion.value;
  const key = shown.value[viewKey(kind, name)];
  if (key === "") return undefined;
  return calls.value.find((call) => (key === undefined ? call.kind === kind && call.name === name && !call.restored : call.key === key));
}

export function showCall(call: CallRecord | undefined, kind: Kind, name: string): void {
  shown.value = { ...shown.value, [viewKey(kind, name)]: call?.key ?? "" };
}

/** What the server says about a call of this page: its times and its traceback. */
export function serverSide(call: CallRecord): ReturnType<typeof callOfId.get> {
  trafficVersion.value;
  for (const id of [...call.ids].reverse()) {
    const found = callOfId.get(id);
    if (found) return found;
  }
  return undefined;
}

export function ask(record: CallRecord | undefined, request: InputRequest, key: string): Promise<JsonObject> {
  return new Promise((resolve, reject) => {
    const question: Question = { key: `${record?.key ?? ""}/${key}/${performance.now()}`, call: record?.key, request, began: performance.now(), resolve: done, reject: failed };
    let note = 0;
    function gone(): void {
      questions.value = questions.value.filter((one) => one !== question);
      dismiss(note);
    }
    function done(answer: JsonObject): void {
      gone();
      record?.answered.push({ request, answer, ms: performance.now() - question.began });
      resolve(answer);
    }
    function failed(error: Error): void {
      gone();
      reject(error);
    }
    questions.value = [...questions.value, question];
    const view = record && { "tools/call": "tools", "prompts/get": "prompts", "resources/read": "resources" }[record.kind];
    const here = record && decodeURIComponent(location.hash).startsWith(`#/${view}/${record.name}`);
    if (record && view && !here) note = toast("ask", `${record.name} asks a question`, [String(request.params?.message ?? request.method)], `#/${view}/${encodeURIComponent(record.name)}`, "Answer");
    controls.get(record?.key ?? "")?.signal.addEventListener("abort", () => failed(new Error("cancelled")), { once: true });
  });
}

async function asking(record: CallRecord, request: InputRequest, key: string): Promise<JsonObject> {
  const now = performance.now();
  const last = record.pieces[record.pieces.length - 1];
  if (last?.kind === "server" && last.to === undefined) last.to = now;
  const piece: Piece = { kind: "human", from: now, to: undefined };
  record.pieces.push(piece);
  record.status = "waiting";
  touchCalls(true);
  try {
    return await ask(record, request, key);
  } finally {
    piece.to = performance.now();
    record.human += piece.to - piece.from;
    record.pieces.push({ kind: "server", from: piece.to, to: undefined });
    record.status = "running";
    record.rounds++;
    touchCalls();
  }
}

export function cancelCall(record: CallRecord): void {
  controls.get(record.key)?.abort();
}

export interface CallOptions {
  asTask?: boolean;
}

/** Make a call and keep its record. Never throws: what went wrong is in the record. */
export async function call(kind: Kind, name: string, args: JsonObject, options: CallOptions = {}): Promise<CallRecord> {
  const own = client.value as Client;
  const record: CallRecord = {
    key: `${Date.now().toString(36)}-${++callCount}`,
    kind,
    name,
    arguments: structuredClone(args),
    revision: own.revision,
    began: Date.now(),
    ms: undefined,
    human: 0,
    rounds: 1,
    status: "running",
    result: undefined,
    error: undefined,
    progress: undefined,
    logs: [],
    ids: [],
    messages: [],
    pieces: [{ kind: "server", from: performance.now(), to: undefined }],
    answered: [],
    task: undefined,
    pinned: false,
    restored: false,
  };
  const control = new AbortController();
  controls.set(record.key, control);
  calls.value = [record, ...calls.value].filter((one, at) => at < 200 || one.pinned);
  shown.value = { ...shown.value, [viewKey(kind, name)]: record.key };
  const params: JsonObject = kind === "resources/read" ? { uri: name } : { name, arguments: args };
  if (options.asTask) params.task = { ttl: 600_000 };
  try {
    const result = await own.request(kind, params, {
      signal: control.signal,
      schema: kind === "tools/call" ? tools.value.find((tool) => tool.name === name)?.inputSchema : undefined,
      ask: (request, key) => asking(record, request, key),
      progress: (progress) => {
        record.progress = progress;
        touchCalls();
      },
      notified: (message) => {
        if (message.method !== "notifications/message") return;
        const data = message.params?.data;
        record.logs.push({ level: String(message.params?.level ?? "info"), text: logText(data) });
        if (record.logs.length > 500) record.logs.shift();
        touchCalls();
      },
      sent: (id, full) => {
        record.ids.push(id);
        record.messages.push({ direction: "out", message: { jsonrpc: "2.0", id, method: kind, params: full } });
      },
      received: (message) => {
        record.messages.push({ direction: "in", message });
        if (record.messages.length > 300) record.messages.splice(1, 1);
      },
    });
    record.result = await taskResult(record, result, own, control.signal);
    record.status = record.result.isError === true ? "tool error" : "ok";
  } catch (error) {
    if (control.signal.aborted) record.status = "cancelled";
    else {
      record.status = "error";
      const failure = error as McpError;
      record.error = { message: failure.message, code: failure.code, data: failure.data, status: failure.status };
    }
  }
  finish(record);
  return record;
}

function finish(record: CallRecord): void {
  const last = record.pieces[record.pieces.length - 1];
  if (last && last.to === undefined) last.to = performance.now();
  record.ms = record.pieces.filter((piece) => piece.kind === "server").reduce((sum, piece) => sum + ((piece.to ?? piece.from) - piece.from), 0);
  controls.delete(record.key);
  questions.value = questions.value.filter((question) => question.call !== record.key);
  if (devLink.value !== "open" && record.kind === "tools/call" && record.status !== "cancelled") {
    fresh = {};
    count(record.name, record.ms, record.status);
    statistics.value = { ...statistics.value, ...fresh };
  }
  touchCalls();
  saveHistory();
}

// ---------------------------------------------------------------- history

const historyKey = (): string => `history:${client.value?.serverInfo?.name ?? "server"}`;
const MOST_KEPT = 100;
const LARGEST_KEPT = 20_000;
let loadedKey = "";
/** Results that are small enough to be kept: measured once, because large ones take long. */
const fits = new WeakMap<JsonObject, boolean>();

function isKept(result: JsonObject): boolean {
  const known = fits.get(result) ?? JSON.stringify(result).length <= LARGEST_KEPT;
  fits.set(result, known);
  return known;
}

function saveHistory(): void {
  const kept = calls.value
    .filter((one) => one.status !== "running" && one.status !== "waiting")
    .slice(0, MOST_KEPT)
    .map((one) => {
      const result = one.result !== undefined && isKept(one.result) ? one.result : undefined;
      const { messages: _messages, pieces: _pieces, ids: _ids, logs: _logs, answered: _answered, ...rest } = one;
      return { ...rest, result };
    });
  remember(historyKey(), kept);
}

function loadHistory(): void {
  const key = historyKey();
  if (loadedKey === key) return;
  loadedKey = key;
  try {
    const kept = JSON.parse(localStorage.getItem(`redstart:${key}`) ?? "[]") as CallRecord[];
    const restored = kept.map((one) => ({ ...one, messages: [], pieces: [], ids: [], logs: [], answered: [], restored: true }));
    calls.value = [...calls.value, ...restored.filter((one) => !calls.value.some((now) => now.key === one.key))];
  } catch {
    // A history that cannot be read is begun anew.
  }
}

export function forgetCall(record: CallRecord): void {
  calls.value = calls.value.filter((one) => one !== record);
  saveHistory();
}

export function forgetHistory(): void {
  calls.value = calls.value.filter((one) => one.pinned || one.status === "running" || one.status === "waiting");
  saveHistory();
}

export function pinCall(record: CallRecord): void {
  record.pinned = !record.pinned;
  calls.value = [...calls.value];
  saveHistory();
}

// ---------------------------------------------------------------- subscriptions

export const subscribed = signal<Set<string>>(new Set());

export async function subscribe(uri: string, on: boolean): Promise<void> {
  const own = client.value;
  if (!own) return;
  const next = new Set(subscribed.value);
  if (on) next.add(uri);
  else next.delete(uri);
  subscribed.value = next;
  own.subscriptions = next;
  if (own.modern) own.relisten();
  else await own.request(on ? "resources/subscribe" : "resources/unsubscribe", { uri }).catch((error: Error) => toast("bad", "The subscription failed", [error.message]));
}

// ---------------------------------------------------------------- completion

export async function complete(ref: JsonObject, argument: string, value: string, context: Record<string, string>): Promise<{ values: string[]; total?: number; hasMore?: boolean }> {
  const own = client.value;
  if (!own || !can("completions")) return { values: [] };
  const params: JsonObject = { ref, argument: { name: argument, value } };
  if (Object.keys(context).length > 0 && own.revision >= "2025-06-18") params.context = { arguments: context };
  try {
    const result = await own.request("completion/complete", params);
    return (result.completion ?? { values: [] }) as unknown as { values: string[] };
  } catch {
    return { values: [] };
  }
}

// ---------------------------------------------------------------- tasks

export interface TaskRecord {
  task: Task;
  name: string;
  own: boolean;
  revision: string;
  call: string | undefined;
  updated: number;
}

export const tasks = signal<TaskRecord[]>([]);
const DONE = new Set(["completed", "failed", "cancelled"]);
const wakers = new Map<string, () => void>();

function takeTask(task: Task, more: Partial<TaskRecord> = {}): void {
  if (!task?.taskId) return;
  const known = tasks.value.find((one) => one.task.taskId === task.taskId);
  const record: TaskRecord = { name: "", own: true, revision: client.value?.revision ?? "", call: undefined, ...known, ...more, task: { ...known?.task, ...task }, updated: Date.now() / 1000 };
  tasks.value = known ? tasks.value.map((one) => (one === known ? record : one)) : [record, ...tasks.value].slice(0, 300);
  wakers.get(task.taskId)?.();
}

function otherTask(event: { task: string; name?: string; status: string; message?: string | null; created?: number | null; ttlMs?: number | null; time: number }): void {
  const known = tasks.value.find((one) => one.task.taskId === event.task);
  const created = typeof event.created !== "number" ? {} : { createdAt: new Date(event.created * 1000).toISOString() };
  const task: Task = { taskId: event.task, status: event.status as Task["status"], ...(event.message ? { statusMessage: event.message } : {}), ...created, ...(event.ttlMs === undefined ? {} : { ttlMs: event.ttlMs }) };
  takeTask(task, { name: event.name ?? known?.name ?? "", own: known?.own ?? false });
}

const pollTime = (task: Task): number => Math.min(Math.max(task.pollIntervalMs ?? task.pollInterval ?? 1000, 100), 10_000);

/** If a call became a task: wait for it, answer its questions, and return the result of the work. */
async function taskResult(record: CallRecord, result: JsonObject, own: Client, signal: AbortSignal): Promise<JsonObject> {
  const created = (result.resultType === "task" ? result : (result.task as JsonObject | undefined)) as unknown as Task | undefined;
  if (!created?.taskId || record.kind !== "tools/call") return result;
  record.task = created.taskId;
  takeTask(created, { name: record.name, own: true, revision: own.revision, call: record.key });
  touchCalls();
  signal.addEventListener("abort", () => void own.request("tasks/cancel", { taskId: created.taskId }).catch(() => undefined), { once: true });
  return own.revision === MODERN ? await modernTask(record, created, own, signal) : await handshakeTask(record, created, own, signal);
}

async function modernTask(record: CallRecord, created: Task, own: Client, signal: AbortSignal): Promise<JsonObject> {
  const answered = new Set<string>();
  own.taskIds.add(created.taskId);
  own.relisten();
  try {
    for (;;) {
      const task = (await own.request("tasks/get", { taskId: created.taskId }, { signal })) as unknown as Task;
      takeTask(task);
      if (task.status === "completed") return (task.result ?? {}) as JsonObject;
      if (task.status === "failed") throw new McpError(task.error?.message ?? task.statusMessage ?? "The task failed.", task.error?.code, task.error?.data, undefined);
      if (task.status === "cancelled") throw new McpError("The task was cancelled.", undefined, undefined, undefined);
      for (const [key, question] of Object.entries(task.inputRequests ?? {})) {
        if (answered.has(key)) continue;
        const answer = await asking(record, question, key);
        answered.add(key);
        await own.request("tasks/update", { taskId: created.taskId, inputResponses: { [key]: answer } }, { signal });
      }
      await wait(created.taskId, pollTime(task), signal);
    }
  } finally {
    own.taskIds.delete(created.taskId);
  }
}

async function handshakeTask(record: CallRecord, created: Task, own: Client, signal: AbortSignal): Promise<JsonObject> {
  let over = false;
  const poll = async (): Promise<void> => {
    while (!over && !signal.aborted) {
      const task = (await own.request("tasks/get", { taskId: created.taskId }).catch(() => undefined)) as unknown as Task | undefined;
      if (task) takeTask(task);
      if (task && DONE.has(task.status)) return;
      await wait(created.taskId, pollTime(task ?? created), signal);
    }
  };
  const polling = poll();
  try {
    return await own.request("tasks/result", { taskId: created.taskId }, { signal, ask: (request, key) => asking(record, request, key) });
  } finally {
    over = true;
    void polling;
    const last = (await own.request("tasks/get", { taskId: created.taskId }).catch(() => undefined)) as unknown as Task | undefined;
    if (last) takeTask(last);
  }
}

/** Until a notification about the task, or the time to ask again. */
function wait(taskId: string, time: number, signal: AbortSignal): Promise<void> {
  return new Promise((done) => {
    const over = (): void => {
      clearTimeout(timer);
      wakers.delete(taskId);
      done();
    };
    const timer = setTimeout(over, time);
    wakers.set(taskId, over);
    signal.addEventListener("abort", over, { once: true });
  });
}

export async function listTasks(): Promise<string | undefined> {
  const own = client.value;
  if (!own || own.modern || !(own.capabilities.tasks as JsonObject | undefined)?.list) return "This server does not list tasks to this client; those of the page and, in development, of all clients are shown.";
  try {
    for (const task of await own.list<Task>("tasks/list", "tasks")) takeTask(task);
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}

export async function cancelTask(record: TaskRecord): Promise<void> {
  try {
    const task = await client.value?.request("tasks/cancel", { taskId: record.task.taskId });
    if (task?.taskId) takeTask(task as unknown as Task);
    else {
      const now = await client.value?.request("tasks/get", { taskId: record.task.taskId });
      if (now) takeTask(now as unknown as Task);
    }
  } catch (error) {
    toast("bad", "The task was not cancelled", [(error as Error).message]);
  }
}

export { isOwn, serverCalls };
