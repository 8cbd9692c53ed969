// A fax line is used by one sender at a time. The lock is lock.foo of SETNX's page: its value is the time of its end.
//
// A sender that transmits longer than it has announced deletes the lock at the end without a look at the clock or the
// value. By then it is another sender's, and a third one begins on the same line.
// Keys: lock.fax-line, counted in fax:on-line. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { setTimeout: sleep } = require('node:timers/promises');
const { createClient } = require('redis');

const LOCK = 'lock.fax-line';

async function acquire(client, announcedMs) {
  for (;;) {
    const until = Date.now() + announcedMs + 1;
    if (await client.setNX(LOCK, String(until))) return; // !
    const current = await client.get(LOCK); // !
    if (current !== null && Number(current) < Date.now()) {
      const previous = await client.getSet(LOCK, String(Date.now() + announcedMs + 1)); // !
      if (previous === current) return;
    }
    await sleep(20);
  }
}

async function sender(announcedMs) {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  const orders = on(process, 'message');
  await acquire(client, announcedMs);
  process.send(await client.incr('fax:on-line'));
  await orders.next();
  await client.decr('fax:on-line');
  await client.del(LOCK); // !
  process.send('hung up');
  await client.close();
  process.disconnect();
}

async function main() {
  const start = async (announcedMs) => {
    const child = fork(__filename, [String(announcedMs)]);
    const said = on(child, 'message');
    const [onLine] = (await said.next()).value;
    const hangUp = async () => {
      child.send('done');
      await said.next();
    };
    return { onLine, hangUp };
  };
  const long = await start(100);
  const second = await start(30_000);
  await long.hangUp(); // deletes the lock of the second one
  const third = await start(30_000);
  await second.hangUp();
  await third.hangUp();
  // The second one came on the line while the long one was still there; the third one beside the second.
  if (third.onLine > 1) console.log(`damage: ${third.onLine} senders were on one line, the lock was deleted by one that had lost it`);
}

process.argv[2] ? sender(Number(process.argv[2])) : main();
