// Account statements, numbered without gaps: processes take lock.statements by SETNX, whose value says when it is over.
//
// What is wrong: of an old lock the documented algorithm says to GETSET a new time and to compare the reply with the
// old one. The reply is ignored here: two processes that saw the same old time are both inside.
'use strict';
const assert = require('node:assert');
const { fork } = require('node:child_process');
const { once } = require('node:events');
const Redis = require('ioredis');

const LOCK = 'lock.statements';
const COUNTER = 'statements:last-number';
const [role, lease] = process.argv.slice(2);

// The process stops here until the parent lets it go on.
const at = (place) =>
  new Promise((go) => {
    process.once('message', go);
    process.send(place);
  });

async function acquire(redis) {
  const mine = () => String(Date.now() + Number(lease) + 1);
  if (await redis.setnx(LOCK, mine())) return true;
  const until = Number(await redis.get(LOCK));
  if (until > Date.now()) return false;
  await at('old');
  await redis.getset(LOCK, mine()); // somebody else's new time may be what it answers !
  return true;
}

async function statements(redis) {
  if (!(await acquire(redis))) return at('refused');
  const last = Number(await redis.get(COUNTER));
  await at('inside');
  if (role === 'crashes') process.exit(0);
  await redis.hset('statements:issued', `${last + 1}/${role}`, 'sent');
  await redis.set(COUNTER, last + 1); // both have issued the same number !
  await at('written');
  await redis.del(LOCK);
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
    await statements(redis);
    return redis.quit();
  }
  await redis.set(COUNTER, 7000);
  const dead = start('crashes', '300');
  await dead.reaches('inside');
  dead.go();
  await dead.end;
  await new Promise((then) => setTimeout(then, 400));

  const savings = start('savings', '60000');
  const cards = start('cards', '60000');
  await Promise.all([savings.reaches('old'), cards.reaches('old')]);
  savings.go();
  await savings.reaches('inside');
  cards.go();
  await cards.reaches('inside');
  const late = start('loans', '60000');
  await late.reaches('refused');
  late.go();
  for (const child of [savings, cards]) {
    child.go();
    await child.reaches('written');
  }
  savings.go();
  cards.go();
  await Promise.all([savings.end, cards.end, late.end]);

  const last = Number(await redis.get(COUNTER));
  const issued = Object.keys(await redis.hgetall('statements:issued'));
  if (last - 7000 !== issued.length) console.log(`damage: two statements have one number: ${issued.sort().join(', ')}`);
  await redis.quit();
}

main();
