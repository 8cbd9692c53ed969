// Articles are moved between two shelves with WATCH and MULTI, over a pool of connections.
//
// Each call of the pool takes any free connection: WATCH runs on one of them and MULTI on another, which watches nothing.
// Two movers read the same numbers, and each EXEC succeeds.
// Keys: shelf:left, shelf:right. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { createClient, createClientPool } = require('redis');

const LEFT = 'shelf:left';
const RIGHT = 'shelf:right';

async function move(pool, count, step) {
  const [left, right] = await pool.execute(async (client) => {
    await client.watch([LEFT, RIGHT]); // !
    return (await client.mGet([LEFT, RIGHT])).map(Number); // !
  });
  await step('read');
  if (left < count) return;
  // The pool runs this on a connection of its own choice.
  await pool
    .multi()
    .set(LEFT, left - count)
    .set(RIGHT, right + count)
    .exec(); // !
}

async function mover(count) {
  const pool = await createClientPool({ url: process.env.REDIS_URL }, { minimum: 2, maximum: 4 }).connect();
  const orders = on(process, 'message');
  await move(pool, count, async (word) => {
    process.send(word);
    await orders.next();
  });
  process.send('moved');
  await orders.next();
  await pool.close();
  process.exit(0);
}

async function main() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  await client.mSet({ [LEFT]: '100', [RIGHT]: '0' });
  const movers = ['30', '20'].map((count) => {
    const child = fork(__filename, [count]);
    return { child, said: on(child, 'message') };
  });
  for (const { said } of movers) await said.next();
  for (const { child, said } of movers) {
    child.send('write');
    await said.next();
  }
  for (const { child } of movers) child.send('end');
  const [left, right] = await client.mGet([LEFT, RIGHT]);
  if (right !== '50') console.log(`damage: 50 articles were moved, ${left} are left and ${right} right`);
  await client.close();
}

process.argv[2] ? mover(Number(process.argv[2])) : main();
