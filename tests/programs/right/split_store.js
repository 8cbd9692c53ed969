// Credits live on one server and the locks on another one; the store of the data has the last word.
//
// The lease of the first worker is over before it writes. It writes with a compare-and-set on the server of the data, which
// refuses, because the value is not the one that was read any more. The worker starts over.
// Keys: lock org:3:lock on the first server, data org:3:credits on the second.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const assert = require('node:assert');
const Redis = require('ioredis');

const LOCK = 'org:3:lock';
const CREDITS = 'org:3:credits';
const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
const COMPARE_AND_SET = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('set', KEYS[1], ARGV[2]) return 1 end return 0";
const connect = () => process.env.REDIS_URLS.split(',').slice(0, 2).map((url) => new Redis(url));

async function add(credits, readsLong) {
  const [locks, data] = connect();
  const orders = on(process, 'message');
  let tries = 0;
  for (let isWritten = false; !isWritten; ) {
    tries += 1;
    const token = randomUUID();
    while ((await locks.set(LOCK, token, 'PX', 300, 'NX')) !== 'OK') await sleep(20);
    const before = await data.get(CREDITS);
    if (tries === 1) {
      process.send('reading the file');
      if (readsLong) await orders.next();
    }
    isWritten = (await data.eval(COMPARE_AND_SET, 1, CREDITS, before, Number(before) + credits)) === 1;
    await locks.eval(RELEASE, 1, LOCK, token);
  }
  process.send(tries);
  await locks.quit();
  await data.quit();
  process.disconnect();
}

async function main() {
  const [locks, data] = connect();
  await data.set(CREDITS, 0);
  const start = (...args) => {
    const child = fork(__filename, args);
    const said = on(child, 'message');
    return { child, next: async () => (await said.next()).value[0] };
  };
  const long = start('60', 'long');
  await long.next();
  const short = start('25');
  await short.next();
  assert.strictEqual(await short.next(), 1);
  long.child.send('read');
  assert.strictEqual(await long.next(), 2);
  assert.strictEqual(await data.get(CREDITS), '85');
  await locks.quit();
  await data.quit();
  console.log('ok: 85 credits were added, the late write was refused and made again');
}

process.argv[2] ? add(Number(process.argv[2]), process.argv[3] === 'long') : main();
