// redis-lock: processes contend for a lock that is held for less than its time.
const { createClient } = require('redis-4');
const { start, done, play, url } = require('./processes');

const ROUNDS = 6;

async function worker() {
  const redis = await createClient({ url }).connect();
  const lock = require('redis-lock')(redis, 10);
  for (let round = 0; round < ROUNDS; round++) {
    const release = await lock('record1');
    const before = Number(await redis.get('record1'));
    await redis.set('record1', before + 1);
    await release();
  }
  await redis.quit();
}

async function main() {
  await Promise.all([start('worker'), start('worker'), start('worker')]);
  const redis = await createClient({ url }).connect();
  done('no increment is lost', await redis.get('record1'), String(3 * ROUNDS));
  await redis.quit();
}

play({ main, worker });
