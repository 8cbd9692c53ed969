// Web servers with a cache in front of the prices, as most web frameworks have one.
//
// A miss is filled with SET EX NX, a changed price is put there with SET EX or cleared with DEL, by whichever server gets the request.
// What the cache has can always be read again from the table of prices, which one server alone writes, with a counter of versions.
// Keys: cache:price:<article> (the cache), prices (the truth).
'use strict';
const { fork } = require('node:child_process');
const { once } = require('node:events');
const http = require('node:http');
const assert = require('node:assert');
const Redis = require('ioredis');

async function answer(redis, method, article, price) {
  const key = `cache:price:${article}`;
  if (method === 'GET') {
    const cached = await redis.get(key);
    if (cached !== null) return cached;
    const fresh = await redis.hget('prices', article);
    if (fresh !== null) await redis.set(key, fresh, 'EX', 300, 'NX');
    return String(fresh);
  }
  if (method === 'PUT') {
    await redis.hset('prices', article, price);
    await redis.set(key, price, 'EX', 300);
  }
  if (method === 'DELETE') await redis.del(key);
  return 'done';
}

async function server() {
  const redis = new Redis(process.env.REDIS_URL);
  const web = http.createServer(async (request, response) => {
    const [article, price] = request.url.slice(1).split('/');
    response.end(await answer(redis, request.method, article, price));
  });
  web.listen(0, '127.0.0.1', () => process.send(web.address().port));
}

async function main() {
  const servers = [];
  for (let number = 0; number < 3; number += 1) {
    const child = fork(__filename, ['serve']);
    const [port] = await once(child, 'message');
    servers.push({ child, port });
  }
  const ask = (number, method, path) =>
    new Promise((resolve) => {
      const request = http.request({ port: servers[number].port, method, path, agent: false }, async (response) => {
        let body = '';
        for await (const part of response) body += part;
        resolve(body);
      });
      request.end();
    });
  await ask(0, 'PUT', '/lamp/20');
  await ask(1, 'DELETE', '/lamp');
  assert.deepStrictEqual(await Promise.all([0, 1, 2].map((number) => ask(number, 'GET', '/lamp'))), ['20', '20', '20']);
  await ask(0, 'PUT', '/lamp/18');
  assert.strictEqual(await ask(2, 'GET', '/lamp'), '18');
  await ask(2, 'DELETE', '/lamp');
  await ask(1, 'DELETE', '/lamp');
  assert.strictEqual(await ask(1, 'GET', '/lamp'), '18');
  assert.strictEqual(await ask(0, 'GET', '/sofa'), 'null');
  console.log('ok: three servers fill and clear one cache, and each shows the price that was set last');
  for (const { child } of servers) child.kill();
}

process.argv[2] ? server() : main();
