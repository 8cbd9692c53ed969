// A container yard: processes reserve docks in one hash, a field for each dock, and count what they unload there.
//
// What is wrong: a reservation that is too old is removed by HDEL and made anew by HSETNX. Two processes that saw the
// same old one do so one after the other, and the second removes the fresh reservation of the first.
'use strict';
const assert = require('node:assert');
const { fork } = require('node:child_process');
const { once } = require('node:events');
const { createClient } = require('redis');

const OLD = 300;
const [role, yard] = process.argv.slice(2);
const docks = (name) => `yard:${name}:docks`;
const unloaded = (name) => `yard:${name}:dock-7:unloaded`;

// The process stops here until the parent lets it go on.
const at = (place) =>
  new Promise((go) => {
    process.once('message', go);
    process.send(place);
  });

async function reserve(redis) {
  const mine = JSON.stringify({ desk: role, since: Date.now() });
  if (await redis.hSetNX(docks(yard), 'dock-7', mine)) return true;
  const seen = JSON.parse(await redis.hGet(docks(yard), 'dock-7'));
  if (Date.now() - seen.since < OLD) return false;
  await at('old');
  await redis.hDel(docks(yard), 'dock-7'); // whoever's it is by now !
  return (await redis.hSetNX(docks(yard), 'dock-7', mine)) === 1;
}

async function desk(redis) {
  if (!(await reserve(redis))) return at('refused');
  const count = Number(await redis.get(unloaded(yard)));
  await at('inside');
  if (role === 'crashes') process.exit(0);
  await redis.set(unloaded(yard), count + 10); // two are inside !
  await at('written');
  const seen = JSON.parse(await redis.hGet(docks(yard), 'dock-7'));
  if (seen && seen.desk === role) await redis.hDel(docks(yard), 'dock-7');
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
  const redis = await createClient({ url: process.env.REDIS_URL }).connect();
  if (role) {
    await desk(redis);
    return redis.close();
  }
  const name = `north-${Math.floor(Math.random() * 1e6)}`;
  await redis.set(unloaded(name), 100);

  const dead = start('crashes', name);
  await dead.reaches('inside');
  dead.go();
  await dead.end;
  await new Promise((then) => setTimeout(then, OLD + 100));

  const east = start('east', name);
  const west = start('west', name);
  await Promise.all([east.reaches('old'), west.reaches('old')]);
  east.go();
  await east.reaches('inside');
  west.go();
  await west.reaches('inside');
  east.go();
  await east.reaches('written');
  west.go();
  await west.reaches('written');
  east.go();
  await east.end;
  west.go();
  await west.end;

  const count = Number(await redis.get(unloaded(name)));
  if (count !== 120) console.log(`damage: two desks unloaded ten each, and ${count - 100} are counted`);
  await redis.close();
}

main();
