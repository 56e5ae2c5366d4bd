// One tool: its form and its result, side by side.

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useState } from "preact/hooks";
import { MODERN } from "../mcp/client";
import type { Json, JsonObject, Schema, Tool } from "../mcp/types";
import { initial } from "../schema/form";
import { portability } from "../schema/portability";
import { resolve, typesOf } from "../schema/resolve";
import { type Problem, validate } from "../schema/validate";
import { call, client, connection, currentCall, percentiles, showCall, statistics, tools } from "../state/app";
import { devState } from "../state/dev";
import { fromQuery, replaceRoute, route, routeHash, toQuery } from "../state/route";
import { bearer } from "../state/settings";
import { type Copied, WAYS, copyAs } from "../text/copyas";
import { ms } from "../text/format";
import { Markdown } from "./content";
import { SchemaForm } from "./form";
import { JsonEditor, JsonTree } from "./json";
import { Badge, Empty, ServerIcon, Sparkline, Tabs, copyText } from "./parts";
import { ResultCard } from "./result";
import { PlaceLink } from "./traceback";

/** What was typed into the form of each tool, for as long as the page lives. */
const drafts = new Map<string, JsonObject>();

export function setDraft(tool: string, value: JsonObject): void {
  drafts.set(tool, structuredClone(value));
}

export function ToolView({ name }: { name: string }): JSX.Element {
  const tool = tools.value.find((one) => one.name === name);
  if (!tool) return <Empty title={`There is no tool ${name}.`}>{<p class="dim">It may have been removed; the list has what is there now.</p>}</Empty>;
  return <ToolPage key={name} tool={tool} />;
}

const textArguments = (schema: Schema): Set<string> => new Set(Object.entries(schema.properties ?? {}).filter(([, part]) => typesOf(resolve(part, schema)).includes("string")).map(([name]) => name));

