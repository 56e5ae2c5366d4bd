// Where the time of a call went: the phases of the server, the person, and the way there and back.

import type { JSX } from "preact";
import type { CallRecord } from "../state/app";
import type { ServerCall } from "../state/dev";
import { ms } from "../text/format";

interface Bar {
  label: string;
  kind: string;
  ms: number;
}

/** The time of a person is drawn in at most this share, whatever it was: hours must not hide milliseconds. */
const HUMAN_SHARE = 0.35;

export function bars(record: { ms: number | undefined; human: number }, server: ServerCall | undefined): Bar[] {
  const timings = server?.timings;
  const list: Bar[] = [];
  const phase = (label: "queue" | "validate" | "handler" | "encode"): void => {
    const time = timings?.[label];
    if (time !== undefined && time !== null) list.push({ label, kind: label, ms: time });
  };
  phase("queue");
  phase("validate");
  phase("handler");
  if (record.human > 0) list.push({ label: "you", kind: "human", ms: record.human });
  phase("encode");
  const told = list.filter((bar) => bar.kind !== "human").reduce((sum, bar) => sum + bar.ms, 0);
  const rest = (record.ms ?? 0) - told;
  if (record.ms !== undefined && rest > 0) list.push({ label: timings ? "network" : "server", kind: timings ? "network" : "handler", ms: rest });
  return list;
}

export function Waterfall({ record, server }: { record: Pick<CallRecord, "ms" | "human">; server: ServerCall | undefined }): JSX.Element | null {
  const list = bars(record, server);
  if (list.length === 0) return null;
  const machine = list.filter((bar) => bar.kind !== "human").reduce((sum, bar) => sum + bar.ms, 0) || 1;
  const human = list.find((bar) => bar.kind === "human");
  const share = human ? Math.min(HUMAN_SHARE, human.ms / (human.ms + machine)) : 0;
  let left = 0;
  return (
    <div class="waterfall" role="table" aria-label="Where the time went">
      {list.map((bar) => {
        const width = bar.kind === "human" ? share : (bar.ms / machine) * (1 - share);
        const from = left;
        left += width;
        return (
          <div class="fall" role="row" key={bar.label}>
            <span role="rowheader">{bar.label}</span>
            <span class="fall-track" role="presentation">
              <span class={`fall-bar ${bar.kind}`} style={{ left: `${Math.min(from * 100, 99.2)}%`, width: `max(3px, ${width * 100}%)` }} />
            </span>
            <span class="fall-time" role="cell">
              {ms(bar.ms)}
            </span>
          </div>
        );
      })}
    </div>
  );
}
