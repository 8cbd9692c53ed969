// Each tenant has a hash of limits. Services write defaults for what is missing; support raises a limit.
//
// HSETNX leaves what is there. Support sets single fields with HSET and removes them with HDEL, after which the next start
// writes the default again. Each field is one decision of one person; nobody writes a field from an old read.
// Keys: hash limits:<tenant>.
'use strict';
const assert = require('node:assert');
const { Worker, isMainThread, parentPort } = require('node:worker_threads');
const Redis = require('ioredis');

const DEFAULTS = { users: '25', storage_gb: '10', exports: '5' };
const KEY = 'limits:acme';

async function service() {
  const redis = new Redis(process.env.REDIS_URL);
  const start = async () => {
    const written = [];
    for (const [field, value] of Object.entries(DEFAULTS)) {
      if (await redis.hsetnx(KEY, field, value)) written.push(field);
    }
    return written;
  };
  parentPort.on('message', async (order) => {
    if (order === 'start') return parentPort.postMessage(await start());
    await redis.quit();
    parentPort.close();
  });
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  const services = [1, 2, 3].map(() => new Worker(__filename));
  const startAll = async () => {
    const answers = services.map((worker) => new Promise((resolve) => worker.once('message', resolve)));
    services.forEach((worker) => worker.postMessage('start'));
    return (await Promise.all(answers)).flat().sort();
  };

  assert.deepStrictEqual(await startAll(), ['exports', 'storage_gb', 'users']);
  await redis.hset(KEY, 'users', '100');
  await redis.hset(KEY, 'exports', '50');
  assert.deepStrictEqual(await startAll(), []);
  await redis.hdel(KEY, 'exports');
  assert.deepStrictEqual(await startAll(), ['exports']);
  assert.deepStrictEqual(await redis.hgetall(KEY), { users: '100', storage_gb: '10', exports: '5' });

  services.forEach((worker) => worker.postMessage('end'));
  await redis.quit();
  console.log('ok: three starts of three services wrote each default once, and none over what support had set');
}

isMainThread ? main() : service();
