// Avatars are computed once and cached; several web servers fill and clear the cache.
//
// A miss is filled with SET EX or SET NX EX, by whoever has it first; a new picture clears the entry with DEL, or puts
// the new avatar there with SET. An avatar can always be computed again from the picture, so nothing can be lost.
// Keys: avatar:<user> (the cache), pictures (the truth, a hash that is written by the user's own server only).
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { createHash } = require('node:crypto');
const assert = require('node:assert');
const { createClient } = require('redis');

const draw = (picture) => createHash('sha256').update(picture).digest('hex').slice(0, 12);

class Avatars {
  constructor(client) {
    this.client = client;
  }

  async get(user) {
    const cached = await this.client.get(`avatar:${user}`);
    if (cached !== null) return cached;
    const avatar = draw(await this.client.hGet('pictures', user));
    await this.client.set(`avatar:${user}`, avatar, { condition: 'NX', expiration: { type: 'EX', value: 600 } });
    return avatar;
  }

  async change(user, picture, warm) {
    await this.client.hSet('pictures', user, picture);
    if (warm) await this.client.set(`avatar:${user}`, draw(picture), { expiration: { type: 'EX', value: 600 } });
    else await this.client.del(`avatar:${user}`);
  }
}

async function webServer() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  const avatars = new Avatars(client);
  for await (const [order] of on(process, 'message')) {
    if (order === 'end') break;
    if (order.picture) await avatars.change(order.user, order.picture, order.warm);
    process.send(await avatars.get(order.user));
  }
  await client.close();
  process.disconnect();
}

async function main() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  await client.hSet('pictures', { ada: 'p1', bob: 'p2' });
  const servers = [1, 2, 3].map(() => {
    const child = fork(__filename, ['serve']);
    const said = on(child, 'message');
    return async (order) => {
      child.send(order);
      return order === 'end' ? null : (await said.next()).value[0];
    };
  });
  const seenByAll = async (user) => new Set(await Promise.all(servers.map((ask) => ask({ user }))));

  assert.deepStrictEqual(await seenByAll('ada'), new Set([draw('p1')]));
  await servers[1]({ user: 'ada', picture: 'p3', warm: false });
  assert.deepStrictEqual(await seenByAll('ada'), new Set([draw('p3')]));
  await servers[2]({ user: 'ada', picture: 'p4', warm: true });
  assert.deepStrictEqual(await seenByAll('ada'), new Set([draw('p4')]));
  assert.deepStrictEqual(await seenByAll('bob'), new Set([draw('p2')]));
  await Promise.all(servers.map((ask) => ask('end')));
  await client.close();
  console.log('ok: three servers show the avatar of the newest picture, twelve times');
}

process.argv[2] === 'serve' ? webServer() : main();
