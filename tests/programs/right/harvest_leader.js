// Harvesting of feeds: one process leads and moves the cursor; it renews its leadership over a second connection.
//
// Right: a leader that is told that it lost stops, and every write compares the leader's token in its script: what a
// former leader sends late is refused. The next one leads after the expiry and begins from the cursor.
'use strict';
const assert = require('node:assert');
const { fork } = require('node:child_process');
const { randomBytes } = require('node:crypto');
const { once } = require('node:events');
const { createClient } = require('redis');

const LEADER = 'harvest:leader';
const CURSOR = 'harvest:cursor';
const RENEW = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`;
const MOVE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2])
redis.call('RPUSH', KEYS[3], ARGV[3])
return 1`;
const RESIGN = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
const [role, lease] = process.argv.slice(2);

// The process stops here until the parent lets it go on.
const at = (place) =>
  new Promise((go) => {
    process.once('message', go);
    process.send(place);
  });

async function harvest(redis, renewer) {
  const token = randomBytes(16).toString('hex');
  const options = { condition: 'NX', expiration: { type: 'PX', value: Number(lease) } };
  while (!(await redis.set(LEADER, token, options))) await at('follows');
  const renew = () => renewer.eval(RENEW, { keys: [LEADER], arguments: [token, lease] });
  const move = async () => {
    const next = String(Number(await redis.get(CURSOR)) + 1);
    await at('read');
    const words = [token, next, `${next} by ${role}`];
    return redis.eval(MOVE, { keys: [LEADER, CURSOR, 'harvest:log'], arguments: words });
  };
  for (let page = 0; page < 3; page += 1) {
    await at('pause');
    if (!(await renew())) return at('stopped');
    if (!(await move())) return at('too late');
  }
  await redis.eval(RESIGN, { keys: [LEADER], arguments: [token] });
  return at('done');
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
    end: once(child, 'exit').then(([code]) => assert.equal(code, 0)),
  };
}

async function main() {
  const connect = () => createClient({ url: process.env.REDIS_URL }).connect();
  const redis = await connect();
  if (role) {
    const renewer = await connect();
    await at('ready');
    await harvest(redis, renewer);
    return Promise.all([redis.close(), renewer.close()]);
  }
  const [one, two, three] = [start('one', '800'), start('two', '800'), start('three', '60000')];
  for (const child of [one, two, three]) await child.reaches('ready');
  one.go();
  await one.through('pause', 'read', 'pause');
  await one.reaches('read'); // of its second page; its lease runs out
  two.go();
  await two.reaches('follows');
  await new Promise((then) => setTimeout(then, 900));
  two.go();
  await two.through('pause', 'read');
  await two.reaches('pause');
  one.go();
  await one.through('too late');
  await new Promise((then) => setTimeout(then, 900));
  two.go();
  await two.through('stopped'); // although nobody else has come yet
  three.go();
  await three.through('pause', 'read', 'pause', 'read', 'pause', 'read', 'done');
  await Promise.all([one.end, two.end, three.end]);

  const log = await redis.lRange('harvest:log', 0, -1);
  const pages = log.map((entry) => parseInt(entry, 10)).join();
  const fine = pages === '1,2,3,4,5' && (await redis.get(CURSOR)) === '5';
  console.log(`${fine ? 'ok' : 'broken'}: pages ${log.join(', ')}`);
  await redis.close();
}

main();
