// A ledger is written by the holder of a lease; the ledger itself keeps late writers out.
//
// The lease comes with a fencing number. A writer opens the ledger with its number, and from then on lower ones are refused
// by the script that writes. The first writer writes after its lease, is told so, and starts over.
// Keys: lock ledger/lease, counter ledger/fence, hash ledger (fields fence, sum).
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const assert = require('node:assert');
const Redis = require('ioredis');

const scripts = {
  takeLease: {
    numberOfKeys: 2,
    lua: `if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
          return redis.call('INCR', KEYS[2])`,
  },
  openLedger: {
    numberOfKeys: 1,
    lua: `if tonumber(ARGV[1]) < tonumber(redis.call('HGET', KEYS[1], 'fence') or '0') then return false end
          redis.call('HSET', KEYS[1], 'fence', ARGV[1])
          return redis.call('HGET', KEYS[1], 'sum') or '0'`,
  },
  writeLedger: {
    numberOfKeys: 1,
    lua: `if redis.call('HGET', KEYS[1], 'fence') ~= ARGV[1] then return 0 end
          redis.call('HSET', KEYS[1], 'sum', ARGV[2])
          return 1`,
  },
  endLease: {
    numberOfKeys: 1,
    lua: `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`,
  },
};

async function book(amount, stalls) {
  const redis = new Redis(process.env.REDIS_URL, { scripts });
  const orders = on(process, 'message');
  let tries = 0;
  for (let written = 0; written === 0; tries += 1) {
    const token = randomUUID();
    let fence;
    while (!(fence = await redis.takeLease('ledger/lease', 'ledger/fence', token, 300))) await sleep(20);
    const sum = await redis.openLedger('ledger', fence);
    if (tries === 0) {
      process.send('open');
      if (stalls) await orders.next();
    }
    if (sum !== null) written = await redis.writeLedger('ledger', fence, Number(sum) + amount);
    await redis.endLease('ledger/lease', token);
  }
  process.send(tries);
  await redis.quit();
  process.disconnect();
}

async function main() {
  const start = (...args) => {
    const child = fork(__filename, args);
    const said = on(child, 'message');
    return { child, next: async () => (await said.next()).value[0] };
  };
  const slow = start('500', 'stalls');
  await slow.next();
  const quick = start('30');
  await quick.next();
  assert.strictEqual(await quick.next(), 1);
  slow.child.send('go on');
  assert.strictEqual(await slow.next(), 2);
  const redis = new Redis(process.env.REDIS_URL);
  assert.strictEqual(await redis.hget('ledger', 'sum'), '530');
  await redis.quit();
  console.log('ok: the write after the lease was refused and made again, the sum is 530');
}

process.argv[2] ? book(Number(process.argv[2]), process.argv[3] === 'stalls') : main();
