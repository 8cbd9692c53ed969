// Coupons of a shop: the web and the call centre redeem the same code, of which a few uses are left.
//
// What is wrong: the mark "somebody redeems this code" is looked for first and set later. The web asks with EXISTS,
// the call centre with GET; both see none, both set it, both are inside.
'use strict';
const assert = require('node:assert');
const { fork } = require('node:child_process');
const { randomBytes } = require('node:crypto');
const { once } = require('node:events');
const { createClient } = require('redis');

const [role, tenant] = process.argv.slice(2);
const mark = (name) => `promo:${name}:SPRING:redeeming`;
const left = (name) => `promo:${name}:SPRING:left`;
const minute = { expiration: { type: 'EX', value: 60 } };

// The process stops here until the parent lets it go on.
const at = (place) =>
  new Promise((go) => {
    process.once('message', go);
    process.send(place);
  });

async function redeem(redis, isFree) {
  if (!(await isFree())) {
    await at('refused');
    return;
  }
  await at('free');
  await redis.set(mark(tenant), role, minute); // without NX: the other one has set it already !
  const uses = Number(await redis.get(left(tenant)));
  await at('inside');
  await redis.set(left(tenant), uses - 1); // both write the same number !
  await at('written');
  await redis.del(mark(tenant));
}

const web = (redis) => redeem(redis, async () => (await redis.exists(mark(tenant))) === 0);
const calls = (redis) => redeem(redis, async () => (await redis.get(mark(tenant))) === null);

function start(...words) {
  const child = fork(__filename, words);
  const came = [];
  const waiting = [];
  child.on('message', (place) => (waiting.length ? waiting.shift()(place) : came.push(place)));
  const reaches = async (place) =>
    assert.equal(came.shift() ?? (await new Promise((then) => waiting.push(then))), place);
  return {
    reaches,
    go: () => child.send('go'),
    through: async (...places) => {
      for (const place of places) {
        await reaches(place);
        child.send('go');
      }
    },
    end: once(child, 'exit').then(([code]) => assert.equal(code, 0)),
  };
}

async function main() {
  const redis = await createClient({ url: process.env.REDIS_URL }).connect();
  if (role) {
    await { web, calls }[role](redis);
    return redis.close();
  }
  const name = randomBytes(5).toString('hex');
  await redis.set(left(name), 5);

  // Somebody who comes while the mark is there is refused.
  const early = start('web', name);
  await early.through('free');
  await early.reaches('inside');
  const late = start('calls', name);
  await late.through('refused');
  await late.end;
  early.go();
  await early.through('written');
  await early.end;

  // Two who come at the same moment are not.
  const one = start('web', name);
  const two = start('calls', name);
  await Promise.all([one.reaches('free'), two.reaches('free')]);
  one.go();
  await one.reaches('inside');
  two.go();
  await two.reaches('inside');
  one.go();
  await one.reaches('written');
  two.go();
  await two.reaches('written');
  one.go();
  two.go();
  await Promise.all([one.end, two.end]);

  const uses = 5 - Number(await redis.get(left(name)));
  if (uses !== 3) console.log(`damage: three have redeemed the coupon, and ${uses} uses are counted`);
  await redis.close();
}

main();
