// Two students may sit in a room for a repeated exam. Each asks how many there are, and sits down if there is a seat.
//
// Asking and sitting down are two commands, so three find a seat.
// Keys: lock exam:<number>:sitting, a set for at most two. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const Redis = require('ioredis');

const ROOM = 'exam:7:sitting';

async function student(name) {
  const redis = new Redis(process.env.REDIS_URL);
  const orders = on(process, 'message');
  if ((await redis.scard(ROOM)) < 2) { // !
    process.send('there is a seat');
    await orders.next();
    await redis.sadd(ROOM, name); // !
    process.send(await redis.scard(ROOM));
    await orders.next();
    await redis.srem(ROOM, name);
  }
  redis.disconnect();
  process.disconnect();
}

async function main() {
  const students = ['adam', 'bea', 'cem'].map((name) => {
    const child = fork(__filename, [name]);
    return { child, said: on(child, 'message') };
  });
  for (const { said } of students) await said.next();
  let most = 0;
  for (const { child, said } of students) {
    child.send('sit');
    most = Math.max(most, (await said.next()).value[0]);
  }
  if (most > 2) console.log(`damage: ${most} students sit in a room for two`);
  for (const { child } of students) child.send('leave');
  await Promise.all(students.map(({ child }) => new Promise((resolve) => child.once('exit', resolve))));
}

process.argv[2] ? student(process.argv[2]) : main();
