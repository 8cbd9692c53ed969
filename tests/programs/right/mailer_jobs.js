// A queue of mails: each job is a hash that the producer makes and a worker removes when the mail is sent.
//
// Right: a worker changes only the jobs in its own list of active ones, and moves them there in one step. What a dead
// worker had goes back when its process is gone. Whether a mail was sent is decided once, by HSETNX.
'use strict';
const assert = require('node:assert');
const { fork } = require('node:child_process');
const { once } = require('node:events');
const Redis = require('ioredis');

const MAILS = 12;
const WAITING = 'mailer:waiting';
const SENT = 'mailer:sent';
const active = (worker) => `mailer:active:${worker}`;
const job = (id) => `mailer:job:${id}`;
const [role] = process.argv.slice(2);

// The process stops here until the parent lets it go on.
const at = (place) =>
  new Promise((go) => {
    process.once('message', go);
    process.send(place);
  });

async function worker(redis) {
  await at('ready');
  for (;;) {
    const id = await redis.lmove(WAITING, active(role), 'LEFT', 'RIGHT');
    if (id === null) return;
    await redis.hset(job(id), 'state', 'active');
    const attempt = await redis.hincrby(job(id), 'attempts', 1);
    if (role === 'dies') {
      await at('has a job');
      process.exit(0);
    }
    const { to } = await redis.hgetall(job(id));
    await redis.multi().hsetnx(SENT, id, `${to} at attempt ${attempt}`).lrem(active(role), 1, id).del(job(id)).exec();
  }
}

function start(...words) {
  const child = fork(__filename, words);
  const came = [];
  const waiting = [];
  child.on('message', (place) => (waiting.length ? waiting.shift()(place) : came.push(place)));
  return {
    reaches: async (place) => assert.equal(came.shift() ?? (await new Promise((then) => waiting.push(then))), place),
    go: () => child.send('go'),
    end: once(child, 'exit').then(([code]) => assert.equal(code, 0)),
  };
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  if (role) {
    await worker(redis);
    return redis.quit();
  }
  for (let id = 1; id <= MAILS; id += 1) {
    const fields = { to: `customer-${id}@shop.example`, state: 'waiting', attempts: 0 };
    await redis.multi().hset(job(id), fields).rpush(WAITING, id).exec();
  }
  const dies = start('dies');
  await dies.reaches('ready');
  dies.go();
  await dies.reaches('has a job');
  dies.go();
  await dies.end;
  while ((await redis.lmove(active('dies'), WAITING, 'RIGHT', 'LEFT')) !== null);

  const workers = ['one', 'two', 'three'].map((name) => start(name));
  for (const each of workers) await each.reaches('ready');
  for (const each of workers) each.go();
  await Promise.all(workers.map((each) => each.end));

  const sent = await redis.hgetall(SENT);
  const left = await redis.keys('mailer:job:*');
  const again = Object.values(sent).filter((text) => text.endsWith(' 2')).length;
  const count = Object.keys(sent).length;
  const fine = count === MAILS && left.length === 0 && again === 1;
  console.log(`${fine ? 'ok' : 'broken'}: ${count} mails sent, ${left.length} jobs left, ${again} tried again`);
  await redis.quit();
}

main();
