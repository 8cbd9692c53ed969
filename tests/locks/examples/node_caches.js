// Caches for Node: processes read, make, change and throw away the same values.
const { join } = require('node:path');
const { pathToFileURL } = require('node:url');
const Redis = require('ioredis');
const { start, done, pause, play, url, connection } = require('./processes');

// ES modules, which NODE_PATH does not lead to.
const load = (file) => import(pathToFileURL(join(process.env.NODE_PATH, file)));

const make = async (key) => {
  await pause(2);
  return { page: key, text: 'hello' };
};

// What a library makes of a client: functions that read a value or make it, and that throw it away.
const LIBRARIES = {
  bentocache: async (client) => {
    const { BentoCache, bentostore } = await load('bentocache/build/index.js');
    const { memoryDriver } = await load('bentocache/build/src/drivers/memory.js');
    const { redisDriver, redisBusDriver } = await load('bentocache/build/src/drivers/redis.js');
    const store = bentostore()
      .useL1Layer(memoryDriver({ maxSize: '1mb' }))
      .useL2Layer(redisDriver({ connection: client }))
      .useBus(redisBusDriver({ connection }));
    const bento = new BentoCache({ default: 'multi', stores: { multi: store } });
    return {
      read: (key) => bento.getOrSet({ key, factory: () => make(key), ttl: '1s', grace: '6s', tags: ['pages'] }),
      drop: (key) => (key === 'page-1' ? bento.deleteByTag({ tags: ['pages'] }) : bento.delete({ key })),
    };
  },
  'async-cache-dedupe': (client) => {
    const { createCache } = require('async-cache-dedupe');
    const cache = createCache({ ttl: 1, stale: 1, storage: { type: 'redis', options: { client, invalidation: { referencesTTL: 60 } } } });
    cache.define('page', { references: (args, key, result) => (result ? ['pages'] : null) }, make);
    return { read: (key) => cache.page(key), drop: () => cache.invalidateAll('pages') };
  },
  'ioredis-cache': (client) => {
    const Cache = require('ioredis-cache').default ?? require('ioredis-cache');
    const cache = new Cache(client);
    return {
      read: async (key) => {
        await cache.hashCache('pages-hash', key, () => make(key));
        return cache.cache(`ioredis-cache:${key}`, () => make(key), 1);
      },
      drop: (key) => cache.deleteCache(`ioredis-cache:${key}`),
    };
  },
  'redis-lru': (client) => {
    const cache = require('redis-lru')(client, { max: 2, namespace: 'lru', maxAge: 15000 });
    return { read: (key) => cache.getOrSet(key, () => make(key)), drop: (key) => cache.del(key) };
  },
  'petty-cache': () => {
    const PettyCache = require('petty-cache');
    const cache = new PettyCache(connection.port, connection.host);
    const fetch = (key) =>
      new Promise((resolve, reject) => {
        const miss = (callback) => make(key).then((value) => callback(null, value), callback);
        cache.fetch(`petty:${key}`, miss, { ttl: 1000 }, (error, value) => (error ? reject(error) : resolve(value)));
      });
    const patch = (key) => new Promise((resolve) => cache.patch(`petty:${key}`, { text: 'bye' }, { ttl: 1000 }, () => resolve()));
    return { read: fetch, drop: patch };
  },
  'redis-tag-cache': () => {
    const TagCache = require('redis-tag-cache').default ?? require('redis-tag-cache');
    const cache = new TagCache({ defaultTimeout: 60, redis: connection });
    return {
      read: async (key) => {
        const found = await cache.get(key);
        if (found) return found;
        const value = await make(key);
        await cache.set(key, value, ['pages', key]);
        return value;
      },
      drop: () => cache.invalidate('pages'),
    };
  },
  'cache-manager-ioredis-yet': async (client) => {
    const { redisInsStore } = require('cache-manager-ioredis-yet');
    const store = redisInsStore(client, { ttl: 1000 });
    return {
      read: async (key) => {
        const found = await store.get(`yet:${key}`);
        if (found) return found;
        const value = await make(key);
        await store.set(`yet:${key}`, value);
        return value;
      },
      drop: (key) => store.del(`yet:${key}`),
    };
  },
};

async function reader(name) {
  const client = new Redis(url);
  const { read, drop } = await LIBRARIES[name](client);
  for (let visit = 0; visit < 15; visit++) {
    const key = `page-${visit % 3}`;
    const page = await read(key);
    if (page?.page !== key) throw new Error(`${name}: ${JSON.stringify(page)}`);
    if (visit % 5 === 4) await drop(key);
    await pause(3);
  }
}

async function main() {
  for (const name of Object.keys(LIBRARIES)) {
    await Promise.all([start('reader', name), start('reader', name), start('reader', name)]);
    done(`all pages were right: ${name}`, true);
  }
}

play({ main, reader });
