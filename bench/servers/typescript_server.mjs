// The official TypeScript SDK, as its serving guide writes it, tuned: schemas are built once, replies are JSON.
// It builds a fresh McpServer per modern HTTP request; that is its documented design. bench/node.py copies this
// file beside the installed packages, where the imports resolve.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import * as z from 'zod';

const option = (name, fallback) => {
    const at = process.argv.indexOf(name);
    return at < 0 ? fallback : Number(process.argv[at + 1]);
};

const total = option('--tools', 3);
const numbers = z.object({ a: z.number().int(), b: z.number().int() });
const sum = z.object({ result: z.number().int() });
const text = z.object({ text: z.string() });
const echoed = z.object({ result: z.string() });
const item = z.object({
    name: z.string(),
    count: z.number().int(),
    ratio: z.number().default(0.5),
    tags: z.array(z.string()).nullable().default(null)
});
const reply = result => ({ content: [{ type: 'text', text: String(result) }], structuredContent: { result } });

function build() {
    const server = new McpServer({ name: 'bench', version: '1.0.0' });
    server.registerTool('add', { description: 'Add two numbers.', inputSchema: numbers, outputSchema: sum },
        async ({ a, b }) => reply(a + b));
    if (total > 1) {
        server.registerTool('add_sync', { description: 'Add two numbers in a plain function.', inputSchema: numbers, outputSchema: sum },
            ({ a, b }) => reply(a + b));
        server.registerTool('echo', { description: 'Return the text.', inputSchema: text, outputSchema: echoed },
            async ({ text }) => reply(text));
    }
    for (let i = 0; i < total - 3; i++) {
        const description = `Describe item ${i} by its name, its count, a ratio and some tags.`;
        server.registerTool(`tool_${i}`, { description, inputSchema: item, outputSchema: echoed },
            async ({ name, count, ratio, tags }) => reply(`${name} ${count} ${ratio} ${tags}`));
    }
    return server;
}

async function serveHttp(port) {
    const { NodeStreamableHTTPServerTransport, toNodeHandler } = await import('@modelcontextprotocol/node');
    const modern = toNodeHandler(createMcpHandler(build, { legacy: 'reject', responseMode: 'json' }));
    const sessions = new Map();
    createServer(async (request, response) => {
        if (request.headers['mcp-protocol-version'] === '2026-07-28') return modern(request, response);
        let transport = sessions.get(request.headers['mcp-session-id']);
        if (!transport) {
            transport = new NodeStreamableHTTPServerTransport({
                sessionIdGenerator: randomUUID,
                enableJsonResponse: !process.argv.includes('--sse'),
                onsessioninitialized: id => void sessions.set(id, transport)
            });
            await build().connect(transport);
        }
        await transport.handleRequest(request, response);
    }).listen(port, '127.0.0.1');
}

if (option('--port', 0)) await serveHttp(option('--port'));
else serveStdio(build);
