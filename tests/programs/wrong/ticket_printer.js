// A label printer is used by one till at a time. A counter says whether it is in use.
//
// A till reads the counter and counts up if it is 0. What INCR answers would tell it whether it was first; it is not
// looked at. Two tills read 0, both print, and the labels have the same number.
// Keys: lock printer:in-use, data printer:last-label. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { setTimeout: sleep } = require('node:timers/promises');
const { createClient } = require('redis');

const IN_USE = 'printer:in-use';
const LAST = 'printer:last-label';

async function enter(client, step) {
  for (;;) {
    const users = Number((await client.get(IN_USE)) ?? 0); // !
    if (users < 1) break;
    await sleep(20);
  }
  await step('free');
  await client.incr(IN_USE); // !
}

async function till() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  const orders = on(process, 'message');
  const step = async (word) => {
    process.send(word);
    await orders.next();
  };
  await enter(client, step);
  const label = Number(await client.get(LAST)) + 1; // !
  await step('printing');
  await client.set(LAST, label); // !
  await client.decr(IN_USE);
  process.send(label);
  await client.close();
  process.disconnect();
}

async function main() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  await client.set(LAST, 500);
  const tills = [1, 2].map(() => {
    const child = fork(__filename, ['till']);
    return { child, said: on(child, 'message') };
  });
  const heard = async () => {
    const words = [];
    for (const { said } of tills) words.push((await said.next()).value[0]);
    return words;
  };
  for (const _ of ['free', 'printing']) {
    await heard();
    for (const { child } of tills) child.send('go on');
  }
  const labels = await heard();
  if (labels[0] === labels[1]) console.log(`damage: two tills printed label ${labels[0]} at the same time`);
  await client.close();
}

process.argv[2] === 'till' ? till() : main();
