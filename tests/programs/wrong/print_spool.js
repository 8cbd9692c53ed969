// Labels are numbered by one packing station at a time; whoever waits is told by a message when the lock is free.
//
// A station that is woken takes the message for the lock itself: it sets the key without NX and goes on. The message goes to
// all who wait, so two stations that waited are inside together.
// Keys: lock labels:lock, channel labels:free, data labels:last. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on, once } = require('node:events');
const { randomUUID } = require('node:crypto');
const Redis = require('ioredis');

const LOCK = 'labels:lock';
const FREE = 'labels:free';
const LAST = 'labels:last';

async function enter(redis, subscriber, token, tell) {
  const woken = once(subscriber, 'message');
  if ((await redis.set(LOCK, token, 'PX', 20_000, 'NX')) === 'OK') return;
  tell('waits');
  await woken;
  await redis.set(LOCK, token, 'PX', 20_000); // !
}

async function leave(redis, token) {
  const script = "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) end return redis.call('publish', KEYS[2], 'free')";
  await redis.eval(script, 2, LOCK, FREE, token);
}

async function station() {
  const redis = new Redis(process.env.REDIS_URL);
  const subscriber = new Redis(process.env.REDIS_URL);
  const orders = on(process, 'message');
  await subscriber.subscribe(FREE);
  const token = randomUUID();
  await enter(redis, subscriber, token, (word) => process.send(word));
  const label = Number((await redis.get(LAST)) ?? 0) + 1; // !
  process.send(label);
  await orders.next();
  await redis.set(LAST, label); // !
  await leave(redis, token);
  process.send('left');
  await subscriber.quit();
  await redis.quit();
  process.disconnect();
}

async function main() {
  const start = () => {
    const child = fork(__filename, ['station']);
    const said = on(child, 'message');
    return { child, next: async () => (await said.next()).value[0] };
  };
  const first = start();
  await first.next();
  const waiting = [start(), start()];
  for (const { next } of waiting) await next();
  first.child.send('done');
  await first.next();
  const labels = [await waiting[0].next(), await waiting[1].next()];
  for (const { child, next } of waiting) {
    child.send('done');
    await next();
  }
  if (labels[0] === labels[1]) console.log(`damage: two stations were inside at once and both printed label ${labels[0]}`);
}

process.argv[2] === 'station' ? station() : main();
