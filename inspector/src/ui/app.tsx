// The frame of the page, and what lies over it: toasts, questions without a call, the failure of a reload.

import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { client, connect, connection, dismiss, loading, prompts, questions, reloadFailure, resources, serverName, templates, toasts, tools } from "../state/app";
import { devState } from "../state/dev";
import { go, parseRoute, route, routeHash } from "../state/route";
import { drawerOpen, narrow } from "../state/settings";
import { plural } from "../text/format";
import { Markdown } from "./content";
import { Drawer } from "./drawer";
import { Palette, palette } from "./palette";
import { Empty } from "./parts";
import { PromptView } from "./prompt";
import { QuestionCard } from "./question";
import { ResourceView, TemplateView } from "./resource";
import { ServerView, canSignIn, signIn } from "./server";
import { Sidebar, search } from "./sidebar";
import { TasksView } from "./tasks";
import { ToolView } from "./tool";
import { TopBar, sidebarShown } from "./topbar";
import { Traceback } from "./traceback";

export function App(): JSX.Element {
  const [listed, setListed] = useState(false);
  sidebarShown.toggle = () => setListed(!listed);
  useEffect(() => setListed(false), [route.value]);
  useEffect(() => {
    document.title = `${route.value.name ? `${route.value.name} · ` : ""}${serverName.value} · redstart`;
  }, [serverName.value, route.value]);
  useLayoutEffect(() => {
    const keys = (event: KeyboardEvent): void => {
      const typing = /^(INPUT|TEXTAREA|SELECT)$/.test((event.target as HTMLElement)?.tagName ?? "");
      if (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        palette.open();
      } else if (event.key === "/" && !typing && !event.ctrlKey) {
        event.preventDefault();
        if (narrow.value) setListed(true);
        if (narrow.value) requestAnimationFrame(() => search.focus());
        else search.focus();
      } else if (event.key === "`" && (event.ctrlKey || event.metaKey)) {
        event.preventDefault();
        drawerOpen.value = !drawerOpen.value;
      } else if (event.key === "Escape" && listed) setListed(false);
    };
    document.addEventListener("keydown", keys);
    return () => document.removeEventListener("keydown", keys);
  });
  // On a narrow screen the list lies over the rest: as long as it is empty, or a sign-in is waited for, it must not.
  const offers = tools.value.length + resources.value.length + templates.value.length + prompts.value.length > 0;
  const showList = !narrow.value || listed || (route.value.view === "" && offers && !signInUrl());
  return (
    <div class={`app${listed ? " listed" : ""}`}>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>
        To the content
      </a>
      <TopBar />
      <div class="middle">
        {showList && <Sidebar />}
        <main id="main" tabIndex={-1} aria-busy={loading.value}>
          <SignIn />
          <LostBanner />
          <ReloadFailed />
          <View />
        </main>
      </div>
      <Drawer />
      <Palette />
      <GlobalQuestion />
      <Toasts />
    </div>
  );
}

function View(): JSX.Element {
  const { view, name } = route.value;
  connection.value;
  const waiting = loading.value && client.value?.phase !== "failed";
  if (view === "server") return <ServerView />;
  if (view === "tasks") return <TasksView />;
  const known = tools.value.length + resources.value.length + templates.value.length + prompts.value.length;
  if (client.value?.phase === "failed" && known === 0) return <Refused />;
  if (waiting && tools.value.length === 0) return <p class="idle">Connecting to the server …</p>;
  if (view === "tools" && name) return <ToolView name={name} />;
  if (view === "resources" && name) return <ResourceView key={name} uri={name} />;
  if (view === "templates" && name) return <TemplateView key={name} template={name} />;
  if (view === "prompts" && name) return <PromptView key={name} name={name} />;
  return <Home />;
}

/** Without a route the first thing of the list is shown at once, on wide screens. */
function Home(): JSX.Element {
  connection.value;
  const first: [string, string] | undefined = tools.value[0] ? ["tools", tools.value[0].name] : resources.value[0] ? ["resources", resources.value[0].uri] : templates.value[0] ? ["templates", templates.value[0].uriTemplate] : prompts.value[0] ? ["prompts", prompts.value[0].name] : undefined;
  const hash = first ? routeHash(first[0], first[1]) : "";
  useEffect(() => {
    // The address, not the route: somebody may have gone elsewhere, and the event that tells of it comes later.
    if (first && !narrow.value && parseRoute(location.hash).view === "") {
      history.replaceState(null, "", hash);
      window.dispatchEvent(new HashChangeEvent("hashchange"));
    }
  }, [hash, narrow.value]);
  if (first) return <></>;
  return (
    <Empty title={`${serverName.value} offers nothing yet.`}>
      <p class="dim">Add a tool and save the file; it appears here by itself:</p>
      <pre class="code">{'@server.tool\ndef add(a: int, b: int) -> int:\n    """Add two numbers."""\n    return a + b'}</pre>
      {client.value?.instructions && <Markdown text={client.value.instructions} />}
    </Empty>
  );
}

