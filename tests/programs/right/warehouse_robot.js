// An aisle is entered by one robot at a time, behind a Redlock over five servers that are asked one after the other.
//
// Two robots ask in opposite orders, so both have some servers: at most one has three of five. Whoever has fewer gives back
// what it has before it tries again, and does not move meanwhile.
// Keys: lock aisle:9 on five servers, counter aisle:9:robots on the first.
'use strict';
const { fork } = require('node:child_process');
const { randomInt, randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const assert = require('node:assert');
const { createClient } = require('redis');

const AISLE = 'aisle:9';
const TTL = 15_000;
const RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

async function enter(clients) {
  const quorum = Math.floor(clients.length / 2) + 1;
  for (;;) {
    const token = randomUUID();
    const begin = Date.now();
    let votes = 0;
    for (const client of clients) {
      const reply = await client.set(AISLE, token, { condition: 'NX', expiration: { type: 'PX', value: TTL } });
      votes += reply === 'OK' ? 1 : 0;
    }
    if (votes >= quorum && Date.now() - begin < TTL / 2) return token;
    await leave(clients, token);
    await sleep(randomInt(2, 25));
  }
}

async function leave(clients, token) {
  for (const client of clients) await client.eval(RELEASE, { keys: [AISLE], arguments: [token] });
}

async function robot(isReversed) {
  const urls = process.env.REDIS_URLS.split(',').slice(0, 5);
  const store = await createClient({ url: urls[0] }).connect();
  if (isReversed) urls.reverse();
  const clients = await Promise.all(urls.map((url) => createClient({ url }).connect()));
  for (let n = 0; n < 6; n += 1) {
    const token = await enter(clients);
    assert.strictEqual(await store.incr('aisle:9:robots'), 1);
    await sleep(4);
    await store.decr('aisle:9:robots');
    await leave(clients, token);
  }
  await Promise.all([store, ...clients].map((client) => client.close()));
}

async function main() {
  const robots = ['forwards', 'reversed'].map((order) => fork(__filename, [order]));
  const codes = await Promise.all(robots.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  assert.deepStrictEqual(codes, [0, 0]);
  console.log('ok: two robots entered the aisle six times each and never met');
}

process.argv[2] ? robot(process.argv[2] === 'reversed') : main();
