// Exports of tenants: a sorted set has a member for each running export, and a tenant's plan allows one at a time.
//
// What is wrong: ZCARD is asked first and ZADD adds later. Two requests, on connections of one pool, both see a free
// slot; both add their bytes to the number that they read.
'use strict';
const { randomUUID } = require('node:crypto');
const Redis = require('ioredis');

const LONGEST = 60000;
const ALLOWED = 1;

async function exportRows(redis, tenant, bytes, hooks = {}) {
  const slots = `tenants/${tenant}/exports/running`;
  const meter = `tenants/${tenant}/exports/bytes`;
  const id = randomUUID();
  await redis.zremrangebyscore(slots, '-inf', Date.now() - LONGEST);
  if ((await redis.zcard(slots)) >= ALLOWED) return false;
  await hooks.free?.();
  await redis.zadd(slots, Date.now(), id); // somebody else has been added since ZCARD !
  try {
    const total = Number(await redis.get(meter));
    await hooks.inside?.();
    await redis.set(meter, total + bytes); // both write, from the same total !
  } finally {
    await redis.zrem(slots, id);
  }
  return true;
}

async function main() {
  const pool = [1, 2, 3].map(() => new Redis(process.env.REDIS_URL));
  const tenant = `t${Math.floor(Math.random() * 1e9)}`;

  let refused;
  await exportRows(pool[0], tenant, 100, {
    inside: async () => {
      refused = !(await exportRows(pool[1], tenant, 100));
    },
  });
  if (!refused) throw new Error('two at a time');

  // The second passes the check before the first is added, and is inside until the first has written.
  let firstIsInside, firstHasWritten;
  const inside = new Promise((then) => (firstIsInside = then));
  const written = new Promise((then) => (firstHasWritten = then));
  let second;
  await exportRows(pool[0], tenant, 100, {
    free: async () => {
      const secondIsInside = new Promise((then) => {
        second = exportRows(pool[2], tenant, 100, {
          free: async () => then(),
          inside: async () => {
            firstIsInside();
            await written;
          },
        });
      });
      await secondIsInside;
    },
    inside: () => inside,
  });
  firstHasWritten();
  await second;

  const total = Number(await pool[0].get(`tenants/${tenant}/exports/bytes`));
  if (total !== 300) console.log(`damage: three exports of 100 bytes, and ${total} bytes are counted`);
  await Promise.all(pool.map((redis) => redis.quit()));
}

main();
