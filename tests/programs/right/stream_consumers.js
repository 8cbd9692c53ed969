// Orders come over a stream and are worked on by a group of consumers.
//
// The group gives each entry to one consumer. One of them dies with entries in its hands; another one takes those over with
// XAUTOCLAIM once they have been idle for longer than any work takes. The script that books knows each id, so twice does no harm.
// Keys: stream orders, set orders:booked, counter orders:sum.
'use strict';
const { fork } = require('node:child_process');
const { setTimeout: sleep } = require('node:timers/promises');
const assert = require('node:assert');
const Redis = require('ioredis');

const BOOK = `
if redis.call('SADD', KEYS[1], ARGV[1]) == 1 then redis.call('INCRBY', KEYS[2], ARGV[2]) end
return redis.call('XACK', KEYS[3], 'book', ARGV[1])`;

async function consumer(name, dies) {
  const redis = new Redis(process.env.REDIS_URL);
  redis.defineCommand('bookAndAck', { numberOfKeys: 3, lua: BOOK });
  const book = ([id, [, cents]]) => redis.bookAndAck('orders:booked', 'orders:sum', 'orders', id, cents);
  for (;;) {
    const reply = await redis.xreadgroup('GROUP', 'book', name, 'COUNT', 3, 'STREAMS', 'orders', '>');
    if (reply === null) break;
    if (dies) process.exit(9); // with three entries in its hands
    for (const entry of reply[0][1]) await book(entry);
  }
  if (name === 'rescue') {
    const [, entries] = await redis.xautoclaim('orders', 'book', name, 200, '0', 'COUNT', 100);
    for (const entry of entries) await book(entry);
  }
  await redis.quit();
}

const exit = (child) => new Promise((resolve) => child.once('exit', resolve));

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  await redis.xgroup('CREATE', 'orders', 'book', '$', 'MKSTREAM');
  for (let n = 1; n <= 30; n += 1) await redis.xadd('orders', '*', 'cents', n);
  assert.strictEqual(await exit(fork(__filename, ['doomed', 'dies'])), 9);
  await Promise.all(['c1', 'c2'].map((name) => exit(fork(__filename, [name]))));
  await sleep(300);
  await exit(fork(__filename, ['rescue']));
  const [[pending], sum, booked] = await Promise.all([
    redis.xpending('orders', 'book'),
    redis.get('orders:sum'),
    redis.scard('orders:booked'),
  ]);
  await redis.quit();
  assert.deepStrictEqual([pending, sum, booked], [0, '465', 30]);
  console.log('ok: 30 orders were booked once each, three of them by the successor of a dead consumer');
}

process.argv[2] ? consumer(process.argv[2], process.argv[3] === 'dies') : main();
