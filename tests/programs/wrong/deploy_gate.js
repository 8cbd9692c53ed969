// A deployment is begun by one pipeline, behind a lock on three independent servers.
//
// To save time the pipeline begins with the first server that says yes and lets the others answer later. A pipeline that
// turns out to have one of three gives that back, but it has already begun beside the one that has the majority.
// Keys: lock deploy:production on the three servers, list deploy:begun on the first. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { randomBytes } = require('node:crypto');
const Redis = require('ioredis');

const LOCK = 'deploy:production';
const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

class QuickRedlock {
  constructor(servers, ttl) {
    this.servers = servers;
    this.ttl = ttl;
    this.token = randomBytes(20).toString('hex');
  }

  ask(server) {
    return server.set(LOCK, this.token, 'PX', this.ttl, 'NX'); // !
  }

  async rest(answered) {
    const votes = await Promise.all(this.servers.slice(1).map((server) => this.ask(server)));
    const yes = [answered, ...votes].filter((vote) => vote === 'OK').length;
    if (yes < 2) await this.release();
    return yes;
  }

  release() {
    return Promise.all(this.servers.map((server) => server.eval(RELEASE, 1, LOCK, this.token)));
  }
}

async function pipeline(name, nearest) {
  const urls = process.env.REDIS_URLS.split(',').slice(0, 3);
  const store = new Redis(urls[0]);
  // The nearest server is asked first.
  const servers = [...urls.slice(nearest), ...urls.slice(0, nearest)].map((url) => new Redis(url));
  const orders = on(process, 'message');
  const lock = new QuickRedlock(servers, 20_000);
  const first = await lock.ask(servers[0]);
  process.send('asked the nearest');
  await orders.next();
  if (first === 'OK') await store.rpush('deploy:begun', name); // !
  const yes = await lock.rest(first);
  process.send(yes);
  await orders.next();
  await lock.release();
  for (const server of [store, ...servers]) await server.quit();
  process.disconnect();
}

async function main() {
  const pipelines = [['main', '0'], ['hotfix', '2']].map((args) => {
    const child = fork(__filename, args);
    return { child, said: on(child, 'message') };
  });
  for (const { said } of pipelines) await said.next();
  const votes = [];
  for (const { child, said } of pipelines) {
    child.send('go on');
    votes.push((await said.next()).value[0]);
  }
  const store = new Redis(process.env.REDIS_URL);
  const begun = await store.lrange('deploy:begun', 0, -1);
  for (const { child } of pipelines) child.send('end');
  if (begun.length > 1) console.log(`damage: ${begun.join(' and ')} were deployed at once, with ${votes.join(' and ')} of 3 servers`);
  await store.quit();
}

process.argv[2] ? pipeline(process.argv[2], Number(process.argv[3])) : main();
