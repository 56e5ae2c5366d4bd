// An MCP client for the browser: both eras over fetch to one endpoint. It knows the protocol and no views.
// 2026-07-28 has no session: every request describes itself. Older revisions begin with `initialize` and may be asked by POST replies.

import { methodHeaders, paramHeaders } from "./headers";
import { readEvents } from "./sse";
import type { Implementation, InputRequest, Json, JsonObject, Message, RpcError, Schema } from "./types";

export const MODERN = "2026-07-28";
export const HANDSHAKE = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
export const REVISIONS = [MODERN, ...HANDSHAKE];
export const TASKS = "io.modelcontextprotocol/tasks";
const META = "io.modelcontextprotocol/";
const MODERN_ERRORS = [-32020, -32021, -32022, -32601, -32602];
const MAX_ROUNDS = 50;
const FIRST_PAUSE = 400;
const LONGEST_PAUSE = 8000;

export type Lack = "form" | "url" | "sampling" | "roots" | "tasks" | "progress" | "logging" | "stream";

/** A JSON-RPC error, or an answer over HTTP that is none. */
export class McpError extends Error {
  constructor(
    message: string,
    readonly code: number | undefined,
    readonly data: Json | undefined,
    readonly status: number | undefined,
  ) {
    super(message);
  }

  /** Why an inspected server has not answered, if it has not. */
  get reason(): string | undefined {
    const told = (this.data as JsonObject | undefined)?.reason;
    return this.code === -32603 && typeof told === "string" ? told : undefined;
  }
}

/** One HTTP request of the page and what came back. */
export interface Exchange {
  n: number;
  verb: string;
  url: string;
  method: string;
  name: string;
  headers: Record<string, string>;
  body: string;
  began: number;
  firstByte: number | undefined;
  ended: number | undefined;
  status: number | undefined;
  responseHeaders: Record<string, string>;
  received: string[];
  failure: string | undefined;
}

export interface RequestOptions {
  signal?: AbortSignal;
  schema?: Schema | undefined;
  progress?: (progress: { progress: number; total?: number; message?: string }) => void;
  notified?: (message: Message) => void;
  /** Answer a question of the server. */
  ask?: (request: InputRequest, key: string) => Promise<JsonObject>;
  sent?: (id: string, params: JsonObject) => void;
  received?: (message: Message) => void;
}

export interface Hooks {
  changed: () => void;
  notified: (message: Message) => void;
  exchanged: (exchange: Exchange) => void;
  message: (direction: "in" | "out", message: Message, exchange: Exchange) => void;
  asked: (request: InputRequest) => Promise<JsonObject>;
}

export interface Settings {
  revision: string; // one of REVISIONS, or "auto"
  lacks: Set<Lack>;
  token: string;
  headers: Record<string, string>;
  logLevel: string;
  meta: JsonObject; // of every request
}

export type Phase = "connecting" | "open" | "lost" | "failed";

export class Client {
  phase: Phase = "connecting";
  failure: McpError | undefined;
  revision = MODERN;
  capabilities: JsonObject = {};
  serverInfo: Implementation | undefined;
  instructions: string | undefined;
  greeting: JsonObject | undefined; // the result of server/discover or initialize
  connectedAt = 0;
  streams = 0;
  subscriptions = new Set<string>();
  taskIds = new Set<string>();
  private session: string | undefined;
  private counter = 0;
  private exchanges = 0;
  private readonly prefix = `page-${Math.random().toString(16).slice(2, 6)}-`;
  private listening: AbortController | undefined;
  private closed = false;
  private greeted: Promise<void> | undefined;

  constructor(
    readonly endpoint: string,
    readonly settings: Settings,
    private readonly hooks: Hooks,
  ) {}

  get modern(): boolean {
    return this.revision === MODERN;
  }

  /** What this client says that it can do, without what it pretends to lack. */
  get clientCapabilities(): JsonObject {
    const { lacks } = this.settings;
    const since = (revision: string): boolean => this.revision >= revision;
    const can: JsonObject = {};
    if (!lacks.has("sampling")) can.sampling = since("2025-11-25") ? { tools: {} } : {};
    if (!lacks.has("roots")) can.roots = this.modern ? {} : { listChanged: true };
    const modes: JsonObject = { ...(lacks.has("form") ? {} : { form: {} }), ...(lacks.has("url") ? {} : { url: {} }) };
    if (since("2025-11-25") && Object.keys(modes).length > 0) can.elicitation = modes;
    else if (since("2025-06-18") && !lacks.has("form")) can.elicitation = {};
    if (this.modern && !lacks.has("tasks")) can.extensions = { [TASKS]: {} };
    return can;
  }

