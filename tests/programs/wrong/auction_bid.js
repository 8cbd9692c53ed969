// Bids of an auction are guarded by WATCH; all requests of the server share one connection.
//
// WATCH belongs to the connection, not to the request. The EXEC of the first request ends the watch of the second one
// too, whose EXEC then always succeeds: the higher bid is overwritten by a lower one.
// Keys: auction:<id>:best. The lines marked ! are the evidence.
'use strict';
const http = require('node:http');
const { once } = require('node:events');
const Redis = require('ioredis');

const BEST = 'auction:77:best';
const redis = new Redis(process.env.REDIS_URL, { connectionName: 'auction-server' });

// Both requests have read before either goes on.
class Meeting {
  constructor() {
    this.first = new Promise((resolve) => (this.firstIsHere = resolve));
    this.both = new Promise((resolve) => (this.bothAreHere = resolve));
    this.arrived = 0;
  }

  join() {
    this.arrived += 1;
    if (this.arrived === 1) this.firstIsHere();
    else this.bothAreHere();
    return this.both;
  }
}

async function bid(bidder, amount, meeting) {
  for (let attempt = 0; attempt < 3; attempt += 1) {
    await redis.watch(BEST); // !
    const best = JSON.parse((await redis.get(BEST)) ?? '{"amount":0}'); // !
    await meeting.join();
    if (amount <= best.amount) {
      await redis.unwatch();
      return 'too low';
    }
    const done = await redis.multi().set(BEST, JSON.stringify({ bidder, amount })).exec(); // !
    if (done !== null) return 'accepted';
  }
  return 'busy';
}

async function main() {
  const meeting = new Meeting();
  const server = http.createServer(async (request, response) => {
    const query = new URL(request.url, 'http://auction').searchParams;
    response.end(await bid(query.get('bidder'), Number(query.get('amount')), meeting));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');

  const place = async (bidder, amount) => {
    const url = `http://127.0.0.1:${server.address().port}/?bidder=${bidder}&amount=${amount}`;
    return (await fetch(url, { headers: { connection: 'close' } })).text();
  };
  const high = place('ada', 900);
  await meeting.first;
  const answers = await Promise.all([high, place('bob', 300)]);
  const best = JSON.parse(await redis.get(BEST));
  if (answers.every((answer) => answer === 'accepted')) {
    console.log(`damage: bids of 900 and 300 were both accepted, neither saw the other; the best is ${best.amount}`);
  }
  server.close();
  await redis.quit();
}

main();
