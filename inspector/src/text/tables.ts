// Data that is a table: CSV and TSV text, and lists of objects with the same keys.

import type { Json, JsonObject } from "../mcp/types";

export interface Table {
  columns: string[];
  rows: Json[][];
  left: number; // rows that are not shown
}

const MOST_ROWS = 500;
const MOST_COLUMNS = 40;

export function csv(text: string, separator = ","): Table {
  const rows: string[][] = [];
  let row: string[] = [];
  let cell = "";
  let quoted = false;
  for (let at = 0; at < text.length; at++) {
    const char = text[at];
    if (quoted) {
      if (char !== '"') cell += char;
      else if (text[at + 1] === '"') {
        cell += '"';
        at++;
      } else quoted = false;
    } else if (char === '"' && cell === "") quoted = true;
    else if (char === separator) {
      row.push(cell);
      cell = "";
    } else if (char === "\n" || char === "\r") {
      if (char === "\r" && text[at + 1] === "\n") at++;
      rows.push([...row, cell]);
      row = [];
      cell = "";
    } else cell += char;
  }
  if (cell !== "" || row.length > 0) rows.push([...row, cell]);
  const [head = [], ...body] = rows.filter((line) => line.length > 1 || line[0] !== "");
  return { columns: head.slice(0, MOST_COLUMNS), rows: body.slice(0, MOST_ROWS).map((line) => line.slice(0, MOST_COLUMNS)), left: Math.max(0, body.length - MOST_ROWS) };
}

/** A list of at least two objects that share keys; undefined if the value is none. */
export function tableOf(value: Json | undefined): Table | undefined {
  if (!Array.isArray(value) || value.length < 2 || !value.every((row) => typeof row === "object" && row !== null && !Array.isArray(row))) return undefined;
  const objects = value as JsonObject[];
  const columns: string[] = [];
  for (const row of objects.slice(0, MOST_ROWS)) for (const key of Object.keys(row)) if (!columns.includes(key) && columns.length < MOST_COLUMNS) columns.push(key);
  const filled = objects.reduce((sum, row) => sum + Object.keys(row).length, 0);
  if (columns.length === 0 || filled < (columns.length * objects.length) / 3) return undefined;
  return { columns, rows: objects.slice(0, MOST_ROWS).map((row) => columns.map((column) => row[column] ?? null)), left: Math.max(0, objects.length - MOST_ROWS) };
}
