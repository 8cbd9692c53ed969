// Parcels of a route are sorted by one station at a time; locks and data use different connections.
//
// The lock is taken on a client for locks, and the work goes over a pool of connections. All writes are awaited before the lock
// is released, and the lease is long compared with the work.
// Keys: lock route:4:sorting, data route:4:order.
'use strict';
const { fork } = require('node:child_process');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const assert = require('node:assert');
const { createClient, createClientPool } = require('redis');

const LOCK = 'route:4:sorting';
const ORDER = 'route:4:order';
const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

async function sort(locks, data, parcel) {
  const token = randomUUID();
  while ((await locks.set(LOCK, token, { condition: 'NX', expiration: { type: 'EX', value: 30 } })) !== 'OK') await sleep(4);
  try {
    const order = await data.lRange(ORDER, 0, -1);
    const sorted = [...order, parcel].sort();
    await data.multi().del(ORDER).rPush(ORDER, sorted).exec();
    await Promise.all([data.incr('route:4:parcels'), data.hSet('route:4:seen', parcel, 'yes')]);
  } finally {
    assert.strictEqual(await locks.eval(RELEASE, { keys: [LOCK], arguments: [token] }), 1);
  }
}

async function station(name) {
  const url = process.env.REDIS_URL;
  const locks = await createClient({ url }).connect();
  const data = await createClientPool({ url }, { minimum: 1, maximum: 3 }).connect();
  for (let n = 0; n < 6; n += 1) await sort(locks, data, `${String((n * 7) % 10)}-${name}`);
  await locks.close();
  await data.close();
  process.exit(0);
}

async function main() {
  const stations = ['x', 'y', 'z'].map((name) => fork(__filename, [name]));
  const codes = await Promise.all(stations.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  const order = await client.lRange(ORDER, 0, -1);
  await client.close();
  assert.deepStrictEqual(codes, [0, 0, 0]);
  assert.strictEqual(order.length, 18);
  assert.deepStrictEqual(order, [...order].sort());
  console.log('ok: 18 parcels of three stations are in order');
}

process.argv[2] ? station(process.argv[2]) : main();