function ToolPage({ tool }: { tool: Tool }): JSX.Element {
  const schema = (tool.inputSchema ?? { type: "object" }) as Schema;
  const first = useMemo(() => {
    const start = (initial(schema, schema) ?? {}) as JsonObject;
    const asked = Object.keys(route.value.query).filter((key) => key !== "run").length > 0 ? fromQuery(route.value.query, textArguments(schema)) : undefined;
    return asked ?? drafts.get(tool.name) ?? start;
  }, [tool.name]);
  const [value, setValue] = useState<JsonObject>(first);
  const [mode, setMode] = useState<"form" | "json">("form");
  const [problems, setProblems] = useState<Problem[]>([]);
  const support = tool.execution?.taskSupport ?? "forbidden";
  const [asTask, setAsTask] = useState(support === "required");
  const record = currentCall("tools/call", tool.name);

  const edit = (next: JsonObject): void => {
    setValue(next);
    drafts.set(tool.name, next);
    if (problems.length > 0) setProblems(validate(next as Json, schema, schema));
    const query = toQuery(next);
    if (JSON.stringify(query).length < 1500) replaceRoute("tools", tool.name, query);
  };
  const send = (anyway = false): void => {
    const found = validate(value as Json, schema, schema);
    setProblems(found);
    if (found.length > 0 && !anyway) {
      requestAnimationFrame(() => document.querySelector<HTMLElement>(".field.bad input, .field.bad select, .field.bad textarea, .field.bad button")?.focus());
      return;
    }
    void call("tools/call", tool.name, value, { asTask: asTask && client.value?.revision !== MODERN && support !== "forbidden" });
  };
  useEffect(() => {
    const other = drafts.get(tool.name);
    if (other && other !== value && !Object.is(other, first)) setValue(other);
  }, [record?.key]);
  // An address with other arguments, typed or followed, fills the form; with `run` it also calls.
  useEffect(() => {
    const { view, name, query } = route.value;
    if (view !== "tools" || name !== tool.name) return;
    const { run, ...args } = query;
    const own = toQuery(value);
    let next = value;
    if (Object.keys(args).length > 0 && JSON.stringify(args) !== JSON.stringify(own)) {
      next = fromQuery(args, textArguments(schema));
      setValue(next);
      setProblems([]);
      drafts.set(tool.name, next);
    }
    if (run !== undefined) {
      replaceRoute("tools", tool.name, toQuery(next));
      void call("tools/call", tool.name, next);
    }
  }, [route.value]);
  // With each render, not with the next frame: what was typed just before belongs to the call.
  useLayoutEffect(() => {
    const keys = (event: KeyboardEvent): void => {
      if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.defaultPrevented) return;
      event.preventDefault();
      send();
    };
    document.addEventListener("keydown", keys);
    return () => document.removeEventListener("keydown", keys);
  });
  const busy = record?.status === "running" || record?.status === "waiting";
  return (
    <div class="view">
      <ToolHead tool={tool} />
      <div class="halves">
        <section class="card" aria-label="Arguments">
          <header class="card-head">
            <Tabs
              tabs={[
                { id: "form", label: "Form" },
                { id: "json", label: "JSON" },
              ]}
              value={mode}
              onChange={setMode}
              label="Ways to edit the arguments"
            />
            <span class="grow" />
            <CopyAs method="tools/call" name={tool.name} value={value} schema={schema} result={record?.result} />
          </header>
          <form
            class="card-body"
            noValidate
            onSubmit={(event) => {
              event.preventDefault();
              send();
            }}
          >
            {mode === "form" ? <SchemaForm schema={schema} value={value} problems={problems} onChange={edit} /> : <JsonEditor value={value as Json} onChange={(next) => edit(next as JsonObject)} label="Arguments as JSON" />}
            {mode === "json" && problems.map((problem, at) => <p class="problem" key={at}>{problem.path.join(".") || "It"} {problem.message}</p>)}
            <div class="actions">
              <button type="submit" class="button primary" disabled={client.value === undefined}>
                {busy ? "Call again" : "Call"}
              </button>
              <button
                type="button"
                class="button"
                onClick={() => {
                  edit((initial(schema, schema) ?? {}) as JsonObject);
                  setProblems([]);
                  showCall(undefined, "tools/call", tool.name);
                }}
              >
                Reset
              </button>
              {problems.length > 0 && (
                <button type="button" class="button" onClick={() => send(true)} title="To see what the server says about it">
                  Send anyway
                </button>
              )}
              {support !== "forbidden" && client.value?.revision === "2025-11-25" && (
                <label class="check">
                  <input type="checkbox" checked={asTask} disabled={support === "required"} onChange={(event) => setAsTask(event.currentTarget.checked)} /> as a task
                </label>
              )}
              {problems.length === 0 && <span class="dim small keys">Ctrl Enter</span>}
              <span class="grow" />
              <button type="button" class="link" onClick={() => void copyText(`${location.origin}${location.pathname}${routeHash("tools", tool.name, toQuery(value))}`, "a link to this call")}>
                Copy link
              </button>
            </div>
          </form>
        </section>
        <ResultCard record={record} outputSchema={tool.outputSchema} idle="The result will be here, beside its arguments." />
      </div>
      <About tool={tool} />
    </div>
  );
}

/** Hints of a tool, with what they mean where they are not given. */
export function AnnotationBadges({ tool }: { tool: Tool }): JSX.Element {
  const notes = tool.annotations ?? {};
  const support = tool.execution?.taskSupport;
  return (
    <>
      {notes.readOnlyHint === true && <Badge kind="good" title="It says that it changes nothing.">read-only</Badge>}
      {notes.destructiveHint === true && notes.readOnlyHint !== true && <Badge kind="bad" title="It says that it may delete or overwrite.">destructive</Badge>}
      {notes.destructiveHint === false && notes.readOnlyHint !== true && <Badge kind="quiet" title="It says that it only adds.">additive</Badge>}
      {notes.idempotentHint === true && <Badge kind="quiet" title="It says that calling it twice is the same as once.">idempotent</Badge>}
      {notes.openWorldHint === true && <Badge kind="warn" title="It says that it deals with the world outside.">open world</Badge>}
      {notes.openWorldHint === false && <Badge kind="quiet" title="It says that it deals with its own data only.">closed world</Badge>}
      {support && support !== "forbidden" && <Badge kind="info" title="It can run as a task.">task {support}</Badge>}
    </>
  );
}

