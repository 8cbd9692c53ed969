// Goods are moved between two bins with WATCH and MULTI, over a pool of connections.
//
// WATCH, the reads, MULTI and EXEC of one movement run on one connection, which the pool lends for as long as the movement
// takes. If EXEC is refused, the movement starts again on another one.
// Keys: bin:left, bin:right.
'use strict';
const { fork } = require('node:child_process');
const assert = require('node:assert');
const { createClient, createClientPool, WatchError } = require('redis');

const LEFT = 'bin:left';
const RIGHT = 'bin:right';

async function move(pool, count) {
  for (;;) {
    try {
      return await pool.execute(async (client) => {
        await client.watch([LEFT, RIGHT]);
        const [left, right] = (await client.mGet([LEFT, RIGHT])).map(Number);
        if (left < count) {
          await client.unwatch();
          return 0;
        }
        await client.multi().set(LEFT, left - count).set(RIGHT, right + count).exec();
        return count;
      });
    } catch (error) {
      if (!(error instanceof WatchError)) throw error;
    }
  }
}

async function mover(count) {
  const pool = await createClientPool({ url: process.env.REDIS_URL }, { minimum: 2, maximum: 4 }).connect();
  const moved = await Promise.all(Array.from({ length: 8 }, () => move(pool, count)));
  await pool.close();
  process.send(moved.reduce((sum, pieces) => sum + pieces, 0), () => process.exit(0));
}

async function main() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  await client.mSet({ [LEFT]: '300', [RIGHT]: '0' });
  let moved = 0;
  const movers = ['5', '7', '11'].map((count) => fork(__filename, [count]));
  for (const child of movers) child.on('message', (pieces) => (moved += pieces));
  await Promise.all(movers.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  const bins = await client.mGet([LEFT, RIGHT]);
  await client.close();
  assert.deepStrictEqual([moved, bins], [184, ['116', '184']]);
  console.log('ok: 24 movements of three processes moved 184 pieces, none is missing');
}

process.argv[2] ? mover(Number(process.argv[2])) : main();
