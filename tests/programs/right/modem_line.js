// A modem line is used by one dialler at a time, with the lock of SETNX's page: its value is the time at which it is over.
//
// A lock that is over is taken with GETSET, and only by the one to whom GETSET returns the old time, or nothing because the lock
// was given back meanwhile. The holder deletes the key only while its own time is not over. A dialler that died has left its
// lock, which two others find.
// Keys: lock lock.modem, list modem:calls.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { setTimeout: sleep } = require('node:timers/promises');
const assert = require('node:assert');
const Redis = require('ioredis');

const LOCK = 'lock.modem';
const HOLD_MS = 20_000;

async function acquire(redis, seenOld) {
  for (;;) {
    let until = Date.now() + HOLD_MS + 1;
    if ((await redis.setnx(LOCK, until)) === 1) return until;
    const current = await redis.get(LOCK);
    if (current !== null && Number(current) < Date.now()) {
      await seenOld();
      until = Date.now() + HOLD_MS + 1;
      const previous = await redis.getset(LOCK, until);
      if (previous === current || previous === null) return until;
    }
    await sleep(10);
  }
}

async function dialler(name) {
  const redis = new Redis(process.env.REDIS_URL);
  const orders = on(process, 'message');
  for (let call = 0; call < 4; call += 1) {
    const until = await acquire(redis, async () => {
      process.send('old');
      await orders.next();
    });
    await redis.rpush('modem:calls', `begin ${name}`);
    await sleep(2);
    await redis.rpush('modem:calls', `end ${name}`);
    if (Date.now() < until) await redis.del(LOCK);
  }
  await redis.quit();
  process.disconnect();
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  await redis.setnx(LOCK, Date.now() - 1000);
  const diallers = ['a', 'b'].map((name) => fork(__filename, [name]));
  const exits = diallers.map((child) => new Promise((resolve) => child.once('exit', resolve)));
  for (const said of diallers.map((child) => on(child, 'message'))) await said.next();
  for (const child of diallers) child.send('go on');
  await Promise.all(exits);
  const calls = await redis.lrange('modem:calls', 0, -1);
  await redis.quit();
  assert.strictEqual(calls.length, 16);
  for (let n = 0; n < 16; n += 2) assert.strictEqual(calls[n + 1], calls[n].replace('begin', 'end'));
  console.log('ok: eight calls of two diallers did not overlap, and one of them took the lock of the dead one over');
}

process.argv[2] ? dialler(process.argv[2]) : main();
