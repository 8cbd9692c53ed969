// Orders are exported by one worker at a time. The lock has one client, the data another one.
//
// save() is not awaited. The lock is released while the write is still on its way over the other connection; the next
// worker reads the old cursor, writes its own, and then the late write arrives.
// Keys: lock export:orders:lock, data export:orders:cursor. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const { createClient } = require('redis');

const LOCK = 'export:orders:lock';
const CURSOR = 'export:orders:cursor';
const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

async function exportOrders(count, upload) {
  const locks = await createClient({ url: process.env.REDIS_URL, name: 'locks' }).connect();
  const data = await createClient({ url: process.env.REDIS_URL, name: 'data' }).connect();
  const token = randomUUID();
  let saved;

  const save = async (cursor) => {
    await upload();
    await data.set(CURSOR, cursor); // !
  };

  while (!(await locks.set(LOCK, token, { condition: 'NX', expiration: { type: 'EX', value: 30 } }))) await sleep(20); // !
  try {
    const cursor = Number(await data.get(CURSOR)); // !
    saved = save(cursor + count);
  } finally {
    await locks.eval(RELEASE, { keys: [LOCK], arguments: [token] }); // !
  }
  process.send('released');
  await saved;
  process.send('saved');
  await locks.close();
  await data.close();
  process.disconnect();
}

async function main() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  await client.set(CURSOR, 1000);
  const start = (...args) => {
    const child = fork(__filename, args);
    const said = on(child, 'message');
    return { child, next: async () => (await said.next()).value[0] };
  };
  const slow = start('10', 'slow');
  await slow.next();
  const quick = start('5');
  await quick.next();
  await quick.next();
  slow.child.send('uploaded');
  await slow.next();
  const cursor = await client.get(CURSOR);
  if (cursor !== '1015') console.log(`damage: 15 orders after 1000 were exported, the cursor is at ${cursor}`);
  await client.close();
}

if (process.argv[2]) {
  const orders = on(process, 'message');
  exportOrders(Number(process.argv[2]), async () => process.argv[3] === 'slow' && orders.next());
} else {
  main();
}
