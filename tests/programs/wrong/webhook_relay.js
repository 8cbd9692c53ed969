// Webhooks of one customer are relayed in their order, by one relay at a time.
//
// A relay that waits for a slow receiver is over its lease. Its `finally` deletes the lock by name, whoever holds it now,
// and a third relay sends beside the second: the order is broken.
// Keys: lock relay/customer-3, data relay/customer-3/sequence. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { setTimeout: sleep } = require('node:timers/promises');
const Redis = require('ioredis');

const LOCK = 'relay/customer-3';
const SEQUENCE = 'relay/customer-3/sequence';

async function relay(receiver) {
  const redis = new Redis(process.env.REDIS_URL);
  const orders = on(process, 'message');
  while (!(await redis.set(LOCK, `relay-${process.pid}`, 'PX', 500, 'NX'))) await sleep(20); // !
  try {
    const number = Number(await redis.get(SEQUENCE)) + 1; // !
    process.send(number);
    await orders.next();
    if (receiver === 'answers') await redis.set(SEQUENCE, number); // !
  } finally {
    await redis.del(LOCK); // !
    process.send('done');
    await redis.quit();
    process.disconnect();
  }
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  await redis.set(SEQUENCE, 20);
  const start = async (receiver) => {
    const child = fork(__filename, [receiver]);
    const said = on(child, 'message');
    const number = (await said.next()).value[0];
    return {
      number,
      async finish() {
        child.send('go on');
        await said.next();
      },
    };
  };
  const slow = await start('times out');
  const second = await start('answers');
  await slow.finish();
  const third = await start('answers');
  await second.finish();
  await third.finish();
  if (second.number === third.number) {
    console.log(`damage: two webhooks were sent as number ${second.number}, the sequence ends at ${await redis.get(SEQUENCE)}`);
  }
  await redis.quit();
}

process.argv[2] ? relay(process.argv[2]) : main();
