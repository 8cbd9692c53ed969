// Banners rotate every few seconds, done by one of several workers.
//
// The hold is extended and released by scripts that compare the value. But the value is the name of the service, the same
// in all its workers: one whose lease was over extends the hold of another, and believes that it is its own.
// Keys: lock banners:rotation, data banners:position. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { setTimeout: sleep } = require('node:timers/promises');
const Redis = require('ioredis');

const LOCK = 'banners:rotation';
const POSITION = 'banners:position';
const OWNER = process.env.SERVICE_NAME ?? 'banner-service';
const LEASE = 400;

function connect() {
  const redis = new Redis(process.env.REDIS_URL);
  const compare = (command) => `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call(${command}) end return 0`;
  redis.defineCommand('extendIfMine', { numberOfKeys: 1, lua: compare("'pexpire', KEYS[1], ARGV[2]") });
  redis.defineCommand('deleteIfMine', { numberOfKeys: 1, lua: compare("'del', KEYS[1]") });
  return redis;
}

async function rotate() {
  const redis = connect();
  const orders = on(process, 'message');
  while ((await redis.set(LOCK, OWNER, 'PX', LEASE, 'NX')) !== 'OK') await sleep(20); // !
  const position = Number(await redis.get(POSITION)); // !
  process.send('loading');
  await orders.next();
  if (await redis.extendIfMine(LOCK, OWNER, LEASE)) { // !
    await redis.set(POSITION, position + 1); // !
    process.send('rotated');
  } else {
    process.send('lost');
  }
  await orders.next();
  await redis.deleteIfMine(LOCK, OWNER);
  await redis.quit();
  process.disconnect();
}

async function main() {
  const redis = connect();
  await redis.set(POSITION, 4);
  const start = () => {
    const child = fork(__filename, ['rotate']);
    const said = on(child, 'message');
    return { child, next: async () => (await said.next()).value[0] };
  };
  const slow = start();
  await slow.next();
  const quick = start();
  await quick.next();
  const results = [];
  for (const worker of [slow, quick]) {
    worker.child.send('go on');
    results.push(await worker.next());
  }
  for (const { child } of [slow, quick]) child.send('end');
  const position = await redis.get(POSITION);
  if (results.every((result) => result === 'rotated') && position !== '6') {
    console.log(`damage: two workers rotated from position 4 and both believed to hold, the position is ${position}`);
  }
  await redis.quit();
}

process.argv[2] === 'rotate' ? rotate() : main();
