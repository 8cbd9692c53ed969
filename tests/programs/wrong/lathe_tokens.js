// A lathe is used by whoever has its token, an element of a list. A foreman puts a new token there when one seems lost.
//
// The operator who was slow comes back and returns the old token as well: there are two now, and two operators at the lathe.
// Keys: lock lathe:<number>:token, counted in lathe:<number>:turning. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { createClient } = require('redis');

const TOKEN = 'lathe:5:token';
const TURNING = 'lathe:5:turning';

async function operator() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  for await (const [order] of on(process, 'message')) {
    if (order === 'take') {
      const token = await client.lPop(TOKEN); // !
      process.send(token === null ? 0 : await client.incr(TURNING));
    }
    if (order === 'return') {
      await client.decr(TURNING);
      process.send(await client.rPush(TOKEN, 'token')); // !
    }
    if (order === 'replace') process.send(await client.rPush(TOKEN, 'token')); // !
    if (order === 'end') break;
  }
  await client.close();
  process.disconnect();
}

async function main() {
  const people = ['foreman', 'ada', 'bob', 'cleo'].map((name) => {
    const child = fork(__filename, [name]);
    const said = on(child, 'message');
    return async (order) => {
      child.send(order);
      return order === 'end' ? undefined : (await said.next()).value[0];
    };
  });
  const [foreman, ada, bob, cleo] = people;
  await foreman('replace');
  await ada('take');
  await foreman('replace'); // ada is only slow
  await ada('return');
  await bob('take');
  const turning = await cleo('take');
  if (turning > 1) console.log(`damage: ${turning} operators are at one lathe`);
  for (const ask of people) await ask('end');
}

process.argv[2] ? operator() : main();
