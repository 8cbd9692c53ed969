// Roll-up of a ledger: a consumer has a connection for its lease, renewed in the background, and one for its data.
//
// What is wrong: the renewal is told that the lease is somebody else's, logs that, and nobody stops the consumer,
// which writes over its other connection what it computed before.
'use strict';
const { randomUUID } = require('node:crypto');
const { createClient } = require('redis');

const LEASE = 400;
const EXTEND = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])`;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
const connect = () => createClient({ url: process.env.REDIS_URL }).connect();

class Consumer {
  constructor(leases, data, partition) {
    Object.assign(this, { leases, data, token: randomUUID() });
    this.owner = `rollup:{p${partition}}:owner`;
    this.total = `rollup:{p${partition}}:total`;
  }

  async own(lease) {
    const options = { condition: 'NX', expiration: { type: 'PX', value: lease } };
    return (await this.leases.set(this.owner, this.token, options)) === 'OK';
  }

  async extend() {
    const extended = await this.leases.eval(EXTEND, { keys: [this.owner], arguments: [this.token, '60000'] });
    if (!extended) console.log('the lease is lost'); // and nobody acts on it !
  }

  read = async () => JSON.parse(await this.data.get(this.total));
  write = (total) => this.data.set(this.total, JSON.stringify(total));
  give = () => this.leases.eval(RELEASE, { keys: [this.owner], arguments: [this.token] });
}

async function main() {
  const clients = await Promise.all([1, 2, 3, 4].map(connect));
  const first = new Consumer(clients[0], clients[1], 11);
  const second = new Consumer(clients[2], clients[3], 11);
  await first.write({ entries: 0, sum: 0 });

  if (!(await first.own(LEASE))) throw new Error('not owned');
  const seen = await first.read();
  if (await second.own(60000)) throw new Error('owned twice');
  await new Promise((then) => setTimeout(then, LEASE + 120)); // a long pause of the garbage collector
  if (!(await second.own(60000))) throw new Error('not owned after the expiry');
  const fresh = await second.read();
  await first.extend();
  await second.write({ entries: fresh.entries + 3, sum: fresh.sum + 450 });
  await first.write({ entries: seen.entries + 2, sum: seen.sum + 120 }); // another connection, and no lease !
  await first.give();
  await second.give();

  const { entries, sum } = await first.read();
  if (entries !== 5) console.log(`damage: of five entries the total knows ${entries}, with a sum of ${sum}`);
  await Promise.all(clients.map((client) => client.close()));
}

main();
