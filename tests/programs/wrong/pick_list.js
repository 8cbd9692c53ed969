// A warehouse: the web API and the nightly batch rewrite the list of the articles that a wave has to pick.
//
// What is wrong: each takes a lock, but the API calls it site:<id>:wave:<n>:busy and the batch site:<id>:<n>:busy.
// They are inside together, and who rewrites the list last drops what the other one had added.
'use strict';
const { randomBytes, randomUUID } = require('node:crypto');
const { createClient } = require('redis');

const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
const site = randomBytes(4).toString('hex');
const list = (wave) => `site:${site}:wave:${wave}:pick`;
const connect = () => createClient({ url: process.env.REDIS_URL }).connect();

async function inside(redis, name, work) {
  const token = randomUUID();
  const taken = await redis.set(name, token, { condition: 'NX', expiration: { type: 'PX', value: 60000 } });
  if (!taken) return false;
  try {
    await work();
  } finally {
    await redis.eval(RELEASE, { keys: [name], arguments: [token] });
  }
  return true;
}

// The API merges a late order into the wave.
const addOrder = (redis, wave, article) =>
  inside(redis, `site:${site}:wave:${wave}:busy`, async () => {
    const articles = await redis.lRange(list(wave), 0, -1);
    articles.push(article);
    articles.sort();
    await redis.multi().del(list(wave)).rPush(list(wave), articles).exec();
  });

// The batch takes out what is not in stock.
const dropMissing = (redis, wave, missing, meanwhile) =>
  inside(redis, `site:${site}:${wave}:busy`, async () => { // not the name that the API uses !
    const articles = await redis.lRange(list(wave), 0, -1);
    await meanwhile();
    const rest = articles.filter((article) => !missing.includes(article));
    await redis.multi().del(list(wave)).rPush(list(wave), rest).exec(); // without the late order !
  });

async function main() {
  const [api, other, batch] = await Promise.all([connect(), connect(), connect()]);
  await api.rPush(list(4), ['bolt-8', 'nut-8', 'saw-2']);

  // Two of the API do exclude each other.
  let refused;
  await inside(api, `site:${site}:wave:4:busy`, async () => {
    refused = !(await addOrder(other, 4, 'file-1'));
  });
  if (!refused) throw new Error('two connections of the API were inside');

  await dropMissing(batch, 4, ['saw-2'], () => addOrder(api, 4, 'drill-3'));

  const articles = await api.lRange(list(4), 0, -1);
  if (!articles.includes('drill-3')) console.log(`damage: drill-3 was added and is not in ${articles.join(', ')}`);
  await Promise.all([api.close(), other.close(), batch.close()]);
}

main();
