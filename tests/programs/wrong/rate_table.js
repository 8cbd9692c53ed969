// Exchange rates are published by one of several publishers, which holds a lock.
//
// The download of the rates takes longer than the lease. Nobody else comes in this run, so nothing is lost; but the
// publisher writes at a moment when it holds nothing, and would write over whoever had come.
// Keys: lock rates:publisher, data rates:table and rates:version. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const Redis = require('ioredis');

const LOCK = 'rates:publisher';
const LEASE_MS = 300;
const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

async function download(ms) {
  await sleep(ms);
  return { EUR: 1, USD: 1.0831, CHF: 0.9702 };
}

async function publish(ms) {
  const redis = new Redis(process.env.REDIS_URL);
  const token = randomUUID();
  while ((await redis.set(LOCK, token, 'PX', LEASE_MS, 'NX')) !== 'OK') await sleep(20); // !
  const taken = Date.now();
  const version = Number((await redis.get('rates:version')) ?? 0); // !
  const rates = await download(ms);
  const late = Date.now() - taken - LEASE_MS;
  await redis.hset('rates:table', rates); // !
  await redis.set('rates:version', version + 1); // !
  const released = await redis.eval(RELEASE, 1, LOCK, token);
  if (released === 0) console.log(`would: version ${version + 1} was written ${late} ms after the lease was over`);
  await redis.quit();
}

async function main() {
  for (const ms of ['1', '500']) {
    const child = fork(__filename, [ms]);
    await new Promise((resolve) => child.once('exit', resolve));
  }
}

process.argv[2] ? publish(Number(process.argv[2])) : main();
