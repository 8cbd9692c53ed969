// The tests of a small lease library, as they stand in a project, with node:test.
//
// The tests put foreign values into the key, delete it, let it expire, and check what the library does then. They are every
// party themselves, one after the other; none of it is a mistake of the library.
// Keys: leases lease:test:<n>.
'use strict';
const test = require('node:test');
const assert = require('node:assert');
const { randomBytes } = require('node:crypto');
const Redis = require('ioredis');

class Lease {
  constructor(redis, key, ms) {
    Object.assign(this, { redis, key, ms, token: randomBytes(16).toString('hex') });
  }

  async take() {
    return (await this.redis.set(this.key, this.token, 'PX', this.ms, 'NX')) === 'OK';
  }

  async extend() {
    const script = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) end return 0";
    return (await this.redis.eval(script, 1, this.key, this.token, this.ms)) === 1;
  }

  async end() {
    const script = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";
    return (await this.redis.eval(script, 1, this.key, this.token)) === 1;
  }
}

const redis = new Redis(process.env.REDIS_URL);
let number = 0;
let passed = 0;
const key = () => `lease:test:${(number += 1)}`;
const it = (name, body) =>
  test(name, async () => {
    await body(key());
    passed += 1;
  });

it('is refused while another one holds', async (name) => {
  await redis.set(name, 'another');
  assert.strictEqual(await new Lease(redis, name, 5000).take(), false);
});
it('does not end what another one holds', async (name) => {
  const lease = new Lease(redis, name, 5000);
  await lease.take();
  await redis.set(name, 'another', 'PX', 5000);
  assert.strictEqual(await lease.end(), false);
  assert.strictEqual(await redis.get(name), 'another');
});
it('is not extended once it is gone', async (name) => {
  const lease = new Lease(redis, name, 5000);
  await lease.take();
  await redis.del(name);
  assert.strictEqual(await lease.extend(), false);
});
it('is over after its time', async (name) => {
  const lease = new Lease(redis, name, 30);
  await lease.take();
  while ((await redis.exists(name)) === 1);
  assert.strictEqual(await lease.extend(), false);
  assert.strictEqual(await new Lease(redis, name, 5000).take(), true);
});
it('is extended', async (name) => {
  const lease = new Lease(redis, name, 5000);
  await lease.take();
  await redis.pexpire(name, 100);
  assert.strictEqual(await lease.extend(), true);
  assert.ok((await redis.pttl(name)) > 1000);
  assert.strictEqual(await lease.end(), true);
});
test.after(async () => {
  await redis.flushdb();
  await redis.quit();
  if (passed === 5) console.log('\nok: 5 tests of the lease passed');
});
