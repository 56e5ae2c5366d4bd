// What only the server knows: /_redstart/state and the event stream (docs/design/0007-inspector.md). Absent without a token.

import { signal } from "@preact/signals";
import { readEvents } from "../mcp/sse";
import type { JsonObject } from "../mcp/types";

export interface Place {
  file: string;
  line: number;
  shown: string;
}

export interface Frame {
  file: string;
  line: number;
  function: string;
  source: string;
  own: boolean;
}

export interface Failure {
  type: string;
  text: string;
  id?: string | null;
  place?: Place | null;
  frames?: Frame[];
  traceback?: string;
}

export interface ClientInfo {
  id: string;
  name?: string;
  version?: string;
  title?: string;
  revision?: string;
  era?: string;
  transport?: string;
  capabilities?: JsonObject;
  since?: number;
  seen?: number;
  open?: boolean;
  messages?: number;
  user?: string | null;
  worker?: number;
}

export interface Statistics {
  count: number;
  errors: number;
  p50?: number;
  p95?: number;
  p99?: number;
  last: number[];
}

export interface Snippet {
  client: string;
  title: string;
  kind: string;
  file?: string | null;
  text: string;
  transport: string;
  note?: string;
}

export interface Finding {
  code: string;
  severity: "error" | "warning" | "note";
  kind: string;
  name: string;
  text: string;
  fix?: string;
  place?: Place | null;
}

export interface DevState {
  epoch: string;
  seq: number;
  mode: "dev" | "run" | "inspect";
  redacted: boolean;
  canReload: boolean;
  server: { name?: string; version?: string; title?: string; description?: string; websiteUrl?: string; instructions?: string };
  endpoint: string;
  path: string;
  target: string;
  protocols: string[];
  pid?: number;
  python?: string;
  redstart?: string;
  platform?: string;
  started?: number;
  workers?: number;
  reload?: { count: number; at: number; ms: number; error: Failure | null } | null;
  places?: Record<"tools" | "prompts" | "resources" | "templates", Record<string, Place>>;
  clients: ClientInfo[];
  calls: ServerCall[];
  tools: Record<string, Statistics>;
  install?: Snippet[];
  findings?: Finding[];
  servers?: { name: string; kind: string; shown: string }[];
  upstream?: { name: string; kind: string; shown: string; signIn?: string | null; open: boolean; error?: string | null; revision?: string | null; log?: string[] } | null;
}

export interface MessageEvent_ {
  seq: number;
  time: number;
  kind: "message";
  client: string;
  direction: "in" | "out";
  era: string;
  revision: string;
  transport: string;
  type: "request" | "response" | "error" | "notification";
  id: string | number | null;
  method?: string | null;
  name?: string | null;
  call?: string | null;
  status?: number | null;
  size: number;
  text: string;
  cut?: boolean;
  headers?: Record<string, string> | null;
  isError?: boolean;
}

export interface ServerCall {
  call: string;
  client: string;
  state: "running" | "waiting" | "done";
  method: string;
  name?: string | null;
  began: number;
  ms?: number;
  human?: number;
  rounds?: number;
  ids?: (string | number)[];
  revision?: string;
  transport?: string;
  progress?: { progress: number; total?: number; message?: string } | null;
  task?: string | null;
  timings?: Partial<Record<"queue" | "validate" | "handler" | "encode", number>> | null;
  outcome?: "ok" | "tool_error" | "error" | "cancelled" | "input_required" | null;
  code?: number | null;
  error?: Failure | null;
  size?: number;
}

export interface LogEvent {
  seq: number;
  time: number;
  kind: "log";
  level: string;
  logger?: string;
  text: string;
  call?: string | null;
  client?: string | null;
  source: string;
  place?: Place | null;
  error?: Failure | null;
}

export interface Diff {
  added: string[];
  removed: string[];
  changed: { name: string; before: JsonObject; after: JsonObject }[];
}

export interface ReloadEvent {
  seq: number;
  time: number;
  kind: "reload";
  ms: number;
  files: string[];
  error: Failure | null;
  kept?: string | null;
  tools: Diff;
  prompts: Diff;
  resources: Diff;
  templates: Diff;
}

export interface TaskEvent {
  seq: number;
  time: number;
  kind: "task";
  task: string;
  call?: string | null;
  name?: string;
  status: string;
  message?: string | null;
  created?: number;
  updated?: number;
  ttlMs?: number | null;
}

export interface UpstreamEvent {
  seq: number;
  time: number;
  kind: "upstream";
  name: string;
  signIn?: string | null;
}

