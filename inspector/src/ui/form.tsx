// A form for a schema. The value is plain JSON; what is absent is undefined. Problems are shown at the field that they belong to.

import type { ComponentChildren, JSX } from "preact";
import { createContext } from "preact";
import { useContext, useId, useState } from "preact/hooks";
import type { Json, JsonObject, Schema } from "../mcp/types";
import { type FormNode, type Option, blank, branchOf, formNode, kindWord } from "../schema/form";
import { type Path, type Problem, equal } from "../schema/validate";
import { JsonEditor } from "./json";

interface Shared {
  root: Schema;
  problems: Problem[];
  completions?: ((name: string, value: string) => Promise<string[]>) | undefined;
}

const Form = createContext<Shared>({ root: {}, problems: [] });

interface Control {
  node: FormNode;
  value: Json | undefined;
  path: Path;
  required: boolean;
  onChange: (value: Json | undefined) => void;
  id: string;
  describe: string | undefined;
  invalid: boolean;
  unions?: number; // that this control is a branch of, directly
}

const MOST_ROWS = 200;
const MOST_UNIONS = 8;
const isCompound = (node: FormNode): boolean => node.kind === "object" || node.kind === "array" || node.kind === "union";

const startsWith = (path: Path, start: Path): boolean => start.every((part, at) => path[at] === part);

export function SchemaForm({ schema, value, problems, onChange }: { schema: Schema; value: JsonObject; problems: Problem[]; onChange: (value: JsonObject) => void }): JSX.Element {
  const node = formNode(schema, schema);
  const own = problems.filter((problem) => problem.path.length === 0);
  return (
    <Form.Provider value={{ root: schema, problems }}>
      {own.map((problem) => (
        <p class="problem" key={problem.message} role="alert">
          The arguments {problem.message}
        </p>
      ))}
      <ControlOf node={node} value={value} path={[]} required onChange={(next) => onChange((next ?? {}) as JsonObject)} id="root" describe={undefined} invalid={false} />
    </Form.Provider>
  );
}

/** A labelled field with its description, its problems and the ways to leave it out. */
export function FieldRow({ name, schema, value, path, required, onChange, remove }: { name: string; schema: Schema; value: Json | undefined; path: Path; required: boolean; onChange: (value: Json | undefined) => void; remove?: ComponentChildren }): JSX.Element {
  const { root, problems } = useContext(Form);
  const id = useId();
  const node = formNode(schema, root);
  const own = problems.filter((problem) => equal(problem.path, path));
  const labels = !["object", "array", "union", "multi", "boolean", "null"].includes(node.kind);
  const compound = isCompound(node);
  // Only what has a value is opened: a schema that contains itself would have no end.
  const closed = value === undefined && compound && (!required || node.kind !== "union" || isCompound(formNode(node.branches[0]?.schema, root)));
  const words = [kindWord(node), required ? "" : "optional", node.nullable ? "may be null" : ""].filter(Boolean).join(", ");
  const describe = node.description ? `${id}-d` : undefined;
  return (
    <div class={`field${compound && value !== undefined && value !== null ? " compound" : ""}${own.length > 0 ? " bad" : ""}`} data-field={path.join(".")}>
      <div class="field-head">
        <label for={labels ? id : undefined} id={`${id}-l`}>
          <span class="field-name">{name}</span>
          {required && (
            <span class="required" title="required">
              *
            </span>
          )}{" "}
          <span class="dim small">{words}</span>
        </label>
        <span class="field-tools">
          {node.nullable && (
            <button type="button" class="link" aria-pressed={value === null} onClick={() => onChange(value === null ? undefined : null)}>
              null
            </button>
          )}
          {!required && value !== undefined && (
            <button type="button" class="link" onClick={() => onChange(undefined)} aria-label={`leave out ${name}`}>
              leave out
            </button>
          )}
          {remove}
        </span>
      </div>
      {node.description && (
        <p class="field-description" id={describe}>
          {node.description}
        </p>
      )}
      {value === null && node.nullable && node.kind !== "null" ? (
        <p class="null-value mono">null</p>
      ) : closed ? (
        <button type="button" class="small-button" onClick={() => onChange(blank(schema, root) ?? {})} aria-describedby={describe}>
          + Add {name}
        </button>
      ) : (
        <ControlOf node={node} value={value} path={path} required={required} onChange={onChange} id={id} describe={describe} invalid={own.length > 0} />
      )}
      {own.map((problem) => (
        <p class="problem" key={problem.message} role="alert">
          {name} {problem.message}
        </p>
      ))}
    </div>
  );
}

