// The small pieces that all views share.

import type { ComponentChildren, JSX } from "preact";
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { Icon } from "../mcp/types";
import { toast } from "../state/app";
import { isDark } from "../state/settings";

export function Badge({ kind, title, children }: { kind: string; title?: string; children: ComponentChildren }): JSX.Element {
  return (
    <span class={`badge ${kind}`} title={title}>
      {children}
    </span>
  );
}

const STATUS: Record<string, string> = { ok: "good", sent: "quiet", "tool error": "bad", error: "bad", lost: "bad", "input required": "warn", waiting: "warn", running: "info", open: "info", cancelled: "quiet", task: "info" };

export function Status({ status }: { status: string }): JSX.Element {
  return <Badge kind={STATUS[status] ?? "quiet"}>{status}</Badge>;
}

export async function copyText(text: string, what: string): Promise<void> {
  try {
    await navigator.clipboard.writeText(text);
    toast("good", `Copied: ${what}`);
  } catch {
    // Without permission the old way: a selection in a field.
    const field = document.createElement("textarea");
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    toast(done ? "good" : "bad", done ? `Copied: ${what}` : "The browser did not allow copying");
  }
}

export function CopyButton({ text, what, label = "Copy" }: { text: string | (() => string); what: string; label?: string }): JSX.Element {
  return (
    <button type="button" class="link" onClick={() => void copyText(typeof text === "string" ? text : text(), what)}>
      {label}
    </button>
  );
}

export const MOST_TEXT = 100_000;

/** Text of any length: its beginning, then more of it by hand or all of it as a file. Megabytes at once would freeze the page. */
export function LongText({ text, class: kind, show }: { text: string; class?: string; show?: (part: string) => JSX.Element }): JSX.Element {
  const [most, setMost] = useState(MOST_TEXT);
  const part = text.length > most ? text.slice(0, most) : text;
  return (
    <>
      {show ? show(part) : <pre class={kind}>{part}</pre>}
      {text.length > most && (
        <p class="rest dim small">
          {(text.length - most).toLocaleString("en")} more characters are not shown.{" "}
          <button type="button" class="link" onClick={() => setMost(most + 5 * MOST_TEXT)}>
            Show more
          </button>{" "}
          <button type="button" class="link" onClick={() => download("text.txt", text, "text/plain")}>
            Save all
          </button>
        </p>
      )}
    </>
  );
}

export function Tabs<T extends string>({ tabs, value, onChange, label }: { tabs: { id: T; label: ComponentChildren }[]; value: T; onChange: (tab: T) => void; label: string }): JSX.Element {
  const list = useRef<HTMLDivElement>(null);
  const move = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!step) return;
    event.preventDefault();
    const at = tabs.findIndex((tab) => tab.id === value);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    if (!next) return;
    onChange(next.id);
    list.current?.querySelectorAll<HTMLElement>("[role=tab]")[tabs.indexOf(next)]?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label={label} ref={list} onKeyDown={move}>
      {tabs.map((tab) => (
        <button type="button" role="tab" key={tab.id} aria-selected={tab.id === value} tabIndex={tab.id === value ? 0 : -1} onClick={() => onChange(tab.id)}>
          {tab.label}
        </button>
      ))}
    </div>
  );
}

/** A button with a panel that closes on Escape, on a click elsewhere, and when the focus leaves. */
export function Popover({ label, title, children, align = "right", kind = "pill" }: { label: ComponentChildren; title: string; children: (close: () => void) => ComponentChildren; align?: "left" | "right"; kind?: string }): JSX.Element {
  const [open, setOpen] = useState(false);
  const root = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (!open) return undefined;
    const outside = (event: Event): void => {
      if (!root.current?.contains(event.target as Node)) setOpen(false);
    };
    const escape = (event: KeyboardEvent): void => {
      if (event.key !== "Escape") return;
      event.stopPropagation();
      setOpen(false);
      root.current?.querySelector("button")?.focus();
    };
    document.addEventListener("pointerdown", outside);
    document.addEventListener("focusin", outside);
    document.addEventListener("keydown", escape, true);
    return () => {
      document.removeEventListener("pointerdown", outside);
      document.removeEventListener("focusin", outside);
      document.removeEventListener("keydown", escape, true);
    };
  }, [open]);
  const move = (event: KeyboardEvent): void => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    const entries = [...(root.current?.querySelectorAll<HTMLElement>(".menu button") ?? [])];
    if (!step || entries.length === 0) return;
    event.preventDefault();
    const at = entries.indexOf(document.activeElement as HTMLElement);
    entries[at < 0 && step < 0 ? entries.length - 1 : (at + step + entries.length) % entries.length]?.focus();
  };
  return (
    <div class="popover" ref={root} onKeyDown={move}>
      <button type="button" class={kind} aria-expanded={open} aria-haspopup="dialog" title={title} onClick={() => setOpen(!open)}>
        {label}
      </button>
      {open && (
        <div class={`panel ${align}`} role="dialog" aria-label={title}>
          {children(() => setOpen(false))}
        </div>
      )}
    </div>
  );
}