function ToolHead({ tool }: { tool: Tool }): JSX.Element {
  const stats = statistics.value[tool.name];
  const title = tool.title ?? tool.annotations?.title ?? tool.name;
  return (
    <header class="view-head">
      <div class="view-title">
        <ServerIcon icons={tool.icons} />
        <h1>{title}</h1>
        {title !== tool.name && <span class="mono dim">{tool.name}</span>}
        <AnnotationBadges tool={tool} />
        <PlaceLink place={devState.value?.places?.tools?.[tool.name]} />
        <span class="grow" />
        {stats && stats.count > 0 && (
          <span class="stats mono small" title={`Of the last calls of all clients; ${stats.errors} of ${stats.count} failed`}>
            <Sparkline values={stats.last.slice(-60)} width={80} height={20} bad={stats.errors > 0} />
            <span>p50 {ms(percentiles(stats).p50)}</span>
            <span>p95 {ms(percentiles(stats).p95)}</span>
            <span>p99 {ms(percentiles(stats).p99)}</span>
            <span class="dim">
              {stats.count} {stats.count === 1 ? "call" : "calls"}
              {stats.errors > 0 ? `, ${stats.errors} failed` : ""}
            </span>
          </span>
        )}
      </div>
      {tool.description && (
        <div class="view-description">
          <Markdown text={tool.description} />
        </div>
      )}
    </header>
  );
}

function About({ tool }: { tool: Tool }): JSX.Element {
  const hints = portability(tool);
  const findings = (devState.value?.findings ?? []).filter((one) => one.kind === "tool" && one.name === tool.name);
  return (
    <div class="about">
      {(hints.length > 0 || findings.length > 0) && (
        <details>
          <summary>
            {findings.length > 0 && `${findings.length} ${findings.length === 1 ? "finding" : "findings"} of redstart check`}
            {findings.length > 0 && hints.length > 0 && " · "}
            {hints.length > 0 && `${hints.length} portability ${hints.length === 1 ? "hint" : "hints"}`}
          </summary>
          <ul class="hints">
            {findings.map((one, at) => (
              <li key={`f${at}`}>
                <Badge kind={one.severity === "error" ? "bad" : one.severity === "warning" ? "warn" : "quiet"}>{one.code}</Badge> {one.text} {one.fix && <span class="dim">{one.fix}</span>} <PlaceLink place={one.place} />
              </li>
            ))}
            {hints.map((hint, at) => (
              <li key={at}>
                <Badge kind="warn">{hint.rule}</Badge> <span class="mono small">{hint.where}</span> {hint.text}
              </li>
            ))}
          </ul>
        </details>
      )}
      <details>
        <summary>Schema{tool.outputSchema ? "s of arguments and result" : " of the arguments"}</summary>
        <div class="halves">
          <div>
            <p class="dim small">inputSchema</p>
            <JsonTree value={tool.inputSchema as unknown as Json} open={4} />
          </div>
          {tool.outputSchema && (
            <div>
              <p class="dim small">outputSchema</p>
              <JsonTree value={tool.outputSchema as unknown as Json} open={4} />
            </div>
          )}
        </div>
      </details>
      <details>
        <summary>Definition as the client gets it</summary>
        <JsonTree value={tool as unknown as Json} open={2} />
      </details>
    </div>
  );
}

export function CopyAs({ method, name, value, schema, result }: { method: Copied["method"]; name: string; value: JsonObject; schema?: Schema | undefined; result?: JsonObject | undefined }): JSX.Element {
  connection.value;
  const copy = (way: (typeof WAYS)[number]): void => {
    const state = devState.value;
    const endpoint = new URL(state?.path ?? "/mcp", location.href).href;
    const text = copyAs(way, { method, name, arguments: value, endpoint, target: state?.mode === "dev" && state.target ? state.target : endpoint, revision: client.value?.revision ?? MODERN, withToken: bearer.value !== "", schema, result });
    void copyText(text, way === "CLI" ? "a command of redstart" : way === "pytest" ? "a test" : `${way === "curl" ? "a curl command" : "a Python program"}`);
  };
  return (
    <span class="copy-as">
      <span class="dim">Copy as</span>
      {WAYS.map((way) => (
        <button type="button" key={way} class="link" onClick={() => copy(way)}>
          {way}
        </button>
      ))}
    </span>
  );
}


