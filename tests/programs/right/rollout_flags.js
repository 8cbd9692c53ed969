// Feature flags with a percentage, in one hash, switched by a dashboard and read by servers that are told of changes.
//
// A deployment declares a flag with HSETNX. The dashboard sets it with HSET, counts the revision up with HINCRBY and
// publishes; servers load the hash again. The last decision counts.
// Keys: hash flags, channel flags:changed.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const assert = require('node:assert');
const Redis = require('ioredis');

async function server() {
  const redis = new Redis(process.env.REDIS_URL);
  const subscriber = new Redis(process.env.REDIS_URL);
  let flags = {};
  const load = async () => {
    flags = await redis.hgetall('flags');
  };
  await subscriber.subscribe('flags:changed');
  const changes = on(subscriber, 'message');
  await redis.hsetnx('flags', 'checkout-v2', '0');
  await redis.hsetnx('flags', 'revision', '0');
  await load();
  process.send('ready');
  for await (const [, revision] of changes) {
    await load();
    process.send(`${revision}: ${flags['checkout-v2']}`);
    if (revision === '3') break;
  }
  await subscriber.quit();
  await redis.quit();
  process.disconnect();
}

async function main() {
  const dashboard = new Redis(process.env.REDIS_URL);
  const servers = [1, 2, 3].map(() => on(fork(__filename, ['server']), 'message'));
  const heard = async () => Promise.all(servers.map(async (said) => (await said.next()).value[0]));
  assert.deepStrictEqual(await heard(), ['ready', 'ready', 'ready']);

  for (const [n, percentage] of ['5', '50', '100'].entries()) {
    const [, [, revision]] = await dashboard
      .multi()
      .hset('flags', 'checkout-v2', percentage)
      .hincrby('flags', 'revision', 1)
      .exec();
    await dashboard.publish('flags:changed', revision);
    assert.deepStrictEqual(await heard(), Array(3).fill(`${n + 1}: ${percentage}`));
  }
  await dashboard.del('flags');
  await dashboard.quit();
  console.log('ok: three servers followed three switches of a flag');
}

process.argv[2] === 'server' ? server() : main();
