// The server and the connection: who it is, what it can do, how to install it, what the last reload changed.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { Json, JsonObject } from "../mcp/types";
import { client, connect, connection, countClients, exchanges, exchangeVersion, lastReload, pages, prompts, refresh, resources, serverName, subscribed, templates, toast, tools, updates } from "../state/app";
import { type Diff, type Snippet, devLink, devState, reloadServer, setUpstream } from "../state/dev";
import { replaceRoute, route } from "../state/route";
import { bearer, headers, logLevel, metadata, paged } from "../state/settings";
import { clients, isOwn, trafficVersion } from "../state/traffic";
import { lineDiff } from "../text/diff";
import { ago, clock, count, ms } from "../text/format";
import { Markdown } from "./content";
import { JsonEditor, JsonTree } from "./json";
import { Badge, CopyButton, Empty, ServerIcon, Tabs } from "./parts";
import { PlaceLink, Traceback } from "./traceback";

type Tab = "about" | "connection" | "clients" | "install" | "findings" | "reload";

export function ServerView(): JSX.Element {
  connection.value;
  const state = devState.value;
  const wanted = (route.value.query.tab ?? "about") as Tab;
  const tabs: { id: Tab; label: string }[] = [
    { id: "about", label: "About" },
    { id: "connection", label: "Connection" },
    { id: "clients", label: "Clients" },
    { id: "install", label: "Install" },
  ];
  if (state?.findings && state.findings.length > 0) tabs.push({ id: "findings", label: `Findings ${state.findings.length}` });
  if (state?.canReload) tabs.push({ id: "reload", label: "Reload" });
  const tab = tabs.some((one) => one.id === wanted) ? wanted : "about";
  const info = client.value?.serverInfo;
  return (
    <div class="view">
      <header class="view-head">
        <div class="view-title">
          <ServerIcon icons={info?.icons} />
          <h1>{serverName.value}</h1>
          <span class="mono dim">
            {info?.name} {info?.version}
          </span>
        </div>
        {info?.description && <p class="view-description">{info.description}</p>}
      </header>
      <section class="card">
        <header class="card-head">
          <Tabs tabs={tabs} value={tab} onChange={(next) => replaceRoute("server", "", { tab: next })} label="About the server" />
        </header>
        <div class="card-body">
          {tab === "about" && <About />}
          {tab === "connection" && <Connection />}
          {tab === "clients" && <Clients />}
          {tab === "install" && <Install />}
          {tab === "findings" && <Findings />}
          {tab === "reload" && <Reload />}
        </div>
      </section>
    </div>
  );
}

function Facts({ rows }: { rows: [string, JSX.Element | string | undefined][] }): JSX.Element {
  return (
    <dl class="facts">
      {rows
        .filter(([, value]) => value !== undefined && value !== "")
        .map(([label, value]) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>{value}</dd>
          </div>
        ))}
    </dl>
  );
}

function About(): JSX.Element {
  const own = client.value;
  const state = devState.value;
  const pageCount = (method: string): string => ((pages.value[method] ?? 1) > 1 ? ` in ${pages.value[method]} pages` : "");
  return (
    <div>
      <Facts
        rows={[
          ["Offers", `${count(tools.value.length, "tool")}${pageCount("tools/list")}, ${count(resources.value.length, "resource")}${pageCount("resources/list")}, ${count(templates.value.length, "template")}, ${count(prompts.value.length, "prompt")}${pageCount("prompts/list")}`],
          ["Started from", state?.target],
          ["Process", state?.pid ? `${state.pid}, Python ${state.python}, redstart ${state.redstart}, ${state.platform}${(state.workers ?? 1) > 1 ? `, ${state.workers} workers` : ""}` : undefined],
          ["Running since", state?.started ? `${clock(state.started, false)} (${ago(state.started, Date.now() / 1000)})` : undefined],
          ["Passes on to", state?.upstream ? `${state.upstream.shown}${state.upstream.open ? "" : " (not connected)"}${state.upstream.error ? `: ${state.upstream.error}` : ""}` : undefined],
          ["Website", own?.serverInfo?.websiteUrl],
        ]}
      />
      {own?.instructions && (
        <>
          <h2>Instructions for the model</h2>
          <div class="quote">
            <Markdown text={own.instructions} />
          </div>
        </>
      )}
      <h2>Capabilities</h2>
      <JsonTree value={(own?.capabilities ?? {}) as Json} open={4} copy={false} />
      {state?.upstream?.log && state.upstream.log.length > 0 && (
        <>
          <h2>What the process said</h2>
          <pre class="code">{state.upstream.log.join("\n")}</pre>
        </>
      )}
    </div>
  );
}

