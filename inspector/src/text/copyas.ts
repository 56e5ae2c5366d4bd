// One call as a command or a program: curl, Python with redstart's client, the CLI, a pytest test with the observed result.

import { MODERN } from "../mcp/client";
import { methodHeaders, paramHeaders } from "../mcp/headers";
import type { Content, Json, JsonObject, Schema } from "../mcp/types";

export interface Copied {
  method: "tools/call" | "prompts/get" | "resources/read";
  name: string; // of the tool or prompt, or the URI
  arguments: JsonObject;
  endpoint: string;
  target: string; // what `redstart dev` was started with
  revision: string;
  withToken: boolean;
  schema?: Schema | undefined;
  result?: JsonObject | undefined;
}

export const WAYS = ["curl", "Python", "CLI", "pytest"] as const;
export type Way = (typeof WAYS)[number];

const WORD = /^[A-Za-z0-9_@%+=:,./-]+$/;

/** One word for a POSIX shell. */
export const shell = (text: string): string => (WORD.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

/** A JSON value as a Python literal. */
export function python(value: Json | undefined, indent = 0): string {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "number") return String(value);
  if (typeof value === "string") return pythonText(value);
  const pad = " ".repeat(indent + 4);
  const entries = Array.isArray(value) ? value.map((item) => python(item, indent + 4)) : Object.entries(value).filter(([, item]) => item !== undefined).map(([key, item]) => `${pythonText(key)}: ${python(item, indent + 4)}`);
  const [open, close] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  const flat = `${open}${entries.join(", ")}${close}`;
  if (flat.length + indent <= 88 && !flat.includes("\n")) return flat;
  return `${open}\n${entries.map((entry) => `${pad}${entry},`).join("\n")}\n${" ".repeat(indent)}${close}`;
}

function pythonText(text: string): string {
  return JSON.stringify(text).replace(/[\u007f-\u009f\u2028\u2029\ud800-\udfff]/g, (char) => (/[\ud800-\udfff]/.test(char) ? char : `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`));
}

function params(call: Copied): JsonObject {
  if (call.method === "resources/read") return { uri: call.name };
  return { name: call.name, arguments: call.arguments };
}

export function curl(call: Copied): string {
  const own = params(call);
  const meta = {
    "io.modelcontextprotocol/protocolVersion": call.revision,
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": { name: "curl", version: "1" },
  };
  const headers: Record<string, string> = { "Content-Type": "application/json", Accept: "application/json, text/event-stream" };
  if (call.withToken) headers.Authorization = "Bearer $TOKEN";
  const flags = (extra: Record<string, string>): string[] => Object.entries({ ...headers, ...extra }).map(([name, value]) => `  -H ${value.includes("$") ? `"${name}: ${value}"` : shell(`${name}: ${value}`)}`);
  const body = (message: JsonObject): string => `  -d ${shell(JSON.stringify(message))}`;
  if (call.revision === MODERN) {
    const extra = { "MCP-Protocol-Version": call.revision, ...methodHeaders(call.method, own), ...paramHeaders(call.schema, call.arguments) };
    return [`curl -sS ${shell(call.endpoint)}`, ...flags(extra), body({ jsonrpc: "2.0", id: 1, method: call.method, params: { ...own, _meta: meta } })].join(" \\\n");
  }
  const hello = { jsonrpc: "2.0", id: 1, method: "initialize", params: { protocolVersion: call.revision, capabilities: {}, clientInfo: { name: "curl", version: "1" } } };
  const first = [`SESSION=$(curl -sS -D - -o /dev/null ${shell(call.endpoint)}`, ...flags({}), body(hello)].join(" \\\n");
  const session = { "Mcp-Session-Id": "$SESSION", "MCP-Protocol-Version": call.revision };
  const ready = [`curl -sS ${shell(call.endpoint)}`, ...flags(session), body({ jsonrpc: "2.0", method: "notifications/initialized" })].join(" \\\n");
  const then = [`curl -sS ${shell(call.endpoint)}`, ...flags(session), body({ jsonrpc: "2.0", id: 2, method: call.method, params: own })].join(" \\\n");
  return `${first} | tr -d '\\r' | awk 'tolower($1)=="mcp-session-id:" {print $2}')\n${ready}\n${then}`;
}

const CALLS: Record<Copied["method"], (call: Copied, indent: number) => string> = {
  "tools/call": (call, indent) => `call_tool(${python(call.name)}, ${python(call.arguments, indent)})`,
  "prompts/get": (call, indent) => `get_prompt(${python(call.name)}, ${python(call.arguments, indent)})`,
  "resources/read": (call) => `read_resource(${python(call.name)})`,
};

