// Visitors get badges with consecutive numbers at three desks.
//
// INCR gives each desk another number, without a lock. The desk reads the list of the day to show it, and appends to it with
// RPUSH; nothing that was read is written back.
// Keys: badges:number, list badges:today, counter badges:shown.
'use strict';
const cluster = require('node:cluster');
const assert = require('node:assert');
const Redis = require('ioredis');

async function desk() {
  const redis = new Redis(process.env.REDIS_URL);
  for (let n = 0; n < 30; n += 1) {
    const before = Number((await redis.get('badges:number')) ?? 0);
    const today = await redis.lrange('badges:today', -5, -1);
    const number = await redis.incr('badges:number');
    assert.ok(number > before && !today.includes(String(number)));
    await redis.pipeline().rpush('badges:today', number).incrby('badges:shown', today.length).exec();
  }
  await redis.quit();
  process.exit(0);
}

async function main() {
  const desks = [1, 2, 3].map(() => cluster.fork());
  const codes = await Promise.all(desks.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  const redis = new Redis(process.env.REDIS_URL);
  const numbers = (await redis.lrange('badges:today', 0, -1)).map(Number).sort((a, b) => a - b);
  await redis.quit();
  assert.deepStrictEqual(codes, [0, 0, 0]);
  assert.deepStrictEqual(numbers, Array.from({ length: 90 }, (_, n) => n + 1));
  console.log('ok: 90 visitors of three desks have the badges 1 to 90');
}

cluster.isPrimary ? main() : desk();
