// Two uploads at a time, over all processes, with permits in a hash that a script counts.
//
// A permit is a field with the end of its lease. A maintenance job deletes the hash after all uploads were cancelled; the
// cancelled ones give their permits back later, which are not there any more, while new ones are handed out.
// Keys: hash uploads:permits, counter uploads:now.
'use strict';
const { fork } = require('node:child_process');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const assert = require('node:assert');
const { createClient } = require('redis');

const PERMITS = 'uploads:permits';
const LIMIT = 2;
const ACQUIRE = `
local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local all = redis.call('HGETALL', KEYS[1])
for i = 1, #all, 2 do
  if tonumber(all[i + 1]) < now then redis.call('HDEL', KEYS[1], all[i]) end
end
if redis.call('HLEN', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call('HSET', KEYS[1], ARGV[2], now + ARGV[3])
return 1`;

const acquire = async (client, id) => {
  while (!(await client.eval(ACQUIRE, { keys: [PERMITS], arguments: [String(LIMIT), id, '30000'] }))) await sleep(5);
};
const release = (client, id) => client.hDel(PERMITS, id);

async function uploader() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  for (let n = 0; n < 5; n += 1) {
    const id = randomUUID();
    await acquire(client, id);
    assert.ok((await client.incr('uploads:now')) <= LIMIT);
    await sleep(5);
    await client.decr('uploads:now');
    assert.strictEqual(await release(client, id), 1);
  }
  await client.close();
}

async function main() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  const cancelled = [randomUUID(), randomUUID()];
  for (const id of cancelled) await acquire(client, id);
  await client.del(PERMITS); // the maintenance job, after both uploads were cancelled

  const uploaders = Array.from({ length: 4 }, () => fork(__filename, ['upload']));
  for (const id of cancelled) assert.strictEqual(await release(client, id), 0);
  const codes = await Promise.all(uploaders.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  assert.deepStrictEqual([codes, await client.hLen(PERMITS)], [[0, 0, 0, 0], 0]);
  await client.close();
  console.log('ok: 20 uploads of four processes, with two permits, after the permits were reset');
}

process.argv[2] === 'upload' ? uploader() : main();
