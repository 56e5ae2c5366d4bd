// The right half of a view: what came back, what the server asks meanwhile, and how long everything took.

import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Content, Json, JsonObject, PromptMessage, ResourceContents, Schema } from "../mcp/types";
import { MAX_LEVELS, judge, pathText, validate } from "../schema/validate";
import { type CallRecord, calls, callsVersion, cancelCall, questions, serverSide } from "../state/app";
import { lineDiff } from "../text/diff";
import { bytes, ms, pretty, sizeOf, tokens } from "../text/format";
import { tableOf } from "../text/tables";
import { ContentView, DataTable, ResourceBody } from "./content";
import { JsonTree } from "./json";
import { Badge, CopyButton, LongText, Status, Tabs } from "./parts";
import { QuestionCard } from "./question";
import { Traceback } from "./traceback";
import { Waterfall } from "./waterfall";

type Tab = "result" | "structured" | "raw" | "model" | "traceback" | "compare";

export function ResultCard({ record, outputSchema, idle }: { record: CallRecord | undefined; outputSchema?: Schema | undefined; idle: string }): JSX.Element {
  callsVersion.value;
  const [tab, setTab] = useState<Tab>("result");
  const server = record && serverSide(record);
  const failure = server?.error ?? undefined;
  const previous = record && record.result && calls.value.find((one) => one.key !== record.key && one.kind === record.kind && one.name === record.name && one.result && one.began <= record.began);
  const tabs: { id: Tab; label: JSX.Element | string }[] = [{ id: "result", label: "Result" }];
  if (record?.result?.structuredContent !== undefined) tabs.push({ id: "structured", label: "Structured" });
  if (record && record.messages.length > 0) tabs.push({ id: "raw", label: "Raw" });
  if (record?.kind === "tools/call" && record.result) tabs.push({ id: "model", label: "Model sees" });
  if (failure) tabs.push({ id: "traceback", label: "Traceback" });
  if (previous) tabs.push({ id: "compare", label: "Compare" });
  const shown = tabs.some((one) => one.id === tab) ? tab : "result";
  return (
    <section class={`card result${record?.status === "tool error" || record?.status === "error" ? " failed" : ""}`} aria-label="Result" aria-busy={record?.status === "running"}>
      <header class="card-head">
        <Tabs tabs={tabs} value={shown} onChange={setTab} label="Views of the result" />
        <span class="grow" />
        {record && <Summary record={record} serverMs={server?.ms} />}
      </header>
      <div class="card-body">
        {record ? <Body record={record} tab={shown} outputSchema={outputSchema} failure={failure} previous={previous} /> : <p class="idle">{idle}</p>}
        {record && (record.status === "running" || record.status === "waiting") && <Running record={record} />}
        {record && questions.value.filter((question) => question.call === record.key).slice(0, 1).map((question) => <QuestionCard key={question.key} question={question} />)}
        {record && record.answered.length > 0 && shown === "result" && <Answered record={record} />}
        {record && record.logs.length > 0 && shown === "result" && <CallLogs record={record} />}
        {record && record.ms !== undefined && <Waterfall record={record} server={server?.state === "done" ? server : undefined} />}
      </div>
    </section>
  );
}

function Summary({ record, serverMs }: { record: CallRecord; serverMs: number | undefined }): JSX.Element {
  return (
    <span class="summary">
      {record.rounds > 1 && <span class="dim">{record.status === "ok" || record.status === "tool error" ? `${record.rounds} rounds` : `round ${record.rounds}`} ·</span>}
      {record.ms !== undefined && (
        <span class="dim" title={serverMs === undefined ? "measured in the page" : `${ms(serverMs)} of it in the server`}>
          {ms(record.ms)}
          {record.human > 0 && ` + ${ms(record.human)} you`}
        </span>
      )}
      <Status status={record.status} />
    </span>
  );
}

function Running({ record }: { record: CallRecord }): JSX.Element {
  callsVersion.value; // the record is the same object while it changes
  const [now, setNow] = useState(performance.now());
  useEffect(() => {
    const timer = setInterval(() => setNow(performance.now()), 200);
    return () => clearInterval(timer);
  }, []);
  const progress = record.progress;
  const part = progress?.total ? Math.min(1, progress.progress / progress.total) : undefined;
  const begun = record.pieces[0]?.from ?? now;
  const passed = now - begun - record.human;
  const left = part !== undefined && part > 0.05 && part < 1 ? (passed / part) * (1 - part) : undefined;
  return (
    <div class="running">
      <div class="running-line">
        <span role="status">{progress?.message ?? (record.status === "waiting" ? "waiting for your answer" : record.task ? "the task is running" : "running")}</span>
        <span class="grow" />
        <span class="dim mono small">
          {ms(passed)}
          {left !== undefined && ` · about ${ms(left)} left`}
        </span>
        <button type="button" class="small-button" onClick={() => cancelCall(record)}>
          Cancel call
        </button>
      </div>
      {record.status === "running" && (
        <div class={`bar${part === undefined ? " unknown" : ""}`} role="progressbar" aria-label="Progress" aria-valuemin={0} aria-valuemax={100} {...(part === undefined ? {} : { "aria-valuenow": Math.round(part * 100) })}>
          <span style={{ width: part === undefined ? "30%" : `${part * 100}%` }} />
        </div>
      )}
      {progress && !progress.total && <p class="dim small">{progress.progress} so far</p>}
    </div>
  );
}

