// RFC 6570, all four levels, for strings: what a person types into the variables of a template.

interface Operator {
  first: string;
  separator: string;
  named: boolean;
  empty: string;
  reserved: boolean;
}

const OPERATORS: Record<string, Operator> = {
  "": { first: "", separator: ",", named: false, empty: "", reserved: false },
  "+": { first: "", separator: ",", named: false, empty: "", reserved: true },
  "#": { first: "#", separator: ",", named: false, empty: "", reserved: true },
  ".": { first: ".", separator: ".", named: false, empty: "", reserved: false },
  "/": { first: "/", separator: "/", named: false, empty: "", reserved: false },
  ";": { first: ";", separator: ";", named: true, empty: "", reserved: false },
  "?": { first: "?", separator: "&", named: true, empty: "=", reserved: false },
  "&": { first: "&", separator: "&", named: true, empty: "=", reserved: false },
};
const EXPRESSION = /\{([+#./;?&]?)([^{}]*)\}/g;

interface Variable {
  name: string;
  explode: boolean;
  prefix: number | undefined;
}

function variables(list: string): Variable[] {
  return list.split(",").map((item) => {
    const [, name = "", prefix, explode] = /^([^:*]+)(?::(\d+))?(\*)?$/.exec(item.trim()) ?? [];
    return { name, explode: explode === "*", prefix: prefix === undefined ? undefined : Number(prefix) };
  });
}

/** The names of a template's variables, in order, each once. */
export function templateVariables(template: string): string[] {
  const names = new Set<string>();
  for (const match of template.matchAll(EXPRESSION)) for (const { name } of variables(match[2] ?? "")) if (name) names.add(name);
  return [...names];
}

function encode(text: string, reserved: boolean): string {
  const strict = (part: string): string => encodeURIComponent(part).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
  if (!reserved) return strict(text);
  return text.replace(/%[0-9A-Fa-f]{2}|[\s\S]/gu, (part) => (/^(%[0-9A-Fa-f]{2}|[A-Za-z0-9\-._~:/?#[\]@!$&'()*+,;=])$/.test(part) ? part : strict(part)));
}

export type TemplateValue = string | string[];

/** Expand a template; a variable without a value is left out, as the RFC says. */
export function expandTemplate(template: string, values: Record<string, TemplateValue | undefined>): string {
  return template.replace(EXPRESSION, (_, symbol: string, list: string) => {
    const operator = OPERATORS[symbol] as Operator;
    const parts: string[] = [];
    for (const { name, explode, prefix } of variables(list)) {
      const value = values[name];
      if (value === undefined || (Array.isArray(value) && value.length === 0)) continue;
      const items = (Array.isArray(value) ? value : [prefix === undefined ? value : [...value].slice(0, prefix).join("")]).map((item) => encode(item, operator.reserved));
      const dress = (item: string): string => (operator.named ? (item === "" ? `${name}${operator.empty}` : `${name}=${item}`) : item);
      parts.push(explode ? items.map(dress).join(operator.separator) : dress(items.join(",")));
    }
    return parts.length === 0 ? "" : operator.first + parts.join(operator.separator);
  });
}
