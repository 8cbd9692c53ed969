// Product feeds of suppliers: who imports a feed holds feed:<supplier>:import, and merges its rows into the catalog.
//
// What is wrong: the lease is 400 and was meant in seconds, but PX takes milliseconds. No import is done within it: each
// writes without the lock, and each release finds that the lock is gone. Only because the next importer comes late
// enough in this run, nothing is lost.
'use strict';
const { randomUUID } = require('node:crypto');
const Redis = require('ioredis');

const LEASE = 400;
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end`;
const stall = () => new Promise((then) => setTimeout(then, LEASE + 120));

// Says whether the lock was held to the end; nothing if it was refused.
async function importFeed(redis, supplier, rows, download) {
  const token = randomUUID();
  const lock = `feed:${supplier}:import`;
  if (!(await redis.set(lock, token, 'PX', LEASE, 'NX'))) return undefined; // milliseconds !
  const catalog = JSON.parse((await redis.hget('catalog', supplier)) ?? '{}');
  await download();
  Object.assign(catalog, rows);
  await redis.hset('catalog', supplier, JSON.stringify(catalog)); // after the lease, each time !
  return (await redis.eval(RELEASE, 1, lock, token)) === 1;
}

async function main() {
  const pool = [1, 2, 3].map(() => new Redis(process.env.REDIS_URL));
  const [one, two, other] = pool;
  const held = [];

  // Who comes at once is refused.
  let refused;
  held.push(
    await importFeed(one, 'nordlicht', { 'n-1': 12 }, async () => {
      refused = (await importFeed(two, 'nordlicht', { 'n-2': 5 }, stall)) === undefined;
      await stall();
    }),
  );
  held.push(await importFeed(two, 'nordlicht', { 'n-2': 5 }, stall));
  held.push(await importFeed(other, 'nordlicht', { 'n-3': 70 }, stall));

  const rows = Object.keys(JSON.parse(await one.hget('catalog', 'nordlicht'))).length;
  const late = held.filter((inTime) => !inTime).length;
  if (refused && rows === 3 && late) console.log(`would: ${late} of ${held.length} imports wrote when nobody held the lock`);
  await Promise.all(pool.map((redis) => redis.quit()));
}

main();
