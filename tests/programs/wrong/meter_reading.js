// One reader for each meter. The key has the moment at which the claim ends; an old claim is removed and taken anew.
//
// Removing and taking are two commands. Both readers see the dead claim; the first removes it and takes the meter, the second removes
// the first one's claim and takes it too.
// Keys: locks meter:<number>:reader, data meter:<number>:total. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { createClient } = require('redis');

const READER = 'meter:88:reader';
const TOTAL = 'meter:88:total';

async function read(used) {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  const orders = on(process, 'message');
  const step = async (word) => {
    process.send(word);
    await orders.next();
  };
  const until = () => String(Date.now() + 60_000);
  if (!(await client.setNX(READER, until()))) {
    const ends = Number(await client.get(READER)); // !
    if (ends > Date.now()) process.exit(1);
    await step('it is old');
    await client.del(READER); // !
    if (!(await client.setNX(READER, until()))) process.exit(1); // !
  }
  const total = Number(await client.get(TOTAL)); // !
  await step('inside');
  await client.set(TOTAL, total + used); // !
  await client.del(READER);
  await client.close();
  process.disconnect();
}

async function main() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  await client.set(TOTAL, 1000);
  await client.set(READER, String(Date.now() - 5000)); // its reader died
  const readers = [12, 30].map((used) => {
    const child = fork(__filename, [String(used)]);
    return { child, said: on(child, 'message'), over: new Promise((resolve) => child.once('exit', resolve)) };
  });
  for (const { said } of readers) await said.next();
  for (const { child, said } of readers) {
    child.send('go');
    await said.next();
  }
  for (const { child, over } of readers) {
    child.send('go');
    await over;
  }
  const total = Number(await client.get(TOTAL));
  if (total !== 1042) console.log(`damage: the meter stands at 1042, and ${total} was stored`);
  await client.close();
}

process.argv[2] ? read(Number(process.argv[2])) : main();
