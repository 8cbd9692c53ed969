// simple-redis-mutex: blocking locks, and attempts that give up, with fencing tokens.
const { join } = require('node:path');
const { pathToFileURL } = require('node:url');
const { createClient } = require('redis');
const { start, done, play, url } = require('./processes');

const ROUNDS = 6;

async function worker() {
  // It is an ES module, which NODE_PATH does not lead to.
  const file = join(process.env.NODE_PATH, 'simple-redis-mutex', 'dist', 'index.js');
  const { lock, tryLock } = await import(pathToFileURL(file));
  const redis = await createClient({ url }).connect();
  for (let round = 0; round < ROUNDS; round++) {
    const release = await lock(redis, 'resource-name', { pollingInterval: 20 });
    const before = Number(await redis.get('resource'));
    await redis.set('resource', before + 1);
    await release();
    const [hasLock, giveBack] = await tryLock(redis, 'another-resource');
    if (hasLock) await giveBack();
  }
  await redis.close();
}

async function main() {
  await Promise.all([start('worker'), start('worker'), start('worker')]);
  const redis = await createClient({ url }).connect();
  done('no increment is lost', await redis.get('resource'), String(3 * ROUNDS));
  await redis.close();
}

play({ main, worker });