function ControlOf(props: Control): JSX.Element {
  switch (props.node.kind) {
    case "object":
      return <ObjectControl {...props} />;
    case "array":
      return <ArrayControl {...props} />;
    case "union":
      return (props.unions ?? 0) < MOST_UNIONS ? <UnionControl {...props} /> : <AnyControl {...props} />;
    case "choice":
      return <ChoiceControl {...props} options={props.node.options} />;
    case "multi":
      return <MultiControl {...props} options={props.node.options} />;
    case "boolean":
      return <BooleanControl {...props} />;
    case "number":
      return <NumberControl {...props} />;
    case "null":
      return <p class="null-value mono">null</p>;
    case "any":
      return <AnyControl {...props} />;
    default:
      return <TextControl {...props} />;
  }
}

function ObjectControl({ node, value, path, onChange }: Control): JSX.Element {
  if (node.kind !== "object") return <></>;
  const object = (typeof value === "object" && value !== null && !Array.isArray(value) ? value : {}) as JsonObject;
  const put = (name: string, part: Json | undefined): void => {
    const next = { ...object };
    if (part === undefined) delete next[name];
    else next[name] = part;
    onChange(next);
  };
  const known = new Set(node.fields.map((field) => field.name));
  const extra = Object.entries(object).filter(([name]) => !known.has(name));
  return (
    <div class={path.length > 0 ? "nested" : ""}>
      {node.fields.map((field) => (
        <FieldRow key={field.name} name={field.name} schema={field.schema} value={object[field.name]} path={[...path, field.name]} required={field.required} onChange={(part) => put(field.name, part)} />
      ))}
      {(node.extra || extra.length > 0) && <Entries object={object} extra={extra} schema={node.extra ?? {}} path={path} open={node.extra !== undefined} onChange={onChange} put={put} />}
      {node.fields.length === 0 && !node.extra && path.length === 0 && <p class="dim">This takes no arguments.</p>}
    </div>
  );
}

/** Entries whose names are free: rows of name and value. */
function Entries({ object, extra, schema, path, open, onChange, put }: { object: JsonObject; extra: [string, Json | undefined][]; schema: Schema; path: Path; open: boolean; onChange: (value: Json) => void; put: (name: string, value: Json | undefined) => void }): JSX.Element {
  const { root } = useContext(Form);
  const [name, setName] = useState("");
  const add = (): void => {
    if (!name || Object.hasOwn(object, name)) return;
    put(name, blank(schema, root));
    setName("");
  };
  return (
    <div class="entries">
      {extra.slice(0, MOST_ROWS).map(([key, part]) => (
        <FieldRow
          key={key}
          name={key}
          schema={schema}
          value={part}
          path={[...path, key]}
          required
          onChange={(next) => put(key, next ?? null)}
          remove={
            <button type="button" class="link" aria-label={`remove ${key}`} onClick={() => onChange(Object.fromEntries(Object.entries(object).filter(([other]) => other !== key)))}>
              remove
            </button>
          }
        />
      ))}
      {extra.length > MOST_ROWS && <p class="dim small">… and {(extra.length - MOST_ROWS).toLocaleString("en")} more: edit them as JSON.</p>}
      {open && (
        <div class="row-add">
          <input
            type="text"
            placeholder="name of a new entry"
            aria-label="Name of a new entry"
            value={name}
            onInput={(event) => setName(event.currentTarget.value)}
            onKeyDown={(event) => {
              if (event.key !== "Enter" || event.ctrlKey || event.metaKey) return;
              event.preventDefault();
              add();
            }}
          />
          <button type="button" class="small-button" onClick={add} disabled={!name || Object.hasOwn(object, name)}>
            + Add entry
          </button>
        </div>
      )}
    </div>
  );
}

function ArrayControl({ node, value, path, onChange }: Control): JSX.Element {
  const { root } = useContext(Form);
  if (node.kind !== "array") return <></>;
  const list = Array.isArray(value) ? value : [];
  const put = (at: number, part: Json): void => onChange(list.map((item, index) => (index === at ? part : item)));
  const move = (from: number, to: number): void => {
    const next = [...list];
    const [item] = next.splice(from, 1);
    next.splice(to, 0, item as Json);
    onChange(next);
  };
  return (
    <div class="nested rows">
      {list.slice(0, MOST_ROWS).map((item, at) => (
        <FieldRow
          key={at}
          name={`${at + 1}`}
          schema={node.tuple[at] ?? node.item}
          value={item}
          path={[...path, at]}
          required
          onChange={(part) => put(at, part ?? null)}
          remove={
            <>
              {at > 0 && node.tuple.length === 0 && (
                <button type="button" class="link" aria-label={`↑ move row ${at + 1} up`} onClick={() => move(at, at - 1)}>
                  ↑
                </button>
              )}
              {list.length > node.min && (
                <button type="button" class="link" aria-label={`remove row ${at + 1}`} onClick={() => onChange(list.filter((_, index) => index !== at))}>
                  remove
                </button>
              )}
            </>
          }
        />
      ))}
      {list.length > MOST_ROWS && <p class="dim small">… and {(list.length - MOST_ROWS).toLocaleString("en")} more: edit them as JSON.</p>}
      {list.length < node.max && (
        <button type="button" class="small-button" onClick={() => onChange([...list, blank(node.tuple[list.length] ?? node.item, root)])}>
          + Add row
        </button>
      )}
    </div>
  );
}

