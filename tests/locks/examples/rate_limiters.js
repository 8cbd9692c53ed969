// rate-limiter-flexible, and express-rate-limit with rate-limit-redis: several processes share the limits.
const Redis = require('ioredis');
const express = require('express');
const { rateLimit } = require('express-rate-limit');
const { RedisStore } = require('rate-limit-redis');
const { RateLimiterRedis, BurstyRateLimiter, RateLimiterQueue } = require('rate-limiter-flexible');
const { start, done, play, url } = require('./processes');

async function consumer() {
  const storeClient = new Redis(url);
  const limiter = new RateLimiterRedis({ storeClient, keyPrefix: 'middleware', points: 10, duration: 60 });
  const brute = new RateLimiterRedis({ storeClient, keyPrefix: 'login_fail', points: 3, duration: 60, blockDuration: 60 });
  const burst = new RateLimiterRedis({ storeClient, keyPrefix: 'burst', points: 5, duration: 60 });
  const bursty = new BurstyRateLimiter(limiter, burst);
  let passed = 0;
  for (let attempt = 0; attempt < 12; attempt++) {
    await limiter.consume('127.0.0.1').then(() => passed++, () => {});
    await brute.consume('ann').catch(() => {});
    await bursty.consume('bob').catch(() => {});
  }
  await brute.get('ann');
  await limiter.penalty('cem', 1);
  await limiter.reward('cem', 1);
  await limiter.block('dee', 5);
  await limiter.delete('dee');
  const queued = new RateLimiterQueue(new RateLimiterRedis({ storeClient, keyPrefix: 'queue', points: 50, duration: 1 }));
  await Promise.all([...Array(5)].map(() => queued.removeTokens(1)));
  await storeClient.incrby('passed', passed);
  await storeClient.quit();
}

async function server() {
  const redis = new Redis(url);
  const sendCommand = (command, ...words) => redis.call(command, ...words);
  const app = express();
  app.use(rateLimit({ windowMs: 60000, limit: 6, store: new RedisStore({ sendCommand }), validate: false }));
  app.get('/', (request, reply) => reply.send('hello'));
  const listening = app.listen(0, '127.0.0.1', () => process.send(listening.address().port));
  await new Promise((resolve) => process.once('message', resolve));
  listening.close();
  await redis.quit();
}

async function main() {
  const redis = new Redis(url);
  await Promise.all([start('consumer'), start('consumer')]);
  done('ten of all have passed', await redis.get('passed'), '10');
  const servers = [start('server'), start('server')];
  const ports = await Promise.all(servers.map(({ child }) => new Promise((resolve) => child.once('message', resolve))));
  const replies = [];
  for (let visit = 0; visit < 10; visit++) replies.push((await fetch(`http://127.0.0.1:${ports[visit % 2]}/`)).status);
  done('six of ten have passed', replies.filter((status) => status === 200).length, 6);
  servers.forEach(({ child }) => child.send('stop'));
  await Promise.all(servers);
  await redis.quit();
}

play({ main, consumer, server });
