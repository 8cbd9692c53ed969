// Payment events arrive several times, on any of three receivers, and are credited once.
//
// One script claims the event's id with SET NX and credits; a repetition finds the id and does nothing. Ids stay for a day
// and then expire: nobody gives one back.
// Keys: evt:<id>, hash credit (field: the merchant).
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const assert = require('node:assert');
const Redis = require('ioredis');

const CREDIT = `
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'EX', 86400) then return 0 end
redis.call('HINCRBY', KEYS[2], ARGV[2], ARGV[3])
return 1`;

async function receiver(name) {
  const redis = new Redis(process.env.REDIS_URL);
  redis.defineCommand('creditOnce', { numberOfKeys: 2, lua: CREDIT });
  for await (const [event] of on(process, 'message')) {
    if (event === 'end') break;
    process.send(await redis.creditOnce(`evt:${event.id}`, 'credit', name, event.merchant, event.cents));
  }
  await redis.quit();
  process.disconnect();
}

async function main() {
  let answers = 0;
  let credited = 0;
  const receivers = ['r1', 'r2', 'r3'].map((name) => fork(__filename, [name]));
  const events = Array.from({ length: 20 }, (_, n) => ({ id: `e${n}`, merchant: `m${n % 2}`, cents: 100 + n }));
  await new Promise((resolve) => {
    for (const child of receivers) {
      child.on('message', (isCredited) => {
        answers += 1;
        credited += isCredited;
        if (answers === receivers.length * events.length) resolve();
      });
      for (const event of events) child.send(event);
    }
  });
  receivers.forEach((child) => child.send('end'));
  const redis = new Redis(process.env.REDIS_URL);
  const credit = await redis.hgetall('credit');
  await redis.quit();
  assert.strictEqual(credited, 20);
  assert.strictEqual(Number(credit.m0) + Number(credit.m1), events.reduce((sum, { cents }) => sum + cents, 0));
  console.log('ok: 20 events that arrived three times each were credited once');
}

process.argv[2] ? receiver(process.argv[2]) : main();
