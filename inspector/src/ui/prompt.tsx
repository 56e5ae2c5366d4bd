// A prompt: its arguments with completion, its messages as a conversation.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Json } from "../mcp/types";
import { call, currentCall, prompts } from "../state/app";
import { devState } from "../state/dev";
import { replaceRoute, route } from "../state/route";
import { Markdown } from "./content";
import { CompletingField } from "./completing";
import { JsonTree } from "./json";
import { Empty, ServerIcon } from "./parts";
import { ResultCard } from "./result";
import { CopyAs } from "./tool";
import { PlaceLink } from "./traceback";

export function PromptView({ name }: { name: string }): JSX.Element {
  const prompt = prompts.value.find((one) => one.name === name);
  const [values, setValues] = useState<Record<string, string>>(() => ({ ...route.value.query }));
  const [asked, setAsked] = useState(false);
  const record = currentCall("prompts/get", name);
  const args = prompt?.arguments ?? [];
  const given = Object.fromEntries(Object.entries(values).filter(([key, value]) => value !== "" && args.some((one) => one.name === key)));
  const send = (): void => {
    setAsked(true);
    if (args.every((one) => !one.required || given[one.name] !== undefined)) void call("prompts/get", name, given);
  };
  useEffect(() => {
    if (prompt && args.length === 0 && (!record || record.restored)) void call("prompts/get", name, {});
  }, [name, prompt === undefined]);
  if (!prompt) return <Empty title={`There is no prompt ${name}.`} />;
  const put = (key: string, value: string): void => {
    const next = { ...values, [key]: value };
    setValues(next);
    replaceRoute("prompts", name, Object.fromEntries(Object.entries(next).filter(([, part]) => part !== "")));
  };
  return (
    <div class="view">
      <header class="view-head">
        <div class="view-title">
          <ServerIcon icons={prompt.icons} />
          <h1>{prompt.title ?? prompt.name}</h1>
          {prompt.title && <span class="mono dim">{prompt.name}</span>}
          <PlaceLink place={devState.value?.places?.prompts?.[name]} />
        </div>
        {prompt.description && (
          <div class="view-description">
            <Markdown text={prompt.description} />
          </div>
        )}
      </header>
      <div class="halves">
        <section class="card" aria-label="Arguments">
          <header class="card-head">
            <span class="strong">Arguments</span>
            <span class="grow" />
            <CopyAs method="prompts/get" name={name} value={given} result={record?.result} />
          </header>
          <form
            class="card-body"
            onSubmit={(event) => {
              event.preventDefault();
              send();
            }}
          >
            {args.length === 0 && <p class="dim">This prompt takes no arguments.</p>}
            {args.map((one) => (
              <CompletingField key={one.name} reference={{ type: "ref/prompt", name }} name={one.name} label={one.title ?? one.name} description={one.description} required={one.required === true} value={values[one.name] ?? ""} context={Object.fromEntries(Object.entries(given).filter(([key]) => key !== one.name))} problem={asked && one.required && given[one.name] === undefined ? `${one.name} is required` : undefined} onChange={(value) => put(one.name, value)} />
            ))}
            <div class="actions">
              <button type="submit" class="button primary">
                Get the prompt
              </button>
            </div>
          </form>
        </section>
        <ResultCard record={record} idle="The conversation will be here." />
      </div>
      <div class="about">
        <details>
          <summary>Definition as the client gets it</summary>
          <JsonTree value={prompt as unknown as Json} open={2} />
        </details>
      </div>
    </div>
  );
}
