// Loyalty points are booked by workers that hold a lock per customer.
//
// The lock has a token, an expiry and a release that compares. A call to the shop takes longer than the lease; the next
// worker books meanwhile, and the first one writes the sum that it has computed from the old one.
// Keys: lock points:<customer>:lock, data points:<customer>. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const Redis = require('ioredis');

const LOCK = 'points:c-204:lock';
const POINTS = 'points:c-204';

class Mutex {
  constructor(redis, key, ttl) {
    Object.assign(this, { redis, key, ttl, token: randomUUID() });
    redis.defineCommand('unlock', {
      numberOfKeys: 1,
      lua: "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0",
    });
  }

  async acquire() {
    while ((await this.redis.set(this.key, this.token, 'PX', this.ttl, 'NX')) !== 'OK') await sleep(20); // !
  }

  release() {
    return this.redis.unlock(this.key, this.token);
  }
}

async function book(points, shopIsSlow) {
  const redis = new Redis(process.env.REDIS_URL);
  const orders = on(process, 'message');
  const mutex = new Mutex(redis, LOCK, 250);
  await mutex.acquire();
  const account = await redis.hgetall(POINTS); // !
  process.send('computing');
  if (shopIsSlow) await orders.next();
  await redis.hset(POINTS, 'sum', Number(account.sum) + points, 'bookings', Number(account.bookings) + 1); // !
  await mutex.release();
  process.send('booked');
  await redis.quit();
  process.disconnect();
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  await redis.hset(POINTS, 'sum', 100, 'bookings', 0);

  const slow = fork(__filename, ['50', 'slow']);
  const saidBySlow = on(slow, 'message');
  await saidBySlow.next();
  const quick = fork(__filename, ['7']);
  const saidByQuick = on(quick, 'message');
  await saidByQuick.next();
  await saidByQuick.next();
  slow.send('the shop has answered');
  await saidBySlow.next();

  const { sum, bookings } = await redis.hgetall(POINTS);
  if (sum !== '157') console.log(`damage: 100 + 50 + 7 points are 157, the account has ${sum} after ${bookings} booking`);
  await redis.quit();
}

process.argv[2] ? book(Number(process.argv[2]), process.argv[3] === 'slow') : main();
