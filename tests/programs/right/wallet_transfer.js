// Money goes from wallet to wallet in one script that looks at the balance and moves.
//
// The script runs as a whole, so no lock is needed, and nobody spends what is not there. The page shows a balance that was read
// before; the script decides by the balance of the moment.
// Keys: wallet:<owner>.
'use strict';
const { fork } = require('node:child_process');
const assert = require('node:assert');
const Redis = require('ioredis');

const OWNERS = ['ada', 'bob', 'cyd'];
const TRANSFER = `
local balance = tonumber(redis.call('GET', KEYS[1]) or '0')
if balance < tonumber(ARGV[1]) then return redis.error_reply('not enough') end
redis.call('DECRBY', KEYS[1], ARGV[1])
redis.call('INCRBY', KEYS[2], ARGV[1])
return balance - ARGV[1]`;

async function pay(seed) {
  const redis = new Redis(process.env.REDIS_URL);
  redis.defineCommand('transfer', { numberOfKeys: 2, lua: TRANSFER });
  let refused = 0;
  for (let n = 0; n < 40; n += 1) {
    const from = OWNERS[(n + seed) % 3];
    const to = OWNERS[(n + 2 * seed + 1) % 3];
    const shown = Number(await redis.get(`wallet:${from}`));
    assert.ok(shown >= 0);
    if (from === to) continue;
    try {
      await redis.transfer(`wallet:${from}`, `wallet:${to}`, 30 + ((n * seed) % 50));
    } catch (error) {
      assert.match(error.message, /not enough/);
      refused += 1;
    }
  }
  await redis.quit();
  process.exit(refused > 0 ? 3 : 0);
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  await redis.mset('wallet:ada', 100, 'wallet:bob', 60, 'wallet:cyd', 40);
  const payers = ['2', '3', '5'].map((seed) => fork(__filename, [seed]));
  const codes = await Promise.all(payers.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  assert.ok(codes.every((code) => code === 0 || code === 3), String(codes));
  const balances = (await redis.mget(OWNERS.map((owner) => `wallet:${owner}`))).map(Number);
  await redis.quit();
  assert.strictEqual(balances[0] + balances[1] + balances[2], 200);
  assert.ok(balances.every((balance) => balance >= 0));
  console.log('ok: three wallets still have 200 together, and none is below zero');
}

process.argv[2] ? pay(Number(process.argv[2])) : main();
