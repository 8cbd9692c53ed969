// A plotter is used by one person at a time; whoever waits is woken by a message instead of asking again and again.
//
// The release publishes in the same script that deletes. The message is a hint only: a woken waiter tries SET NX again, and
// waits again if somebody was faster. A missed message costs no more than the time-out of the wait.
// Keys: lock plotter:lock, channel plotter:free, data plotter:pages.
'use strict';
const { fork } = require('node:child_process');
const { once } = require('node:events');
const { randomUUID } = require('node:crypto');
const assert = require('node:assert');
const Redis = require('ioredis');

const LOCK = 'plotter:lock';
const FREE = 'plotter:free';
const RELEASE = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('del', KEYS[1])
redis.call('publish', KEYS[2], 'free')
return 1`;

async function withPlotter(redis, subscriber, work) {
  const token = randomUUID();
  for (;;) {
    const woken = once(subscriber, 'message', { signal: AbortSignal.timeout(200) }).catch(() => {});
    if ((await redis.set(LOCK, token, 'PX', 20_000, 'NX')) === 'OK') break;
    await woken;
  }
  try {
    return await work();
  } finally {
    assert.strictEqual(await redis.eval(RELEASE, 2, LOCK, FREE, token), 1);
  }
}

async function person(plots) {
  const redis = new Redis(process.env.REDIS_URL);
  const subscriber = new Redis(process.env.REDIS_URL);
  await subscriber.subscribe(FREE);
  for (let n = 0; n < plots; n += 1) {
    await withPlotter(redis, subscriber, async () => {
      const pages = Number((await redis.get('plotter:pages')) ?? 0);
      await redis.set('plotter:pages', pages + 1);
    });
  }
  await subscriber.quit();
  await redis.quit();
}

async function main() {
  const people = ['8', '8', '8', '8'].map((plots) => fork(__filename, [plots]));
  const codes = await Promise.all(people.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  const redis = new Redis(process.env.REDIS_URL);
  const pages = await redis.get('plotter:pages');
  await redis.quit();
  assert.deepStrictEqual([codes, pages], [[0, 0, 0, 0], '32']);
  console.log('ok: 32 pages of four people were counted one by one');
}

process.argv[2] ? person(Number(process.argv[2])) : main();
