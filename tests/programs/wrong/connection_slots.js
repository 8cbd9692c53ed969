// At most two workers may be connected to a slow mainframe. Slots are members of a sorted set, scored by the clock.
//
// A worker adds itself and looks at its rank: the two oldest are in. The score is the clock of its own machine. A worker
// whose clock is behind is the oldest when it comes, and takes the slot of one that is already connected.
// Keys: sorted set mainframe:slots. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { randomUUID } = require('node:crypto');
const Redis = require('ioredis');

const SLOTS = 'mainframe:slots';
const LIMIT = 2;
const TIMEOUT_MS = 60_000;

async function acquire(redis, clock) {
  const id = randomUUID();
  const [, , [, rank]] = await redis
    .multi()
    .zremrangebyscore(SLOTS, '-inf', clock() - TIMEOUT_MS)
    .zadd(SLOTS, clock(), id) // !
    .zrank(SLOTS, id) // !
    .exec();
  if (rank < LIMIT) return id;
  await redis.zrem(SLOTS, id);
  return null;
}

async function worker(clockError) {
  const redis = new Redis(process.env.REDIS_URL);
  const orders = on(process, 'message');
  const slot = await acquire(redis, () => Date.now() + clockError);
  process.send(slot !== null);
  await orders.next();
  if (slot !== null) await redis.zrem(SLOTS, slot);
  await redis.quit();
  process.disconnect();
}

async function main() {
  const workers = [];
  let connected = 0;
  for (const clockError of [0, 0, 0, -5_000]) {
    const child = fork(__filename, ['worker', String(clockError)]);
    const [isIn] = (await on(child, 'message').next()).value;
    connected += Number(isIn);
    workers.push(child);
  }
  for (const child of workers) child.send('disconnect');
  if (connected > LIMIT) console.log(`damage: ${connected} workers were connected, the mainframe allows ${LIMIT}`);
}

process.argv[2] === 'worker' ? worker(Number(process.argv[3])) : main();
