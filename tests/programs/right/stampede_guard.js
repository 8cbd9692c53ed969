// An expensive page is computed by one server while the others wait for it: a guard against a stampede.
//
// The guard is a short lease with a token. Who has it computes and stores the page; who has not looks at the cache again until
// the page is there, and would compute by itself after a time: twice computed is a waste, nothing else.
// Keys: lock page:home:computing, cache page:home.
'use strict';
const { fork } = require('node:child_process');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const assert = require('node:assert');
const { createClient } = require('redis');

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

async function page(client, compute) {
  const deadline = Date.now() + 8_000;
  const token = randomUUID();
  for (;;) {
    const cached = await client.get('page:home');
    if (cached !== null) return cached;
    const isOurs = await client.set('page:home:computing', token, { condition: 'NX', expiration: { type: 'PX', value: 10_000 } });
    if (isOurs === 'OK' || Date.now() > deadline) {
      // The page may have come between the look at the cache and the lease.
      const html = (await client.get('page:home')) ?? (await compute());
      await client.set('page:home', html, { expiration: { type: 'EX', value: 60 } });
      await client.eval(RELEASE, { keys: ['page:home:computing'], arguments: [token] });
      return html;
    }
    await sleep(10);
  }
}

async function server() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  for (let n = 0; n < 5; n += 1) {
    const html = await page(client, async () => {
      await sleep(30);
      return `<h1>home ${await client.incr('page:home:computed')}</h1>`;
    });
    assert.match(html, /<h1>home 1<\/h1>/);
  }
  await client.close();
}

async function main() {
  const servers = [1, 2, 3, 4].map(() => fork(__filename, ['server']));
  const codes = await Promise.all(servers.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  assert.deepStrictEqual([codes, await client.get('page:home:computed')], [[0, 0, 0, 0], '1']);
  await client.close();
  console.log('ok: 20 requests on four servers computed the page once');
}

process.argv[2] === 'server' ? server() : main();