export type DevEvent = MessageEvent_ | (ServerCall & { seq: number; time: number; kind: "call" }) | LogEvent | ReloadEvent | { seq: number; time: number; kind: "client"; change: string; client: ClientInfo } | TaskEvent | UpstreamEvent;

interface Batch {
  epoch: string;
  seq: number;
  events: DevEvent[];
  leftOut?: Record<string, number>;
  missed?: boolean;
}

export type Link = "off" | "connecting" | "open" | "lost" | "refused";

export const devState = signal<DevState | undefined>(undefined);
export const devLink = signal<Link>("off");
export const leftOut = signal(0);

const TOKEN_KEY = "redstart:token";
let token = "";

/** The token of the URL's fragment, kept for this tab; the address bar loses it. */
export function takeToken(): string {
  const match = /^#(?:.*&)?token=([^&]+)/.exec(location.hash);
  if (match) {
    token = decodeURIComponent(match[1] as string);
    try {
      sessionStorage.setItem(TOKEN_KEY, token);
    } catch {
      // Without storage the token lasts as long as the page.
    }
    history.replaceState(null, "", `${location.pathname}${location.search}#/`);
  } else {
    try {
      token = sessionStorage.getItem(TOKEN_KEY) ?? "";
    } catch {
      token = "";
    }
  }
  return token;
}

function ask(path: string, init: RequestInit = {}): Promise<Response> {
  return fetch(`/_redstart/${path}`, { cache: "no-store", ...init, headers: { "X-Redstart-Token": token } });
}

export async function reloadServer(): Promise<ReloadEvent | undefined> {
  const response = await ask("reload", { method: "POST" });
  return response.ok ? ((await response.json()) as ReloadEvent) : undefined;
}

/** What the page sets for an inspected server behind a URL; undefined, or what is wrong with it. */
export async function setUpstream(wanted: { token: string; headers: Record<string, string>; oauth?: { clientId: string; clientSecret: string; scopes: string } }): Promise<string | undefined> {
  const response = await ask("upstream", { method: "POST", body: JSON.stringify(wanted) });
  return response.ok ? undefined : ((await response.json()) as { error: string }).error;
}

/** Inspect another server of the file. The page begins anew, because nothing that it knows is of that one. */
export async function switchServer(name: string): Promise<void> {
  const response = await ask(`use?server=${encodeURIComponent(name)}`, { method: "POST" });
  if (response.ok) beginAnew();
}

export function beginAnew(): void {
  history.replaceState(null, "", "#/");
  location.reload();
}

export const forgetEvents = (): Promise<Response> => ask("forget", { method: "POST" });

export async function readState(): Promise<DevState | undefined> {
  const response = await ask("state");
  if (response.status === 401 || response.status === 403) {
    devLink.value = "refused";
    return undefined;
  }
  if (!response.ok) return undefined;
  const state = (await response.json()) as DevState;
  devState.value = state;
  return state;
}

/**
 * Read state and events for as long as the page lives. `fresh` is called with each new state, `take` with each batch and
 * the number of the last event that the state has in it already: what happened before is shown, but is not news.
 */
export async function followServer(fresh: (state: DevState) => void, take: (events: DevEvent[], included: number) => void): Promise<void> {
  if (!token) {
    devLink.value = "off";
    fresh(undefined as unknown as DevState);
    return;
  }
  let epoch = "";
  let seq = 0;
  let pause = 300;
  devLink.value = "connecting";
  for (;;) {
    try {
      const state = await readState();
      if ((devLink.value as Link) === "refused") {
        fresh(undefined as unknown as DevState);
        return;
      }
      if (state) {
        if (state.epoch !== epoch || seq === 0) seq = 0; // the ring still has what happened before the page was opened
        epoch = state.epoch;
        fresh(state);
        const response = await ask(`events?since=${seq}`);
        if (response.ok && response.body) {
          devLink.value = "open";
          pause = 300;
          for await (const event of readEvents(response.body)) {
            const batch = JSON.parse(event.data) as Batch;
            if (batch.epoch !== epoch) break;
            if (batch.missed && seq > 0) void readState();
            seq = batch.seq;
            leftOut.value += Object.values(batch.leftOut ?? {}).reduce((sum, number) => sum + number, 0);
            take(batch.events, state.seq);
          }
        }
      }
    } catch {
      // The server is away; the loop asks again.
    }
    devLink.value = "lost";
    await new Promise((done) => setTimeout(done, pause));
    pause = Math.min(pause * 2, 5000);
  }
}