const NO_ANSWER: Record<string, string> = {
  unreachable: "The server cannot be reached.",
  "not started": "The server cannot be started.",
  ended: "The server has ended.",
  unreadable: "The answer of the server cannot be read.",
};

/** The server was not reached, or has refused: what happened, and what can be done. */
function Refused(): JSX.Element {
  connection.value;
  const failure = client.value?.failure;
  const gone = NO_ANSWER[failure?.reason ?? ""];
  if (gone !== undefined) {
    return (
      <Empty title={gone}>
        <p class="lines">{failure?.message}</p>
        <p class="dim">The page tries again by itself every few seconds.</p>
        <p class="actions center">
          <button type="button" class="button primary" onClick={connect}>
            Try again
          </button>
        </p>
      </Empty>
    );
  }
  return (
    <Empty title="The server refuses the connection.">
      <p>{failure?.message}</p>
      {failure?.code !== undefined && <p class="dim">JSON-RPC error {failure.code}</p>}
      <p class="actions center">
        {canSignIn() && failure?.status === 401 && (
          <button type="button" class="button primary" onClick={() => void signIn()}>
            Sign in with OAuth
          </button>
        )}
        <button type="button" class={`button${canSignIn() && failure?.status === 401 ? "" : " primary"}`} onClick={() => go("server", "", { tab: "connection" })}>
          Set a token or headers
        </button>
        <button type="button" class="button" onClick={connect}>
          Try again
        </button>
      </p>
    </Empty>
  );
}

function signInUrl(): string | undefined {
  const url = devState.value?.upstream?.signIn ?? "";
  return /^https?:/.test(url) ? url : undefined;
}

/** The inspected server waits for a person to sign in. */
function SignIn(): JSX.Element | null {
  const url = signInUrl();
  const link = useRef<HTMLAnchorElement>(null);
  useEffect(() => {
    if (document.activeElement === document.body) link.current?.focus(); // the button that began this is gone
  }, [url]);
  if (url === undefined) return null;
  return (
    <section class="banner" role="alert" aria-label="Sign in">
      <p>
        <strong>{devState.value?.upstream?.shown}</strong> wants you to sign in at <strong>{new URL(url).host}</strong>. Afterwards the page goes on by itself.
      </p>
      <p class="actions">
        <a class="button primary" ref={link} href={url} target="_blank" rel="noopener noreferrer">
          Sign in at {new URL(url).host}
        </a>
      </p>
    </section>
  );
}

function LostBanner(): JSX.Element | null {
  connection.value;
  const phase = client.value?.phase;
  const upstream = devState.value?.upstream;
  if (upstream && !upstream.open && upstream.error && phase !== "open") return <div class="banner" role="status">{upstream.shown} is not connected: {upstream.error}</div>;
  if (phase !== "lost") return null;
  return (
    <div class="banner" role="status">
      The server does not answer. The page connects again by itself as soon as it is back.
    </div>
  );
}

function ReloadFailed(): JSX.Element | null {
  const failure = reloadFailure.value;
  const [folded, setFolded] = useState<string | undefined>(undefined);
  if (!failure) return null;
  const key = `${failure.type}${failure.text}`;
  const small = folded === key;
  return (
    <section class="overlay" role="alert" aria-label="The last save could not be loaded">
      <header>
        <strong>The last save could not be loaded; the tools from before it are still served.</strong>
        <span class="grow" />
        <button type="button" class="small-button" onClick={() => setFolded(small ? undefined : key)}>
          {small ? "Show" : "Fold"}
        </button>
      </header>
      {!small && <Traceback failure={failure} />}
    </section>
  );
}

/** A question that belongs to no call of this page. */
function GlobalQuestion(): JSX.Element | null {
  const question = questions.value.find((one) => one.call === undefined);
  if (!question) return null;
  return (
    <div class="backdrop">
      <div class="dialog" role="dialog" aria-modal="true" aria-label="The server asks">
        <QuestionCard question={question} />
      </div>
    </div>
  );
}

function Toasts(): JSX.Element {
  return (
    <div class="toasts" role="status" aria-live="polite">
      {toasts.value.map((one) => (
        <div key={one.id} class={`toast ${one.kind}`}>
          <div class="toast-text">
            <p class="strong">{one.title}</p>
            {one.lines.slice(0, 6).map((line) => (
              <p key={line} class="small mono wrap">
                {line}
              </p>
            ))}
            {one.lines.length > 6 && <p class="small dim">{plural(one.lines.slice(6))}</p>}
            {one.label && (
              <a class="link" href={one.href} onClick={() => dismiss(one.id)}>
                {one.label}
              </a>
            )}
          </div>
          <button type="button" class="icon-button" aria-label="Dismiss" onClick={() => dismiss(one.id)}>
            ×
          </button>
        </div>
      ))}
    </div>
  );
}
