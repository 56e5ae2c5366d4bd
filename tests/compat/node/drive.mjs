// Drives a redstart server with a TypeScript SDK: drive.mjs PACKAGE http URL | drive.mjs PACKAGE stdio COMMAND ARG…
// Prints one line of JSON with what it saw.
const [name, kind, ...rest] = process.argv.slice(2);
const one = name === '@modelcontextprotocol/sdk';
const { Client } = await import(one ? `${name}/client/index.js` : name);
const { StreamableHTTPClientTransport } = await import(one ? `${name}/client/streamableHttp.js` : name);
const { StdioClientTransport } = await import(one ? `${name}/client/stdio.js` : `${name}/stdio`);

const options = one ? { capabilities: { elicitation: { form: {} } } } : { versionNegotiation: { mode: 'auto' } };
const client = new Client({ name: 'drive', version: '1' }, options);
await client.connect(
    kind === 'http'
        ? new StreamableHTTPClientTransport(new URL(rest[0]))
        : new StdioClientTransport({ command: rest[0], args: rest.slice(1) }),
);
const { tools } = await client.listTools();
const added = await client.callTool({ name: 'add', arguments: { a: 1, b: 2 } });
const parts = await client.callTool({ name: 'places', arguments: { address: { street: 'High St' }, tags: ['x'] } });
const wrong = await client.callTool({ name: 'fail', arguments: { reason: 'no milk' } });
let greeted;
if (one) {  // a task that asks
    const { CallToolResultSchema, ElicitRequestSchema } = await import(`${name}/types.js`);
    client.setRequestHandler(ElicitRequestSchema, async request => {
        const [field] = Object.keys(request.params.requestedSchema.properties);
        return { action: 'accept', content: { [field]: 'Ada' } };
    });
    const call = { name: 'greet', arguments: {} };
    for await (const event of client.experimental.tasks.callToolStream(call, CallToolResultSchema, { task: {} }))
        greeted = [event.type, event.result?.content[0].text];
}
console.log(JSON.stringify({
    tools: tools.map(tool => tool.name).sort(),
    sum: added.structuredContent.result,
    places: parts.structuredContent.result,
    failed: wrong.isError === true,
    greeted,
}));
await client.close();
