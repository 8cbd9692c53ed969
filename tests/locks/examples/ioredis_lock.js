// ioredis-lock: processes contend for a lock, extend it and release it.
const Redis = require('ioredis');
const { createLock } = require('ioredis-lock');
const { start, done, pause, play, url } = require('./processes');

const ROUNDS = 6;

async function worker() {
  const redis = new Redis(url);
  for (let round = 0; round < ROUNDS; round++) {
    const lock = createLock(redis, { timeout: 20000, retries: 2000, delay: 5 });
    await lock.acquire('app:feature:lock');
    const before = Number(await redis.get('app:feature'));
    await lock.extend(10000);
    await redis.set('app:feature', before + 1);
    await lock.release();
    await pause(3);
  }
  await redis.quit();
}

async function main() {
  await Promise.all([start('worker'), start('worker'), start('worker')]);
  const redis = new Redis(url);
  done('no increment is lost', await redis.get('app:feature'), String(3 * ROUNDS));
  await redis.quit();
}

play({ main, worker });
