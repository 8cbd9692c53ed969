// A configuration is built under a name of its own and published whole with RENAME.
//
// Each publisher has another temporary name, so no two builds mix; readers see one whole configuration or the other. A script
// publishes a build only if it is newer than the live one, and drops it otherwise.
// Keys: config:live, config:build:<uuid>, counter config:builds.
'use strict';
const { fork } = require('node:child_process');
const { randomUUID } = require('node:crypto');
const assert = require('node:assert');
const Redis = require('ioredis');

const SOURCE = Array.from({ length: 40 }, (_, n) => [`key${n}`, `value${n}`]);

const PUBLISH = `
local live = tonumber(redis.call('HGET', KEYS[2], 'build') or '0')
if tonumber(redis.call('HGET', KEYS[1], 'build')) < live then return redis.call('DEL', KEYS[1]) end
redis.call('RENAME', KEYS[1], KEYS[2])
return 1`;

async function publish() {
  const redis = new Redis(process.env.REDIS_URL);
  for (let n = 0; n < 5; n += 1) {
    const temporary = `config:build:${randomUUID()}`;
    const build = await redis.incr('config:builds');
    await redis.hset(temporary, 'build', build);
    for (const [field, value] of SOURCE) await redis.hset(temporary, field, `${value} of ${build}`);
    await redis.eval(PUBLISH, 2, temporary, 'config:live');
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
  const children = ['publish', 'publish', 'read'].map((task) => fork(__filename, [task]));
  const codes = await Promise.all(children.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  assert.deepStrictEqual(codes, [0, 0, 0]);
  const redis = new Redis(process.env.REDIS_URL);
  const [keys, build] = [await redis.keys('config:*'), await redis.hget('config:live', 'build')];
  await redis.quit();
  assert.deepStrictEqual([keys.sort(), build], [['config:builds', 'config:live'], '10']);
  console.log('ok: the newest of ten builds is live, and a reader never saw a mixture');
}

if (process.argv[2] === 'read') read();
else if (process.argv[2] === 'publish') publish();
else main();
