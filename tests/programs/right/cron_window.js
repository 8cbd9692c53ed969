// A job runs once a minute, although three machines have it in their crontabs.
//
// Each minute has a key of its own. SET NX EX says which machine is first; nobody deletes the key, it expires long after the
// minute is over. There is nothing to release: the minute has had its run.
// Keys: cron:<job>:<minute>, list cron:runs.
'use strict';
const { fork } = require('node:child_process');
const os = require('node:os');
const assert = require('node:assert');
const Redis = require('ioredis');

async function tick(redis, machine, minute) {
  const isFirst = await redis.set(`cron:report:${minute}`, `${os.hostname()}/${machine}`, 'EX', 3600, 'NX');
  if (isFirst === 'OK') await redis.rpush('cron:runs', minute);
}

async function machine(name) {
  const redis = new Redis(process.env.REDIS_URL);
  for (let minute = 0; minute < 25; minute += 1) await tick(redis, name, `2024-05-01T10:${String(minute).padStart(2, '0')}`);
  await redis.quit();
}

async function main() {
  const machines = ['m1', 'm2', 'm3'].map((name) => fork(__filename, [name]));
  await Promise.all(machines.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  const redis = new Redis(process.env.REDIS_URL);
  const runs = await redis.lrange('cron:runs', 0, -1);
  await redis.quit();
  assert.strictEqual(runs.length, 25);
  assert.strictEqual(new Set(runs).size, 25);
  console.log('ok: 25 minutes have one run each, from three machines');
}

process.argv[2] ? machine(process.argv[2]) : main();
