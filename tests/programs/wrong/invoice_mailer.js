// Open invoices are mailed by one process at a time.
//
// The lock gets its end with PEXPIREAT, which counts milliseconds. The code passes seconds since 1970, a moment in January
// 1970, so the key is deleted by the very command that should keep it from staying for ever.
// Keys: lock mailer:lock, data mailer:last-number. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { createClient } = require('redis');

const LOCK = 'mailer:lock';
const LAST = 'mailer:last-number';

async function takeLock(client) {
  const isOurs = (await client.setNX(LOCK, String(process.pid))) === 1; // !
  if (!isOurs) return false;
  const inOneMinute = Math.floor(Date.now() / 1000) + 60;
  await client.sendCommand(['PEXPIREAT', LOCK, String(inOneMinute)]); // !
  return true;
}

async function giveBack(client) {
  if ((await client.get(LOCK)) === String(process.pid)) await client.del(LOCK);
}

async function mailer() {
  const client = createClient({ url: process.env.REDIS_URL });
  await client.connect();
  const orders = on(process, 'message');
  if (await takeLock(client)) {
    const number = Number(await client.get(LAST)) + 1; // !
    process.send(number);
    await orders.next();
    await client.set(LAST, number); // !
    await giveBack(client);
  } else {
    process.send('refused');
  }
  await client.close();
  process.disconnect();
}

async function main() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  await client.set(LAST, 310);
  const mailers = [];
  const numbers = [];
  for (let n = 0; n < 2; n += 1) {
    const child = fork(__filename, ['mailer']);
    numbers.push((await on(child, 'message').next()).value[0]);
    mailers.push(child);
  }
  for (const child of mailers) child.send('mailed');
  if (numbers[0] === numbers[1]) console.log(`damage: invoice ${numbers[0]} was mailed by two processes that both held the lock`);
  await client.close();
}

process.argv[2] === 'mailer' ? mailer() : main();