/** Icons of servers: only data: images are shown, so that no request leaves the machine. */
export function ServerIcon({ icons, fallback }: { icons: Icon[] | undefined; fallback?: ComponentChildren }): JSX.Element {
  const wanted = isDark.value ? "dark" : "light";
  const usable = (icons ?? []).filter((icon) => /^data:image\/(png|jpeg|svg\+xml|webp|gif)[;,]/i.test(icon.src));
  const icon = usable.find((one) => one.theme === wanted) ?? usable.find((one) => !one.theme) ?? usable[0];
  if (icon) return <img class="icon" src={icon.src} alt="" />;
  const remote = icons?.[0];
  return <>{remote ? <span class="icon remote" title={`Not loaded, because it is on another machine: ${remote.src}`} /> : fallback}</>;
}

export function Empty({ title, children }: { title: string; children?: ComponentChildren }): JSX.Element {
  return (
    <div class="empty">
      <p class="strong">{title}</p>
      {children}
    </div>
  );
}

export function Sparkline({ values, width = 54, height = 16, bad = false }: { values: number[]; width?: number; height?: number; bad?: boolean }): JSX.Element | null {
  if (values.length < 2) return null;
  const top = Math.max(...values) || 1;
  const points = values.map((value, at) => `${((at / (values.length - 1)) * width).toFixed(1)},${(height - 1.5 - (value / top) * (height - 3)).toFixed(1)}`).join(" ");
  return (
    <svg class={`spark${bad ? " bad" : ""}`} width={width} height={height} viewBox={`0 0 ${width} ${height}`} aria-hidden="true">
      <polyline points={points} />
    </svg>
  );
}

interface VirtualProps<T> {
  items: T[];
  heights: (item: T) => number;
  render: (item: T, at: number) => JSX.Element;
  label: string;
  role?: "list" | "listbox" | "log" | "tree";
  class?: string;
  stick?: boolean; // stay at the end while the end is shown
  scrollTo?: number | undefined; // the row to bring into view
}

/** A list of any length of which only what is visible is in the document. */
export function VirtualList<T>({ items, heights, render, label, role = "list", class: extra = "", stick = false, scrollTo }: VirtualProps<T>): JSX.Element {
  const box = useRef<HTMLDivElement>(null);
  const [view, setView] = useState({ top: 0, height: 800 });
  const atEnd = useRef(true);
  const offsets: number[] = [0];
  for (const item of items) offsets.push((offsets[offsets.length - 1] as number) + heights(item));
  const total = offsets[offsets.length - 1] as number;
  useEffect(() => {
    const element = box.current;
    if (!element) return undefined;
    let frame = 0;
    const measure = (): void => {
      frame = 0;
      atEnd.current = element.scrollTop + element.clientHeight >= element.scrollHeight - 8;
      setView({ top: element.scrollTop, height: element.clientHeight });
    };
    const soon = (): void => {
      if (!frame) frame = requestAnimationFrame(measure);
    };
    const observer = new ResizeObserver(soon);
    observer.observe(element);
    element.addEventListener("scroll", soon, { passive: true });
    measure();
    return () => {
      observer.disconnect();
      element.removeEventListener("scroll", soon);
      cancelAnimationFrame(frame);
    };
  }, []);
  useEffect(() => {
    if (stick && atEnd.current && box.current) box.current.scrollTop = total;
  }, [total, stick]);
  useEffect(() => {
    const element = box.current;
    if (scrollTo === undefined || !element || scrollTo < 0 || scrollTo >= items.length) return;
    const top = offsets[scrollTo] as number;
    const bottom = offsets[scrollTo + 1] as number;
    if (top < element.scrollTop) element.scrollTop = top - 8;
    else if (bottom > element.scrollTop + element.clientHeight) element.scrollTop = bottom - element.clientHeight + 8;
  }, [scrollTo]);
  const first = Math.max(0, search(offsets, view.top - 300) - 1);
  const last = Math.min(items.length, search(offsets, view.top + view.height + 300) + 1);
  return (
    <div class={`virtual ${extra}`} ref={box} role={role} aria-label={label} tabIndex={-1}>
      <div style={{ height: `${total}px`, position: "relative" }} role="presentation">
        <div style={{ transform: `translateY(${offsets[first] ?? 0}px)` }} role="presentation">
          {items.slice(first, last).map((item, at) => {
            const inner = render(item, first + at);
            return (
              <div key={inner.key} role={role === "list" ? "listitem" : undefined} style={{ height: `${heights(item)}px` }}>
                {inner}
              </div>
            );
          })}
        </div>
      </div>
    </div>
  );
}

function search(offsets: number[], at: number): number {
  let low = 0;
  let high = offsets.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((offsets[middle] as number) < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

export function download(name: string, text: string, type = "application/json"): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