  get info(): Implementation {
    return { name: "redstart-inspector", version: "1.0.0", title: "redstart inspector" };
  }

  /** Connect, and stay connected until `close`. */
  async connect(): Promise<void> {
    let pause = FIRST_PAUSE;
    while (!this.closed) {
      try {
        await this.greet();
        this.setPhase("open");
        pause = FIRST_PAUSE;
        await this.listen();
      } catch (error) {
        if (this.closed) return;
        this.failure = error instanceof McpError ? error : new McpError(String((error as Error).message ?? error), undefined, undefined, undefined);
        this.setPhase(this.failure.status !== undefined && this.failure.status < 500 ? "failed" : this.phase === "connecting" ? "connecting" : "lost");
      }
      await new Promise((done) => setTimeout(done, pause * (0.8 + Math.random() * 0.4)));
      pause = Math.min(pause * 2, LONGEST_PAUSE);
    }
  }

  close(): void {
    this.closed = true;
    this.listening?.abort();
    if (this.session !== undefined) fetch(this.endpoint, { method: "DELETE", headers: this.headers(false), keepalive: true }).catch(() => undefined);
  }

  /** Open the stream of notifications anew, because what it asks for has changed. */
  relisten(): void {
    if (this.modern && this.phase === "open") this.listening?.abort();
  }

  private setPhase(phase: Phase): void {
    if (phase === "open") {
      this.failure = undefined;
      this.connectedAt = Date.now();
    }
    this.phase = phase;
    this.hooks.changed();
  }

  private greet(): Promise<void> {
    this.greeted ??= this.hello().finally(() => {
      this.greeted = undefined;
    });
    return this.greeted;
  }

  private async hello(): Promise<void> {
    const wanted = this.settings.revision;
    if (wanted === "auto" || wanted === MODERN) {
      this.revision = MODERN;
      this.session = undefined;
      try {
        const found = await this.send("server/discover", {}, {});
        this.greeting = found;
        this.capabilities = (found.capabilities ?? {}) as JsonObject;
        this.instructions = found.instructions as string | undefined;
        this.serverInfo = ((found._meta as JsonObject | undefined)?.[`${META}serverInfo`] ?? this.serverInfo) as unknown as Implementation;
        return;
      } catch (error) {
        const known = error instanceof McpError && (error.status === undefined || error.status === 401 || error.status === 403 || (error.code !== undefined && MODERN_ERRORS.includes(error.code) && error.code !== -32601));
        if (wanted === MODERN || known || !(error instanceof McpError)) throw error;
      }
    }
    await this.initialize(wanted === "auto" ? (HANDSHAKE[0] as string) : wanted);
  }

  private async initialize(revision: string): Promise<void> {
    this.revision = revision;
    this.session = undefined;
    const params = { protocolVersion: revision, capabilities: this.clientCapabilities, clientInfo: this.info as unknown as JsonObject };
    const result = await this.send("initialize", params, {});
    this.greeting = result;
    this.revision = String(result.protocolVersion ?? revision);
    this.capabilities = (result.capabilities ?? {}) as JsonObject;
    this.serverInfo = result.serverInfo as unknown as Implementation;
    this.instructions = result.instructions as string | undefined;
    await this.notify("notifications/initialized");
    if (this.capabilities.logging && !this.settings.lacks.has("logging")) await this.send("logging/setLevel", { level: this.settings.logLevel }, {}).catch(() => undefined);
    for (const uri of this.subscriptions) await this.send("resources/subscribe", { uri }, {}).catch(() => undefined);
  }

  // ---------------------------------------------------------------- the stream of notifications

  private async listen(): Promise<void> {
    let pause = FIRST_PAUSE;
    while (!this.closed) {
      const control = new AbortController();
      this.listening = control;
      const began = Date.now();
      try {
        if (this.settings.lacks.has("stream")) return await this.watch();
        if (this.modern) await this.listenModern(control.signal);
        else if (!(await this.listenHandshake(control.signal))) return await this.watch();
      } catch (error) {
        if (this.closed) return;
        if (!control.signal.aborted) {
          if (error instanceof McpError && error.status !== undefined) return await this.watch();
          throw error;
        }
      } finally {
        this.streams = 0;
        this.hooks.changed();
      }
      if (control.signal.aborted) continue;
      if (Date.now() - began > 5000) pause = FIRST_PAUSE;
      await new Promise((done) => setTimeout(done, pause));
      pause = Math.min(pause * 2, LONGEST_PAUSE);
      return;
    }
  }

