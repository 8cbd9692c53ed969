// Bids of an auction, each in an optimistic transaction on a connection of its own.
//
// WATCH comes before the read, and EXEC writes nothing if somebody has bid in between; the bid is then looked at again.
// A connection is taken for one bid, so that no other request ends its watch.
// Keys: auction:<id>:best, list auction:<id>:history.
'use strict';
const http = require('node:http');
const { once } = require('node:events');
const assert = require('node:assert');
const Redis = require('ioredis');

const BEST = 'auction:5:best';
let collisions = 0;

async function bid(bidder, amount) {
  const redis = new Redis(process.env.REDIS_URL);
  try {
    for (;;) {
      await redis.watch(BEST);
      const best = JSON.parse((await redis.get(BEST)) ?? '{"amount":0}');
      if (amount <= best.amount) {
        await redis.unwatch();
        return 'too low';
      }
      const done = await redis
        .multi()
        .set(BEST, JSON.stringify({ bidder, amount }))
        .rpush('auction:5:history', amount)
        .exec();
      if (done !== null) return 'accepted';
      collisions += 1;
    }
  } finally {
    await redis.quit();
  }
}

async function main() {
  const server = http.createServer(async (request, response) => {
    const query = new URL(request.url, 'http://auction').searchParams;
    response.end(await bid(query.get('bidder'), Number(query.get('amount'))));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address();

  const amounts = Array.from({ length: 24 }, (_, n) => 100 + ((n * 7) % 24) * 10);
  await Promise.all(
    amounts.map(async (amount, n) => {
      const url = `http://127.0.0.1:${port}/?bidder=b${n}&amount=${amount}`;
      return (await fetch(url, { headers: { connection: 'close' } })).text();
    }),
  );
  server.close();

  const redis = new Redis(process.env.REDIS_URL);
  const history = (await redis.lrange('auction:5:history', 0, -1)).map(Number);
  const best = JSON.parse(await redis.get(BEST));
  await redis.quit();
  assert.deepStrictEqual(history, [...history].sort((a, b) => a - b));
  assert.strictEqual(best.amount, Math.max(...amounts));
  console.log(`ok: each accepted bid is higher than the one before, up to ${best.amount}; ${collisions} were tried again`);
}

main();
