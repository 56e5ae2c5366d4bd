// The shapes of MCP that the page reads. Servers are not trusted: views check what they use.

export type Json = null | boolean | number | string | Json[] | JsonObject;
export interface JsonObject {
  [key: string]: Json | undefined;
}

export interface Schema {
  [keyword: string]: unknown;
  $ref?: string;
  $defs?: Record<string, Schema>;
  definitions?: Record<string, Schema>;
  type?: string | string[];
  title?: string;
  description?: string;
  properties?: Record<string, Schema>;
  required?: string[];
  additionalProperties?: boolean | Schema;
  items?: Schema | boolean;
  prefixItems?: Schema[];
  anyOf?: Schema[];
  oneOf?: Schema[];
  allOf?: Schema[];
  enum?: Json[];
  const?: Json;
  default?: Json;
  examples?: Json[];
  format?: string;
}

export interface Icon {
  src: string;
  mimeType?: string;
  sizes?: string[];
  theme?: "light" | "dark";
}

export interface ToolAnnotations {
  title?: string;
  readOnlyHint?: boolean;
  destructiveHint?: boolean;
  idempotentHint?: boolean;
  openWorldHint?: boolean;
}

interface Named {
  name: string;
  title?: string;
  description?: string;
  icons?: Icon[];
  _meta?: JsonObject;
}

export interface Tool extends Named {
  inputSchema: Schema;
  outputSchema?: Schema;
  annotations?: ToolAnnotations;
  execution?: { taskSupport?: "forbidden" | "optional" | "required" };
}

export interface Annotations {
  audience?: string[];
  priority?: number;
  lastModified?: string;
}

export interface Resource extends Named {
  uri: string;
  mimeType?: string;
  size?: number;
  annotations?: Annotations;
}

export interface ResourceTemplate extends Named {
  uriTemplate: string;
  mimeType?: string;
  annotations?: Annotations;
}

export interface PromptArgument {
  name: string;
  title?: string;
  description?: string;
  required?: boolean;
}

export interface Prompt extends Named {
  arguments?: PromptArgument[];
}

export interface ResourceContents {
  uri: string;
  mimeType?: string;
  text?: string;
  blob?: string;
  _meta?: JsonObject;
}

export interface Content {
  type: string;
  text?: string;
  data?: string;
  mimeType?: string;
  resource?: ResourceContents;
  uri?: string;
  name?: string;
  title?: string;
  description?: string;
  size?: number;
  icons?: Icon[];
  annotations?: Annotations;
  [key: string]: unknown;
}

export interface CallToolResult {
  content?: Content[];
  structuredContent?: Json;
  isError?: boolean;
  _meta?: JsonObject;
}

export interface PromptMessage {
  role: string;
  content: Content | Content[];
}

export interface RpcError {
  code: number;
  message: string;
  data?: Json;
}

export interface Message {
  jsonrpc?: string;
  id?: number | string | null;
  method?: string;
  params?: JsonObject;
  result?: JsonObject;
  error?: RpcError;
}

export interface Implementation {
  name: string;
  version: string;
  title?: string;
  description?: string;
  websiteUrl?: string;
  icons?: Icon[];
}

export interface Task {
  taskId: string;
  status: "working" | "input_required" | "completed" | "failed" | "cancelled";
  statusMessage?: string;
  createdAt?: string;
  lastUpdatedAt?: string;
  ttl?: number | null;
  ttlMs?: number | null;
  pollInterval?: number;
  pollIntervalMs?: number;
  result?: JsonObject;
  error?: RpcError;
  inputRequests?: Record<string, InputRequest>;
}

export interface InputRequest {
  method: string;
  params?: JsonObject;
}
