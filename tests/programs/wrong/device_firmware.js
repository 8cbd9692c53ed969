// A device gets new firmware from one updater at a time. Who updates is a field of a hash.
//
// HSETNX tells who is first. But `finally` removes the field also for the updater that was refused, so a third one is
// let in while the first one is still flashing.
// Keys: hash firmware:updaters (field: the device), counted in firmware:flashing. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const Redis = require('ioredis');

const UPDATERS = 'firmware:updaters';
const DEVICE = 'sensor-12';

async function update(redis, name, flash) {
  try {
    const isFirst = await redis.hsetnx(UPDATERS, DEVICE, name); // !
    if (!isFirst) return false;
    await flash();
    return true;
  } finally {
    await redis.hdel(UPDATERS, DEVICE); // !
  }
}

async function updater(name) {
  const redis = new Redis(process.env.REDIS_URL);
  const orders = on(process, 'message');
  const done = await update(redis, name, async () => {
    process.send({ flashing: await redis.incr('firmware:flashing') });
    await orders.next();
    await redis.decr('firmware:flashing');
  });
  process.send({ done });
  await redis.quit();
  process.disconnect();
}

function start(name) {
  const child = fork(__filename, [name]);
  const said = on(child, 'message');
  return { child, next: async () => (await said.next()).value[0] };
}

async function main() {
  const first = start('gateway-1');
  await first.next();
  const second = start('gateway-2');
  const { done } = await second.next(); // refused, and removes the field of the first one
  const third = start('gateway-3');
  const { flashing } = await third.next();
  for (const updater of [first, third]) {
    updater.child.send('flashed');
    await updater.next();
  }
  if (!done && flashing > 1) console.log(`damage: ${flashing} updaters flashed ${DEVICE} at once`);
}

process.argv[2] ? updater(process.argv[2]) : main();