const SHOWN: Record<Copied["method"], string> = { "tools/call": "result.data", "prompts/get": "result.messages", "resources/read": "result.contents" };

export function pythonProgram(call: Copied): string {
  const options = call.revision === MODERN ? "" : `, protocol=${python(call.revision)}`;
  const auth = call.withToken ? ', auth=os.environ["TOKEN"]' : "";
  return [
    "import asyncio",
    ...(call.withToken ? ["import os"] : []),
    "",
    "from redstart import Client",
    "",
    "",
    "async def main() -> None:",
    `    async with Client(${python(call.endpoint)}${options}${auth}) as client:`,
    `        result = await client.${CALLS[call.method](call, 8)}`,
    `        print(${SHOWN[call.method]})`,
    "",
    "",
    "asyncio.run(main())",
    "",
  ].join("\n");
}

const COMMANDS: Record<Copied["method"], string> = { "tools/call": "call", "prompts/get": "prompt", "resources/read": "read" };

export function cli(call: Copied): string {
  const pairs = Object.entries(call.arguments)
    .filter((entry): entry is [string, Json] => entry[1] !== undefined)
    .map(([key, value]) => shell(`${key}=${typeof value === "string" && !ambiguous(value) ? value : JSON.stringify(value)}`));
  const protocol = call.revision === MODERN ? [] : ["--protocol", call.revision];
  return ["redstart", COMMANDS[call.method], shell(call.target), shell(call.name), ...pairs, ...protocol].join(" ");
}

/** A text that a reader of `key=value` would take for JSON: it is quoted. */
function ambiguous(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return text.startsWith("@");
  }
}

/** `folder/server.py:app` names the object app in server.py; without a name it is called server. */
function imported(target: string): [module: string, name: string] | undefined {
  const match = /([^/\\]+)\.py(?::(\w+))?$/.exec(target);
  return match ? [match[1] as string, match[2] ?? "server"] : undefined;
}

export function pytest(call: Copied): string {
  const test = `test_${call.name.replace(/[^A-Za-z0-9]+/g, "_").replace(/^_+|_+$/g, "").toLowerCase() || "call"}`;
  const found = imported(call.target);
  if (found) {
    const mark = call.revision === MODERN ? [] : [`@pytest.mark.mcp(revisions=[${python(call.revision)}])`];
    return [
      "import pytest",
      `from ${found[0]} import ${found[1]}`,
      "",
      "",
      "@pytest.fixture",
      "def mcp_server():",
      `    return ${found[1]}`,
      "",
      "",
      ...mark,
      `async def ${test}(mcp_client):`,
      `    result = await mcp_client.${CALLS[call.method](call, 4)}`,
      ...asserts(call, 4),
      "",
    ].join("\n");
  }
  return [
    "import asyncio",
    "",
    "from redstart import Client",
    "",
    "",
    `def ${test}():`,
    "    async def run():",
    `        async with Client(${python(call.endpoint)}) as client:`,
    `            return await client.${CALLS[call.method](call, 12)}`,
    "",
    "    result = asyncio.run(run())",
    ...asserts(call, 4),
    "",
  ].join("\n");
}

/** What was observed, as assertions. */
function asserts(call: Copied, indent: number): string[] {
  return observed(call, indent).map((line) => `${" ".repeat(indent)}${line}`);
}

function observed(call: Copied, indent: number): string[] {
  const result = call.result;
  if (!result) return ["assert result"];
  if (call.method === "prompts/get") {
    const messages = (result.messages ?? []) as unknown as { role: string }[];
    return [`assert [message.role for message in result.messages] == ${python(messages.map((message) => message.role), indent)}`];
  }
  if (call.method === "resources/read") {
    const text = ((result.contents ?? []) as unknown as { text?: string }[])[0]?.text;
    return text === undefined ? ["assert result.contents"] : [`assert result.contents[0].text == ${python(text, indent)}`];
  }
  const lines = [result.isError ? "assert result.is_error" : "assert not result.is_error"];
  const content = (result.content ?? []) as unknown as Content[];
  if (result.structuredContent !== undefined) lines.push(`assert result.structured == ${python(result.structuredContent, indent)}`);
  else if (content[0]?.type === "text") lines.push(`assert result.content[0].text == ${python(content[0].text ?? "", indent)}`);
  return lines;
}

export function copyAs(way: Way, call: Copied): string {
  return { curl, Python: pythonProgram, CLI: cli, pytest }[way](call);
}
