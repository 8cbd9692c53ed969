// A rollout over three servers: who holds the key on two of them adds a step to the plan, which is on the first.
//
// Right: a minority is given back at once and nothing is done with it. The plan is written by a script that compares
// the version that was read, so that also a holder who stalled for longer than the validity loses nothing.
'use strict';
const assert = require('node:assert');
const { fork } = require('node:child_process');
const { randomBytes } = require('node:crypto');
const { once } = require('node:events');
const Redis = require('ioredis');

const KEY = 'rollout:eu:holder';
const PLAN = 'rollout:eu:plan';
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const SAVE = `
local version = redis.call('hget', KEYS[1], 'version') or '0'
if version ~= ARGV[1] then return 0 end
redis.call('hset', KEYS[1], 'version', version + 1, 'steps', ARGV[2])
return 1`;
const [role, lease] = process.argv.slice(2);

// The process stops here until the parent lets it go on.
const at = (place) =>
  new Promise((go) => {
    process.once('message', go);
    process.send(place);
  });

async function acquire(servers, token, ms) {
  const begin = Date.now();
  const answers = await Promise.allSettled(servers.map((redis) => redis.set(KEY, token, 'PX', ms, 'NX')));
  const got = answers.filter((answer) => answer.value === 'OK').length;
  const valid = ms - (Date.now() - begin) - (ms / 100 + 2);
  if (got > servers.length / 2 && valid > 0) return true;
  await release(servers, token);
  return false;
}

const release = (servers, token) => Promise.allSettled(servers.map((redis) => redis.eval(RELEASE, 1, KEY, token)));

async function addStep(servers) {
  for (;;) {
    const token = randomBytes(20).toString('hex');
    if (!(await acquire(servers, token, Number(lease)))) {
      await at('refused');
      continue;
    }
    const [version, steps] = await servers[0].hmget(PLAN, 'version', 'steps');
    await at('inside');
    const known = JSON.parse(steps ?? '[]');
    const more = JSON.stringify(known.includes(role) ? known : [...known, role]);
    const saved = await servers[0].eval(SAVE, 1, PLAN, version ?? '0', more);
    await release(servers, token);
    if (saved) return;
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
  const servers = process.env.REDIS_URLS.split(',').map((url) => new Redis(url));
  if (role) {
    await at('ready');
    await addStep(servers);
    return Promise.all(servers.map((redis) => redis.quit()));
  }
  const [slow, next, last] = [start('slow', '800'), start('next', '60000'), start('last', '60000')];
  for (const child of [slow, next, last]) await child.reaches('ready');
  slow.go();
  await slow.reaches('inside');
  next.go();
  await next.reaches('refused');
  await new Promise((then) => setTimeout(then, 950));
  next.go();
  await next.reaches('inside');
  last.go();
  await last.reaches('refused');
  next.go();
  await next.end;
  slow.go(); // too late: its save is refused, and it begins again
  await slow.reaches('inside');
  last.go();
  await last.reaches('refused');
  slow.go();
  await slow.end;
  last.go();
  await last.reaches('inside');
  last.go();
  await last.end;

  const steps = JSON.parse(await servers[0].hget(PLAN, 'steps'));
  const held = (await Promise.all(servers.map((redis) => redis.exists(KEY)))).join('');
  const fine = steps.join() === 'next,slow,last' && held === '000';
  console.log(`${fine ? 'ok' : 'broken'}: the plan has ${steps.join(', ')}`);
  await Promise.all(servers.map((redis) => redis.quit()));
}

main();