function Answered({ record }: { record: CallRecord }): JSX.Element {
  return (
    <details class="answered" open={record.answered.length <= 3 && record.status === "waiting"}>
      <summary>
        {record.answered.length} {record.answered.length === 1 ? "question" : "questions"} answered
      </summary>
      <ol>
        {record.answered.map((one, at) => (
          <li key={at}>
            <span>{String(one.request.params?.message ?? one.request.method)}</span>
            <span class="mono small">{one.answer.content ? Object.values(one.answer.content as JsonObject).map((value) => (typeof value === "string" ? value : JSON.stringify(value))).join(", ") : String(one.answer.action ?? "answered")}</span>
            <span class="dim small">{ms(one.ms)}</span>
          </li>
        ))}
      </ol>
    </details>
  );
}

function CallLogs({ record }: { record: CallRecord }): JSX.Element {
  return (
    <details class="call-logs" open>
      <summary>
        {record.logs.length} log {record.logs.length === 1 ? "line" : "lines"}
      </summary>
      <ul>
        {record.logs.slice(-50).map((line, at) => (
          <li key={at}>
            <Badge kind={`level-${line.level}`}>{line.level}</Badge> <span>{line.text}</span>
          </li>
        ))}
      </ul>
    </details>
  );
}

function Body({ record, tab, outputSchema, failure, previous }: { record: CallRecord; tab: Tab; outputSchema: Schema | undefined; failure: Parameters<typeof Traceback>[0]["failure"] | undefined; previous: CallRecord | undefined }): JSX.Element | null {
  if (tab === "raw") return <Raw record={record} />;
  if (tab === "traceback" && failure) return <Traceback failure={failure} />;
  if (tab === "structured") return <Structured value={record.result?.structuredContent as Json} schema={outputSchema} />;
  if (tab === "model") return <ModelSees result={record.result ?? {}} />;
  if (tab === "compare" && previous) return <Compare before={previous.result} after={record.result} />;
  if (record.error) return <ErrorBox record={record} failure={failure} />;
  if (record.status === "cancelled") return <p class="idle">The call was cancelled.</p>;
  if (!record.result) return record.restored ? <p class="idle">The result was too large to be remembered. Run it again to see it.</p> : null;
  return <Rendered record={record} outputSchema={outputSchema} failure={failure} />;
}

function Rendered({ record, outputSchema, failure }: { record: CallRecord; outputSchema: Schema | undefined; failure: Parameters<typeof Traceback>[0]["failure"] | undefined }): JSX.Element {
  const result = record.result ?? {};
  if (record.kind === "prompts/get") return <Bubbles messages={(result.messages ?? []) as unknown as PromptMessage[]} description={result.description as string | undefined} />;
  if (record.kind === "resources/read") return <Contents contents={(result.contents ?? []) as unknown as ResourceContents[]} />;
  const content = (result.content ?? []) as unknown as Content[];
  const structured = result.structuredContent;
  const wrong = structured !== undefined && outputSchema && result.isError !== true ? validate(structured, outputSchema, outputSchema) : [];
  return (
    <div class={result.isError ? "tool-error" : ""}>
      {result.isError === true && (
        <p class="error-title" role="alert">
          The tool says that it failed
        </p>
      )}
      {content.map((one, at) => (
        <ContentView key={at} content={one} />
      ))}
      {content.length === 0 && structured === undefined && <p class="idle">The result is empty.</p>}
      {content.length === 0 && structured !== undefined && <Structured value={structured} schema={outputSchema} />}
      {wrong.length > 0 && (
        <p class="problem" role="alert">
          The structured content does not fit the output schema: {pathText(wrong[0]?.path ?? []) || "it"} {wrong[0]?.message}.
        </p>
      )}
      {failure && <Traceback failure={failure} />}
    </div>
  );
}

const FITS = {
  all: "It fits the output schema.",
  levels: `The first ${MAX_LEVELS} levels fit the output schema. What is nested deeper was not checked.`,
  parts: "It takes too long to check all of it against the output schema. Nothing wrong was found so far.",
};

