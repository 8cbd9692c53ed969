// The plan of a route is a document with a version. Planners read it, change it, and store it by a script that compares the version.
//
// Who was overtaken reads again. One planner changes nothing and only touches its expiry.
// Keys: data route:<name>:plan, a hash of version and document.
'use strict';
const { spawn } = require('node:child_process');
const readline = require('node:readline');
const assert = require('node:assert');
const { createClient, defineScript } = require('redis');

const PLAN = 'route:north:plan';
const store = defineScript({
  NUMBER_OF_KEYS: 1,
  SCRIPT: `
    if (redis.call('HGET', KEYS[1], 'version') or '0') ~= ARGV[1] then return 0 end
    redis.call('HSET', KEYS[1], 'version', ARGV[1] + 1, 'document', ARGV[2])
    return 1`,
  parseCommand: (parser, key, version, document) => {
    parser.pushKey(key);
    parser.push(version, document);
  },
  transformReply: (reply) => reply,
});

async function planner(stop, times) {
  const client = await createClient({ url: process.env.REDIS_URL, scripts: { store } }).connect();
  const orders = readline.createInterface({ input: process.stdin })[Symbol.asyncIterator]();
  console.log('ready');
  await orders.next();
  for (let time = 0; time < times; time += 1) {
    for (;;) {
      const { version = '0', document = '[]' } = await client.hGetAll(PLAN);
      const stops = [...JSON.parse(document), `${stop}${time}`];
      if ((await client.store(PLAN, version, JSON.stringify(stops))) === 1) break;
    }
    await client.expire(PLAN, 3600);
  }
  await client.close();
  process.exit(0);
}

async function main() {
  const planners = ['quay', 'mill', 'park'].map((stop) => {
    const child = spawn(process.execPath, [__filename, stop, '6'], { stdio: ['pipe', 'pipe', 'inherit'] });
    const lines = readline.createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    return { child, lines, over: new Promise((resolve) => child.once('exit', resolve)) };
  });
  for (const { lines } of planners) await lines.next();
  for (const { child } of planners) child.stdin.write('go\n');
  await Promise.all(planners.map(({ over }) => over));
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  const { version, document } = await client.hGetAll(PLAN);
  assert.strictEqual(version, '18');
  assert.strictEqual(new Set(JSON.parse(document)).size, 18);
  await client.close();
  console.log('ok: three planners added six stops each, in 18 versions');
}

process.argv[2] ? planner(process.argv[2], Number(process.argv[3])) : main();
