// A catalogue is exported in parts by several processes; the index of the parts is changed under a lock.
//
// SET NX PX with a random token and an expiry that is long compared with the work, a release by a script that compares,
// in `finally`; a process that cannot get the lock in time does not touch the index.
// Keys: lock catalog:index:mutex, data catalog:index.
'use strict';
const { fork } = require('node:child_process');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const assert = require('node:assert');
const { createClient } = require('redis');

const MUTEX = 'catalog:index:mutex';
const INDEX = 'catalog:index';
const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

async function exclusively(client, work, waitMs = 10_000) {
  const token = randomUUID();
  const deadline = Date.now() + waitMs;
  while ((await client.set(MUTEX, token, { condition: 'NX', expiration: { type: 'PX', value: 30_000 } })) !== 'OK') {
    if (Date.now() > deadline) throw new Error('the index is busy');
    await sleep(3);
  }
  try {
    return await work();
  } finally {
    assert.strictEqual(await client.eval(RELEASE, { keys: [MUTEX], arguments: [token] }), 1);
  }
}

async function exporter(first) {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  for (let part = first; part < 18; part += 3) {
    await exclusively(client, async () => {
      const index = JSON.parse((await client.get(INDEX)) ?? '{"parts":[],"revision":0}');
      index.parts.push(part);
      index.revision += 1;
      await sleep(2);
      await client.set(INDEX, JSON.stringify(index));
    });
  }
  await client.close();
}

async function main() {
  const exporters = ['0', '1', '2'].map((first) => fork(__filename, [first]));
  const codes = await Promise.all(exporters.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  const index = JSON.parse(await client.get(INDEX));
  await client.close();
  assert.deepStrictEqual(codes, [0, 0, 0]);
  assert.deepStrictEqual(index.parts.sort((a, b) => a - b), Array.from({ length: 18 }, (_, n) => n));
  assert.strictEqual(index.revision, 18);
  console.log('ok: 18 parts of three processes are in the index, in 18 revisions');
}

process.argv[2] ? exporter(Number(process.argv[2])) : main();
