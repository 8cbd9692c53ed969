// An index is upgraded by whichever instance finds it old, behind a lock.
//
// The version is read before the lock and not again inside. The instance that waited for the lock upgrades from the version
// that it has seen before: the index, which is at 3 already, is turned into a 2 again.
// Keys: lock index:upgrade:lock, data index:meta (field version). The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const { createClient } = require('redis');

const LOCK = 'index:upgrade:lock';
const META = 'index:meta';
const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

async function upgradeTo(client, target, step) {
  const version = Number(await client.hGet(META, 'version')); // !
  if (version >= target) return;
  await step('old');
  const token = randomUUID();
  while (!(await client.set(LOCK, token, { condition: 'NX', expiration: { type: 'EX', value: 60 } }))) await sleep(10);
  try {
    for (let next = version + 1; next <= target; next += 1) {
      await client.hSet(META, { version: next, upgrades: `${next - 1} to ${next}` }); // !
      await client.rPush('index:log', String(next));
    }
  } finally {
    await client.eval(RELEASE, { keys: [LOCK], arguments: [token] });
  }
}

async function instance(target) {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  const orders = on(process, 'message');
  await upgradeTo(client, target, async (word) => {
    process.send(word);
    await orders.next();
  });
  process.send('ready');
  await client.close();
  process.disconnect();
}

async function main() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  await client.hSet(META, { version: 1, upgrades: '' });
  const instances = ['3', '2'].map((target) => {
    const child = fork(__filename, [target]);
    return { child, said: on(child, 'message') };
  });
  for (const { said } of instances) await said.next();
  for (const { child, said } of instances) {
    child.send('go on');
    await said.next();
  }
  const version = await client.hGet(META, 'version');
  const log = await client.lRange('index:log', 0, -1);
  if (version !== '3') console.log(`damage: the index was upgraded to 3 and is at ${version}, the upgrades ran as ${log.join(', ')}`);
  await client.close();
}

process.argv[2] ? instance(Number(process.argv[2])) : main();
