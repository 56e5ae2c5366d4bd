// The tasks, in columns by their state.

import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import { TASKS } from "../mcp/client";
import type { JsonObject } from "../mcp/types";
import { type TaskRecord, calls, cancelTask, client, connection, listTasks, showCall, tasks } from "../state/app";
import { go } from "../state/route";
import { ago, ms } from "../text/format";
import { Badge, Empty } from "./parts";

const COLUMNS: [string, string, string][] = [
  ["working", "Working", "info"],
  ["input_required", "Input required", "warn"],
  ["completed", "Done", "good"],
  ["failed", "Failed", "bad"],
  ["cancelled", "Cancelled", "quiet"],
];

export function TasksView(): JSX.Element {
  connection.value;
  const [note, setNote] = useState<string | undefined>(undefined);
  const [, tick] = useState(0);
  useEffect(() => {
    const load = (): void => void listTasks().then(setNote);
    load();
    const timer = setInterval(() => tick((count) => count + 1), 1000);
    return () => clearInterval(timer);
  }, [client.value?.revision]);
  const capabilities = client.value?.capabilities ?? {};
  const offered = capabilities.tasks !== undefined || (capabilities.extensions as JsonObject | undefined)?.[TASKS] !== undefined;
  const total = tasks.value.length;
  return (
    <div class="view">
      <header class="view-head">
        <div class="view-title">
          <h1>Tasks</h1>
          <Badge kind={offered ? "good" : "quiet"}>{offered ? (client.value?.modern ? "extension" : "2025-11-25") : "not offered by this server"}</Badge>
          <span class="grow" />
          <button type="button" class="button" onClick={() => void listTasks().then(setNote)}>
            Refresh
          </button>
        </div>
        {note && total > 0 && <p class="dim small">{note}</p>}
      </header>
      {total === 0 ? (
        <Empty title="No tasks yet.">
          <p class="dim">A tool with task support makes one when it is called. {offered ? "" : "This server offers none in this revision."}</p>
        </Empty>
      ) : (
        <div class="board">
          {COLUMNS.map(([status, title, kind]) => {
            const list = tasks.value.filter((one) => one.task.status === status);
            return (
              <section class="column" key={status} aria-label={title}>
                <h2>
                  <Badge kind={kind}>{title}</Badge> <span class="dim">{list.length}</span>
                </h2>
                {list.map((one) => (
                  <TaskCard key={one.task.taskId} record={one} />
                ))}
              </section>
            );
          })}
        </div>
      )}
    </div>
  );
}

function TaskCard({ record }: { record: TaskRecord }): JSX.Element {
  const { task } = record;
  const now = Date.now() / 1000;
  const created = task.createdAt ? Date.parse(task.createdAt) / 1000 : record.updated;
  const ttl = task.ttlMs ?? task.ttl;
  const left = typeof ttl === "number" ? created * 1000 + ttl - Date.now() : undefined;
  const open = task.status === "working" || task.status === "input_required";
  const call = calls.value.find((one) => one.key === record.call);
  return (
    <article class="task">
      <p class="strong">{record.name || "task"}</p>
      <p class="mono small dim clip" title={task.taskId}>
        {task.taskId}
      </p>
      {task.statusMessage && <p class="small">{task.statusMessage}</p>}
      <p class="small dim">
        {ago(created, now)}
        {left !== undefined && left > 0 && ` · kept for ${ms(left)}`}
        {!record.own && " · of another client"}
      </p>
      <div class="actions">
        {call && (
          <button
            type="button"
            class="small-button"
            onClick={() => {
              showCall(call, call.kind, call.name);
              go("tools", call.name);
            }}
          >
            {task.status === "input_required" ? "Answer" : "Open"}
          </button>
        )}
        {open && record.own && (
          <button type="button" class="small-button" onClick={() => void cancelTask(record)}>
            Cancel task
          </button>
        )}
      </div>
    </article>
  );
}
