// redis-semaphore: processes contend for a mutex, a semaphore and a semaphore with several permits at once.
const { Mutex, Semaphore, MultiSemaphore } = require('redis-semaphore');
const Redis = require('ioredis');
const { start, done, pause, play, url } = require('./processes');

const ROUNDS = 8;

async function worker() {
  const redis = new Redis(url);
  for (let round = 0; round < ROUNDS; round++) {
    const mutex = new Mutex(redis, 'report');
    await mutex.acquire();
    try {
      const before = Number(await redis.get('report:count'));
      await pause(2);
      await redis.set('report:count', before + 1);
    } finally {
      await mutex.release();
    }
    const semaphore = new Semaphore(redis, 'printer', 2, { retryInterval: 5 });
    await semaphore.acquire();
    await pause(5);
    await semaphore.release();
    const several = new MultiSemaphore(redis, 'lanes', 4, 2, { retryInterval: 5 });
    await several.acquire();
    await pause(5);
    await several.release();
  }
  const optional = new Mutex(redis, 'report', { acquireAttemptsLimit: 1 });
  if (await optional.tryAcquire()) await optional.release();
  // Renewed while it is held for longer than it lives.
  const renewed = new Mutex(redis, 'renewed', { lockTimeout: 400, refreshInterval: 100 });
  await renewed.acquire();
  await pause(600);
  await renewed.release();
  await redis.quit();
}

async function main() {
  await Promise.all([start('worker'), start('worker'), start('worker')]);
  const redis = new Redis(url);
  done('no increment is lost', await redis.get('report:count'), String(3 * ROUNDS));
  await redis.quit();
}

play({ main, worker });