function Structured({ value, schema }: { value: Json; schema: Schema | undefined }): JSX.Element {
  const inner = value !== null && typeof value === "object" && !Array.isArray(value) && Object.keys(value).length === 1 && "result" in value ? (value.result as Json) : value;
  const table = useMemo(() => tableOf(inner), [inner]);
  const verdict = useMemo(() => (schema ? judge(value, schema, schema) : undefined), [value, schema]);
  const wrong = verdict?.problems ?? [];
  return (
    <div>
      {verdict && (wrong.length === 0 ? <p class="dim small said">{FITS[verdict.unchecked ?? "all"]}</p> : <p class="problem">It does not fit the output schema: {wrong.slice(0, 3).map((one) => `${pathText(one.path) || "it"} ${one.message}`).join("; ")}.</p>)}
      {table && <DataTable table={table} />}
      <JsonTree value={value} open={4} />
    </div>
  );
}

function ErrorBox({ record, failure }: { record: CallRecord; failure: Parameters<typeof Traceback>[0]["failure"] | undefined }): JSX.Element {
  const error = record.error;
  return (
    <div class="tool-error" role="alert">
      <p class="error-title">
        {error?.code === undefined ? "The call failed" : `Protocol error ${error.code}`}
        {error?.status !== undefined && error.status !== 200 && <span class="dim small"> HTTP {error.status}</span>}
      </p>
      <p>{error?.message}</p>
      {error?.data !== undefined && <JsonTree value={error.data} />}
      {failure && <Traceback failure={failure} />}
    </div>
  );
}

function Raw({ record }: { record: CallRecord }): JSX.Element {
  return (
    <div class="raw">
      {record.messages.map((one, at) => (
        <details key={at} open={record.messages.length <= 4 || at >= record.messages.length - 2}>
          <summary class="mono small">
            {one.direction === "out" ? "→ sent" : "← received"} {one.message.method ?? (one.message.error ? "error" : "result")}
          </summary>
          <JsonTree value={one.message as unknown as Json} open={5} />
        </details>
      ))}
    </div>
  );
}

function ModelSees({ result }: { result: JsonObject }): JSX.Element {
  const content = (result.content ?? []) as unknown as Content[];
  const text = content.map((one) => (one.type === "text" ? (one.text ?? "") : one.type === "resource" ? (one.resource?.text ?? `[${one.resource?.mimeType ?? "resource"}]`) : one.type === "resource_link" ? `[link: ${one.uri}]` : `[${one.type} ${one.mimeType ?? ""}]`)).join("\n");
  const size = sizeOf(text);
  const [whole, structured] = useMemo(() => [result, result.structuredContent].map((part) => sizeOf(JSON.stringify(part) ?? "")), [result]) as [number, number];
  return (
    <div>
      <p class="dim small said">
        {bytes(size)} of text, about {tokens(size).toLocaleString("en")} tokens; {bytes(whole)} on the wire.{" "}
        {result.structuredContent !== undefined && `Clients that read structured content get ${bytes(structured)} of JSON as well or instead.`} <CopyButton text={text} what="the text" label="Copy" />
      </p>
      <LongText class="plain" text={text} />
    </div>
  );
}

const MOST_LINE = 2000;

function Compare({ before, after }: { before: JsonObject | undefined; after: JsonObject | undefined }): JSX.Element {
  const strip = (value: JsonObject | undefined): string => pretty({ ...value, _meta: undefined });
  const [same, lines] = useMemo(() => {
    const texts = [strip(before), strip(after)] as const;
    return [texts[0] === texts[1], lineDiff(...texts)] as const;
  }, [before, after]);
  const changed = lines.some((line) => line.mark !== " ");
  return (
    <div>
      <p class="dim small">{same ? "The same as the call before this one." : changed ? "Against the call before this one:" : "It differs from the call before this one, after the lines that are compared."}</p>
      {changed && (
        <pre class="diff">
          {lines.map((line, at) => (
            <span key={at} class={line.mark === "+" ? "plus" : line.mark === "-" ? "minus" : ""}>
              {line.mark} {line.text.slice(0, MOST_LINE)}
              {line.text.length > MOST_LINE && " …"}
              {"\n"}
            </span>
          ))}
        </pre>
      )}
    </div>
  );
}

export function Bubbles({ messages, description }: { messages: PromptMessage[]; description: string | undefined }): JSX.Element {
  return (
    <div class="bubbles">
      {description && <p class="dim small">{description}</p>}
      {messages.map((message, at) => (
        <div key={at} class={`bubble ${message.role === "assistant" ? "assistant" : "user"}`}>
          <span class="role">{message.role}</span>
          {(Array.isArray(message.content) ? message.content : [message.content]).map((content, index) => (
            <ContentView key={index} content={content} />
          ))}
        </div>
      ))}
    </div>
  );
}

export function Contents({ contents }: { contents: ResourceContents[] }): JSX.Element {
  return (
    <div>
      {contents.map((one, at) => (
        <div key={at} class="content">
          {(contents.length > 1 || at > 0) && (
            <p class="mono small dim">
              {one.uri} {one.mimeType}
            </p>
          )}
          <ResourceBody contents={one} />
        </div>
      ))}
      {contents.length === 0 && <p class="idle">The resource is empty.</p>}
    </div>
  );
}
