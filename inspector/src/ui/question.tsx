// What a server asks in the middle of a call: a form, a page to visit, a sample of a model, the roots. Answered by hand.

import type { JSX } from "preact";
import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { McpError } from "../mcp/client";
import type { Content, Json, JsonObject, Schema } from "../mcp/types";
import { formNode, initial } from "../schema/form";
import { type Problem, validate } from "../schema/validate";
import { type Question, toast } from "../state/app";
import { stored } from "../state/settings";
import { ContentView } from "./content";
import { SchemaForm } from "./form";
import { JsonEditor, JsonTree } from "./json";

export function QuestionCard({ question }: { question: Question }): JSX.Element {
  const card = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    card.current?.querySelector<HTMLElement>("button.choice, input, select, textarea, button")?.focus({ preventScroll: true });
    card.current?.scrollIntoView({ block: "nearest" });
  }, [question.key]);
  const { method, params = {} } = question.request;
  const body =
    method === "elicitation/create" && params.mode === "url" ? (
      <UrlQuestion question={question} />
    ) : method === "elicitation/create" ? (
      <FormQuestion question={question} />
    ) : method === "sampling/createMessage" ? (
      <SamplingQuestion question={question} />
    ) : method === "roots/list" ? (
      <RootsQuestion question={question} />
    ) : (
      <UnknownQuestion question={question} />
    );
  return (
    <div class="question" ref={card} role="region" aria-label="The server asks">
      {body}
    </div>
  );
}

const MOST_BUTTONS = 16;

function Actions({ question, children }: { question: Question; children: JSX.Element }): JSX.Element {
  return (
    <div class="actions">
      {children}
      <button type="button" class="button" onClick={() => question.resolve({ action: "decline" })}>
        Decline
      </button>
      <button type="button" class="button" onClick={() => question.resolve({ action: "cancel" })}>
        Cancel
      </button>
    </div>
  );
}

function FormQuestion({ question }: { question: Question }): JSX.Element {
  const schema = (question.request.params?.requestedSchema ?? { type: "object", properties: {} }) as unknown as Schema;
  const [value, setValue] = useState<JsonObject>(() => (initial(schema, schema) ?? {}) as JsonObject);
  const [problems, setProblems] = useState<Problem[]>([]);
  const [json, setJson] = useState(false);
  const names = Object.keys(schema.properties ?? {});
  const only = names.length === 1 ? formNode(schema.properties?.[names[0] as string], schema) : undefined;
  const send = (content: JsonObject): void => {
    const found = validate(content, schema, schema);
    setProblems(found);
    if (found.length === 0) question.resolve({ action: "accept", content });
  };
  const keys = (event: KeyboardEvent): void => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
      event.preventDefault();
      event.stopPropagation();
      send(value);
    }
  };
  const buttons = only?.kind === "choice" && only.options.length > 1 && only.options.length <= MOST_BUTTONS ? only : undefined;
  return (
    <form
      onKeyDown={keys}
      onSubmit={(event) => {
        event.preventDefault();
        send(value);
      }}
    >
      <p class="question-text">{String(question.request.params?.message ?? "The server asks:")}</p>
      {json ? (
        <>
          <JsonEditor value={value as Json} onChange={(next) => setValue(next as JsonObject)} rows={4} label="Answer as JSON" />
          {problems.map((problem, at) => (
            <p class="problem" key={at}>
              {problem.path.join(".") || "It"} {problem.message}
            </p>
          ))}
        </>
      ) : buttons && buttons.kind === "choice" ? (
        <div class="choices" role="group" aria-label="Choices">
          {buttons.options.map((option, at) => (
            <button type="button" key={at} class="choice" aria-pressed={value[names[0] as string] === option.value} onClick={() => setValue({ [names[0] as string]: option.value })} onDblClick={() => send({ [names[0] as string]: option.value })}>
              {option.label}
            </button>
          ))}
        </div>
      ) : (
        <SchemaForm schema={schema} value={value} problems={problems} onChange={(next) => { setValue(next); if (problems.length > 0) setProblems(validate(next, schema, schema)); }} />
      )}
      {buttons && !json && problems.length > 0 && <p class="problem" role="alert">Choose an answer first.</p>}
      <Actions question={question}>
        <button type="submit" class="button primary">
          Answer
        </button>
      </Actions>
      <button type="button" class="link as-json" aria-pressed={json} onClick={() => setJson(!json)}>
        {json ? "as a form" : "as JSON"}
      </button>
    </form>
  );
}

