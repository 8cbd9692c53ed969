// Credit is transferred between two accounts, behind a lock that is named after both.
//
// The name is built from the two ids in the order of the request. A transfer from 4 to 17 and one from 17 to 4 take two
// different locks, and both work on the same two hashes at once.
// Keys: locks transfer:4:17 and transfer:17:4, data account:4 and account:17. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { randomUUID } = require('node:crypto');
const { createClient } = require('redis');

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

async function transfer(from, to, amount) {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  const orders = on(process, 'message');
  const lock = `transfer:${from}:${to}`;
  const token = randomUUID();
  if ((await client.set(lock, token, { condition: 'NX', expiration: { type: 'EX', value: 20 } })) !== 'OK') { // !
    process.send('refused');
    return process.exit(0);
  }
  const payer = Number(await client.hGet(`account:${from}`, 'credit')); // !
  const payee = Number(await client.hGet(`account:${to}`, 'credit')); // !
  process.send('read');
  await orders.next();
  await client.hSet(`account:${from}`, 'credit', payer - amount); // !
  await client.hSet(`account:${to}`, 'credit', payee + amount); // !
  await client.eval(RELEASE, { keys: [lock], arguments: [token] });
  process.send('transferred');
  await client.close();
  process.disconnect();
}

async function main() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  await client.hSet('account:4', { name: 'Ada', credit: 300 });
  await client.hSet('account:17', { name: 'Bob', credit: 120 });
  const transfers = [['4', '17', '100'], ['17', '4', '30']].map((args) => {
    const child = fork(__filename, args);
    return { child, said: on(child, 'message') };
  });
  for (const { said } of transfers) await said.next();
  for (const { child, said } of transfers) {
    child.send('write');
    await said.next();
  }
  const [ada, bob] = await Promise.all(['account:4', 'account:17'].map((key) => client.hGet(key, 'credit')));
  if (ada !== '230' || bob !== '190') {
    console.log(`damage: after 100 from 300 to 120 and 30 back there should be 230 and 190, there are ${ada} and ${bob}`);
  }
  await client.close();
}

process.argv[2] ? transfer(process.argv[2], process.argv[3], Number(process.argv[4])) : main();
