// Rate limiters for Node: processes share the limits.
const Redis = require('ioredis');
const { start, done, play, url } = require('./processes');

const VISITS = 6;
const LIMIT = 10;

// What a library makes of a client: a function that says whether a visit may pass.
const LIBRARIES = {
  ratelimiter: (db) => {
    const Limiter = require('ratelimiter');
    const limiter = new Limiter({ id: 'ann', db, max: LIMIT });
    return () => new Promise((resolve, reject) => limiter.get((error, limit) => (error ? reject(error) : resolve(limit.remaining > 0))));
  },
  'redis-gcra': (redis) => {
    const limiter = require('redis-gcra')({ redis, keyPrefix: 'gcra:', burst: LIMIT, rate: 1, period: 600000 });
    return async () => !(await limiter.limit({ key: 'ann' })).limited;
  },
  'rolling-rate-limiter': (client) => {
    const { IORedisRateLimiter } = require('rolling-rate-limiter');
    const limiter = new IORedisRateLimiter({ client, namespace: 'rolling:', interval: 60000, maxInInterval: LIMIT });
    return async () => !(await limiter.limit('ann'));
  },
  'redis-rate-limiter': () => {
    const redis = require('redis-3').createClient(url);
    const limit = require('redis-rate-limiter').create({ redis, key: (who) => who, rate: `${LIMIT}/minute` });
    return () => new Promise((resolve, reject) => limit('ann', (error, rate) => (error ? reject(error) : resolve(!rate.over))));
  },
  'fastify-rate-limit': async (redis) => {
    const app = require('fastify')();
    await app.register(require('@fastify/rate-limit'), { max: LIMIT, timeWindow: '1 minute', redis });
    app.get('/', async () => 'hello');
    return async () => (await app.inject('/')).statusCode === 200;
  },
};

async function visitor(name) {
  const redis = new Redis(url);
  const mayPass = await LIBRARIES[name](redis);
  for (let visit = 0; visit < VISITS; visit++) if (await mayPass()) await redis.incr(`passed:${name}`);
  await redis.quit();
}

async function main() {
  const redis = new Redis(url);
  for (const name of Object.keys(LIBRARIES)) {
    await Promise.all([start('visitor', name), start('visitor', name), start('visitor', name)]);
    const passed = Number(await redis.get(`passed:${name}`));
    done(`some have passed, and some not: ${name}`, passed > 0 && passed <= LIMIT + 1);
  }
  await redis.quit();
}

play({ main, visitor });
