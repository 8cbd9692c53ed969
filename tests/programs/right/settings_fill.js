// Settings of tenants: read through a cache, with defaults that are written when somebody asks for the first time.
//
// Right: a cached document has the number of its revision in its name, so that a late fill of an old document goes to
// a name that nobody asks for any more. It is a cache: should a process die between the change and the new revision, it
// shows the old document until that expires. Defaults are written with NX; what an administrator sets stays.
'use strict';
const { createClient } = require('redis');

const tenant = Math.random().toString(16).slice(2, 10);
const revision = `settings:${tenant}:revision`;
const locale = `settings:${tenant}:locale`;
const cached = (number) => `settings:${tenant}:document:${number}`;
const connect = () => createClient({ url: process.env.REDIS_URL }).connect();
const database = { theme: 'light' }; // stands for the table of the database

async function read(redis, afterMiss = async () => {}) {
  const name = cached((await redis.get(revision)) ?? '0');
  const hit = await redis.get(name);
  if (hit) return JSON.parse(hit);
  const document = { ...database };
  await afterMiss();
  // Two who miss fill the same name; which of them comes first does not matter.
  await redis.set(name, JSON.stringify(document), { condition: 'NX', expiration: { type: 'EX', value: 300 } });
  return document;
}

async function change(redis, fields) {
  const old = (await redis.get(revision)) ?? '0';
  Object.assign(database, fields);
  await redis.incr(revision);
  await redis.del(cached(old));
}

async function localeOf(redis, beforeDefault = async () => {}) {
  const chosen = await redis.get(locale);
  if (chosen) return chosen;
  await beforeDefault();
  await redis.set(locale, 'en-GB', { condition: 'NX' });
  return redis.get(locale);
}

async function main() {
  const clients = await Promise.all([1, 2, 3].map(connect));
  const [web, api, admin] = clients;

  // Two miss at once.
  await read(web, () => read(api));
  // A slow reader fills the old document after the change.
  await forget(admin);
  const before = await read(web, () => change(admin, { theme: 'dark' }));
  const after = await read(api);
  // And the next change invalidates what is there.
  await change(api, { theme: 'blue' });
  const last = await read(web);
  // The default comes later than what the administrator sets.
  const shown = await localeOf(web, () => admin.set(locale, 'de-CH'));

  const fine = before.theme === 'light' && after.theme === 'dark' && last.theme === 'blue' && shown === 'de-CH';
  console.log(`${fine ? 'ok' : 'broken'}: themes ${before.theme}, ${after.theme}, ${last.theme}; locale ${shown}`);
  await Promise.all(clients.map((client) => client.close()));
}

// The document is thrown out of the cache, as a full memory would do.
async function forget(redis) {
  await redis.del(cached((await redis.get(revision)) ?? '0'));
}

main();
