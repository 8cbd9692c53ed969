// Couriers claim tours: an instance takes the tour's claim, plans for a while, and writes the stops.
//
// What is wrong: the token is host and process id, which in two containers of one image are the same. An instance whose
// claim is over finds "its" token there, writes for the first time, and releases the claim of the other instance.
'use strict';
const assert = require('node:assert');
const { fork } = require('node:child_process');
const { once } = require('node:events');
const { createClient } = require('redis');

const LEASE = 400;
const TOKEN = 'courier-api:1'; // as os.hostname() and process.pid are in each container of that image !
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
const [role, tour, lease] = process.argv.slice(2);
const claim = (id) => `tours:${id}:claim`;
const stops = (id) => `tours:${id}:stops`;

// The process stops here until the parent lets it go on.
const at = (place) =>
  new Promise((go) => {
    process.once('message', go);
    process.send(place);
  });

async function plan(redis) {
  const options = { condition: 'NX', expiration: { type: 'PX', value: Number(lease) } };
  if (!(await redis.set(claim(tour), TOKEN, options))) return at('refused');
  const planned = JSON.parse(await redis.get(stops(tour)));
  await at('planning');
  if ((await redis.get(claim(tour))) !== TOKEN) return at('lost'); // says nothing: all have this token !
  await redis.set(stops(tour), JSON.stringify([...planned, role])); // its first write, and its claim is over !
  await at('written');
  await redis.eval(RELEASE, { keys: [claim(tour)], arguments: [TOKEN] }); // the claim of the other instance !
  await at('released');
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
    await at('ready');
    await plan(redis);
    return redis.close();
  }
  const id = Math.floor(Math.random() * 1e8);
  await redis.set(stops(id), '[]');

  const slow = start('harbour', id, LEASE);
  const refused = start('airport', id, LEASE);
  const next = start('station', id, 60000);
  for (const child of [slow, refused, next]) await child.reaches('ready');

  slow.go();
  await slow.reaches('planning');
  refused.go();
  await refused.reaches('refused');
  refused.go();
  await refused.end;
  await new Promise((then) => setTimeout(then, LEASE + 150));

  next.go();
  await next.reaches('planning');
  slow.go();
  await slow.reaches('written');
  slow.go();
  await slow.reaches('released');
  const claimed = await redis.exists(claim(id));
  next.go();
  await next.reaches('lost'); // only because its claim was deleted
  slow.go();
  next.go();
  await Promise.all([slow.end, next.end]);

  const planned = JSON.parse(await redis.get(stops(id)));
  if (!claimed) console.log(`damage: the claim of station was released by harbour, and only ${planned} is planned`);
  await redis.close();
}

main();