  /** Without a stream of notifications: ask now and then whether the server is there. */
  private async watch(): Promise<void> {
    while (!this.closed) {
      await new Promise((done) => setTimeout(done, LONGEST_PAUSE));
      if (!this.closed) await this.send(this.modern ? "server/discover" : "ping", {}, {});
    }
  }

  private async listenModern(signal: AbortSignal): Promise<void> {
    const wants: JsonObject = { toolsListChanged: true, promptsListChanged: true, resourcesListChanged: true };
    if (this.subscriptions.size > 0) wants.resourceSubscriptions = [...this.subscriptions];
    if (this.taskIds.size > 0) wants.taskIds = [...this.taskIds];
    const opened = (message: Message): void => {
      if (message.method !== "notifications/subscriptions/acknowledged") return;
      this.streams = 1;
      this.hooks.changed();
    };
    await this.send("subscriptions/listen", { notifications: wants }, { signal, notified: opened });
  }

  private async listenHandshake(signal: AbortSignal): Promise<boolean> {
    const exchange = this.exchange("GET", "", "", this.headers(false), "");
    const response = await this.fetch(exchange, { method: "GET", headers: { ...exchange.headers, Accept: "text/event-stream" }, signal });
    if (!response.ok || !response.body) {
      exchange.ended = performance.now();
      this.hooks.exchanged(exchange);
      if (response.status === 404) this.session = undefined;
      return response.status === 404 || response.status >= 500;
    }
    this.streams = 1;
    this.hooks.changed();
    for await (const event of readEvents(response.body)) this.take(event.data, exchange, {});
    return true;
  }

  // ---------------------------------------------------------------- requests

  /** A request with its rounds: what the server wants to know is asked, and the request sent again with the answers. */
  async request(method: string, params: JsonObject, options: RequestOptions = {}): Promise<JsonObject> {
    let extra: JsonObject = {};
    for (let round = 0; round < MAX_ROUNDS; round++) {
      let result: JsonObject;
      try {
        result = await this.again(method, { ...params, ...extra }, options);
      } catch (error) {
        const pages = error instanceof McpError && error.code === -32042 ? ((error.data as JsonObject | undefined)?.elicitations as Json[] | undefined) : undefined;
        if (!pages || !options.ask) throw error;
        for (const page of pages) await options.ask({ method: "elicitation/create", params: { mode: "url", ...(page as JsonObject) } }, "url");
        continue;
      }
      if (result.resultType !== "input_required") return result;
      const responses: JsonObject = {};
      const questions = Object.entries((result.inputRequests ?? {}) as unknown as Record<string, InputRequest>);
      for (const [key, question] of questions) responses[key] = await (options.ask ?? ((request) => this.hooks.asked(request)))(question, key);
      extra = { ...(questions.length > 0 ? { inputResponses: responses } : {}), ...(result.requestState === undefined ? {} : { requestState: result.requestState }) };
    }
    throw new McpError(`The server asked more than ${MAX_ROUNDS} times.`, undefined, undefined, undefined);
  }

  /** A session that the server has forgotten is opened anew, once. */
  private async again(method: string, params: JsonObject, options: RequestOptions): Promise<JsonObject> {
    try {
      return await this.send(method, params, options);
    } catch (error) {
      if (this.modern || !(error instanceof McpError) || error.status !== 404 || error.code === -32601) throw error;
      await this.greet();
      return await this.send(method, params, options);
    }
  }

  /** The pages of a list, from a cursor on; `page` says after each of them whether to go on. */
  async list<T>(method: string, key: string, page?: (items: T[], next: string | undefined) => boolean, from?: string): Promise<T[]> {
    const items: T[] = [];
    let cursor: string | undefined = from;
    for (let count = 0; count < 1000; count++) {
      const result = await this.again(method, cursor === undefined ? {} : { cursor }, {});
      items.push(...((result[key] ?? []) as unknown as T[]));
      cursor = typeof result.nextCursor === "string" ? result.nextCursor : undefined;
      if (page?.(items, cursor) === false || cursor === undefined) break;
    }
    return items;
  }