export const canSignIn = (): boolean => devState.value?.upstream?.kind === "http";

/** Sign in to the inspected server; the banner shows where, as soon as that is known. */
export async function signIn(oauth = { clientId: "", clientSecret: "", scopes: "" }): Promise<void> {
  await connectWith({ token: "", headers: named(), oauth });
}

const named = (): Record<string, string> => Object.fromEntries(headers.value.map(([name, value]) => [name.trim(), value]).filter(([name]) => name));

async function connectWith(wanted: Parameters<typeof setUpstream>[0]): Promise<void> {
  const wrong = canSignIn() ? await setUpstream(wanted).catch(() => "The process of the inspector does not answer.") : undefined;
  if (wrong) {
    toast("bad", "The settings are not right", [wrong]);
    return;
  }
  connect();
  if (!wanted.oauth) toast("info", "Connecting with the new settings"); // of a sign-in the banner tells
}

/** For a client that is registered by hand; otherwise it registers itself. */
function SignInForm(): JSX.Element {
  const [oauth, setOauth] = useState({ clientId: "", clientSecret: "", scopes: "" });
  const field = (key: keyof typeof oauth, label: string, hint: string): JSX.Element => (
    <label class="field">
      <span class="field-name">{label}</span> <span class="dim small">{hint}</span>
      <input {...(key === "clientSecret" ? { type: "password" as const } : { type: "text" as const })} autocomplete="off" value={oauth[key]} onInput={(event) => setOauth({ ...oauth, [key]: event.currentTarget.value })} />
    </label>
  );
  return (
    <details>
      <summary>Sign in with OAuth</summary>
      <form
        class="connection-form"
        onSubmit={(event) => {
          event.preventDefault();
          void signIn(oauth);
        }}
      >
        {field("clientId", "Client id", "empty: the page registers itself")}
        {field("clientSecret", "Client secret", "if the client has one; kept in memory only")}
        {field("scopes", "Scopes", "empty: those that the server asks for")}
        <div class="actions">
          <button type="submit" class="button primary">
            Sign in
          </button>
        </div>
      </form>
    </details>
  );
}

function Connection(): JSX.Element {
  const own = client.value;
  exchangeVersion.value;
  const open = exchanges.filter((one) => one.ended === undefined && one.verb === "POST" && one.method !== "subscriptions/listen");
  const last = [...exchanges].reverse().find((one) => one.ended !== undefined && one.status !== undefined);
  const [token, setToken] = useState(bearer.value);
  const [list, setList] = useState<[string, string][]>(headers.value.length > 0 ? headers.value : [["", ""]]);
  return (
    <div>
      <Facts
        rows={[
          ["Endpoint", <span class="mono">{new URL(own?.endpoint ?? "/mcp", location.href).href}</span>],
          ["State", own?.phase === "open" ? "connected" : own?.phase === "failed" ? `${own.failure?.reason ? "not connected" : "refused"}: ${own.failure?.message}` : "connecting"],
          ["Revision", own ? `${own.revision} (${own.modern ? "stateless" : "with initialize and a session"})` : ""],
          ["Open streams", own?.streams ? `${own.streams}, since ${clock(own.connectedAt / 1000, false)}` : "none"],
          ["Unanswered requests", open.length === 0 ? "none" : open.map((one) => `${one.method} ${one.name}`.trim()).join(", ")],
          ["Last answer", last ? `${last.method} ${last.name}`.trim() + `, ${ago((performance.timeOrigin + (last.ended ?? 0)) / 1000, Date.now() / 1000)}` : "none"],
          ["Subscriptions", subscribed.value.size === 0 ? "none" : [...subscribed.value].map((uri) => `${uri} (${updates.value[uri] ?? 0})`).join(", ")],
          ["Events of the server", devLink.value === "open" ? "read" : devLink.value === "off" ? "not read: the page was opened without the token of the terminal" : devLink.value === "refused" ? "refused: the token is not right" : "connecting"],
        ]}
      />
      <form
        class="connection-form"
        onSubmit={(event) => {
          event.preventDefault();
          bearer.value = token.trim();
          headers.value = list.filter(([name]) => name.trim() !== "");
          void connectWith({ token: bearer.value, headers: named() });
        }}
      >
        {devState.value?.upstream?.kind !== "stdio" && <>
        <label class="field">
          <span class="field-name">Bearer token</span> <span class="dim small">kept in memory only; a reload of the page forgets it</span>
          <input type="password" autocomplete="off" value={token} onInput={(event) => setToken(event.currentTarget.value)} />
        </label>
        <div class="field">
          <span class="field-name">More headers</span>
          {list.map(([name, value], at) => (
            <div class="row-add" key={at}>
              <input type="text" placeholder="X-Name" aria-label={`Name of header ${at + 1}`} value={name} onInput={(event) => setList(list.map((one, index) => (index === at ? [event.currentTarget.value, one[1]] : one)))} />
              <input type="text" placeholder="value" aria-label={`Value of header ${at + 1}`} value={value} onInput={(event) => setList(list.map((one, index) => (index === at ? [one[0], event.currentTarget.value] : one)))} />
            </div>
          ))}
          <button type="button" class="small-button" onClick={() => setList([...list, ["", ""]])}>
            + Add header
          </button>
        </div>
        </>}
        <div class="field">
          <span class="field-name">Metadata</span> <span class="dim small">merged into _meta of every request</span>
          <JsonEditor value={metadata.value} label="Metadata of every request" rows={3} onChange={(next) => { metadata.value = typeof next === "object" && next !== null && !Array.isArray(next) ? next : {}; }} />
        </div>
        <label class="field">
          <span class="field-name">Log level</span>
          <select
            value={logLevel.value}
            onChange={(event) => {
              logLevel.value = event.currentTarget.value;
            }}
          >
            {["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"].map((level) => (
              <option key={level}>{level}</option>
            ))}
          </select>
        </label>
        <label class="check">
          <input
            type="checkbox"
            checked={paged.value}
            onChange={(event) => {
              paged.value = event.currentTarget.checked;
              void refresh();
            }}
          />{" "}
          Read lists page by page
        </label>
        <div class="actions">
          <button type="submit" class="button primary">
            Connect anew
          </button>
        </div>
      </form>
      {canSignIn() && <SignInForm />}
      <h2>What this page says that it can do</h2>
      <JsonTree value={(own?.clientCapabilities ?? {}) as Json} open={4} copy={false} />
      <h2>{own?.modern ? "Answer to server/discover" : "Answer to initialize"}</h2>
      <JsonTree value={(own?.greeting ?? {}) as Json} open={2} />
    </div>
  );
}

