// Content of results, resources and prompts: text, Markdown, tables, images, audio, video, links, bytes.

import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Content, Json, ResourceContents } from "../mcp/types";
import { routeHash } from "../state/route";
import { type Block, type Inline, looksLikeMarkdown, markdown } from "../text/markdown";
import { type Table, csv, tableOf } from "../text/tables";
import { bytes } from "../text/format";
import { JsonTree } from "./json";
import { CopyButton, LongText, MOST_TEXT, ServerIcon } from "./parts";

function inlines(parts: Inline[]): JSX.Element[] {
  return parts.map((part, at) => {
    if (typeof part === "string") return <span key={at}>{part}</span>;
    switch (part.kind) {
      case "code":
        return <code key={at}>{part.text}</code>;
      case "strong":
        return <strong key={at}>{inlines(part.inner)}</strong>;
      case "em":
        return <em key={at}>{inlines(part.inner)}</em>;
      case "del":
        return <del key={at}>{inlines(part.inner)}</del>;
      case "image":
        return <img key={at} src={part.src} alt={part.alt} />;
      case "break":
        return <br key={at} />;
      default:
        return (
          <a key={at} href={part.href} target="_blank" rel="noopener noreferrer nofollow">
            {inlines(part.inner)}
          </a>
        );
    }
  });
}

