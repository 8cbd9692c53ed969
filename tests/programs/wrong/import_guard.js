// An import of orders runs in one worker of a cluster.
//
// The guard reads the owner with GET and writes its own name with SET PX if there is none. Both workers read null; the
// second SET overwrites the first, and each finds a yes in its own hands.
// Keys: lock import:owner, data import:cursor. The lines marked ! are the evidence.
'use strict';
const cluster = require('node:cluster');
const { on } = require('node:events');
const Redis = require('ioredis');

class ImportGuard {
  constructor(redis, owner) {
    this.redis = redis;
    this.owner = owner;
  }

  async tryEnter(between) {
    const owner = await this.redis.get('import:owner'); // !
    if (owner !== null && owner !== this.owner) return false;
    await between();
    await this.redis.set('import:owner', this.owner, 'PX', 30_000); // !
    return true;
  }

  async leave() {
    if ((await this.redis.get('import:owner')) === this.owner) await this.redis.del('import:owner');
  }
}

async function worker() {
  const redis = new Redis(process.env.REDIS_URL);
  const orders = on(process, 'message');
  const step = async (word) => {
    process.send(word);
    await orders.next();
  };
  const guard = new ImportGuard(redis, `worker-${cluster.worker.id}`);
  if (await guard.tryEnter(() => step('asked'))) {
    const cursor = Number(await redis.get('import:cursor')); // !
    await step('importing');
    await redis.set('import:cursor', cursor + 100); // !
    await guard.leave();
  }
  await redis.quit();
  process.exit(0);
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  await redis.set('import:cursor', 0);
  const workers = [cluster.fork(), cluster.fork()].map((child) => ({ child, said: on(child, 'message') }));
  const exits = workers.map(({ child }) => new Promise((resolve) => child.once('exit', resolve)));
  for (const _ of ['asked', 'importing']) {
    for (const { said } of workers) await said.next();
    for (const { child } of workers) child.send('go on');
  }
  await Promise.all(exits);
  const cursor = await redis.get('import:cursor');
  if (cursor !== '200') console.log(`damage: two batches of 100 were imported, the cursor is at ${cursor}`);
  await redis.quit();
}

cluster.isPrimary ? main() : worker();
