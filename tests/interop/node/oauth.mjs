// Drives a redstart server with OAuthProxy by the TypeScript client: oauth.mjs MODE URL
// It prints {"authorize": URL} where a person has to sign in, and reads the parameters of the redirect, each one line of
// JSON; then what it saw of the tools.
import { Client, StreamableHTTPClientTransport, UnauthorizedError } from '@modelcontextprotocol/client';
import { createInterface } from 'node:readline';

const [mode, url] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const say = what => console.log(JSON.stringify(what));

const kept = {};
const provider = {
    redirectUrl: 'http://127.0.0.1:7777/callback',
    clientMetadata: {
        client_name: 'Interop', redirect_uris: ['http://127.0.0.1:7777/callback'], token_endpoint_auth_method: 'none',
        grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
    },
    clientInformation: () => kept.client,
    saveClientInformation: client => { kept.client = client; },
    tokens: () => kept.tokens,
    saveTokens: tokens => { kept.tokens = tokens; },
    saveCodeVerifier: verifier => { kept.verifier = verifier; },
    codeVerifier: () => kept.verifier,
    saveDiscoveryState: state => { kept.discovery = state; },
    discoveryState: () => kept.discovery,
    redirectToAuthorization: to => say({ authorize: to.href }),
};

const negotiation = mode === 'legacy' ? mode : { pin: mode };

// Connect and call; where a person is needed, wait for the answer and begin again.
async function call(name) {
    for (let attempt = 0; attempt < 3; attempt += 1) {
        const client = new Client({ name: 'oauth', version: '1' }, { versionNegotiation: { mode: negotiation } });
        const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider: provider });
        try {
            await client.connect(transport);
            const result = await client.callTool({ name, arguments: {} });
            return result.content[0].text;
        } catch (error) {
            let cause = error;
            while (cause && !(cause instanceof UnauthorizedError)) cause = cause.cause;
            if (!cause) throw error;
            const answer = JSON.parse((await lines.next()).value);
            await transport.finishAuth(answer.code, answer.iss);
        } finally {
            await client.close();
        }
    }
    throw new Error(`no ${name} after three attempts`);
}

say({ whoami: await call('whoami') });
say({ reset: await call('reset') });
// A token that the server does not know: the client refreshes by itself.
const before = kept.tokens.refresh_token;
kept.tokens = { ...kept.tokens, access_token: 'gone' };
const who = await call('whoami');
say({ refreshed: kept.tokens.refresh_token !== before, whoami: who });
process.exit(0);
