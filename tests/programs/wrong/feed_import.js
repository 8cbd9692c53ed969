// Product feeds of suppliers: who imports a feed holds feed:<supplier>:import, and merges its rows into the catalog.
//
// What is wrong: the lease is 400 and was meant in seconds, but PX takes milliseconds. No import is done within it:
// each release comes too late, and the next importer is inside while the first one still works.
'use strict';
const { randomUUID } = require('node:crypto');
const Redis = require('ioredis');

const LEASE = 400;
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;
const stall = () => new Promise((then) => setTimeout(then, LEASE + 120));

async function importFeed(redis, supplier, rows, download) {
  const token = randomUUID();
  const lock = `feed:${supplier}:import`;
  if (!(await redis.set(lock, token, 'PX', LEASE, 'NX'))) return false; // milliseconds !
  const catalog = JSON.parse((await redis.hget('catalog', supplier)) ?? '{}');
  await download();
  Object.assign(catalog, rows);
  await redis.hset('catalog', supplier, JSON.stringify(catalog)); // after the lease, over what the next one wrote !
  const released = await redis.eval(RELEASE, 1, lock, token);
  if (!released) console.log(`${supplier}: the lock was not released by us`); // each time !
  return true;
}

async function main() {
  const pool = [1, 2, 3].map(() => new Redis(process.env.REDIS_URL));
  const [one, two, other] = pool;

  // The first is refused nothing, the second comes within the lease and is.
  await importFeed(one, 'nordlicht', { 'n-1': 12 }, async () => {
    if (await importFeed(two, 'nordlicht', { 'n-2': 5 }, stall)) throw new Error('two within the lease');
    await stall();
  });
  // The next pair: the second comes after it.
  await importFeed(one, 'nordlicht', { 'n-3': 70 }, async () => {
    await stall();
    await importFeed(other, 'nordlicht', { 'n-4': 8 }, stall);
  });

  const catalog = Object.keys(JSON.parse(await one.hget('catalog', 'nordlicht')));
  if (!catalog.includes('n-4')) console.log(`damage: row n-4 was imported, and there are only ${catalog.join(', ')}`);
  await Promise.all(pool.map((redis) => redis.quit()));
}

main();
