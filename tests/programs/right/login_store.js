// A session store as express middlewares have it: get, create, save, destroy, on the connections of a pool.
//
// Right: the session belongs to whichever request comes first (NX). A save replaces exactly the text that the request
// has read, or nothing: then the request reads again and makes its change anew. What was destroyed stays so.
'use strict';
const { randomUUID } = require('node:crypto');
const { createClient } = require('redis');

const REPLACE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'EX', ARGV[3])
return 1`;
const AGE = 3600;

class Store {
  constructor(pool) {
    this.pool = pool;
    this.turn = 0;
  }

  get redis() {
    this.turn = (this.turn + 1) % this.pool.length;
    return this.pool[this.turn];
  }

  async open(id) {
    const fresh = JSON.stringify({ cart: {}, seen: 0 });
    await this.redis.set(`login:${id}`, fresh, { condition: 'NX', expiration: { type: 'EX', value: AGE } });
  }

  // False if there is no session (any more).
  async update(id, change, meanwhile = async () => {}) {
    for (;;) {
      const text = await this.redis.get(`login:${id}`);
      if (text === null) return false;
      const session = JSON.parse(text);
      change(session);
      await meanwhile();
      const words = [text, JSON.stringify(session), String(AGE)];
      if (await this.redis.eval(REPLACE, { keys: [`login:${id}`], arguments: words })) return true;
    }
  }

  destroy = (id) => this.redis.del(`login:${id}`);
}

async function main() {
  const pool = await Promise.all([1, 2, 3].map(() => createClient({ url: process.env.REDIS_URL }).connect()));
  const store = new Store(pool);
  const id = randomUUID();

  // The first page loads six things at once, and each request would make the session.
  await Promise.all(Array.from({ length: 6 }, () => store.open(id)));
  await Promise.all(Array.from({ length: 6 }, () => store.update(id, (session) => (session.seen += 1))));
  // A slow request puts something into the cart while another one does.
  let first = true;
  await store.update(id, (session) => (session.cart.lamp = 1), async () => {
    if (first) {
      first = false;
      await store.update(id, (session) => (session.cart.chair = 4));
    }
  });
  const { cart, seen } = JSON.parse(await pool[0].get(`login:${id}`));
  // Logged out while a request works: it does not bring the session back.
  const saved = await store.update(id, (session) => (session.seen += 1), () => store.destroy(id));
  const there = await pool[0].exists(`login:${id}`);

  const fine = seen === 6 && cart.lamp === 1 && cart.chair === 4 && !saved && !there;
  const goods = Object.keys(cart).sort().join(' and ');
  console.log(`${fine ? 'ok' : 'broken'}: seen ${seen} times, ${goods} in the cart, ${there} sessions after the logout`);
  await Promise.all(pool.map((redis) => redis.close()));
}

main();
