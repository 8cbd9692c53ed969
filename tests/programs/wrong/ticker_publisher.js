// Prices on a ticker: one of several publishers leads, and renews its leadership before it publishes.
//
// What is wrong: the renewal is SET … XX, which takes the key from whoever has it by now; and if there is no key, it
// takes the leadership anew and goes on with the book that it read before, as if nobody had led in between.
'use strict';
const { createClient } = require('redis');

const LEASE = 400;
const connect = (name) => createClient({ url: process.env.REDIS_URL, name }).connect();
const over = () => new Promise((then) => setTimeout(then, LEASE + 120));
const px = (value) => ({ type: 'PX', value });

class Publisher {
  constructor(redis, id, venue) {
    Object.assign(this, { redis, id, leader: `ticker:${venue}:leader`, book: `ticker:${venue}:book` });
  }

  async lead(lease) {
    return (await this.redis.set(this.leader, this.id, { condition: 'NX', expiration: px(lease) })) !== null;
  }

  async renew() {
    const again = { condition: 'XX', expiration: px(60000) };
    if (await this.redis.set(this.leader, this.id, again)) return true; // whoever leads now !
    return this.lead(60000); // takes anew what was lost, with an old book !
  }

  async read() {
    this.prices = JSON.parse(await this.redis.get(this.book));
  }

  async publish(symbol, price) {
    this.prices[symbol] = price;
    await this.redis.set(this.book, JSON.stringify(this.prices)); // over what the other one published !
  }

  async resign() {
    if ((await this.redis.get(this.leader)) === this.id) await this.redis.del(this.leader);
  }
}

async function main() {
  const names = ['ticker-a', 'ticker-b'];
  const clients = await Promise.all(names.map(connect));
  const run = Math.floor(Math.random() * 1e6);
  const [a, b] = clients.map((redis, index) => new Publisher(redis, `${names[index]}-${run}`, 'zurich'));
  const book = 'ticker:zurich:book';
  await clients[0].set(book, JSON.stringify({ gold: 1 }));

  // The key is the other one's.
  if (!(await a.lead(LEASE)) || (await b.lead(60000))) throw new Error('a does not lead alone');
  await a.read();
  await over();
  if (!(await b.lead(60000))) throw new Error('b does not lead');
  await b.read();
  await b.publish('silver', 2);
  if (await a.renew()) await a.publish('copper', 3);
  const first = JSON.parse(await clients[0].get(book));
  await b.resign();
  await a.resign();

  // The key is nobody's.
  if (!(await a.lead(LEASE))) throw new Error('a does not lead again');
  await a.read();
  await over();
  if (!(await b.lead(60000))) throw new Error('b does not lead again');
  await b.read();
  await b.publish('zinc', 4);
  await b.resign();
  if (await a.renew()) await a.publish('tin', 5);
  await a.resign();
  const second = JSON.parse(await clients[0].get(book));

  const lost = [...('silver' in first ? [] : ['silver']), ...('zinc' in second ? [] : ['zinc'])];
  if (lost.length) console.log(`damage: the prices of ${lost.join(' and ')} are lost`);
  await Promise.all(clients.map((redis) => redis.close()));
}

main();
