// A text field whose values the server completes.

import type { JSX } from "preact";
import { useEffect, useId, useRef, useState } from "preact/hooks";
import type { JsonObject } from "../mcp/types";
import { complete } from "../state/app";

interface Props {
  reference: JsonObject;
  name: string;
  label: string;
  description?: string | undefined;
  required: boolean;
  value: string;
  context: Record<string, string>;
  problem?: string | undefined;
  onChange: (value: string) => void;
}

export function CompletingField({ reference, name, label, description, required, value, context, problem, onChange }: Props): JSX.Element {
  const id = useId();
  const [values, setValues] = useState<string[]>([]);
  const [more, setMore] = useState(0);
  const [open, setOpen] = useState(false);
  const [at, setAt] = useState(-1);
  const turn = useRef(0);
  const box = useRef<HTMLDivElement>(null);
  const ask = (text: string): void => {
    const mine = ++turn.current;
    void complete(reference, name, text, context).then((found) => {
      if (mine !== turn.current) return;
      setValues(found.values);
      setMore(Math.max(0, (found.total ?? found.values.length) - found.values.length));
    });
  };
  useEffect(() => {
    if (!open) return undefined;
    const timer = setTimeout(() => ask(value), 80);
    return () => clearTimeout(timer);
  }, [value, open]);
  useEffect(() => {
    box.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest" });
  }, [at]);
  const pick = (text: string): void => {
    onChange(text);
    setOpen(false);
    setAt(-1);
  };
  const keys = (event: KeyboardEvent): void => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      setOpen(true);
      if (values.length > 0) setAt((at + (event.key === "ArrowDown" ? 1 : -1) + values.length) % values.length);
    } else if (event.key === "Enter" && open && at >= 0 && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      pick(values[at] as string);
    } else if (event.key === "Escape" && open) {
      event.stopPropagation();
      setOpen(false);
    }
  };
  const listed = open && values.length > 0 && !(values.length === 1 && values[0] === value);
  return (
    <div class={`field${problem ? " bad" : ""}`} data-field={name}>
      <label for={id}>
        <span class="field-name">{label}</span>
        {required && <span class="required">*</span>} <span class="dim small">{required ? "text" : "text, optional"}</span>
      </label>
      {description && <p class="field-description">{description}</p>}
      <div class="completing">
        <input
          id={id}
          type="text"
          role="combobox"
          aria-expanded={listed}
          aria-controls={`${id}-list`}
          aria-autocomplete="list"
          autocomplete="off"
          spellcheck={false}
          value={value}
          onFocus={() => setOpen(true)}
          onBlur={() => setOpen(false)}
          onInput={(event) => {
            setOpen(true);
            setAt(-1);
            onChange(event.currentTarget.value);
          }}
          onKeyDown={keys}
        />
        {listed && (
          <div class="completions" role="listbox" id={`${id}-list`} ref={box} aria-label={`Completions of ${label}`}>
            {values.map((text, index) => (
              <div key={text} role="option" aria-selected={index === at} onPointerDown={(event) => { event.preventDefault(); pick(text); }}>
                {text}
              </div>
            ))}
            {more > 0 && <p class="dim small">… {more} more</p>}
          </div>
        )}
      </div>
      {problem && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
    </div>
  );
}
