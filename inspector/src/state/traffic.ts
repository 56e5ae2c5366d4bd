// The traffic of every client as rows: a request and its answer are one row, a notification is one.

import { signal } from "@preact/signals";
import type { Message } from "../mcp/types";
import type { Filterable } from "../text/filter";
import type { ClientInfo, MessageEvent_, ServerCall } from "./dev";

export interface Row {
  key: string;
  seq: number;
  time: number;
  client: string; // its id
  direction: "in" | "out";
  method: string;
  name: string;
  id: string | number | null;
  era: string;
  revision: string;
  transport: string;
  type: string;
  request: MessageEvent_ | undefined;
  answer: MessageEvent_ | undefined;
  call: string | undefined;
  outcome: string; // of the answer, read once when it comes; "" before
  pinned: boolean;
}

/** What an answer says, in a word. */
function outcomeOf(answer: MessageEvent_): string {
  if (answer.type === "error") return "error";
  if (answer.isError) return "tool error";
  return /"resultType"\s*:\s*"(input_required|task)"/.exec(answer.text)?.[1]?.replace("_", " ") ?? "ok";
}

const MOST_ROWS = 3000;
const MOST_CALLS = 3000;

export const rows: Row[] = [];
const open = new Map<string, Row>();
export const serverCalls = new Map<string, ServerCall>();
export const callOfId = new Map<string, ServerCall>();
export const clients = new Map<string, ClientInfo>();
/** Counts up when rows, calls or clients have changed; at most twenty times a second. */
export const trafficVersion = signal(0);
export const paused = signal(false);

let due = false;
export function touch(): void {
  if (due) return;
  due = true;
  setTimeout(() => {
    due = false;
    trafficVersion.value++;
  }, 50);
}

export function takeMessage(event: MessageEvent_): void {
  const pair = (direction: string): string => `${event.client}|${direction}|${typeof event.id}:${String(event.id)}`;
  if (event.type === "response" || event.type === "error") {
    const row = open.get(pair(event.direction === "in" ? "out" : "in"));
    if (row) {
      row.answer = event;
      row.outcome = outcomeOf(event);
      row.call ??= event.call ?? undefined;
      open.delete(pair(event.direction === "in" ? "out" : "in"));
      return;
    }
  }
  const row: Row = {
    key: `${event.seq}`,
    seq: event.seq,
    time: event.time,
    client: event.client,
    direction: event.direction,
    method: event.method ?? (event.type === "request" ? "" : "(answer)"),
    name: event.name ?? "",
    id: event.id,
    era: event.era ?? "",
    revision: event.revision ?? "",
    transport: event.transport ?? "",
    type: event.type,
    request: event.type === "response" || event.type === "error" ? undefined : event,
    answer: event.type === "response" || event.type === "error" ? event : undefined,
    call: event.call ?? undefined,
    outcome: event.type === "response" || event.type === "error" ? outcomeOf(event) : "",
    pinned: false,
  };
  rows.push(row);
  if (event.type === "request") open.set(pair(event.direction), row);
  if (rows.length > MOST_ROWS * 1.2) {
    const kept = rows.filter((one) => one.pinned);
    const recent = rows.slice(-MOST_ROWS).filter((one) => !one.pinned);
    rows.length = 0;
    rows.push(...kept, ...recent);
    if (open.size > MOST_ROWS) open.clear();
  }
}

export function takeCall(call: ServerCall): void {
  serverCalls.set(call.call, call);
  for (const id of call.ids ?? []) callOfId.set(String(id), call);
  for (const map of [serverCalls, callOfId]) {
    if (map.size <= MOST_CALLS * 1.2) continue;
    for (const key of map.keys()) {
      if (map.size <= MOST_CALLS) break;
      map.delete(key);
    }
  }
}

export function forgetTraffic(): void {
  const kept = rows.filter((row) => row.pinned);
  rows.length = 0;
  rows.push(...kept);
  open.clear();
  touch();
}

export const isOwn = (client: ClientInfo | undefined): boolean => client?.name === "redstart-inspector";

export function clientName(id: string): string {
  const client = clients.get(id);
  if (!client) return id;
  if (isOwn(client)) return "this page";
  return client.title || client.name || `client ${id}`;
}

export function rowMs(row: Row): number | undefined {
  const call = row.call === undefined ? undefined : serverCalls.get(row.call);
  if (call?.ms !== undefined && (call.rounds ?? 1) <= 1) return call.ms;
  return row.request && row.answer ? (row.answer.time - row.request.time) * 1000 : undefined;
}

export function rowStatus(row: Row): string {
  if (row.type === "notification") return "sent";
  const answer = row.answer;
  if (!answer) {
    const call = row.call === undefined ? undefined : serverCalls.get(row.call);
    if (call?.outcome === "cancelled") return "cancelled";
    if (row.method === "subscriptions/listen") return "open";
    return row.type === "request" ? (call?.state === "waiting" ? "waiting" : "running") : "sent";
  }
  return row.outcome;
}

export function filterable(row: Row): Filterable {
  return {
    method: row.method,
    name: row.name,
    client: `${clientName(row.client)} ${row.transport}`,
    status: rowStatus(row),
    era: row.era,
    transport: row.transport,
    revision: row.revision,
    direction: row.direction,
    type: row.type,
    ms: rowMs(row),
    // Texts are long and rows are many: only a filter that looks for words reads them.
    get text() {
      return `${row.request?.text ?? ""} ${row.answer?.text ?? ""}`;
    },
  };
}

/** A line about the answer, for the list: the error's message, or the beginning of the text. */
export function rowRemark(row: Row): string {
  const answer = row.answer;
  if (!answer || (answer.type !== "error" && !answer.isError)) return "";
  try {
    const message = JSON.parse(answer.text) as Message;
    const content = (message.result?.content ?? []) as { text?: string }[];
    return (message.error?.message ?? content[0]?.text ?? "").slice(0, 300);
  } catch {
    return "";
  }
}

let ownSeq = 0;

/** The page's own messages, where no server tells of everybody's. */
export function takeOwn(direction: "in" | "out", message: Message, revision: string, status: number | undefined, headers: Record<string, string>): void {
  const kind = message.method !== undefined ? (message.id === undefined ? "notification" : "request") : message.error ? "error" : "response";
  const text = JSON.stringify(message);
  const params = message.params ?? {};
  clients.set("page", { id: "page", name: "redstart-inspector", revision, transport: "http" });
  takeMessage({
    seq: ++ownSeq,
    time: Date.now() / 1000,
    kind: "message",
    client: "page",
    direction: direction === "out" ? "in" : "out", // as the server sees it
    era: revision >= "2026" ? "modern" : "handshake",
    revision,
    transport: "http",
    type: kind,
    id: message.id ?? null,
    method: message.method ?? null,
    name: (params.name ?? params.uri ?? params.taskId ?? null) as string | null,
    status: status ?? null,
    size: text.length,
    text,
    headers: direction === "out" ? headers : null,
    isError: message.result?.isError === true,
  });
  touch();
}
