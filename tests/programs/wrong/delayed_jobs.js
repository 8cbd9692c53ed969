// Delayed jobs are members of a sorted set, scored by the time when they are due.
//
// A worker reads what is due, removes it with ZREM and runs it. ZREM answers 0 to the worker that came second; nobody
// looks at that, and the job runs twice.
// Keys: sorted set delayed:jobs (a member is claimed by removing it), data delayed:runs. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const Redis = require('ioredis');

const JOBS = 'delayed:jobs';

class DelayedQueue {
  constructor(redis) {
    this.redis = redis;
  }

  add(job, delayMs) {
    return this.redis.zadd(JOBS, Date.now() + delayMs, JSON.stringify(job));
  }

  due() {
    return this.redis.zrangebyscore(JOBS, '-inf', Date.now(), 'LIMIT', 0, 1); // !
  }

  async run(member) {
    await this.redis.zrem(JOBS, member); // !
    const job = JSON.parse(member);
    await this.redis.hincrby('delayed:runs', job.id, 1); // !
  }
}

async function worker() {
  const redis = new Redis(process.env.REDIS_URL);
  const orders = on(process, 'message');
  const queue = new DelayedQueue(redis);
  const [member] = await queue.due();
  process.send('found');
  await orders.next();
  if (member) await queue.run(member);
  process.send('ran');
  await redis.quit();
  process.disconnect();
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  await new DelayedQueue(redis).add({ id: 'refund-9', cents: 4500 }, -10);
  const workers = [1, 2].map(() => {
    const child = fork(__filename, ['worker']);
    return { child, said: on(child, 'message') };
  });
  for (const { said } of workers) await said.next();
  for (const { child, said } of workers) {
    child.send('run');
    await said.next();
  }
  const runs = await redis.hget('delayed:runs', 'refund-9');
  if (Number(runs) > 1) console.log(`damage: one refund was paid ${runs} times`);
  await redis.quit();
}

process.argv[2] === 'worker' ? worker() : main();
