// Refunds with an idempotency key: a request that is sent again gets the answer of the first one.
//
// Right: the note "in progress" expires, and a repetition then takes over from a process that died or stalled. Whether
// the refund was made is a field that is watched together with the balance until EXEC: it is made once.
'use strict';
const assert = require('node:assert');
const { fork } = require('node:child_process');
const { randomUUID } = require('node:crypto');
const { once } = require('node:events');
const Redis = require('ioredis');

const ANSWER = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('set', KEYS[1], ARGV[2], 'EX', 3600)
return 1`;
const [role, request, lease] = process.argv.slice(2);
const note = (id) => `refunds:request:${id}`;
const BALANCE = 'refunds:merchant:88:balance';
const MADE = 'refunds:merchant:88:made';

// The process stops here until the parent lets it go on.
const at = (place) =>
  new Promise((go) => {
    process.once('message', go);
    process.send(place);
  });

// Makes the refund unless it was made, and tells what is left.
async function refund(redis, cents) {
  for (let round = 0; ; round += 1) {
    await redis.watch(MADE, BALANCE);
    const made = await redis.hget(MADE, request);
    if (made) {
      await redis.unwatch();
      return made;
    }
    const left = Number(await redis.get(BALANCE)) - cents;
    if (round === 0) await at('read');
    if (role === 'dies') process.exit(0);
    if (await redis.multi().set(BALANCE, left).hset(MADE, request, left).exec()) return String(left);
  }
}

async function handle(redis) {
  const mine = `in progress ${randomUUID()}`;
  while (!(await redis.set(note(request), mine, 'PX', Number(lease), 'NX'))) {
    const answer = await redis.get(note(request));
    if (answer && !answer.startsWith('in progress')) return at(`answer ${answer}`);
    await at('in progress');
  }
  const left = await refund(redis, 250);
  await redis.eval(ANSWER, 1, note(request), mine, left);
  return at(`answer ${left}`);
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
    await at('ready');
    await handle(redis);
    return redis.quit();
  }
  await redis.set(BALANCE, 10000);
  const id = randomUUID();
  const children = [['dies', 800], ['stalls', 800], ['repeats', 60000], ['late', 60000]];
  const [dies, stalls, repeats, late] = children.map(([name, ms]) => start(name, id, ms));
  for (const child of [dies, stalls, repeats, late]) await child.reaches('ready');

  dies.go();
  await dies.reaches('read');
  stalls.go();
  await stalls.reaches('in progress');
  dies.go();
  await dies.end;
  await new Promise((then) => setTimeout(then, 900));
  stalls.go();
  await stalls.reaches('read');
  await new Promise((then) => setTimeout(then, 900));
  repeats.go();
  await repeats.reaches('read');
  repeats.go();
  await repeats.reaches('answer 9750');
  stalls.go();
  await stalls.reaches('answer 9750');
  late.go();
  await late.reaches('answer 9750');
  for (const child of [stalls, repeats, late]) child.go();
  await Promise.all([stalls, repeats, late].map((child) => child.end));

  const [left, made] = [await redis.get(BALANCE), await redis.hlen(MADE)];
  const fine = left === '9750' && made === 1;
  console.log(`${fine ? 'ok' : 'broken'}: four requests with one key made ${made} refund, ${left} are left`);
  await redis.quit();
}

main();
