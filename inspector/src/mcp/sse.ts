// Server-sent events from chunks of text, as the WHATWG standard says. No I/O, no limit on chunk borders.

export interface SseEvent {
  event: string;
  data: string;
  id?: string;
  retry?: number;
}

export class SseParser {
  private rest: string[] = []; // of a line; joined once, at its end
  private returned = false;
  private event = "";
  private data: string[] = [];
  private id: string | undefined;
  private retry: number | undefined;
  private first = true;

  /** The events that this chunk completes. */
  push(chunk: string): SseEvent[] {
    if (this.first && chunk) {
      this.first = false;
      if (chunk.charCodeAt(0) === 0xfeff) chunk = chunk.slice(1);
    }
    const out: SseEvent[] = [];
    let start = 0;
    for (let at = 0; at < chunk.length; at++) {
      const char = chunk[at];
      if (char !== "\n" && char !== "\r") continue;
      const pair = char === "\n" && at === 0 && this.returned; // the other half ended the last chunk
      this.returned = false;
      if (!pair) {
        const done = this.line(this.rest.join("") + chunk.slice(start, at));
        this.rest = [];
        if (done) out.push(done);
      }
      if (char === "\r" && chunk[at + 1] === "\n") at++;
      else if (char === "\r" && at + 1 === chunk.length) this.returned = true;
      start = at + 1;
    }
    if (start < chunk.length) {
      this.rest.push(chunk.slice(start));
      this.returned = false;
    }
    return out;
  }

  private line(line: string): SseEvent | undefined {
    if (line === "") return this.dispatch();
    if (line.startsWith(":")) return undefined;
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value.startsWith(" ")) value = value.slice(1);
    if (field === "data") this.data.push(value);
    else if (field === "event") this.event = value;
    else if (field === "id" && !value.includes("\0")) this.id = value;
    else if (field === "retry" && /^\d+$/.test(value)) this.retry = Number(value);
    return undefined;
  }

  private dispatch(): SseEvent | undefined {
    const { event, data, id, retry } = this;
    this.event = "";
    this.data = [];
    this.retry = undefined;
    if (data.length === 0) return undefined;
    return { event: event || "message", data: data.join("\n"), ...(id === undefined ? {} : { id }), ...(retry === undefined ? {} : { retry }) };
  }
}

/** Read a response body as events until it ends. */
export async function* readEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<SseEvent> {
  const parser = new SseParser();
  const decoder = new TextDecoder();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.push(decoder.decode(value, { stream: true }));
    }
  } finally {
    reader.cancel().catch(() => undefined);
  }
}