function Clients(): JSX.Element {
  trafficVersion.value;
  useEffect(() => {
    void countClients();
    const timer = setInterval(() => void countClients(), 2000);
    return () => clearInterval(timer);
  }, []);
  const list = [...clients.values()].sort((a, b) => Number(b.open ?? false) - Number(a.open ?? false) || (b.seen ?? 0) - (a.seen ?? 0));
  if (list.length === 0) return <Empty title="No client is known yet." />;
  return (
    <div class="table-box">
      <table>
        <thead>
          <tr>
            <th>Client</th>
            <th>Revision</th>
            <th>Transport</th>
            <th>Can</th>
            <th>Seen</th>
            <th class="number">Messages</th>
          </tr>
        </thead>
        <tbody>
          {list.map((one) => (
            <tr key={one.id}>
              <td>
                <span class={`dot ${one.open === false ? "" : "on"}`} /> {isOwn(one) ? "this page" : (one.title ?? one.name ?? one.id)} <span class="dim">{isOwn(one) ? "" : one.version}</span>
                {one.user && <span class="dim"> as {one.user}</span>}
              </td>
              <td class="mono">{one.revision}</td>
              <td>{one.transport}</td>
              <td>{Object.keys((one.capabilities ?? {}) as JsonObject).join(", ") || <span class="dim">nothing more</span>}</td>
              <td>{one.seen ? ago(one.seen, Date.now() / 1000) : ""}</td>
              <td class="number">{one.messages ?? ""}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Snippets for HTTP that need nothing but the address; the server tells better ones in development. */
function plainSnippets(url: string, name: string): Snippet[] {
  const json = (value: unknown): string => JSON.stringify(value, null, 2);
  return [
    { client: "claude-code", title: "Claude Code", kind: "shell", text: `claude mcp add --transport http ${name} ${url}`, transport: "http" },
    { client: "vscode", title: "VS Code", kind: "json", file: ".vscode/mcp.json", text: json({ servers: { [name]: { type: "http", url } } }), transport: "http" },
    { client: "cursor", title: "Cursor", kind: "json", file: "~/.cursor/mcp.json", text: json({ mcpServers: { [name]: { url } } }), transport: "http" },
    { client: "codex", title: "Codex", kind: "toml", file: "~/.codex/config.toml", text: `[mcp_servers.${name}]\nurl = "${url}"`, transport: "http" },
    { client: "gemini", title: "Gemini CLI", kind: "shell", text: `gemini mcp add --transport http ${name} ${url}`, transport: "http" },
    { client: "windsurf", title: "Windsurf", kind: "json", file: "~/.codeium/windsurf/mcp_config.json", text: json({ mcpServers: { [name]: { serverUrl: url } } }), transport: "http" },
    { client: "zed", title: "Zed", kind: "json", file: "~/.config/zed/settings.json", text: json({ context_servers: { [name]: { url } } }), transport: "http" },
    { client: "opencode", title: "opencode", kind: "json", file: "opencode.json", text: json({ mcp: { [name]: { type: "remote", url } } }), transport: "http" },
  ];
}

function Install(): JSX.Element {
  const name = client.value?.serverInfo?.name ?? "server";
  const told = devState.value?.install ?? [];
  const list = told.length > 0 ? told : plainSnippets(new URL(devState.value?.path ?? "/mcp", location.href).href, name);
  const names = [...new Set(list.map((one) => one.client))];
  const [picked, setPicked] = useState(names[0] as string);
  const chosen = list.filter((one) => one.client === (names.includes(picked) ? picked : names[0]));
  return (
    <div class="install">
      <div class="segments wide" role="group" aria-label="Client">
        {names.map((one) => (
          <button type="button" key={one} aria-pressed={one === picked} onClick={() => setPicked(one)}>
            {list.find((snippet) => snippet.client === one)?.title ?? one}
          </button>
        ))}
      </div>
      {chosen.map((one, at) => (
        <div key={at} class="snippet">
          <p>
            <Badge kind="quiet">{one.transport}</Badge> {one.file ? <span class="mono small">{one.file}</span> : <span class="dim small">{one.kind === "shell" ? "in a terminal" : one.kind === "link" ? "a link" : ""}</span>} <CopyButton text={one.text} what={`the snippet for ${one.title}`} />
            {one.kind === "link" && (
              <a class="link" href={one.text}>
                Open
              </a>
            )}
          </p>
          <pre class="code">{one.text}</pre>
          {one.note && <p class="dim small note">{one.note}</p>}
        </div>
      ))}
    </div>
  );
}

function Findings(): JSX.Element {
  const list = devState.value?.findings ?? [];
  return (
    <ul class="hints">
      {list.map((one, at) => (
        <li key={at}>
          <Badge kind={one.severity === "error" ? "bad" : one.severity === "warning" ? "warn" : "quiet"}>{one.code}</Badge> <span class="mono small">{one.name}</span> {one.text} {one.fix && <span class="dim">{one.fix}</span>} <PlaceLink place={one.place} />
        </li>
      ))}
    </ul>
  );
}

function Reload(): JSX.Element {
  const state = devState.value;
  const event = lastReload.value;
  const kinds = ["tools", "prompts", "resources", "templates"] as const;
  return (
    <div>
      <div class="actions">
        <button type="button" class="button primary" onClick={() => void reloadServer()}>
          Reload now
        </button>
        <span class="dim">
          {state?.reload ? `${state.reload.count} reloads, the last at ${clock(state.reload.at, false)} in ${ms(state.reload.ms)}` : "Nothing was reloaded yet. Saving a file does it by itself."}
        </span>
      </div>
      {state?.reload?.error && <Traceback failure={state.reload.error} />}
      {event && !event.error && kinds.map((kind) => <DiffOf key={kind} title={kind} diff={event[kind]} />)}
    </div>
  );
}

function DiffOf({ title, diff }: { title: string; diff: Diff | undefined }): JSX.Element | null {
  if (!diff || diff.added.length + diff.removed.length + diff.changed.length === 0) return null;
  return (
    <div class="reload-diff">
      <h2>{title}</h2>
      {diff.added.map((name) => (
        <p key={name}>
          <Badge kind="good">added</Badge> <span class="mono">{name}</span>
        </p>
      ))}
      {diff.removed.map((name) => (
        <p key={name}>
          <Badge kind="bad">removed</Badge> <span class="mono">{name}</span>
        </p>
      ))}
      {diff.changed.map((one) => (
        <details key={one.name} open>
          <summary>
            <Badge kind="warn">changed</Badge> <span class="mono">{one.name}</span>
          </summary>
          <pre class="diff">
            {lineDiff(JSON.stringify(one.before, null, 2), JSON.stringify(one.after, null, 2))
              .filter((line, at, all) => line.mark !== " " || all.slice(Math.max(0, at - 2), at + 3).some((near) => near.mark !== " "))
              .map((line, at) => (
                <span key={at} class={line.mark === "+" ? "plus" : line.mark === "-" ? "minus" : ""}>
                  {line.mark} {line.text}
                  {"\n"}
                </span>
              ))}
          </pre>
        </details>
      ))}
    </div>
  );
}
