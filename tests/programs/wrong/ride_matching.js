// A driver is matched with one passenger; the matcher holds the driver while the passenger decides.
//
// The matcher extends its hold by a script that compares. It logs when it is told 0, and matches all the same, although
// another matcher has the driver by then.
// Keys: lock driver:<id>:matcher, data driver:<id>:passenger. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { randomBytes } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const { createClient } = require('redis');

const MATCHER = 'driver:d-8:matcher';
const PASSENGER = 'driver:d-8:passenger';
const scripts = {
  extend: "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return 0 end",
  release: "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
};

async function match(passenger, decidesSlowly) {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  const orders = on(process, 'message');
  const token = randomBytes(18).toString('base64url');
  const run = (name, ...rest) => client.eval(scripts[name], { keys: [MATCHER], arguments: [token, ...rest] });

  while (!(await client.set(MATCHER, token, { condition: 'NX', expiration: { type: 'PX', value: 300 } }))) await sleep(20); // !
  const before = await client.get(PASSENGER); // !
  process.send('offers');
  if (decidesSlowly) await orders.next();

  const isHeld = await run('extend', '300'); // !
  if (!isHeld) console.log(`${passenger}: could not extend the hold`);
  if (before === null || before === 'free') await client.set(PASSENGER, passenger); // !
  await run('release');
  process.send('matched');
  await client.close();
  process.disconnect();
}

async function main() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  await client.set(PASSENGER, 'free');
  const slow = fork(__filename, ['ada', 'slow']);
  const saidBySlow = on(slow, 'message');
  await saidBySlow.next();
  const quick = fork(__filename, ['bob']);
  const saidByQuick = on(quick, 'message');
  await saidByQuick.next();
  await saidByQuick.next();
  slow.send('yes');
  await saidBySlow.next();
  const passenger = await client.get(PASSENGER);
  if (passenger !== 'bob') console.log(`damage: bob was told that the driver comes, the driver has ${passenger}`);
  await client.close();
}

process.argv[2] ? match(process.argv[2], process.argv[3] === 'slow') : main();
