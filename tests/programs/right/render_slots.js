// A render service: two frames at a time, by permits in a sorted set. Operators reset the permits when they deploy.
//
// Right: the permits spare the graphics cards and guard no data, so that a reset while frames are rendered may let more
// than two in for a while, by design. A script sets a frame's picture once, by HSETNX, and only then adds its seconds.
'use strict';
const { randomUUID } = require('node:crypto');
const Redis = require('ioredis');

const TAKE = `
redis.call('zremrangebyscore', KEYS[1], '-inf', ARGV[1] - 60000)
if redis.call('zcard', KEYS[1]) >= tonumber(ARGV[3]) then return 0 end
redis.call('zadd', KEYS[1], ARGV[1], ARGV[2])
return 1`;
const SAVE = `
if redis.call('hsetnx', KEYS[1], ARGV[1], ARGV[2]) == 0 then return 0 end
return redis.call('hincrby', KEYS[2], 'seconds', 4)`;
const project = `film-${randomUUID().slice(0, 6)}`;
const permits = `render:${project}:permits`;

async function render(redis, frame, meanwhile = async () => {}) {
  const permit = randomUUID();
  if (!(await redis.eval(TAKE, 1, permits, Date.now(), permit, 2))) return false;
  try {
    await meanwhile();
    await redis.eval(SAVE, 2, `render:${project}:frames`, `render:${project}:usage`, frame, `picture of ${frame}`);
  } finally {
    await redis.zrem(permits, permit); // it may be gone since a reset, and nobody else's has this name
  }
  return true;
}

async function main() {
  const pool = [1, 2, 3, 4, 5].map(() => new Redis(process.env.REDIS_URL));
  const [a, b, c, d, operator] = pool;
  const done = [];
  const run = async (redis, frame, meanwhile) => {
    if (await render(redis, frame, meanwhile)) done.push(frame);
    return done.includes(frame);
  };

  let third;
  await run(a, 1, () =>
    run(b, 2, async () => {
      third = await run(c, 3);
      await operator.del(permits);
      await run(c, 3, () => run(d, 4)); // four are inside now
    }),
  );
  const left = await a.zcard(permits);
  await Promise.all([run(a, 5), run(b, 6)]);
  await run(d, 1); // a frame that is there already

  const frames = await a.hlen(`render:${project}:frames`);
  const seconds = Number(await a.hget(`render:${project}:usage`, 'seconds'));
  const fine = frames === 6 && seconds === 24 && third === false && left === 0;
  console.log(`${fine ? 'ok' : 'broken'}: ${frames} frames, ${seconds} seconds, ${left} permits left over`);
  await Promise.all(pool.map((redis) => redis.quit()));
}

main();
