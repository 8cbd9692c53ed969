// A configuration is built under a name of its own and published whole with RENAME.
//
// Each publisher has another temporary name, so no two builds mix; readers see one whole configuration or the other. Which of
// two that are published at once is the last does not matter: both are built from the same source.
// Keys: config:live, config:build:<uuid>.
'use strict';
const { fork } = require('node:child_process');
const { randomUUID } = require('node:crypto');
const assert = require('node:assert');
const Redis = require('ioredis');

const SOURCE = Array.from({ length: 40 }, (_, n) => [`key${n}`, `value${n}`]);

async function publish(build) {
  const redis = new Redis(process.env.REDIS_URL);
  for (let n = 0; n < 5; n += 1) {
    const temporary = `config:build:${randomUUID()}`;
    await redis.hset(temporary, 'build', build);
    for (const [field, value] of SOURCE) await redis.hset(temporary, field, `${value} of ${build}`);
    await redis.rename(temporary, 'config:live');
  }
  await redis.quit();
}

async function read() {
  const redis = new Redis(process.env.REDIS_URL);
  const until = Date.now() + 300;
  let seen = 0;
  while (Date.now() < until || seen === 0) {
    const config = await redis.hgetall('config:live');
    if (config.build === undefined) continue;
    for (const [field, value] of SOURCE) assert.strictEqual(config[field], `${value} of ${config.build}`);
    seen += 1;
  }
  await redis.quit();
}

async function main() {
  const children = ['blue', 'green', 'read'].map((task) => fork(__filename, [task]));
  const codes = await Promise.all(children.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  assert.deepStrictEqual(codes, [0, 0, 0]);
  const redis = new Redis(process.env.REDIS_URL);
  assert.deepStrictEqual(await redis.keys('config:*'), ['config:live']);
  await redis.quit();
  console.log('ok: ten publications of two builds, and a reader never saw a mixture');
}

if (process.argv[2] === 'read') read();
else if (process.argv[2]) publish(process.argv[2]);
else main();
