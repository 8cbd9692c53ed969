// A factory: threads rewrite the record of a lot while they hold it.
//
// Right: who takes the lot raises the number of its fence in the same script that reads the record, and the script
// that writes compares it. Who was late finds a higher number, whether the other one has written yet or not.
'use strict';
const assert = require('node:assert');
const { randomBytes } = require('node:crypto');
const { once } = require('node:events');
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const { createClient } = require('redis');

const OPEN = `
if not redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return false end
local fence = redis.call('HINCRBY', KEYS[2], 'fence', 1)
return {fence, redis.call('HGET', KEYS[2], 'record') or '[]'}`;
const WRITE = `
if redis.call('HGET', KEYS[1], 'fence') ~= ARGV[1] then return 0 end
redis.call('HSET', KEYS[1], 'record', ARGV[2])
return 1`;
const CLOSE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
const holder = (lot) => `factory:lot:${lot}:holder`;
const sheet = (lot) => `factory:lot:${lot}:sheet`;

// The thread stops here until the main thread lets it go on.
const at = (place) =>
  new Promise((go) => {
    parentPort.once('message', go);
    parentPort.postMessage(place);
  });

async function machine(redis, { lot, step, lease }) {
  for (;;) {
    const token = randomBytes(16).toString('base64url');
    const opened = await redis.eval(OPEN, { keys: [holder(lot), sheet(lot)], arguments: [token, String(lease)] });
    if (!opened) {
      await at('refused');
      continue;
    }
    const [fence, record] = opened;
    await at('inside');
    const steps = JSON.stringify([...JSON.parse(record), step]);
    const written = await redis.eval(WRITE, { keys: [sheet(lot)], arguments: [String(fence), steps] });
    await redis.eval(CLOSE, { keys: [holder(lot)], arguments: [token] });
    if (written) return;
    await at('too late');
  }
}

function start(words) {
  const worker = new Worker(__filename, { workerData: words });
  const came = [];
  const waiting = [];
  worker.on('message', (place) => (waiting.length ? waiting.shift()(place) : came.push(place)));
  return {
    reaches: async (place) => assert.equal(came.shift() ?? (await new Promise((then) => waiting.push(then))), place),
    go: () => worker.postMessage('go'),
    end: once(worker, 'exit').then(([code]) => assert.equal(code, 0)),
  };
}

async function main() {
  const redis = await createClient({ url: process.env.REDIS_URL }).connect();
  if (!isMainThread) {
    await at('ready');
    await machine(redis, workerData);
    return redis.close();
  }
  const lot = Math.floor(Math.random() * 1e7);
  const saw = start({ lot, step: 'sawn', lease: 800 });
  const drill = start({ lot, step: 'drilled', lease: 60000 });
  await Promise.all([saw.reaches('ready'), drill.reaches('ready')]);
  saw.go();
  await saw.reaches('inside');
  drill.go();
  await drill.reaches('refused');
  await new Promise((then) => setTimeout(then, 900));
  drill.go();
  await drill.reaches('inside');
  saw.go();
  await saw.reaches('too late'); // although the drill has not written yet
  drill.go();
  await drill.end;
  saw.go();
  await saw.reaches('inside');
  saw.go();
  await saw.end;

  const record = JSON.parse(await redis.hGet(sheet(lot), 'record'));
  const fine = record.join() === 'drilled,sawn';
  console.log(`${fine ? 'ok' : 'broken'}: the lot was ${record.join(', ')}`);
  await redis.close();
}

main();