function MdBlock({ block }: { block: Block }): JSX.Element {
  switch (block.kind) {
    case "heading": {
      const Tag = `h${Math.min(6, block.level + 2)}` as "h3";
      return <Tag class={`md-h${block.level}`}>{inlines(block.inner)}</Tag>;
    }
    case "code":
      return <pre class="code">{block.text}</pre>;
    case "rule":
      return <hr />;
    case "quote":
      return (
        <blockquote>
          {block.blocks.map((inner, at) => (
            <MdBlock key={at} block={inner} />
          ))}
        </blockquote>
      );
    case "list": {
      const items = block.items.map((item, at) => (
        <li key={at} class={item.checked === undefined ? "" : "task"}>
          {item.checked !== undefined && <input type="checkbox" checked={item.checked} disabled aria-label={item.checked ? "done" : "not done"} />}
          {item.blocks.length === 1 && item.blocks[0]?.kind === "paragraph" ? inlines(item.blocks[0].inner) : item.blocks.map((inner, index) => <MdBlock key={index} block={inner} />)}
        </li>
      ));
      return block.ordered ? <ol start={block.start}>{items}</ol> : <ul>{items}</ul>;
    }
    case "table":
      return (
        <div class="table-box">
          <table>
            <thead>
              <tr>
                {block.head.map((cell, at) => (
                  <th key={at} style={{ textAlign: block.align[at] ?? "left" }}>
                    {inlines(cell)}
                  </th>
                ))}
              </tr>
            </thead>
            <tbody>
              {block.rows.map((row, at) => (
                <tr key={at}>
                  {row.map((cell, column) => (
                    <td key={column} style={{ textAlign: block.align[column] ?? "left" }}>
                      {inlines(cell)}
                    </td>
                  ))}
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      );
    default:
      return <p>{inlines(block.inner)}</p>;
  }
}

export function Markdown({ text }: { text: string }): JSX.Element {
  const tree = useMemo(() => markdown(text), [text]);
  return (
    <div class="markdown">
      {tree.map((block, at) => (
        <MdBlock key={at} block={block} />
      ))}
    </div>
  );
}

const MOST_CELL = 1000;
const cell = (value: Json): string => {
  const text = typeof value === "string" ? value : value === null ? "" : JSON.stringify(value);
  return text.length > MOST_CELL ? `${text.slice(0, MOST_CELL)} …` : text; // the tree and the text have all of it
};

export function DataTable({ table }: { table: Table }): JSX.Element {
  return (
    <div class="table-box">
      <table>
        <thead>
          <tr>
            {table.columns.map((column) => (
              <th key={column}>{column}</th>
            ))}
          </tr>
        </thead>
        <tbody>
          {table.rows.map((row, at) => (
            <tr key={at}>
              {row.map((value, column) => (
                <td key={column} class={typeof value === "number" ? "number" : ""}>
                  {cell(value)}
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
      {table.left > 0 && <p class="dim">… and {table.left.toLocaleString("en")} more rows</p>}
    </div>
  );
}

function parsed(text: string): Json | undefined {
  if (!/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text) as Json;
  } catch {
    return undefined;
  }
}

type TextView = "markdown" | "table" | "json" | "text";

/** Text in the way that suits it, with the plain text one click away. */
export function TextContent({ text, mime = "" }: { text: string; mime?: string | undefined }): JSX.Element {
  const json = useMemo(() => parsed(text), [text]);
  const table = useMemo(() => {
    if (/csv/.test(mime)) return csv(text);
    if (/tab-separated/.test(mime)) return csv(text, "\t");
    return tableOf(json);
  }, [text, mime, json]);
  const views: TextView[] = [];
  if (table) views.push("table");
  if (json !== undefined) views.push("json");
  if (/markdown/.test(mime) || (json === undefined && !table && (mime === "" || mime === "text/plain") && looksLikeMarkdown(text.slice(0, MOST_TEXT)))) views.push("markdown");
  views.push("text");
  const [view, setView] = useState<TextView | undefined>(undefined);
  const shown = view !== undefined && views.includes(view) ? view : (views[0] as TextView);
  return (
    <div class="content-text">
      {views.length > 1 && (
        <div class="content-views">
          {views.map((one) => (
            <button type="button" key={one} class="link" aria-pressed={one === shown} onClick={() => setView(one)}>
              {one}
            </button>
          ))}
          <CopyButton text={text} what="the text" label="copy" />
        </div>
      )}
      {shown === "markdown" && <LongText text={text} show={(part) => <Markdown text={part} />} />}
      {shown === "table" && table && <DataTable table={table} />}
      {shown === "json" && <JsonTree value={json} copy={false} />}
      {shown === "text" && <LongText class="plain" text={text} />}
    </div>
  );
}

const HEX_BYTES = 512;

function Hex({ data }: { data: string }): JSX.Element {
  const binary = useMemo(() => atobSafe(data), [data]);
  const lines: string[] = [];
  for (let at = 0; at < Math.min(binary.length, HEX_BYTES); at += 16) {
    const part = [...binary.slice(at, at + 16)].map((char) => char.charCodeAt(0));
    const hex = part.map((byte) => byte.toString(16).padStart(2, "0")).join(" ");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${hex.padEnd(47)}  ${part.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : ".")).join("")}`);
  }
  return (
    <div>
      <pre class="code">{lines.join("\n")}</pre>
      <p class="dim">
        {bytes(binary.length)}
        {binary.length > HEX_BYTES ? `, the first ${HEX_BYTES} bytes are shown` : ""}
      </p>
    </div>
  );
}

function atobSafe(data: string): string {
  try {
    return atob(data.replace(/\s/g, ""));
  } catch {
    return "";
  }
}

const size = (data: string): string => bytes(Math.floor((data.length * 3) / 4));

export function Media({ data, mime, alt }: { data: string; mime: string; alt: string }): JSX.Element {
  const source = `data:${mime};base64,${data}`;
  const caption = (
    <figcaption>
      {mime} · {size(data)} ·{" "}
      <a class="link" href={source} download={`${alt || "content"}.${mime.split("/")[1]?.replace(/\+.*/, "") ?? "bin"}`}>
        save
      </a>
    </figcaption>
  );
  if (mime.startsWith("image/")) {
    return (
      <figure>
        <img src={source} alt={alt} />
        {caption}
      </figure>
    );
  }
  if (mime.startsWith("audio/")) {
    return (
      <figure>
        <audio controls src={source} aria-label={alt} />
        {caption}
      </figure>
    );
  }
  if (mime.startsWith("video/")) {
    return (
      <figure>
        <video controls src={source} aria-label={alt} />
        {caption}
      </figure>
    );
  }
  return (
    <figure>
      <Hex data={data} />
      {caption}
    </figure>
  );
}

export function ResourceBody({ contents }: { contents: ResourceContents }): JSX.Element {
  if (contents.blob !== undefined) return <Media data={contents.blob} mime={contents.mimeType ?? "application/octet-stream"} alt={contents.uri} />;
  return <TextContent text={contents.text ?? ""} mime={contents.mimeType} />;
}

export function ContentView({ content }: { content: Content }): JSX.Element {
  const notes = content.annotations;
  const said = notes ? [notes.audience?.length ? `for ${notes.audience.join(" and ")}` : "", notes.priority === undefined ? "" : `priority ${notes.priority}`, notes.lastModified ? `of ${notes.lastModified}` : ""].filter(Boolean).join(" · ") : "";
  return (
    <div class={`content content-${content.type}`}>
      {said && <p class="dim small">{said}</p>}
      <ContentBody content={content} />
    </div>
  );
}

function ContentBody({ content }: { content: Content }): JSX.Element {
  switch (content.type) {
    case "text":
      return <TextContent text={content.text ?? ""} />;
    case "image":
    case "audio":
      return <Media data={content.data ?? ""} mime={content.mimeType ?? (content.type === "image" ? "image/png" : "audio/wav")} alt={`${content.type} of the result`} />;
    case "resource_link":
      return (
        <a class="resource-link" href={routeHash("resources", content.uri ?? "")}>
          <ServerIcon icons={content.icons} fallback={<span aria-hidden="true">↗</span>} />
          <span>
            <span class="strong">{content.title ?? content.name ?? content.uri}</span> {content.description && <span class="dim">{content.description}</span>}
            <br />
            <span class="mono small dim">
              {content.uri}
              {content.mimeType ? ` · ${content.mimeType}` : ""}
              {content.size === undefined ? "" : ` · ${bytes(content.size)}`}
            </span>
          </span>
        </a>
      );
    case "resource":
      return (
        <div class="embedded">
          <p class="mono small dim">
            {content.resource?.uri} {content.resource?.mimeType}
          </p>
          {content.resource && <ResourceBody contents={content.resource} />}
        </div>
      );
    default:
      return <JsonTree value={content as unknown as Json} />;
  }
}
