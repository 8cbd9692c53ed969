// Switches of features: each server brings its defaults with SETNX, an administrator sets, clears and sets them again.
//
// A default must not overwrite what the administrator has set, and what he sets last holds. Nobody computes a switch from another one.
// Keys: feature:<name>, feature:defaults (who has brought them).
'use strict';
const { spawn } = require('node:child_process');
const readline = require('node:readline');
const assert = require('node:assert');
const { createClient } = require('redis');

const DEFAULTS = { 'feature:dark-mode': 'off', 'feature:new-search': 'off', 'feature:export': 'on' };

async function server() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  const orders = readline.createInterface({ input: process.stdin });
  for await (const line of orders) {
    const [word, name, value] = line.split(' ');
    if (word === 'boot') {
      for (const [feature, setting] of Object.entries(DEFAULTS)) await client.setNX(feature, setting);
      await client.hSetNX('feature:defaults', 'brought-by', String(process.pid));
      console.log('booted');
    }
    if (word === 'get') console.log((await client.get(name)) ?? DEFAULTS[name]);
    if (word === 'set') console.log(await client.set(name, value));
    if (word === 'clear') console.log(await client.del(name));
  }
  await client.close();
}

function start() {
  const child = spawn(process.execPath, [__filename, 'serve'], { stdio: ['pipe', 'pipe', 'inherit'] });
  const lines = readline.createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  return {
    child,
    ask: async (...words) => {
      child.stdin.write(`${words.join(' ')}\n`);
      return (await lines.next()).value;
    },
  };
}

async function main() {
  const servers = [start(), start(), start()];
  await servers[0].ask('boot');
  const administrator = servers[2];
  assert.strictEqual(await administrator.ask('set', 'feature:dark-mode', 'on'), 'OK');
  await servers[1].ask('boot');
  assert.strictEqual(await servers[1].ask('get', 'feature:dark-mode'), 'on');
  await administrator.ask('clear', 'feature:dark-mode');
  await servers[0].ask('boot');
  await servers[1].ask('set', 'feature:new-search', 'on');
  await administrator.ask('set', 'feature:new-search', 'off');
  await administrator.ask('clear', 'feature:export');
  const seen = [];
  for (const { ask } of servers) {
    for (const feature of Object.keys(DEFAULTS)) seen.push(await ask('get', feature));
  }
  assert.deepStrictEqual(seen, Array(3).fill(['off', 'off', 'on']).flat());
  for (const { child } of servers) child.stdin.end();
  console.log('ok: three servers agree on three switches, and what was set last holds');
}

process.argv[2] ? server() : main();
