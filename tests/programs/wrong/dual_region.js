// Credits of a tenant live on one server, the locks on another one.
//
// The lock is taken and released as it should be, with a token and an expiry, on the server of the locks. Its lease is
// over while the worker reads a file, another worker comes and goes, and the first one writes on the server of the data.
// Keys: lock tenant:7:lock on the first server, data tenant:7:credits on the second. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const Redis = require('ioredis');

const LOCK = 'tenant:7:lock';
const CREDITS = 'tenant:7:credits';
const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
const connect = () => process.env.REDIS_URLS.split(',').slice(0, 2).map((url) => new Redis(url));

async function add(credits, readsLong) {
  const [locks, data] = connect();
  const orders = on(process, 'message');
  const token = randomUUID();
  while ((await locks.set(LOCK, token, 'PX', 250, 'NX')) !== 'OK') await sleep(20); // !
  const before = Number(await data.get(CREDITS)); // !
  process.send('reading the file');
  if (readsLong) await orders.next();
  await data.set(CREDITS, before + credits); // !
  await locks.eval(RELEASE, 1, LOCK, token);
  process.send('added');
  await locks.quit();
  await data.quit();
  process.disconnect();
}

async function main() {
  const [locks, data] = connect();
  await data.set(CREDITS, 0);
  const start = (...args) => {
    const child = fork(__filename, args);
    return { child, said: on(child, 'message') };
  };
  const long = start('60', 'long');
  await long.said.next();
  const short = start('25');
  await short.said.next();
  await short.said.next();
  long.child.send('read');
  await long.said.next();
  const credits = await data.get(CREDITS);
  if (credits !== '85') console.log(`damage: 85 credits were added, the tenant has ${credits}`);
  await locks.quit();
  await data.quit();
}

process.argv[2] ? add(Number(process.argv[2]), process.argv[3] === 'long') : main();
