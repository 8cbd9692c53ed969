// The schema is migrated once when several instances of an application start together.
//
// The version is looked at without a lock first, because it is usually right. Whoever sees an old one takes the lock and looks
// again inside before it migrates. The release compares; the lease is long compared with a migration.
// Keys: lock schema:lock, data schema:version, list schema:log.
'use strict';
const { fork } = require('node:child_process');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const assert = require('node:assert');
const Redis = require('ioredis');

const MIGRATIONS = ['create users', 'add email', 'drop fax'];
const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

async function migrate(redis) {
  if (Number((await redis.get('schema:version')) ?? 0) === MIGRATIONS.length) return 0;
  const token = randomUUID();
  while ((await redis.set('schema:lock', token, 'EX', 60, 'NX')) !== 'OK') await sleep(10);
  let done = 0;
  try {
    const version = Number((await redis.get('schema:version')) ?? 0);
    for (const [offset, migration] of MIGRATIONS.slice(version).entries()) {
      await sleep(3);
      await redis.multi().rpush('schema:log', migration).set('schema:version', version + offset + 1).exec();
      done += 1;
    }
  } finally {
    await redis.eval(RELEASE, 1, 'schema:lock', token);
  }
  return done;
}

async function instance() {
  const redis = new Redis(process.env.REDIS_URL);
  const done = await migrate(redis);
  await redis.quit();
  process.exit(done);
}

async function main() {
  const instances = [1, 2, 3, 4].map(() => fork(__filename, ['instance']));
  const done = await Promise.all(instances.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  const redis = new Redis(process.env.REDIS_URL);
  const log = await redis.lrange('schema:log', 0, -1);
  await redis.quit();
  assert.deepStrictEqual(log, MIGRATIONS);
  assert.deepStrictEqual(done.sort(), [0, 0, 0, 3]);
  console.log('ok: four instances started together, one of them ran the three migrations');
}

process.argv[2] === 'instance' ? instance() : main();
