// Meeting rooms are booked behind a lock; the calendar of a room is one list of JSON.
//
// The calendar is loaded when the form is opened, and the same copy is changed and stored inside the lock. The lock
// is right and protects nothing: what was booked between the load and the lock is overwritten.
// Keys: lock room:<name>:booking, data room:<name>:calendar. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { randomBytes } = require('node:crypto');
const { createClient } = require('redis');

const LOCK = 'room:aspen:booking';
const CALENDAR = 'room:aspen:calendar';
const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

async function withLock(client, work) {
  const token = randomBytes(16).toString('hex');
  while ((await client.set(LOCK, token, { condition: 'NX', expiration: { type: 'PX', value: 10_000 } })) === null) {
    await new Promise((resolve) => setTimeout(resolve, 15));
  }
  try {
    return await work();
  } finally {
    await client.eval(RELEASE, { keys: [LOCK], arguments: [token] });
  }
}

async function form(who, hour) {
  const client = await createClient({ url: process.env.REDIS_URL, name: `form-${who}` }).connect();
  const orders = on(process, 'message');
  const calendar = JSON.parse((await client.get(CALENDAR)) ?? '[]'); // !
  process.send('opened');
  await orders.next();
  await withLock(client, async () => {
    if (calendar.some((entry) => entry.hour === hour)) return;
    calendar.push({ who, hour });
    await client.set(CALENDAR, JSON.stringify(calendar)); // !
  });
  process.send('booked');
  await client.close();
  process.disconnect();
}

async function main() {
  const forms = [['ada', 9], ['bob', 14]].map(([who, hour]) => {
    const child = fork(__filename, [who, String(hour)]);
    return { child, said: on(child, 'message') };
  });
  for (const { said } of forms) await said.next();
  for (const { child, said } of forms) {
    child.send('submit');
    await said.next();
  }
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  const calendar = JSON.parse(await client.get(CALENDAR));
  if (calendar.length < 2) console.log(`damage: two bookings were confirmed, the calendar has ${JSON.stringify(calendar)}`);
  await client.close();
}

process.argv[2] ? form(process.argv[2], Number(process.argv[3])) : main();
