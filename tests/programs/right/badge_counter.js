// Badges of a learning platform: tasks of one process count under a lock, over a pool that all of them share.
//
// Right: the token says who holds, whichever connection sends it: one takes, another one extends, a third writes. All
// tokens have 120 random bits or more, in the alphabets of several libraries. A write compares the token in a script.
'use strict';
const { randomBytes, randomInt, randomUUID } = require('node:crypto');
const { createClient } = require('redis');

const URL_SAFE = 'useandom-26T198340PX75pxJACKVERYMINDBUSHWOLF_GQZbfghjklqvwyzrict';
const TOKENS = [
  () => Array.from({ length: 21 }, () => URL_SAFE[randomInt(64)]).join(''),
  () => randomBytes(16).toString('base64'),
  () => randomBytes(16).toString('base64url'),
  () => randomBytes(15).toString('hex'),
  () => randomUUID(),
];
const EXTEND = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`;
const WRITE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
return 1`;
const RELEASE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('RPUSH', KEYS[2], 'free')
redis.call('LTRIM', KEYS[2], 0, 0)
return 1`;

let turn = 0;
const take = { condition: 'NX', expiration: { type: 'PX', value: 60000 } };
const mutex = (course) => `badges:${course}:mutex`;
const free = (course) => `badges:${course}:free`;
const earned = (course) => `badges:${course}:earned`;

async function award(pool, waiter, course, badge) {
  const any = () => pool[(turn += 1) % pool.length];
  const token = TOKENS[turn % TOKENS.length]();
  while (!(await any().set(mutex(course), token, take))) await waiter.blPop(free(course), 1);
  const count = Number((await any().hGet(earned(course), badge)) ?? 0);
  await any().eval(EXTEND, { keys: [mutex(course)], arguments: [token, '60000'] });
  const keys = [mutex(course), earned(course)];
  const written = await any().eval(WRITE, { keys, arguments: [token, badge, String(count + 1)] });
  await any().eval(RELEASE, { keys: [mutex(course), free(course)], arguments: [token] });
  return written || award(pool, waiter, course, badge);
}

async function main() {
  const connect = () => createClient({ url: process.env.REDIS_URL }).connect();
  const pool = await Promise.all([1, 2, 3].map(connect));
  const waiters = await Promise.all([1, 2, 3, 4].map(connect));
  const tasks = waiters.map(async (waiter) => {
    for (let round = 0; round < 10; round += 1) await award(pool, waiter, `c${round % 2}`, 'finisher');
  });
  await Promise.all(tasks);

  const counts = await Promise.all(['c0', 'c1'].map((course) => pool[0].hGet(earned(course), 'finisher')));
  console.log(`${counts.join() === '20,20' ? 'ok' : 'broken'}: ${counts.join(' and ')} badges of 20 and 20`);
  await Promise.all([...pool, ...waiters].map((redis) => redis.close()));
}

main();
