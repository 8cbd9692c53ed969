// A lock whose waiters do not poll: who releases rings a bell, by PUBLISH in the script that releases.
//
// Waiters listen over a second connection, and try again when it rings. The work is done over the first one.
// Keys: lock studio:recording, channel studio:bell, data studio:takes.
'use strict';
const { fork } = require('node:child_process');
const { once, EventEmitter } = require('node:events');
const { randomUUID } = require('node:crypto');
const assert = require('node:assert');
const Redis = require('ioredis');

const RECORDING = 'studio:recording';
const RELEASE = `
if redis.call('get', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('del', KEYS[1])
redis.call('publish', ARGV[2], 'free')
return 1`;

async function band(name) {
  const [redis, ears] = [new Redis(process.env.REDIS_URL), new Redis(process.env.REDIS_URL)];
  const bell = new EventEmitter();
  await ears.subscribe('studio:bell');
  ears.on('message', () => bell.emit('rings'));
  process.send('ready');
  await once(process, 'message');
  for (let take = 0; take < 5; take += 1) {
    const token = randomUUID();
    for (;;) {
      const rings = once(bell, 'rings');
      if ((await redis.set(RECORDING, token, 'PX', 60_000, 'NX')) === 'OK') break;
      await rings;
    }
    const takes = JSON.parse((await redis.get('studio:takes')) ?? '[]');
    takes.push(`${name}-${take}`);
    await redis.set('studio:takes', JSON.stringify(takes));
    assert.strictEqual(await redis.eval(RELEASE, 1, RECORDING, token, 'studio:bell'), 1);
  }
  redis.disconnect();
  ears.disconnect();
  process.disconnect();
}

async function main() {
  const bands = ['brass', 'strings', 'choir'].map((name) => fork(__filename, [name]));
  await Promise.all(bands.map((child) => once(child, 'message')));
  for (const child of bands) child.send('go');
  await Promise.all(bands.map((child) => once(child, 'exit')));
  const redis = new Redis(process.env.REDIS_URL);
  const takes = JSON.parse(await redis.get('studio:takes'));
  assert.strictEqual(new Set(takes).size, 15);
  redis.disconnect();
  console.log('ok: three bands recorded five takes each, and all 15 are there');
}

process.argv[2] ? band(process.argv[2]) : main();
