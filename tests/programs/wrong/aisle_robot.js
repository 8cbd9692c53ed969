// A warehouse: one process steers its robots over one connection; a set says which aisles are occupied.
//
// What is wrong: SADD answers 0 to the second robot, which logs it and drives in nevertheless. When it is done it
// takes the aisle out of the set, although the first one is still inside.
'use strict';
const Redis = require('ioredis');

const OCCUPIED = 'robots:hall-2:occupied';
const PALLETS = 'robots:hall-2:pallets';

async function fetchPallet(redis, robot, aisle, meanwhile) {
  const entered = await redis.sadd(OCCUPIED, aisle);
  if (!entered) console.log(`${robot}: aisle ${aisle} is occupied`); // and drives in !
  try {
    const pallets = Number(await redis.hget(PALLETS, aisle));
    await meanwhile();
    await redis.hset(PALLETS, aisle, pallets - 1); // two computed this from the same number !
  } finally {
    await redis.srem(OCCUPIED, aisle); // not its own if it was refused !
  }
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  const nothing = async () => {};
  await redis.hset(PALLETS, { a14: 20, a15: 9 });

  await fetchPallet(redis, 'robot 1', 'a14', nothing);
  await fetchPallet(redis, 'robot 2', 'a15', nothing);
  await fetchPallet(redis, 'robot 1', 'a14', async () => {
    await fetchPallet(redis, 'robot 2', 'a14', nothing);
    await fetchPallet(redis, 'robot 3', 'a14', nothing);
  });

  const left = Number(await redis.hget(PALLETS, 'a14'));
  if (left !== 16) console.log(`damage: four pallets were fetched from a14, and ${20 - left} are counted`);
  await redis.quit();
}

main();
