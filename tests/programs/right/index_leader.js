// One of three indexers leads. It renews its lease with a script, and stops when that says that it is lost.
//
// Each leadership has a number, counted when it begins, and the index is only written by a script that compares it: a leader that
// stood still for longer than its lease is refused, whatever it still believes.
// Keys: lock indexer/leader, data indexer/state (a hash with the number and the position).
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { randomBytes } = require('node:crypto');
const assert = require('node:assert');
const Redis = require('ioredis');

const LEADER = 'indexer/leader';
const STATE = 'indexer/state';
const SCRIPTS = {
  lead: {
    numberOfKeys: 2,
    lua: `if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 0 end
      return redis.call('HINCRBY', KEYS[2], 'term', 1)`,
  },
  renew: {
    numberOfKeys: 1,
    lua: "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0",
  },
  advance: {
    numberOfKeys: 1,
    lua: `if redis.call('HGET', KEYS[1], 'term') ~= ARGV[1] then return -1 end
      return redis.call('HINCRBY', KEYS[1], 'position', 1)`,
  },
  resign: {
    numberOfKeys: 1,
    lua: "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0",
  },
};

async function indexer() {
  const redis = new Redis(process.env.REDIS_URL, { scripts: SCRIPTS });
  const token = randomBytes(16).toString('base64url');
  let term = 0;
  for await (const [{ word, lease }] of on(process, 'message')) {
    if (word === 'lead') process.send((term = await redis.lead(LEADER, STATE, token, lease)));
    if (word === 'renew') process.send(await redis.renew(LEADER, token, lease));
    if (word === 'advance') process.send(await redis.advance(STATE, term));
    if (word === 'resign') process.send(await redis.resign(LEADER, token));
    if (word === 'end') break;
  }
  redis.disconnect();
  process.disconnect();
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  const [a, b, c] = ['a', 'b', 'c'].map((name) => {
    const child = fork(__filename, [name]);
    const said = on(child, 'message');
    return async (word, lease) => {
      child.send({ word, lease });
      return word === 'end' ? undefined : (await said.next()).value[0];
    };
  });
  assert.strictEqual(await a('lead', 60_000), 1);
  assert.strictEqual(await b('lead', 60_000), 0);
  assert.strictEqual(await a('advance'), 1);
  assert.strictEqual(await a('renew', 300), 1); // and then it stands still
  while ((await redis.exists(LEADER)) === 1) await new Promise((resolve) => setTimeout(resolve, 20));
  assert.strictEqual(await b('lead', 60_000), 2);
  assert.strictEqual(await b('advance'), 2);
  assert.strictEqual(await a('advance'), -1);
  assert.strictEqual(await a('renew', 60_000), 0);
  assert.strictEqual(await b('resign'), 1);
  assert.strictEqual(await c('lead', 60_000), 3);
  assert.strictEqual(await c('advance'), 3);
  assert.strictEqual(await c('resign'), 1);
  assert.deepStrictEqual(await redis.hgetall(STATE), { term: '3', position: '3' });
  for (const ask of [a, b, c]) await ask('end');
  redis.disconnect();
  console.log('ok: three leaders, one after the other, made three steps; the one whose lease was over was refused');
}

process.argv[2] ? indexer() : main();