function UrlQuestion({ question }: { question: Question }): JSX.Element {
  const url = String(question.request.params?.url ?? "");
  const [opened, setOpened] = useState(false);
  let host = "";
  try {
    const parsed = new URL(url);
    if (parsed.protocol === "https:" || parsed.protocol === "http:") host = parsed.host;
  } catch {
    host = "";
  }
  return (
    <div>
      <p class="question-text">{String(question.request.params?.message ?? "The server asks you to visit a page:")}</p>
      {host ? (
        <div class="url-box">
          <p>
            Open a page at <strong>{host}</strong>?
          </p>
          <p class="mono small wrap">{url}</p>
        </div>
      ) : (
        <p class="problem">This is not the address of a web page, so it cannot be opened: {url}</p>
      )}
      <Actions question={question}>
        <>
          {host && (
            <a class={`button${opened ? "" : " primary"}`} href={url} target="_blank" rel="noopener noreferrer" onClick={() => setOpened(true)}>
              Open the page
            </a>
          )}
          <button type="button" class={`button${opened ? " primary" : ""}`} disabled={!host} onClick={() => question.resolve({ action: "accept" })}>
            Go on
          </button>
        </>
      </Actions>
    </div>
  );
}

function SamplingQuestion({ question }: { question: Question }): JSX.Element {
  const params = question.request.params ?? {};
  const messages = (params.messages ?? []) as unknown as { role: string; content: Content | Content[] }[];
  const [text, setText] = useState("");
  const [model, setModel] = useState("a person");
  const [stop, setStop] = useState("endTurn");
  const send = (): void => question.resolve({ role: "assistant", content: { type: "text", text }, model, stopReason: stop });
  const refuse = (): void => question.reject(new McpError("The user rejected the request for a sample.", -1, undefined, undefined));
  return (
    <div>
      <p class="question-text">The server asks for a sample of your model.</p>
      {params.systemPrompt !== undefined && <p class="field-description">System: {String(params.systemPrompt)}</p>}
      <div class="bubbles">
        {messages.map((message, at) => (
          <div key={at} class={`bubble ${message.role}`}>
            <span class="role">{message.role}</span>
            {(Array.isArray(message.content) ? message.content : [message.content]).map((content, index) => (
              <ContentView key={index} content={content} />
            ))}
          </div>
        ))}
      </div>
      <details>
        <summary>All parameters</summary>
        <JsonTree value={params as Json} open={1} />
      </details>
      <label class="field">
        <span class="field-name">Your answer</span>
        <textarea rows={3} value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <div class="two">
        <label class="field">
          <span class="field-name">Model</span>
          <input type="text" value={model} onInput={(event) => setModel(event.currentTarget.value)} />
        </label>
        <label class="field">
          <span class="field-name">Stop reason</span>
          <select value={stop} onChange={(event) => setStop(event.currentTarget.value)}>
            {["endTurn", "stopSequence", "maxTokens"].map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
      </div>
      <div class="actions">
        <button type="button" class="button primary" onClick={send} disabled={text === ""}>
          Send
        </button>
        <button type="button" class="button" onClick={refuse}>
          Reject
        </button>
      </div>
    </div>
  );
}

const roots = stored<string>("roots", "file:///home/me/project");

function RootsQuestion({ question }: { question: Question }): JSX.Element {
  const [text, setText] = useState(roots.value);
  const send = (): void => {
    const lines = text.split("\n").map((line) => line.trim()).filter(Boolean);
    const wrong = lines.find((line) => !line.startsWith("file://"));
    if (wrong) {
      toast("bad", "A root begins with file://", [wrong]);
      return;
    }
    roots.value = text;
    question.resolve({ roots: lines.map((uri) => ({ uri, name: uri.split("/").pop() ?? uri })) });
  };
  return (
    <div>
      <p class="question-text">The server asks for your roots: the folders that it may look into.</p>
      <label class="field">
        <span class="field-name">One URI on each line</span>
        <textarea class="mono" rows={3} value={text} onInput={(event) => setText(event.currentTarget.value)} />
      </label>
      <div class="actions">
        <button type="button" class="button primary" onClick={send}>
          Send
        </button>
        <button type="button" class="button" onClick={() => question.resolve({ roots: [] })}>
          None
        </button>
      </div>
    </div>
  );
}

function UnknownQuestion({ question }: { question: Question }): JSX.Element {
  return (
    <div>
      <p class="question-text">The server asks something that this page does not know: {question.request.method}</p>
      <JsonTree value={(question.request.params ?? {}) as Json} />
      <div class="actions">
        <button type="button" class="button" onClick={() => question.reject(new McpError("Method not found", -32601, undefined, undefined))}>
          Refuse
        </button>
      </div>
    </div>
  );
}
