// Pictures of a listing are resized; a lock protects the list of variants.
//
// The expiry is meant to be 20 seconds and set with PX 20. Resizing takes longer than 20 milliseconds, each time: nobody
// ever releases a lock that it still holds, and two resizers are inside together.
// Keys: lock listing:<id>:variants:lock, data listing:<id>:variants. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const Redis = require('ioredis');

const LOCK = 'listing:91:variants:lock';
const VARIANTS = 'listing:91:variants';
const TTL = 20;

async function resize(width) {
  const redis = new Redis(process.env.REDIS_URL);
  redis.defineCommand('releaseLock', {
    numberOfKeys: 1,
    lua: `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`,
  });
  const orders = on(process, 'message');
  const id = randomUUID();
  while (!(await redis.set(LOCK, id, 'PX', TTL, 'NX'))) await sleep(5); // !
  try {
    const variants = JSON.parse((await redis.get(VARIANTS)) ?? '[]'); // !
    process.send('resizing');
    await sleep(60);
    await orders.next();
    variants.push(`${width}px`);
    await redis.set(VARIANTS, JSON.stringify(variants)); // !
  } finally {
    await redis.releaseLock(LOCK, id); // !
    await redis.quit();
    process.send('released');
    process.disconnect();
  }
}

async function main() {
  const resizers = ['320', '640'].map((width) => {
    const child = fork(__filename, [width]);
    return { child, said: on(child, 'message') };
  });
  for (const { said } of resizers) await said.next();
  for (const { child, said } of resizers) {
    child.send('go on');
    await said.next();
  }
  const redis = new Redis(process.env.REDIS_URL);
  const variants = JSON.parse(await redis.get(VARIANTS));
  if (variants.length < 2) console.log(`damage: two variants were made, the listing has ${variants.join(' and ')}`);
  await redis.quit();
}

process.argv[2] ? resize(process.argv[2]) : main();
