// Lock libraries for Node: processes contend for a lock of each, and count up what it protects.
const { join } = require('node:path');
const { pathToFileURL } = require('node:url');
const Redis = require('ioredis');
const { start, done, pause, play, url } = require('./processes');

const ROUNDS = 5;

// ES modules, which NODE_PATH does not lead to.
const load = (file) => import(pathToFileURL(join(process.env.NODE_PATH, file)));

// What a library makes of a client: a function that takes the lock and returns what releases it.
const LIBRARIES = {
  redlock: (redis) => {
    const Redlock = require('redlock');
    const redlock = new Redlock([redis], { retryCount: 1000, retryDelay: 10, retryJitter: 10 });
    return async () => {
      const lock = await redlock.lock('locks:redlock', 10000);
      return async () => (await lock.extend(5000)).unlock();
    };
  },
  'redlock-5': (redis) => {
    const { default: Redlock } = require('redlock-5');
    const redlock = new Redlock([redis], { retryCount: 1000, retryDelay: 10, retryJitter: 10 });
    return async () => {
      const lock = await redlock.acquire(['redlock-5'], 5000);
      return () => lock.release();
    };
  },
  sesamecare: (redis) => {
    const { Redlock } = require('@sesamecare-oss/redlock');
    const redlock = new Redlock([redis], { retryCount: 1000, retryDelay: 10, retryJitter: 10 });
    return async () => {
      const lock = await redlock.acquire(['sesamecare'], 5000);
      return async () => (await lock.extend(5000)).release();
    };
  },
  'redlock-universal': (redis) => {
    const { createLock, IoredisAdapter } = require('redlock-universal');
    const lock = createLock({ adapter: new IoredisAdapter(redis), key: 'redlock-universal', ttl: 30000, retryAttempts: 1000, retryDelay: 10 });
    return async () => {
      const handle = await lock.acquire();
      return () => lock.release(handle);
    };
  },
  microfleet: (redis) => {
    const { createLock } = require('@microfleet/ioredis-lock');
    return async () => {
      const lock = createLock(redis, { timeout: 20000, retries: 2000, delay: 5 });
      await lock.acquire('microfleet');
      return () => lock.release();
    };
  },
  warlock: () => {
    const client = require('redis-3').createClient(url);
    const warlock = require('node-redis-warlock')(client);
    return () =>
      new Promise((resolve, reject) => {
        warlock.optimistic('warlock', 10000, 2000, 5, (error, unlock) => (error ? reject(error) : resolve(unlock)));
      });
  },
  redislock: () => {
    const client = require('redis-3').createClient(url);
    return async () => {
      const lock = require('redislock').createLock(client, { timeout: 20000, retries: 2000, delay: 5 });
      await lock.acquire('redislock');
      return () => lock.release();
    };
  },
  'redis-promise-lock': async () => {
    const { Lock } = require('redis-promise-lock');
    const client = await require('redis-4').createClient({ url }).connect();
    const room = new Lock(client, { retryTime: 10 });
    return async () => {
      await room.acquireLock('redis-promise-lock');
      return () => room.releaseLock('redis-promise-lock');
    };
  },
  ioredfour: () => {
    const Lock = require('ioredfour');
    const four = new Lock({ redis: url, namespace: 'mylock' });
    return async () => {
      const lock = await four.waitAcquireLock('ioredfour', 60000, 20000);
      return () => four.releaseLock(lock);
    };
  },
  verrou: async (redis) => {
    const { Verrou } = await load('@verrou/core/build/index.js');
    const { redisStore } = await load('@verrou/core/build/src/drivers/redis.js');
    const verrou = new Verrou({ default: 'redis', stores: { redis: { driver: redisStore({ connection: redis }) } } });
    return async () => {
      const lock = verrou.createLock('verrou', '10s', { retry: { delay: 5 } });
      await lock.acquire();
      await lock.extend('5s');
      return () => lock.release();
    };
  },
};

async function worker(name) {
  const redis = new Redis(url);
  const take = await LIBRARIES[name](redis);
  for (let round = 0; round < ROUNDS; round++) {
    const release = await take();
    const before = Number(await redis.get(`sum:${name}`));
    await pause(1);
    await redis.set(`sum:${name}`, before + 1);
    await release();
    await pause(2);
  }
  await redis.quit();
}

async function main() {
  const redis = new Redis(url);
  for (const name of Object.keys(LIBRARIES)) {
    await Promise.all([start('worker', name), start('worker', name), start('worker', name)]);
    done(`no increment is lost: ${name}`, await redis.get(`sum:${name}`), String(3 * ROUNDS));
  }
  await redis.quit();
}

play({ main, worker });