function UnionControl(props: Control): JSX.Element {
  const { root } = useContext(Form);
  const { node, value, onChange, path, id } = props;
  const branches = node.kind === "union" ? node.branches : [];
  const [picked, setPicked] = useState<number | undefined>(undefined);
  const at = picked ?? branchOf(value, branches, root);
  const branch = branches[at];
  if (!branch) return <></>;
  const inner = formNode(branch.schema, root);
  const pick = (next: number): void => {
    setPicked(next);
    onChange(blank(branches[next]?.schema, root));
  };
  return (
    <div class="union">
      <div class="segments" role="group" aria-label="Which kind">
        {branches.map((one, index) => (
          <button type="button" key={one.label + index} aria-pressed={index === at} onClick={() => pick(index)}>
            {one.label}
          </button>
        ))}
      </div>
      {inner.description && inner.description !== node.description && <p class="field-description">{inner.description}</p>}
      <ControlOf {...props} node={inner} id={id} path={path} unions={(props.unions ?? 0) + 1} />
    </div>
  );
}

function ChoiceControl({ options, value, onChange, id, describe, invalid, required, node }: Control & { options: Option[] }): JSX.Element {
  const at = options.findIndex((option) => equal(option.value, value));
  const single = options.length === 1 && required;
  if (single) return <p class="null-value mono">{options[0]?.label}</p>;
  return (
    <select id={id} aria-describedby={describe} aria-invalid={invalid} value={at < 0 ? "" : String(at)} class={at < 0 ? "unset" : ""} onChange={(event) => onChange(event.currentTarget.value === "" ? undefined : options[Number(event.currentTarget.value)]?.value)}>
      <option value="">{required ? "choose …" : node.fallback === undefined ? "not given" : `not given (${JSON.stringify(node.fallback)})`}</option>
      {options.map((option, index) => (
        <option key={index} value={String(index)}>
          {option.label}
        </option>
      ))}
    </select>
  );
}

function MultiControl({ options, value, onChange, node, id }: Control & { options: Option[] }): JSX.Element {
  const list = Array.isArray(value) ? value : [];
  const toggle = (option: Option, on: boolean): void => onChange(options.filter((one) => (equal(one.value, option.value) ? on : list.some((item) => equal(item, one.value)))).map((one) => one.value));
  const most = node.kind === "multi" ? node.max : Number.POSITIVE_INFINITY;
  return (
    <div class="checks" role="group" aria-labelledby={`${id}-l`}>
      {options.map((option, at) => {
        const on = list.some((item) => equal(item, option.value));
        return (
          <label key={at} class="check">
            <input type="checkbox" checked={on} disabled={!on && list.length >= most} onChange={(event) => toggle(option, event.currentTarget.checked)} /> {option.label}
          </label>
        );
      })}
    </div>
  );
}

function BooleanControl({ value, onChange, id, describe, required, node }: Control): JSX.Element {
  const options: [string, boolean][] = [
    ["true", true],
    ["false", false],
  ];
  return (
    <div class="segments" role="group" aria-labelledby={`${id}-l`} aria-describedby={describe}>
      {options.map(([label, option]) => (
        <button type="button" key={label} aria-pressed={value === option} onClick={() => onChange(option)}>
          {label}
        </button>
      ))}
      {!required && value === undefined && <span class="dim small">{node.fallback === undefined ? "not given" : `not given (${String(node.fallback)})`}</span>}
    </div>
  );
}

