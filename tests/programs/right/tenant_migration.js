// Tenants are migrated one at a time, behind a Redlock over three servers.
//
// A migrator holds if two of three servers say yes and enough of the lease is left. If not, it gives everything back,
// waits for a random time, and tries again. The step of the migration is stored on the first server.
// Keys: lock migrate:tenant-12 on three servers, data tenant-12:step on the first.
'use strict';
const { fork } = require('node:child_process');
const { randomBytes, randomInt } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const assert = require('node:assert');
const Redis = require('ioredis');

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

class Redlock {
  constructor(servers, name, ttl) {
    Object.assign(this, { servers, name, ttl });
  }

  async lock() {
    for (;;) {
      const token = randomBytes(20).toString('hex');
      const begin = Date.now();
      const answers = await Promise.allSettled(this.servers.map((server) => server.set(this.name, token, 'PX', this.ttl, 'NX')));
      const votes = answers.filter(({ value }) => value === 'OK').length;
      const left = this.ttl - (Date.now() - begin) - this.ttl / 100 - 2;
      if (votes > this.servers.length / 2 && left > this.ttl / 2) return token;
      await this.unlock(token);
      await sleep(randomInt(5, 40));
    }
  }

  unlock(token) {
    return Promise.allSettled(this.servers.map((server) => server.eval(RELEASE, 1, this.name, token)));
  }
}

async function migrate() {
  const servers = process.env.REDIS_URLS.split(',').slice(0, 3).map((url) => new Redis(url));
  const redlock = new Redlock(servers, 'migrate:tenant-12', 10_000);
  for (let n = 0; n < 5; n += 1) {
    const token = await redlock.lock();
    const step = Number((await servers[0].get('tenant-12:step')) ?? 0);
    await sleep(3);
    await servers[0].set('tenant-12:step', step + 1);
    await redlock.unlock(token);
  }
  await Promise.all(servers.map((server) => server.quit()));
}

async function main() {
  const migrators = [1, 2, 3].map(() => fork(__filename, ['migrate']));
  const codes = await Promise.all(migrators.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  const redis = new Redis(process.env.REDIS_URL);
  const step = await redis.get('tenant-12:step');
  await redis.quit();
  assert.deepStrictEqual([codes, step], [[0, 0, 0], '15']);
  console.log('ok: 15 steps of three migrators were made one after the other');
}

process.argv[2] === 'migrate' ? migrate() : main();
