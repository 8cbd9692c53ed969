// A chat room belongs to one node, which refreshes its ownership and hands it over when it is shut down.
//
// The owner refreshes and hands over by scripts that compare. The handover sets the next node's name, which that node has told
// before; the old one writes nothing afterwards. Messages are counted by the owner only, inside a script that compares, too.
// Keys: lock room:9:owner, data room:9:messages.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { randomUUID } = require('node:crypto');
const assert = require('node:assert');
const { createClient } = require('redis');

const OWNER = 'room:9:owner';
const MESSAGES = 'room:9:messages';
const ifMine = (then) => `if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end ${then}`;
const REFRESH = ifMine("return redis.call('pexpire', KEYS[1], ARGV[2])");
const HAND_OVER = ifMine("redis.call('set', KEYS[1], ARGV[2], 'PX', ARGV[3]) return 1");
const COUNT = ifMine("return redis.call('incrby', KEYS[2], ARGV[2])");

async function node() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  const me = randomUUID();
  const run = (script, keys, ...rest) => client.eval(script, { keys, arguments: [me, ...rest] });
  const actions = {
    own: () => client.set(OWNER, me, { condition: 'NX', expiration: { type: 'PX', value: 20_000 } }),
    refresh: () => run(REFRESH, [OWNER], '20000'),
    message: () => run(COUNT, [OWNER, MESSAGES], '1'),
    'hand over': ({ to }) => run(HAND_OVER, [OWNER], to, '20000'),
  };
  process.send(me);
  for await (const [order] of on(process, 'message')) {
    if (order.action === 'end') break;
    process.send(await actions[order.action](order));
  }
  await client.close();
  process.disconnect();
}

async function main() {
  const start = async () => {
    const child = fork(__filename, ['node']);
    const said = on(child, 'message');
    const next = async () => (await said.next()).value[0];
    const id = await next();
    return { id, ask: (action, to) => (child.send({ action, to }), next()), end: () => child.send({ action: 'end' }) };
  };
  const [a, b] = [await start(), await start()];
  assert.deepStrictEqual([await a.ask('own'), await b.ask('own')], ['OK', null]);
  assert.deepStrictEqual([await a.ask('message'), await b.ask('message')], [1, 0]);
  assert.deepStrictEqual([await a.ask('refresh'), await b.ask('refresh')], [1, 0]);
  assert.strictEqual(await a.ask('hand over', b.id), 1);
  assert.deepStrictEqual([await a.ask('message'), await b.ask('message')], [0, 2]);
  assert.deepStrictEqual([await a.ask('refresh'), await b.ask('refresh')], [0, 1]);
  a.end();
  b.end();
  console.log('ok: the room was handed over, and only its owner counted messages');
}

process.argv[2] === 'node' ? node() : main();
