// bottleneck: a limiter that several processes share through Redis.
const Bottleneck = require('bottleneck');
const Redis = require('ioredis');
const { start, done, play, url, connection } = require('./processes');

async function worker() {
  const limiter = new Bottleneck({
    id: 'super-app',
    maxConcurrent: 2,
    minTime: 10,
    datastore: 'ioredis',
    clearDatastore: false,
    clientOptions: connection,
    Redis,
  });
  await limiter.ready();
  const redis = new Redis(url);
  await Promise.all([...Array(10)].map(() => limiter.schedule(() => redis.incr('calls'))));
  await redis.quit();
  await limiter.disconnect();
}

async function main() {
  await Promise.all([start('worker'), start('worker')]);
  const redis = new Redis(url);
  done('all calls were made', await redis.get('calls'), '20');
  await redis.quit();
}

play({ main, worker });
