// Payouts from the account of a marketplace: worker threads take turns by a counter of who is inside.
//
// What is wrong: who increments the counter to 1 is inside, and the counter expires. A thread that stalls for longer
// goes on nevertheless: it writes the balance it read before, and at its end deletes the counter of the next one.
'use strict';
const assert = require('node:assert');
const { once } = require('node:events');
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const Redis = require('ioredis');

const LEASE = 400;
const key = (tenant) => ({ inside: `bank:${tenant}:payout:inside`, balance: `bank:${tenant}:balance` });

// The thread stops here until the main thread lets it go on.
const at = (place) =>
  new Promise((go) => {
    parentPort.once('message', go);
    parentPort.postMessage(place);
  });

async function payout(redis, { tenant, cents, lease }) {
  const { inside, balance } = key(tenant);
  if ((await redis.incr(inside)) !== 1) {
    await redis.decr(inside);
    return at('refused');
  }
  await redis.pexpire(inside, lease);
  const rest = Number(await redis.get(balance)) - cents;
  await at('inside');
  await redis.set(balance, rest); // the counter may be somebody else's by now !
  await redis.del(inside); // lets the next one in while somebody is inside !
  await at('out');
}

function start(words) {
  const worker = new Worker(__filename, { workerData: words });
  const came = [];
  const waiting = [];
  worker.on('message', (place) => (waiting.length ? waiting.shift()(place) : came.push(place)));
  return {
    reaches: async (place) => assert.equal(came.shift() ?? (await new Promise((then) => waiting.push(then))), place),
    go: () => worker.postMessage('go'),
    end: once(worker, 'exit').then(([code]) => assert.equal(code, 0)),
  };
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  if (!isMainThread) {
    await redis.ping();
    await at('ready');
    await payout(redis, workerData);
    return redis.quit();
  }
  const tenant = Math.random().toString(36).slice(2, 9);
  const { inside, balance } = key(tenant);
  await redis.set(balance, 10000);

  const slow = start({ tenant, cents: 1000, lease: LEASE });
  const refused = start({ tenant, cents: 1, lease: LEASE });
  const next = start({ tenant, cents: 2000, lease: 60000 });
  const third = start({ tenant, cents: 4000, lease: 60000 });
  for (const worker of [slow, refused, next, third]) await worker.reaches('ready');

  slow.go();
  await slow.reaches('inside');
  refused.go();
  await refused.reaches('refused');
  refused.go();
  await refused.end;

  // Over, with 250 ms to spare. The refused thread's DECR leaves the expiry as it is.
  await new Promise((then) => setTimeout(then, LEASE + 250));
  next.go();
  await next.reaches('inside');
  slow.go();
  await slow.reaches('out');
  third.go();
  await third.reaches('inside');
  next.go();
  await next.reaches('out');
  third.go();
  await third.reaches('out');
  for (const worker of [slow, next, third]) {
    worker.go();
    await worker.end;
  }

  const rest = Number(await redis.get(balance));
  if (rest !== 3000) console.log(`damage: 7000 were paid out, and the balance fell by ${10000 - rest} only`);
  await redis.del(inside);
  await redis.quit();
}

main();
