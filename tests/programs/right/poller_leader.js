// One poller of three asks a partner for news; the others stand by.
//
// The leader extends by a script that compares, and stops polling when it is told 0. It is stalled here until another one
// leads. Its first command after the stall is the extension, and it polls no more.
// Keys: lock poller:leader, list poller:polls.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const assert = require('node:assert');
const Redis = require('ioredis');

const LEADER = 'poller:leader';
const LEASE = 800;

class Poller {
  constructor(name) {
    this.name = name;
    this.id = `${name}:${randomUUID()}`;
    this.redis = new Redis(process.env.REDIS_URL, { connectionName: name });
    this.redis.defineCommand('extendLease', {
      numberOfKeys: 1,
      lua: "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0",
    });
    this.redis.defineCommand('resign', {
      numberOfKeys: 1,
      lua: "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0",
    });
  }

  async campaign() {
    while ((await this.redis.set(LEADER, this.id, 'PX', LEASE, 'NX')) !== 'OK') await sleep(20);
  }

  async pollOnce() {
    const leads = (await this.redis.extendLease(LEADER, this.id, LEASE)) === 1;
    if (leads) await this.redis.rpush('poller:polls', this.name);
    return leads;
  }
}

async function poll(name) {
  const orders = on(process, 'message');
  const poller = new Poller(name);
  await poller.campaign();
  process.send('leads');
  for await (const [order] of orders) {
    if (order === 'end') break;
    process.send((await poller.pollOnce()) ? 'polled' : 'stepped down');
  }
  await poller.redis.resign(LEADER, poller.id);
  await poller.redis.quit();
  process.disconnect();
}

async function main() {
  const start = (name) => {
    const child = fork(__filename, [name]);
    const said = on(child, 'message');
    const next = async () => (await said.next()).value[0];
    return {
      next,
      ask: (order) => {
        child.send(order);
        return next();
      },
      end: () => child.send('end'),
    };
  };
  const first = start('p1');
  await first.next();
  assert.strictEqual(await first.ask('poll'), 'polled');
  const second = start('p2');
  await second.next(); // once the lease of the first one is over
  const answers = [await second.ask('poll'), await first.ask('poll'), await second.ask('poll')];
  assert.deepStrictEqual(answers, ['polled', 'stepped down', 'polled']);
  first.end();
  second.end();
  const third = start('p3');
  await third.next();
  assert.strictEqual(await third.ask('poll'), 'polled');
  third.end();
  const redis = new Redis(process.env.REDIS_URL);
  assert.deepStrictEqual(await redis.lrange('poller:polls', 0, -1), ['p1', 'p2', 'p2', 'p3']);
  await redis.quit();
  console.log('ok: three leaders followed each other, and the stalled one stepped down');
}

process.argv[2] ? poll(process.argv[2]) : main();
