// Resources and templates: read, follow updates, fill in variables with the server's help.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Json, JsonObject, Resource, ResourceTemplate } from "../mcp/types";
import { expandTemplate, templateVariables } from "../mcp/uritemplate";
import { call, client, connection, currentCall, resources, subscribe, subscribed, templates, updates } from "../state/app";
import { devState } from "../state/dev";
import { replaceRoute, route } from "../state/route";
import { bytes } from "../text/format";
import { Markdown } from "./content";
import { CompletingField } from "./completing";
import { JsonTree } from "./json";
import { Badge, Empty, ServerIcon } from "./parts";
import { ResultCard } from "./result";
import { CopyAs } from "./tool";
import { PlaceLink } from "./traceback";

function Head({ item, name, place }: { item: Resource | ResourceTemplate | undefined; name: string; place: Parameters<typeof PlaceLink>[0]["place"] }): JSX.Element {
  const notes = item?.annotations;
  const size = item && "size" in item ? item.size : undefined;
  return (
    <header class="view-head">
      <div class="view-title">
        <ServerIcon icons={item?.icons} />
        <h1>{item?.title ?? item?.name ?? name}</h1>
        {(item?.title ?? item?.name ?? name) !== name && <span class="mono dim wrap">{name}</span>}
        {item?.mimeType && <Badge kind="quiet">{item.mimeType}</Badge>}
        {size !== undefined && <Badge kind="quiet">{bytes(size)}</Badge>}
        {notes?.audience && <Badge kind="quiet">for {notes.audience.join(", ")}</Badge>}
        {notes?.priority !== undefined && <Badge kind="quiet">priority {notes.priority}</Badge>}
        <PlaceLink place={place} />
      </div>
      {item?.description && (
        <div class="view-description">
          <Markdown text={item.description} />
        </div>
      )}
    </header>
  );
}

function SubscribeButton({ uri }: { uri: string }): JSX.Element | null {
  connection.value;
  if (!(client.value?.capabilities.resources as JsonObject | undefined)?.subscribe) return null;
  const on = subscribed.value.has(uri);
  const count = updates.value[uri] ?? 0;
  return (
    <button type="button" class="button" aria-pressed={on} onClick={() => void subscribe(uri, !on)}>
      {on ? "Subscribed" : "Subscribe"}
      {(on || count > 0) && (
        <span class="counter" aria-label={`${count} updates`}>
          {count}
        </span>
      )}
    </button>
  );
}

export function ResourceView({ uri }: { uri: string }): JSX.Element {
  const item = resources.value.find((one) => one.uri === uri);
  const record = currentCall("resources/read", uri);
  const count = updates.value[uri] ?? 0;
  const ready = connection.value > 0 && client.value?.phase === "open";
  useEffect(() => {
    if (ready && (!record || record.restored)) void call("resources/read", uri, {});
  }, [uri, ready]);
  useEffect(() => {
    if (count > 0 && subscribed.value.has(uri)) void call("resources/read", uri, {});
  }, [count]);
  return (
    <div class="view" key={uri}>
      <Head item={item} name={uri} place={devState.value?.places?.resources?.[uri]} />
      <div class="actions">
        <button type="button" class="button primary" onClick={() => void call("resources/read", uri, {})}>
          Read again
        </button>
        <SubscribeButton uri={uri} />
        <span class="grow" />
        <CopyAs method="resources/read" name={uri} value={{}} result={record?.result} />
      </div>
      <ResultCard record={record} idle="Reading …" />
      {item && (
        <div class="about">
          <details>
            <summary>Definition as the client gets it</summary>
            <JsonTree value={item as unknown as Json} open={2} />
          </details>
        </div>
      )}
    </div>
  );
}

export function TemplateView({ template }: { template: string }): JSX.Element {
  const item = templates.value.find((one) => one.uriTemplate === template);
  const names = templateVariables(template);
  const [values, setValues] = useState<Record<string, string>>(() => ({ ...route.value.query }));
  const [asked, setAsked] = useState(false);
  if (!item) return <Empty title={`There is no template ${template}.`} />;
  const given = Object.fromEntries(Object.entries(values).filter(([, value]) => value !== ""));
  const uri = expandTemplate(template, given);
  const record = currentCall("resources/read", uri);
  const put = (name: string, value: string): void => {
    const next = { ...values, [name]: value };
    setValues(next);
    replaceRoute("templates", template, Object.fromEntries(Object.entries(next).filter(([, part]) => part !== "")));
  };
  const read = (): void => {
    setAsked(true);
    if (names.every((name) => given[name] !== undefined)) void call("resources/read", uri, {});
  };
  return (
    <div class="view">
      <Head item={item} name={template} place={devState.value?.places?.templates?.[template]} />
      <div class="halves">
        <section class="card" aria-label="Variables">
          <header class="card-head">
            <span class="strong">Variables</span>
            <span class="grow" />
            <CopyAs method="resources/read" name={uri} value={{}} result={record?.result} />
          </header>
          <form
            class="card-body"
            onSubmit={(event) => {
              event.preventDefault();
              read();
            }}
          >
            {names.map((name) => (
              <CompletingField key={name} reference={{ type: "ref/resource", uri: template }} name={name} label={name} required value={values[name] ?? ""} context={Object.fromEntries(Object.entries(given).filter(([key]) => key !== name))} problem={asked && given[name] === undefined ? `${name} is required` : undefined} onChange={(value) => put(name, value)} />
            ))}
            <p class="mono small wrap expanded" aria-live="polite">
              {uri}
            </p>
            <div class="actions">
              <button type="submit" class="button primary">
                Read
              </button>
              {uri && <SubscribeButton uri={uri} />}
            </div>
          </form>
        </section>
        <ResultCard record={record} idle="What the resource contains will be here." />
      </div>
      <div class="about">
        <details>
          <summary>Definition as the client gets it</summary>
          <JsonTree value={item as unknown as Json} open={2} />
        </details>
      </div>
    </div>
  );
}
