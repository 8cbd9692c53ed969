// Feature flags: services bring their defaults, operators look at the board and switch.
//
// Right: a default is set with NX and never over an operator's choice. "Off" is what an operator wants, whatever was
// there before: two who switch off at once both get what they asked for, and the last choice counts, by design.
// Evaluations are counted by HINCRBY.
'use strict';
const Redis = require('ioredis');

const FLAGS = ['new-checkout', 'dark-mode', 'bulk-upload'];
const flag = (name) => `flag:production:${name}`;
const connect = (connectionName) => new Redis(process.env.REDIS_URL, { connectionName });

async function bringDefaults(redis) {
  for (const name of FLAGS) {
    if ((await redis.exists(flag(name))) === 0) await redis.set(flag(name), 'on', 'NX');
  }
}

async function evaluate(redis, name) {
  const state = await redis.get(flag(name));
  await redis.hincrby('flags:production:evaluations', `${name}:${state}`, 1);
  return state === 'on';
}

async function switchOff(redis, operator, name, meanwhile = async () => {}) {
  const shown = await redis.get(flag(name));
  await meanwhile();
  if (shown !== 'off') await redis.set(flag(name), 'off');
  await redis.xadd('flags:production:log', '*', 'operator', operator, 'flag', name, 'state', 'off');
}

async function main() {
  const [shop, search, dayShift, nightShift] = ['shop', 'search', 'ops-day', 'ops-night'].map(connect);

  // An operator is faster than the services that start.
  await dayShift.set(flag('bulk-upload'), 'off');
  await Promise.all([bringDefaults(shop), bringDefaults(search)]);
  for (const name of FLAGS) await Promise.all([evaluate(shop, name), evaluate(search, name)]);
  // Both see the alarm and switch off what is on.
  await switchOff(dayShift, 'day', 'new-checkout', () => switchOff(nightShift, 'night', 'new-checkout'));
  await bringDefaults(shop); // a service starts again
  const checkout = await evaluate(search, 'new-checkout');

  const states = await shop.mget(FLAGS.map(flag));
  const counts = await shop.hvals('flags:production:evaluations');
  const sum = counts.reduce((all, one) => all + Number(one), 0);
  const log = await shop.xlen('flags:production:log');
  const fine = states.join() === 'off,on,off' && sum === 7 && log === 2 && !checkout;
  console.log(`${fine ? 'ok' : 'broken'}: flags ${states.join()}, ${sum} evaluations, ${log} entries in the log`);
  await Promise.all([shop, search, dayShift, nightShift].map((redis) => redis.quit()));
}

main();
