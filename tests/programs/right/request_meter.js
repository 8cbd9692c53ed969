// An API gateway with one connection: requests in a window, requests in flight, and who is online.
//
// Right: a request is counted first and judged by the reply, in one transaction with the window's expiry; requests in
// flight are counted by a script that knows the limit. Who is refused takes back only what it has added itself. Should
// the gateway die, what was in flight counts for its run only, whose number the keys have.
'use strict';
const { createClient } = require('redis');

const ENTER = `
if redis.call('INCR', KEYS[1]) > tonumber(ARGV[1]) then redis.call('DECR', KEYS[1]) return 0 end
return 1`;
const run = Math.floor(Math.random() * 1e6);
const online = `gateway:${run}:online`;

async function allowed(redis, key, limit) {
  const window = { condition: 'NX', expiration: { type: 'EX', value: 60 } };
  const replies = await redis.multi().set(key, 0, window).incr(key).exec();
  return replies[1] <= limit;
}

async function inFlight(redis, limit, work) {
  const key = `gateway:${run}:in-flight`;
  if (!(await redis.eval(ENTER, { keys: [key], arguments: [String(limit)] }))) return false;
  try {
    await work();
  } finally {
    await redis.decr(key);
  }
  return true;
}

async function seen(redis, user, at) {
  const replies = await redis
    .multi()
    .zRemRangeByScore(online, '-inf', at - 30000)
    .zAdd(online, { score: at, value: user })
    .zCard(online)
    .exec();
  return replies[2];
}

async function main() {
  const redis = await createClient({ url: process.env.REDIS_URL }).connect();

  const answers = await Promise.all(Array.from({ length: 14 }, () => allowed(redis, `gateway:${run}:window:acme`, 10)));
  const passed = answers.filter(Boolean).length;

  // Two are in flight, a third one is refused, and gets in when they are done.
  let third;
  await inFlight(redis, 2, () => inFlight(redis, 2, async () => (third = await inFlight(redis, 2, async () => {}))));
  const later = await inFlight(redis, 2, async () => {});
  const rest = await redis.get(`gateway:${run}:in-flight`);

  const now = Date.now();
  await seen(redis, 'u1', now - 40000);
  await seen(redis, 'u2', now - 10000);
  const count = await seen(redis, 'u3', now);

  const fine = passed === 10 && third === false && later && rest === '0' && count === 2;
  console.log(`${fine ? 'ok' : 'broken'}: ${passed} of 14 passed, ${rest} in flight at the end, ${count} online`);
  await redis.close();
}

main();
