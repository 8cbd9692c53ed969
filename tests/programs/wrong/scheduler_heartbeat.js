// A scheduler keeps the list of due jobs for itself while its heartbeat lives.
//
// When the heartbeat finds the key gone, it takes the lock anew with SET NX and says nothing. Between the expiry and the new
// hold another scheduler has changed the list; the first one goes on with what it has in memory.
// Keys: lock jobs:due:owner, data jobs:due. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const Redis = require('ioredis');

const OWNER = 'jobs:due:owner';
const DUE = 'jobs:due';
const LEASE = 250;

class Scheduler {
  constructor() {
    this.redis = new Redis(process.env.REDIS_URL);
    this.id = randomUUID();
  }

  async own() {
    while ((await this.redis.set(OWNER, this.id, 'PX', LEASE, 'NX')) === null) await sleep(20); // !
    this.due = await this.redis.lrange(DUE, 0, -1); // !
  }

  async heartbeat() {
    if ((await this.redis.get(OWNER)) === this.id) await this.redis.pexpire(OWNER, LEASE);
    else if ((await this.redis.set(OWNER, this.id, 'PX', LEASE, 'NX')) === null) throw new Error('another one owns'); // !
  }

  async add(job) {
    await this.heartbeat();
    this.due.push(job);
    await this.redis.multi().del(DUE).rpush(DUE, ...this.due).exec(); // !
  }

  async leave() {
    const script = "return redis.call('get', KEYS[1]) == ARGV[1] and redis.call('del', KEYS[1]) or 0";
    await this.redis.eval(script, 1, OWNER, this.id);
    await this.redis.quit();
  }
}

async function run(job, isSuspended) {
  const orders = on(process, 'message');
  const scheduler = new Scheduler();
  await scheduler.own();
  process.send('owns');
  if (isSuspended) await orders.next();
  await scheduler.add(job);
  await scheduler.leave();
  process.send('left');
  process.disconnect();
}

async function main() {
  const start = (...args) => {
    const child = fork(__filename, args);
    const said = on(child, 'message');
    return { child, next: async () => (await said.next()).value[0] };
  };
  const laptop = start('report', 'suspended');
  await laptop.next();
  const server = start('backup');
  await server.next();
  await server.next();
  laptop.child.send('resume');
  await laptop.next();

  const redis = new Redis(process.env.REDIS_URL);
  const due = await redis.lrange(DUE, 0, -1);
  if (!due.includes('backup')) console.log(`damage: report and backup were scheduled, due is only ${due.join(', ')}`);
  await redis.quit();
}

process.argv[2] ? run(process.argv[2], process.argv[3] === 'suspended') : main();