function NumberControl({ node, value, onChange, id, describe, invalid, required }: Control): JSX.Element {
  const [draft, setDraft] = useState<string | undefined>(undefined);
  if (node.kind !== "number") return <></>;
  const shown = draft ?? (value === undefined || value === null ? "" : String(value));
  // What is not a number yet stays in the value as text, so that the validation can say so.
  const edit = (text: string): void => {
    setDraft(text);
    const number = Number(text);
    onChange(text.trim() === "" ? undefined : Number.isFinite(number) ? number : text);
  };
  const range = node.min !== undefined && node.max !== undefined ? `${node.min} to ${node.max}` : node.min !== undefined ? `${node.min} or more` : node.max !== undefined ? `${node.max} or less` : "";
  return (
    <input
      type="text"
      inputMode={node.integer ? "numeric" : "decimal"}
      id={id}
      aria-describedby={describe}
      aria-invalid={invalid}
      class="number"
      value={shown}
      placeholder={[required ? "" : node.fallback === undefined ? "not given" : `not given (${String(node.fallback)})`, range].filter(Boolean).join(", ")}
      onInput={(event) => edit(event.currentTarget.value)}
      onBlur={() => setDraft(undefined)}
      onKeyDown={(event) => {
        const step = event.key === "ArrowUp" ? 1 : event.key === "ArrowDown" ? -1 : 0;
        if (!step || typeof value !== "number") return;
        event.preventDefault();
        setDraft(undefined);
        onChange(value + step);
      }}
    />
  );
}

const INPUT_TYPES: Record<string, "date" | "email" | "url" | "password" | "color"> = { date: "date", email: "email", uri: "url", password: "password", color: "color" };

function TextControl({ node, value, onChange, id, describe, invalid, required }: Control): JSX.Element {
  if (node.kind !== "string") return <></>;
  const text = value === undefined || value === null ? "" : typeof value === "string" ? value : JSON.stringify(value);
  const edit = (next: string): void => onChange(next === "" && !required ? undefined : next);
  const hint = node.examples.length > 0 ? `such as ${String(node.examples[0])}` : "";
  const placeholder = required ? hint : node.fallback === undefined ? ["not given", hint].filter(Boolean).join(", ") : `not given (${JSON.stringify(node.fallback)})`;
  const common = { id, "aria-describedby": describe, "aria-invalid": invalid, value: text, placeholder };
  if (node.format === "byte" || node.format === "binary" || node.format === "base64") return <FileControl {...{ text, edit, id }} />;
  if (node.format === "date-time") {
    return (
      <div class="row-add">
        <input type="text" {...common} onInput={(event) => edit(event.currentTarget.value)} placeholder={placeholder || "2026-07-28T12:00:00Z"} />
        <button type="button" class="small-button" onClick={() => edit(`${new Date().toISOString().slice(0, 19)}Z`)}>
          now
        </button>
      </div>
    );
  }
  const type = INPUT_TYPES[node.format];
  if (type) return <input type={type as "email"} {...common} onInput={(event) => edit(event.currentTarget.value)} autocomplete="off" />;
  const lines = text.split("\n").length;
  return <textarea {...common} rows={node.long ? Math.max(4, Math.min(lines, 16)) : Math.min(Math.max(lines, Math.ceil(text.length / 60), 1), 12)} class={node.long ? "mono" : ""} spellcheck={false} onInput={(event) => edit(event.currentTarget.value)} />;
}

function FileControl({ text, edit, id }: { text: string; edit: (text: string) => void; id: string }): JSX.Element {
  const read = (file: File | undefined): void => {
    if (!file) return;
    const reader = new FileReader();
    reader.onload = () => edit(String(reader.result).replace(/^data:[^,]*,/, ""));
    reader.readAsDataURL(file);
  };
  return (
    <div class="row-add">
      <input type="text" id={id} value={text} placeholder="Base64, or a file" class="mono" onInput={(event) => edit(event.currentTarget.value)} />
      <label class="small-button">
        file …<input type="file" class="hidden" onChange={(event) => read(event.currentTarget.files?.[0])} />
      </label>
    </div>
  );
}

/** A value that may be anything: JSON, or text for those who just type. */
function AnyControl({ value, onChange, id, describe, required }: Control): JSX.Element {
  const [draft, setDraft] = useState<string | undefined>(undefined);
  const shown = draft ?? (value === undefined ? "" : JSON.stringify(value, null, 1));
  const edit = (text: string): void => {
    setDraft(text);
    if (text.trim() === "") return onChange(undefined);
    try {
      onChange(JSON.parse(text) as Json);
    } catch {
      onChange(text);
    }
  };
  return (
    <textarea id={id} aria-describedby={describe} class="mono" rows={Math.min(Math.max(shown.split("\n").length, 1), 10)} spellcheck={false} value={shown} placeholder={required ? "JSON, or text" : "not given; JSON, or text"} onInput={(event) => edit(event.currentTarget.value)} onBlur={() => setDraft(undefined)} />
  );
}

export const problemsBelow = (problems: Problem[], path: Path): Problem[] => problems.filter((problem) => startsWith(problem.path, path));
export { JsonEditor };
