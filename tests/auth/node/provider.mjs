// Starts npm's oidc-provider on loopback: provider.mjs '{"port": 1, "clients": […], "scopes": ["notes:read"], …}'
// Its own pages for development let anybody sign in by any name. A POST to /-/rotate replaces its signing key, one to
// /-/withdraw takes it out of the published keys while it still signs, one to /-/later?600 sets its clock so many seconds ahead, one to /-/forget ends all sessions and withdraws all tokens.
import { createPrivateKey, generateKeyPairSync, randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { Provider } from 'oidc-provider';

const given = JSON.parse(process.argv[2]);
const issuer = `http://127.0.0.1:${given.port}`;
// The detour over PEM: Node 20 hangs for ever where its garbage collector runs while a key that it has just made is
// exported as a JWK.
const pem = { publicKeyEncoding: { type: 'spki', format: 'pem' }, privateKeyEncoding: { type: 'pkcs8', format: 'pem' } };
const newKey = () => ({
    ...createPrivateKey(generateKeyPairSync('rsa', { modulusLength: 2048, ...pem }).privateKey).export({ format: 'jwk' }),
    kid: randomUUID(), use: 'sig', alg: 'RS256',
});
// What must outlive a change of the key: sessions, grants, clients, tokens.
const kept = new Map();
class Adapter {
    constructor(kind) { this.kind = kind; }
    key(id) { return `${this.kind}:${id}`; }
    async upsert(id, payload) {
        kept.set(this.key(id), payload);
        if (payload.uid) kept.set(`uid:${payload.uid}`, this.key(id));
    }
    async find(id) { return kept.get(this.key(id)); }
    async findByUid(uid) { return kept.get(kept.get(`uid:${uid}`)); }
    async findByUserCode() {}
    async consume(id) { kept.get(this.key(id)).consumed = Math.floor(Date.now() / 1000); }
    async destroy(id) { kept.delete(this.key(id)); }
    async revokeByGrantId(grant) {
        for (const [key, value] of kept) if (value?.grantId === grant) kept.delete(key);
    }
}

const open = () => new Provider(issuer, {
    adapter: Adapter,
    clients: given.clients ?? [],
    jwks: { keys: [newKey()] },
    cookies: { keys: ['of-a-test'] },
    scopes: ['openid', 'offline_access', 'email', ...(given.scopes ?? [])],
    claims: { openid: ['sub'], email: ['email'] },
    pkce: { required: () => true },
    rotateRefreshToken: given.rotate ?? true,
    issueRefreshToken: async (ctx, client, code) => client.grantTypeAllowed('refresh_token') && (given.refresh ?? true),
    ttl: { AccessToken: given.seconds ?? 600, AuthorizationCode: 60, Grant: 3600, IdToken: 600, Interaction: 600, RefreshToken: 3600, Session: 3600 },
    findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id, email: `${id}@example.com`, email_verified: true }) }),
    clientBasedCORS: () => true,
    features: {
        devInteractions: { enabled: true },
        introspection: { enabled: true },
        revocation: { enabled: true },
        registration: { enabled: given.registration ?? false },
        resourceIndicators: {
            enabled: true,
            getResourceServerInfo: (ctx, resource) => ({
                scope: (given.scopes ?? []).join(' '), audience: resource, accessTokenTTL: given.seconds ?? 600,
                accessTokenFormat: 'jwt', jwt: { sign: { alg: 'RS256' } },
            }),
            useGrantedResource: () => true,
        },
    },
});

let handle = open().callback();
let published;
const now = Date.now;
createServer((request, response) => {
    if (request.url === '/-/rotate') {
        handle = open().callback();
        response.end();
    } else if (request.url === '/-/withdraw') {
        const { kty, n, e, kid, use, alg } = newKey();
        published = JSON.stringify({ keys: [{ kty, n, e, kid, use, alg }] });
        response.end();
    } else if (published && request.url === '/jwks') {
        response.setHeader('content-type', 'application/json').end(published);
    } else if (request.url === '/-/forget') {
        kept.clear();
        response.end();
    } else if (request.url.startsWith('/-/later?')) {
        const later = 1000 * request.url.split('?')[1];
        Date.now = () => now() + later;
        response.end();
    } else {
        handle(request, response);
    }
}).listen(given.port, '127.0.0.1');
