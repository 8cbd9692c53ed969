// A session store for a web framework, used by three servers behind a load balancer.
//
// A session is stored whole with SET EX at the end of a request and touched with EXPIRE. A browser sends its next request
// after the answer to the last, so each session has one writer at a time, whichever server that is.
// Keys: sess:<id>.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { randomBytes } = require('node:crypto');
const assert = require('node:assert');
const { createClient } = require('redis');

class RedisStore {
  constructor(client, ttl = 1800) {
    this.client = client;
    this.ttl = ttl;
  }

  async get(id) {
    const text = await this.client.get(`sess:${id}`);
    return text === null ? null : JSON.parse(text);
  }

  set(id, session) {
    return this.client.set(`sess:${id}`, JSON.stringify(session), { expiration: { type: 'EX', value: this.ttl } });
  }

  touch(id) {
    return this.client.expire(`sess:${id}`, this.ttl);
  }

  destroy(id) {
    return this.client.del(`sess:${id}`);
  }
}

async function handle(store, { id, path }) {
  const session = (await store.get(id)) ?? { views: 0, cart: [] };
  if (path === '/ping') return store.touch(id);
  if (path === '/logout') return store.destroy(id);
  session.views += 1;
  if (path.startsWith('/add/')) session.cart.push(path.slice(5));
  await store.set(id, session);
  return session;
}

async function server() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  const store = new RedisStore(client);
  for await (const [request] of on(process, 'message')) {
    if (request === 'end') break;
    process.send({ number: request.number, answer: await handle(store, request) });
  }
  await client.close();
  process.disconnect();
}

async function main() {
  const answers = new Map();
  const servers = [1, 2, 3].map(() => {
    const child = fork(__filename, ['server']);
    child.on('message', ({ number, answer }) => answers.get(number)(answer));
    return child;
  });
  let number = 0;
  const request = (id, path) => {
    number += 1;
    const answer = new Promise((resolve) => answers.set(number, resolve));
    servers[number % servers.length].send({ number, id, path });
    return answer;
  };
  const browse = async () => {
    const id = randomBytes(24).toString('base64url');
    for (const path of ['/', '/add/lamp', '/ping', '/add/chair', '/help', '/add/rug']) await request(id, path);
    const last = await request(id, '/');
    assert.deepStrictEqual(last, { views: 6, cart: ['lamp', 'chair', 'rug'] });
    await request(id, '/logout');
  };
  await Promise.all(Array.from({ length: 6 }, browse));
  servers.forEach((child) => child.send('end'));
  console.log('ok: six browsers kept their sessions over three servers');
}

process.argv[2] === 'server' ? server() : main();
