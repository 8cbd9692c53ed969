// Baskets are changed under short locks, with tokens as the usual packages make them.
//
// nanoid's 21 characters, base64, base64url, hex, a UUID, 26 characters of a ULID-like alphabet: each has 120 random bits
// or more, so nobody can guess one, although a single token may be without a digit or in one case only.
// Keys: locks basket:<n>:lock, data basket:<n>.
'use strict';
const { fork } = require('node:child_process');
const { randomBytes, randomInt, randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const assert = require('node:assert');
const Redis = require('ioredis');

const pick = (alphabet, length) => Array.from({ length }, () => alphabet[randomInt(alphabet.length)]).join('');
const tokens = [
  () => pick('useandom-26T198340PX75pxJACKVERYMINDBUSHWOLF_GQZbfghjklqvwyzrict', 21),
  () => randomBytes(16).toString('base64'),
  () => randomBytes(16).toString('base64url'),
  () => randomBytes(22).toString('hex'),
  () => randomUUID(),
  () => pick('0123456789ABCDEFGHJKMNPQRSTVWXYZ', 26),
  () => pick('abcdefghijklmnopqrstuvwxyz', 30),
  () => pick('0123456789', 39),
];
const BASKETS = 96;

async function shop() {
  const redis = new Redis(process.env.REDIS_URL);
  redis.defineCommand('unlock', {
    numberOfKeys: 1,
    lua: "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0",
  });
  for (let n = 0; n < BASKETS; n += 1) {
    const token = tokens[n % tokens.length]();
    const lock = `basket:${n}:lock`;
    while ((await redis.set(lock, token, 'PX', 20_000, 'NX')) === null) await sleep(1);
    const items = JSON.parse((await redis.get(`basket:${n}`)) ?? '[]');
    items.push(process.pid);
    await redis.set(`basket:${n}`, JSON.stringify(items));
    assert.strictEqual(await redis.unlock(lock, token), 1);
  }
  await redis.quit();
}

async function main() {
  const shops = [1, 2, 3].map(() => fork(__filename, ['shop']));
  await Promise.all(shops.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  const redis = new Redis(process.env.REDIS_URL);
  for (let n = 0; n < BASKETS; n += 1) {
    const items = JSON.parse(await redis.get(`basket:${n}`));
    assert.deepStrictEqual(items.sort(), shops.map((child) => child.pid).sort());
  }
  await redis.quit();
  console.log(`ok: ${BASKETS} baskets have one item of each of three shops`);
}

process.argv[2] === 'shop' ? shop() : main();
