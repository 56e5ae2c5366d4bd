// Drives a redstart server with the TypeScript client: drive.mjs MODE http URL | drive.mjs MODE stdio COMMAND ARG…
// Prints one line of JSON with what it saw.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

const [mode, kind, ...rest] = process.argv.slice(2);
const negotiation = mode === 'legacy' || mode === 'auto' ? mode : { pin: mode };
const client = new Client({ name: 'drive', version: '1' }, { versionNegotiation: { mode: negotiation } });
const transport = kind === 'http'
    ? new StreamableHTTPClientTransport(new URL(rest[0]))
    : new StdioClientTransport({ command: rest[0], args: rest.slice(1) });

await client.connect(transport);
const { tools } = await client.listTools();
const good = await client.callTool({ name: 'add', arguments: { a: 40 } });
const bad = await client.callTool({ name: 'add', arguments: { a: 'x' } });
console.log(JSON.stringify({
    version: client.getNegotiatedProtocolVersion?.() ?? null,
    server: client.getServerVersion(),
    tools: tools.map(tool => tool.name),
    good,
    bad,
}));
await client.close();
