// A sync service has one lock object for the whole process, used by all its jobs.
//
// The object keeps one token. A job that is refused has already replaced it by its own, so that the release of the job inside
// does not find its token, and the refused job's clean-up falls back to DEL: another process comes in beside the first.
// Keys: lock sync:contacts:lock, data sync:contacts:cursor. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { randomUUID } = require('node:crypto');
const Redis = require('ioredis');

const CURSOR = 'sync:contacts:cursor';

class SyncLock {
  constructor(redis) {
    this.redis = redis;
    this.key = 'sync:contacts:lock';
    this.token = null;
  }

  async acquire() {
    this.token = randomUUID();
    return (await this.redis.set(this.key, this.token, 'PX', 30_000, 'NX')) === 'OK'; // !
  }

  async release() {
    const script = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
    const released = await this.redis.eval(script, 1, this.key, this.token);
    if (released === 0) await this.redis.del(this.key); // ! "it must be an old one of ours"
  }
}

async function service(name) {
  const redis = new Redis(process.env.REDIS_URL, { connectionName: name });
  const orders = on(process, 'message');
  const lock = new SyncLock(redis);

  const job = async (count, isWorking) => {
    try {
      if (!(await lock.acquire())) return;
      const cursor = Number(await redis.get(CURSOR)); // !
      await isWorking();
      await redis.set(CURSOR, cursor + count); // !
    } finally {
      await lock.release();
    }
  };
  await job(100, async () => {
    process.send('works');
    const [order] = (await orders.next()).value;
    if (order !== 'second job') return;
    await job(5, async () => {}); // refused, and cleans up
    process.send('refused');
    await orders.next();
  });
  process.send('done');
  await redis.quit();
  process.disconnect();
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  await redis.set(CURSOR, 0);
  const start = (name) => {
    const child = fork(__filename, [name]);
    const said = on(child, 'message');
    const next = async () => (await said.next()).value[0];
    return { next, ask: (order) => (child.send(order), next()) };
  };
  const first = start('sync-1');
  await first.next();
  await first.ask('second job');
  const second = start('sync-2');
  await second.next();
  await second.ask('finish');
  await first.ask('finish');
  const cursor = await redis.get(CURSOR);
  if (cursor !== '200') console.log(`damage: two services synchronised 100 contacts each at once, the cursor is at ${cursor}`);
  await redis.quit();
}

process.argv[2] ? service(process.argv[2]) : main();
