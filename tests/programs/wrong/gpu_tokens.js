// One GPU, handed out as a token in a list. Each process fills the list when it starts, if it is not there.
//
// A list without elements does not exist: while somebody has the token, EXISTS says 0, and a process that starts then
// pushes a second token. Two trainings run on one GPU.
// Keys: list gpu:tokens, counted in gpu:trainings. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const Redis = require('ioredis');

const TOKENS = 'gpu:tokens';

async function fill(redis) {
  if ((await redis.exists(TOKENS)) === 0) await redis.rpush(TOKENS, 'cuda:0'); // !
}

async function train() {
  const redis = new Redis(process.env.REDIS_URL);
  const orders = on(process, 'message');
  await fill(redis);
  const reply = await redis.blpop(TOKENS, 3); // !
  if (reply !== null) {
    const [, token] = reply;
    process.send(await redis.incr('gpu:trainings'));
    await orders.next();
    await redis.decr('gpu:trainings');
    await redis.rpush(TOKENS, token);
  }
  await redis.quit();
  process.disconnect();
}

async function main() {
  const trainers = [];
  let most = 0;
  for (let n = 0; n < 2; n += 1) {
    const child = fork(__filename, ['train']);
    const said = on(child, 'message');
    const [trainings] = (await said.next()).value;
    most = Math.max(most, trainings);
    trainers.push(child);
  }
  for (const child of trainers) child.send('stop');
  await Promise.all(trainers.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  const redis = new Redis(process.env.REDIS_URL);
  const tokens = await redis.llen(TOKENS);
  if (most > 1) console.log(`damage: ${most} trainings ran on one GPU, and the list has ${tokens} tokens`);
  await redis.quit();
}

process.argv[2] === 'train' ? train() : main();
