// Two services complete one order document: promotions subtract a discount, shipping adds a rate.
//
// What is wrong: both read the whole JSON document and write the whole document back, and nothing keeps them apart.
// The same is done with the fields of the customer's hash. What shipping wrote in between is gone.
'use strict';
const assert = require('node:assert');
const { fork } = require('node:child_process');
const { randomBytes } = require('node:crypto');
const { once } = require('node:events');
const Redis = require('ioredis');

const [role, shop] = process.argv.slice(2);
const orderKey = (name) => `shop-${name}:order:10077`;
const customerKey = (name) => `shop-${name}:customer:512`;

// A service stops here until the parent lets it go on.
const at = (place) =>
  new Promise((go) => {
    process.once('message', go);
    process.send(place);
  });

async function promotions(redis) {
  const order = JSON.parse(await redis.get(orderKey(shop)));
  const points = Number(await redis.hget(customerKey(shop), 'points'));
  order.lines.push({ text: 'spring discount', cents: -500 });
  order.total -= 500;
  await at('read');
  await redis.set(orderKey(shop), JSON.stringify(order)); // computed before shipping wrote its line: overwrites it !
  await redis.hset(customerKey(shop), 'points', points + 50); // the points that shipping gave are overwritten, too !
}

async function shipping(redis) {
  const order = JSON.parse(await redis.get(orderKey(shop)));
  order.lines.push({ text: 'parcel', cents: 690 });
  order.total += 690;
  await redis.set(orderKey(shop), JSON.stringify(order));
  const points = Number(await redis.hget(customerKey(shop), 'points'));
  await redis.hset(customerKey(shop), 'points', points + 7);
}

function start(...words) {
  const child = fork(__filename, words);
  const came = [];
  const waiting = [];
  child.on('message', (place) => (waiting.length ? waiting.shift()(place) : came.push(place)));
  return {
    reaches: async (place) => assert.equal(came.shift() ?? (await new Promise((then) => waiting.push(then))), place),
    go: () => child.send('go'),
    end: once(child, 'exit').then(([code]) => assert.equal(code, 0)),
  };
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  if (role) {
    await { promotions, shipping }[role](redis);
    return redis.quit();
  }
  const name = randomBytes(3).toString('hex');
  await redis.set(orderKey(name), JSON.stringify({ lines: [{ text: 'lamp', cents: 4900 }], total: 4900 }));
  await redis.hset(customerKey(name), { points: 100, tier: 'silver' });

  const first = start('promotions', name);
  await first.reaches('read');
  await start('shipping', name).end;
  first.go();
  await first.end;

  const order = JSON.parse(await redis.get(orderKey(name)));
  const points = Number(await redis.hget(customerKey(name), 'points'));
  const missing = 4900 - 500 + 690 - order.total;
  const lost = 157 - points;
  if (missing || lost) console.log(`damage: ${missing} cents of shipping and ${lost} points are lost`);
  await redis.quit();
}

main();
