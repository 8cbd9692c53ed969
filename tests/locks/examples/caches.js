// cache-manager with @keyv/redis, and @epic-web/cachified over node-redis: processes that fill, wrap and invalidate.
const { createClient } = require('redis');
const { createCache } = require('cache-manager');
const { createKeyv } = require('@keyv/redis');
const { cachified, totalTtl } = require('@epic-web/cachified');
const { start, done, play, url } = require('./processes');

async function reader() {
  let right = true;
  const cache = createCache({ stores: [createKeyv(url)], ttl: 20000, refreshThreshold: 15000 });
  await cache.set('foo', 'bar');
  await cache.mset([{ key: 'a', value: 1 }, { key: 'b', value: 2, ttl: 5000 }]);
  for (let visit = 0; visit < 10; visit++) {
    const page = await cache.wrap(`page-${visit % 3}`, async () => ({ page: visit % 3 }));
    right &&= page.page === visit % 3;
    if (visit % 4 === 3) await cache.del(`page-${visit % 3}`);
  }
  await cache.mdel(['a', 'b']);
  await cache.disconnect();

  const redis = await createClient({ url }).connect();
  const entries = {
    async set(key, value) {
      const ttl = totalTtl(value?.metadata);
      const life = ttl === Infinity ? {} : { PX: Math.max(1, Math.round(ttl)) };
      await redis.set(key, JSON.stringify(value), life);
    },
    get: async (key) => JSON.parse(await redis.get(key)),
    delete: (key) => redis.del(key),
  };
  const user = (id, more) =>
    cachified({ key: `user-${id}`, cache: entries, ttl: 50, swr: 1000, getFreshValue: () => ({ id }), ...more });
  for (let visit = 0; visit < 12; visit++) {
    right &&= (await user(visit % 2, { forceFresh: visit % 5 === 4 })).id === visit % 2;
  }
  await entries.delete('user-1');
  await redis.close();
  if (!right) throw new Error('a page or a user is wrong');
}

async function main() {
  await Promise.all([start('reader'), start('reader'), start('reader')]);
  done('all pages and users were right', true);
}

play({ main, reader });
