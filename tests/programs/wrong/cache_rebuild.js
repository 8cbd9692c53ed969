// A catalogue is rebuilt by one server; the lock holds the time at which it is over, and GETSET takes it over.
//
// The reply of GETSET says who was first to take an old lock over. It is not compared, so both servers rebuild, and both
// give the catalogue the same version.
// Keys: lock.catalogue, data catalogue:version. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const Redis = require('ioredis');

const LOCK = 'lock.catalogue';
const VERSION = 'catalogue:version';

function acquire(redis, step, callback) {
  const until = () => Date.now() + 15_000;
  redis.setnx(LOCK, until(), (error, isFirst) => { // !
    if (error || isFirst) return callback(error, Boolean(isFirst));
    redis.get(LOCK, (failure, old) => { // !
      if (failure || Number(old) > Date.now()) return callback(failure, false);
      step('old', () => redis.getset(LOCK, until(), (wrong) => callback(wrong, !wrong))); // !
    });
  });
}

function rebuild() {
  const redis = new Redis(process.env.REDIS_URL);
  let next = () => {};
  process.on('message', () => next());
  const step = (word, callback) => {
    next = callback;
    process.send(word);
  };
  acquire(redis, step, (error, isOurs) => {
    if (error) throw error;
    if (!isOurs) return redis.quit(() => process.exit(0));
    redis.get(VERSION, (_, version) => { // !
      step('rebuilding', () => {
        redis
          .pipeline()
          .set(VERSION, Number(version) + 1) // !
          .del(LOCK)
          .exec(() => redis.quit(() => process.exit(0)));
      });
    });
  });
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  await redis.mset(VERSION, 8, LOCK, Date.now() - 60_000); // left by a server that died
  const servers = [1, 2].map(() => {
    const child = fork(__filename, ['rebuild']);
    return { child, said: on(child, 'message'), exit: new Promise((resolve) => child.once('exit', resolve)) };
  });
  for (const _ of ['old', 'rebuilding']) {
    for (const { said } of servers) await said.next();
    for (const { child } of servers) child.send('go on');
  }
  await Promise.all(servers.map(({ exit }) => exit));
  const version = await redis.get(VERSION);
  if (version !== '10') console.log(`damage: two servers rebuilt version 8 at once, the version is ${version}`);
  await redis.quit();
}

process.argv[2] === 'rebuild' ? rebuild() : main();
