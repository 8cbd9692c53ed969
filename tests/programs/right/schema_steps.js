// Migrations of stored documents: each instance that starts migrates, one of them at a time, step by step.
//
// Right: a step and its number are written by one script, which compares the holder's token and the number of the step
// before. An instance that dies leaves the rest to the next one, after its lease is over; a late one is refused.
'use strict';
const assert = require('node:assert');
const { fork } = require('node:child_process');
const { randomUUID } = require('node:crypto');
const { once } = require('node:events');
const { createClient } = require('redis');

const GUARD = 'schema:migrating';
const STEPS = [['name', 'guest'], ['plan', 'basic'], ['region', 'eu']];
const APPLY = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 'lost' end
if (redis.call('GET', KEYS[2]) or '0') ~= tostring(ARGV[2] - 1) then return 'other' end
redis.call('HSET', KEYS[3], ARGV[3], ARGV[4])
redis.call('HINCRBY', KEYS[3], 'changes', 1)
redis.call('SET', KEYS[2], ARGV[2])
return 'applied'`;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
const [role, lease] = process.argv.slice(2);

// The process stops here until the parent lets it go on.
const at = (place) =>
  new Promise((go) => {
    process.once('message', go);
    process.send(place);
  });

async function migrate(redis) {
  const token = randomUUID();
  for (;;) {
    const version = Number((await redis.get('schema:version')) ?? 0);
    if (version === STEPS.length) return at('up to date');
    const options = { condition: 'NX', expiration: { type: 'PX', value: Number(lease) } };
    if (await redis.set(GUARD, token, options)) break;
    await at('refused');
  }
  const version = Number((await redis.get('schema:version')) ?? 0);
  for (let step = version + 1; step <= STEPS.length; step += 1) {
    await at(`step ${step}`);
    const [field, value] = STEPS[step - 1];
    const words = [token, String(step), field, value];
    const answer = await redis.eval(APPLY, { keys: [GUARD, 'schema:version', 'schema:document:1'], arguments: words });
    if (answer !== 'applied') return at(answer); // what it holds still, if anything, expires
  }
  await redis.eval(RELEASE, { keys: [GUARD], arguments: [token] });
  return at('migrated');
}

function start(...words) {
  const child = fork(__filename, words);
  const came = [];
  const waiting = [];
  child.on('message', (place) => (waiting.length ? waiting.shift()(place) : came.push(place)));
  const reaches = async (place) =>
    assert.equal(came.shift() ?? (await new Promise((then) => waiting.push(then))), place);
  return {
    reaches,
    go: () => child.send('go'),
    through: async (...places) => {
      for (const place of places) {
        await reaches(place);
        child.send('go');
      }
    },
    kill: () => child.kill('SIGKILL'),
    end: once(child, 'exit').then(([code, signal]) => assert.ok(code === 0 || signal === 'SIGKILL')),
  };
}

async function main() {
  const redis = await createClient({ url: process.env.REDIS_URL }).connect();
  if (role) {
    await at('ready');
    await migrate(redis);
    return redis.close();
  }
  await redis.hSet('schema:document:1', { id: '1', changes: '0' });
  const [dies, stalls] = ['dies', 'stalls'].map((name) => start(name, '800'));
  const [ends, late] = ['ends', 'late'].map((name) => start(name, '60000'));
  for (const child of [dies, stalls, ends, late]) await child.reaches('ready');
  dies.go();
  await dies.through('step 1');
  await dies.reaches('step 2');
  stalls.go();
  await stalls.reaches('refused');
  dies.kill();
  await dies.end;
  await new Promise((then) => setTimeout(then, 900));
  stalls.go();
  await stalls.reaches('step 2');
  await new Promise((then) => setTimeout(then, 900));
  ends.go();
  await ends.through('step 2');
  await ends.reaches('step 3');
  late.go();
  await late.reaches('refused');
  stalls.go();
  await stalls.through('lost');
  ends.go();
  await ends.through('migrated');
  late.go();
  await late.through('up to date');
  await Promise.all([stalls.end, ends.end, late.end]);

  const { changes, name, plan, region } = await redis.hGetAll('schema:document:1');
  const fine = changes === '3' && name === 'guest' && plan === 'basic' && region === 'eu';
  console.log(`${fine ? 'ok' : 'broken'}: version ${await redis.get('schema:version')} after ${changes} changes`);
  await redis.close();
}

main();
