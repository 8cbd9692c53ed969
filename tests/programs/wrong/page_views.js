// Page views are counted by two log shippers that add up what they have seen.
//
// A shipper reads the counter, adds its batch and sets the sum, instead of INCRBY. Both read the same number.
// Keys: views:<page>. There is no lock. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const Redis = require('ioredis');

const PAGE = 'views:/pricing';

function ship(batch) {
  const redis = new Redis(process.env.REDIS_URL);
  redis.get(PAGE, (error, views) => { // !
    if (error) throw error;
    process.once('message', () => {
      redis.set(PAGE, Number(views) + batch, (failure) => { // !
        if (failure) throw failure;
        redis.quit(() => process.disconnect());
      });
    });
    process.send('read');
  });
}

function main() {
  const redis = new Redis(process.env.REDIS_URL);
  const batches = [120, 35];
  let waiting = batches.length;
  let running = batches.length;

  redis.set(PAGE, 1000, () => {
    const shippers = batches.map((batch) => fork(__filename, [String(batch)]));
    for (const shipper of shippers) {
      shipper.on('message', () => {
        waiting -= 1;
        if (waiting === 0) shippers.forEach((other) => other.send('write'));
      });
      shipper.on('exit', () => {
        running -= 1;
        if (running === 0) finish(redis);
      });
    }
  });
}

function finish(redis) {
  redis.get(PAGE, (error, views) => {
    if (Number(views) < 1155) console.log(`damage: 1155 views were shipped, the counter says ${views}`);
    redis.quit();
  });
}

if (process.argv[2]) ship(Number(process.argv[2]));
else main();
