// At most twelve searches per client in a sliding window, counted over two servers.
//
// A search is a member of a sorted set. One script removes the old ones, counts, and adds if there is room. The key expires
// with the window; an administrator may delete it at any time to let a client in again.
// Keys: sorted set limit:search:<client>.
'use strict';
const { fork } = require('node:child_process');
const { randomUUID } = require('node:crypto');
const assert = require('node:assert');
const Redis = require('ioredis');

const LIMIT = 12;
const WINDOW = 30_000;
const ALLOW = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now - ARGV[1])
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[2]) then return 0 end
redis.call('ZADD', KEYS[1], now, ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[1])
return 1`;

async function server(client) {
  const redis = new Redis(process.env.REDIS_URL);
  redis.defineCommand('allow', { numberOfKeys: 1, lua: ALLOW });
  let allowed = 0;
  for (let n = 0; n < 10; n += 1) allowed += await redis.allow(`limit:search:${client}`, WINDOW, LIMIT, randomUUID());
  await redis.quit();
  process.exit(allowed);
}

async function search(client) {
  const servers = [1, 2].map(() => fork(__filename, [client]));
  const codes = await Promise.all(servers.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  return codes.reduce((sum, code) => sum + code, 0);
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  const counts = await Promise.all([search('c1'), search('c2')]);
  await redis.del('limit:search:c1');
  counts.push(await search('c1'));
  await redis.quit();
  assert.deepStrictEqual(counts, [LIMIT, LIMIT, LIMIT]);
  console.log(`ok: ${LIMIT} of 20 searches were allowed to each client, and ${LIMIT} more after the reset`);
}

process.argv[2] ? server(process.argv[2]) : main();
