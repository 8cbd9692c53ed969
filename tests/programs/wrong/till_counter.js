// A till is used by one cashier: whoever counts to one has it.
//
// Who counts to another number was refused, and "puts the counter back" by deleting it. With that the till is free,
// although somebody is at it, and the next one gets it too.
// Keys: lock till:<number>:open, data till:<number>:cash. The lines marked ! are the evidence.
'use strict';
const { spawn } = require('node:child_process');
const readline = require('node:readline');
const { createClient } = require('redis');

const TILL = 'till:3:open';
const CASH = 'till:3:cash';

async function cashier(sum) {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  const orders = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  if ((await client.incr(TILL)) !== 1) { // !
    await client.del(TILL); // !
    console.log('refused');
  } else {
    await client.expire(TILL, 300);
    const cash = Number(await client.get(CASH)); // !
    console.log('open');
    await orders.next();
    await client.set(CASH, cash + Number(sum)); // !
    await client.del(TILL);
    console.log('closed');
  }
  await client.close();
  process.exit(0);
}

function start(sum) {
  const child = spawn(process.execPath, [__filename, String(sum)], { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = readline.createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const says = async () => (await lines.next()).value;
  return { says, go: () => child.stdin.write('go\n'), over: new Promise((resolve) => child.once('exit', resolve)) };
}

async function main() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  await client.set(CASH, 100);
  const first = start(20);
  await first.says();
  const second = start(5);
  await second.says();
  await second.over;
  const third = start(7);
  await third.says();
  for (const each of [first, third]) {
    each.go();
    await each.over;
  }
  const cash = Number(await client.get(CASH));
  if (cash !== 127) console.log(`damage: 127 should be in the till, it counts ${cash}`);
  await client.close();
}

process.argv[2] ? cashier(process.argv[2]) : main();
