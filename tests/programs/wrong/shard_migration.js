// A shard is migrated by one mover, behind a lock on five independent servers.
//
// The quorum is computed as five divided by two, rounded down, and two servers are enough. Two movers ask in different
// orders; both have two, and both believe that they hold.
// Keys: lock migrate:{shard-6} on the five servers. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { randomUUID } = require('node:crypto');
const { createClient } = require('redis');

const LOCK = 'migrate:{shard-6}';
const RELEASE = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";

class Redlock {
  constructor(clients, ttlMs) {
    this.clients = clients;
    this.ttlMs = ttlMs;
    this.quorum = Math.floor(clients.length / 2); // !
  }

  async lock(step) {
    const token = randomUUID();
    const begin = Date.now();
    let votes = 0;
    for (const client of this.clients) {
      const reply = await client.set(LOCK, token, { condition: 'NX', expiration: { type: 'PX', value: this.ttlMs } }); // !
      votes += reply === 'OK' ? 1 : 0;
      if (votes === 2) await step();
    }
    const isValid = Date.now() - begin < this.ttlMs - 200;
    if (votes >= this.quorum && isValid) return { token, votes };
    await this.unlock(token);
    return null;
  }

  unlock(token) {
    return Promise.all(this.clients.map((client) => client.eval(RELEASE, { keys: [LOCK], arguments: [token] })));
  }
}

async function mover(isReversed) {
  const urls = process.env.REDIS_URLS.split(',').slice(0, 5);
  if (isReversed) urls.reverse();
  const clients = await Promise.all(urls.map((url) => createClient({ url }).connect()));
  const orders = on(process, 'message');
  const redlock = new Redlock(clients, 10_000);
  let isBegun = false;
  const held = await redlock.lock(async () => {
    if (isBegun) return;
    isBegun = true;
    process.send('has two');
    await orders.next();
  });
  process.send(held ? held.votes : 0);
  await orders.next();
  if (held) await redlock.unlock(held.token);
  await Promise.all(clients.map((client) => client.close()));
  process.disconnect();
}

async function main() {
  const movers = ['forwards', 'reversed'].map((order) => {
    const child = fork(__filename, [order]);
    return { child, said: on(child, 'message') };
  });
  for (const { said } of movers) await said.next();
  const votes = [];
  for (const { child, said } of movers) {
    child.send('go on');
    votes.push((await said.next()).value[0]);
  }
  for (const { child } of movers) child.send('end');
  const holders = votes.filter((count) => count > 0).length;
  if (holders > 1) console.log(`damage: ${holders} movers hold the lock at once, with ${votes.join(' and ')} of 5 servers`);
}

process.argv[2] ? mover(process.argv[2] === 'reversed') : main();
