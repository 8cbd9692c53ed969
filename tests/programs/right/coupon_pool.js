// Single-use codes are handed out from a set.
//
// SPOP takes a code and removes it in one step. SCARD is asked for the display only. A code that a customer does not use is put
// back with SADD by the request that had taken it.
// Keys: set codes:spring, hash codes:given.
'use strict';
const { fork } = require('node:child_process');
const assert = require('node:assert');
const { createClient } = require('redis');

async function shop(name) {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  for (let n = 0; n < 12; n += 1) {
    const left = await client.sCard('codes:spring');
    const code = await client.sPop('codes:spring');
    if (code === null) continue;
    assert.ok(left >= 0);
    if (n % 4 === 3) await client.sAdd('codes:spring', code);
    else assert.strictEqual(await client.hSetNX('codes:given', code, `${name}-${n}`), 1);
  }
  await client.close();
}

async function main() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  await client.sAdd('codes:spring', Array.from({ length: 25 }, (_, n) => `SPRING-${1000 + n}`));
  const shops = ['a', 'b', 'c'].map((name) => fork(__filename, [name]));
  const codes = await Promise.all(shops.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  assert.deepStrictEqual(codes, [0, 0, 0]);
  const given = await client.hGetAll('codes:given');
  const left = await client.sCard('codes:spring');
  assert.strictEqual(Object.keys(given).length + left, 25);
  assert.strictEqual(new Set(Object.values(given)).size, Object.keys(given).length);
  await client.close();
  console.log('ok: each of 25 codes was given to one customer at most, and none is missing');
}

process.argv[2] ? shop(process.argv[2]) : main();