  notify(method: string, params: JsonObject = {}): Promise<void> {
    return this.post({ jsonrpc: "2.0", method, ...(Object.keys(params).length > 0 ? { params } : {}) }, {}).then(() => undefined);
  }

  private headers(withVersion: boolean): Record<string, string> {
    const headers: Record<string, string> = { ...this.settings.headers };
    if (this.settings.token) headers.Authorization = `Bearer ${this.settings.token}`;
    if (this.session !== undefined) headers["Mcp-Session-Id"] = this.session;
    if (withVersion || this.session !== undefined) headers["MCP-Protocol-Version"] = this.revision;
    return headers;
  }

  private exchange(verb: string, method: string, name: string, headers: Record<string, string>, body: string): Exchange {
    const began = performance.now();
    return { n: ++this.exchanges, verb, url: this.endpoint, method, name, headers, body, began, firstByte: undefined, ended: undefined, status: undefined, responseHeaders: {}, received: [], failure: undefined };
  }

  private async fetch(exchange: Exchange, init: RequestInit): Promise<Response> {
    this.hooks.exchanged(exchange);
    try {
      const response = await fetch(this.endpoint, { ...init, credentials: "same-origin", cache: "no-store" });
      exchange.firstByte = performance.now();
      exchange.status = response.status;
      exchange.responseHeaders = Object.fromEntries(response.headers);
      this.hooks.exchanged(exchange);
      return response;
    } catch (error) {
      exchange.failure = (error as Error).name === "AbortError" ? "cancelled" : "The server cannot be reached.";
      exchange.ended = performance.now();
      this.hooks.exchanged(exchange);
      if ((error as Error).name === "AbortError") throw error;
      throw new McpError("The server cannot be reached. It may be restarting; the page tries again by itself.", undefined, undefined, undefined);
    }
  }

  private meta(method: string, progressToken: string | undefined): JsonObject {
    const meta: JsonObject = progressToken === undefined ? {} : { progressToken };
    if (!this.modern) return meta;
    meta[`${META}protocolVersion`] = this.revision;
    meta[`${META}clientCapabilities`] = this.clientCapabilities;
    meta[`${META}clientInfo`] = this.info as unknown as JsonObject;
    if (!this.settings.lacks.has("logging") && ["tools/call", "prompts/get", "resources/read"].includes(method)) meta[`${META}logLevel`] = this.settings.logLevel;
    return meta;
  }

  private async send(method: string, params: JsonObject, options: RequestOptions): Promise<JsonObject> {
    const id = `${this.prefix}${++this.counter}`;
    const token = options.progress && !this.settings.lacks.has("progress") ? id : undefined;
    const meta = { ...this.settings.meta, ...(params._meta as JsonObject | undefined), ...this.meta(method, token) };
    const full: JsonObject = { ...params, ...(Object.keys(meta).length > 0 ? { _meta: meta } : {}) };
    options.sent?.(id, full);
    const cancel = (): void => {
      if (!this.modern && method !== "initialize") this.notify("notifications/cancelled", { requestId: id, reason: "The user cancelled the call." }).catch(() => undefined);
    };
    options.signal?.addEventListener("abort", cancel, { once: true });
    try {
      const answer = await this.post({ jsonrpc: "2.0", id, method, params: full }, options);
      if (!answer) throw new McpError("The connection ended before the answer came.", undefined, undefined, undefined);
      if (answer.error) throw failure(answer.error, 200);
      return answer.result ?? {};
    } finally {
      options.signal?.removeEventListener("abort", cancel);
    }
  }

  private async post(message: Message, options: RequestOptions): Promise<Message | undefined> {
    const params = message.params ?? {};
    const method = message.method ?? "";
    const body = JSON.stringify(message);
    const extra = this.modern && method ? { ...methodHeaders(method, params), ...paramHeaders(options.schema, params.arguments) } : {};
    const headers = { "Content-Type": "application/json", Accept: "application/json, text/event-stream", ...this.headers(this.modern), ...extra };
    const exchange = this.exchange("POST", method || "(answer)", String(params.name ?? params.uri ?? params.taskId ?? ""), headers, body);
    this.hooks.message("out", message, exchange);
    const response = await this.fetch(exchange, { method: "POST", headers, body, ...(options.signal ? { signal: options.signal } : {}) });
    const session = response.headers.get("mcp-session-id");
    if (method === "initialize" && session) this.session = session;
    try {
      if (response.headers.get("content-type")?.startsWith("text/event-stream") && response.body) return await this.stream(response.body, message.id, exchange, options);
      const text = await response.text();
      if (text) exchange.received.push(text);
      return this.plain(text, message, response, exchange, options);
    } finally {
      exchange.ended = performance.now();
      this.hooks.exchanged(exchange);
    }
  }

