// A mail queue as queue libraries build it: a hash for each job, lists of ids, and a lock for each job in work.
//
// A script moves an id to the active list and sets the job's lock with the worker's token; another one removes the job and
// its lock if the token is still the same. The worker extends its locks meanwhile. Ids are never in two hands.
// Keys: hashes mail:job:<id>, locks mail:job:<id>:lock, lists mail:wait and mail:active, list mail:outbox.
'use strict';
const { fork } = require('node:child_process');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const assert = require('node:assert');
const Redis = require('ioredis');

const scripts = {
  moveToActive: {
    numberOfKeys: 2,
    lua: `local id = redis.call('RPOPLPUSH', KEYS[1], KEYS[2])
          if not id then return false end
          redis.call('SET', 'mail:job:' .. id .. ':lock', ARGV[1], 'PX', ARGV[2])
          redis.call('HSET', 'mail:job:' .. id, 'processedBy', ARGV[3])
          return {id, redis.call('HGET', 'mail:job:' .. id, 'data')}`,
  },
  moveToFinished: {
    numberOfKeys: 2,
    lua: `local lock = 'mail:job:' .. ARGV[1] .. ':lock'
          if redis.call('GET', lock) ~= ARGV[2] then return 0 end
          redis.call('DEL', lock)
          redis.call('LREM', KEYS[1], -1, ARGV[1])
          redis.call('RPUSH', KEYS[2], ARGV[3])
          redis.call('DEL', 'mail:job:' .. ARGV[1])
          return 1`,
  },
  extendLock: {
    numberOfKeys: 1,
    lua: `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`,
  },
};

async function worker(name) {
  const redis = new Redis(process.env.REDIS_URL, { scripts, connectionName: `mail:${name}` });
  const token = randomUUID();
  for (;;) {
    const job = await redis.moveToActive('mail:wait', 'mail:active', token, 30_000, name);
    if (job === null) break;
    const [id, data] = job;
    await sleep(2);
    assert.strictEqual(await redis.extendLock(`mail:job:${id}:lock`, token, 30_000), 1);
    assert.strictEqual(await redis.moveToFinished('mail:active', 'mail:outbox', id, token, data), 1);
  }
  await redis.quit();
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  for (let n = 0; n < 40; n += 1) {
    const id = await redis.incr('mail:id');
    await redis.hmset(`mail:job:${id}`, { data: `mail ${n}`, timestamp: Date.now(), attempts: 0 });
    await redis.lpush('mail:wait', id);
  }
  const workers = ['a', 'b', 'c'].map((name) => fork(__filename, [name]));
  const codes = await Promise.all(workers.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  assert.deepStrictEqual(codes, [0, 0, 0]);
  const outbox = await redis.lrange('mail:outbox', 0, -1);
  assert.strictEqual(new Set(outbox).size, 40);
  assert.strictEqual(outbox.length, 40);
  assert.deepStrictEqual(await redis.keys('mail:job:*'), []);
  await redis.quit();
  console.log('ok: 40 mails were sent once each by three workers, and no job is left');
}

process.argv[2] ? worker(process.argv[2]) : main();