  private plain(text: string, message: Message, response: Response, exchange: Exchange, options: RequestOptions): Message | undefined {
    let answer: Message | undefined;
    try {
      answer = text ? (JSON.parse(text) as Message) : undefined;
    } catch {
      answer = undefined;
    }
    if (answer?.error || answer?.result) {
      this.hooks.message("in", answer, exchange);
      options.received?.(answer);
    }
    if (answer?.error) throw failure(answer.error, response.status);
    if (!response.ok) throw new McpError(said(response.status, text), undefined, undefined, response.status);
    return message.id === undefined ? undefined : answer;
  }

  private async stream(body: ReadableStream<Uint8Array>, id: Message["id"], exchange: Exchange, options: RequestOptions): Promise<Message | undefined> {
    let last: string | undefined;
    let source: ReadableStream<Uint8Array> | null = body;
    for (let attempt = 0; source && attempt < 6; attempt++) {
      try {
        for await (const event of readEvents(source)) {
          if (event.id !== undefined) last = event.id;
          const answer = this.take(event.data, exchange, options, id);
          if (answer) return answer;
        }
      } catch (error) {
        if (options.signal?.aborted || last === undefined) throw error;
      }
      if (last === undefined || this.modern) return undefined;
      await new Promise((done) => setTimeout(done, FIRST_PAUSE));
      const response: Response = await fetch(this.endpoint, { headers: { ...this.headers(true), Accept: "text/event-stream", "Last-Event-ID": last }, ...(options.signal ? { signal: options.signal } : {}) });
      source = response.ok ? response.body : null;
    }
    return undefined;
  }

  /** One message of a stream: the answer that is waited for, a question, or a notification. */
  private take(data: string, exchange: Exchange, options: RequestOptions, id?: Message["id"]): Message | undefined {
    if (!data) return undefined;
    exchange.received.push(data);
    if (exchange.received.length > 500) exchange.received.shift();
    let message: Message;
    try {
      message = JSON.parse(data) as Message;
    } catch {
      return undefined;
    }
    this.hooks.message("in", message, exchange);
    options.received?.(message);
    if (message.method !== undefined && message.id !== undefined && message.id !== null) {
      void this.answer(message, options);
      return undefined;
    }
    if (message.method !== undefined) {
      if (message.method === "notifications/progress") options.progress?.(message.params as unknown as { progress: number });
      options.notified?.(message);
      this.hooks.notified(message);
      return undefined;
    }
    return id !== undefined && message.id === id ? message : undefined;
  }

  private async answer(request: Message, options: RequestOptions): Promise<void> {
    const question = { method: request.method as string, ...(request.params ? { params: request.params } : {}) };
    let reply: Message;
    if (question.method === "ping") reply = { jsonrpc: "2.0", id: request.id ?? null, result: {} };
    else {
      try {
        const result = await (options.ask ?? ((asked) => this.hooks.asked(asked)))(question, String(request.id));
        reply = { jsonrpc: "2.0", id: request.id ?? null, result };
      } catch (error) {
        const code = error instanceof McpError ? (error.code ?? -32603) : -32603;
        reply = { jsonrpc: "2.0", id: request.id ?? null, error: { code, message: (error as Error).message } };
      }
    }
    await this.post(reply, {}).catch(() => undefined);
  }
}

function failure(error: RpcError, status: number): McpError {
  // Of an inspected server: how it has answered the relay.
  const told = (error.data as JsonObject | undefined)?.status;
  return new McpError(error.message, error.code, error.data, typeof told === "number" && told >= 400 && told < 500 ? told : status);
}

function said(status: number, text: string): string {
  const reason: Record<number, string> = {
    401: "The server wants a token (401). Put one into Connection → Bearer token.",
    403: "The server refuses this (403).",
    404: "The server has no MCP endpoint here, or has forgotten the session (404).",
    429: "Too many requests (429).",
  };
  const short = text.replace(/\s+/g, " ").slice(0, 200);
  return `${reason[status] ?? `HTTP status ${status}.`}${short ? ` ${short}` : ""}`;
}
