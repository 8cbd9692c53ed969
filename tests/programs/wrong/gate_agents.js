// An airport: agents, each in a thread, take charge of a flight's gate by WATCH and MULTI, then assign seats.
//
// What is wrong: whether the gate is free is read before WATCH. Somebody who takes it between the GET and the WATCH is
// overwritten, and both assign seats from the same map.
'use strict';
const assert = require('node:assert');
const { once } = require('node:events');
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const Redis = require('ioredis');

const key = (flight) => ({ charge: `flight:${flight}:in-charge`, seats: `flight:${flight}:seats` });

// The thread stops here until the main thread lets it go on.
const at = (place) =>
  new Promise((go) => {
    parentPort.once('message', go);
    parentPort.postMessage(place);
  });

async function takeCharge(redis, charge, agent) {
  const present = await redis.get(charge);
  await at('looked');
  if (present) return false;
  await redis.watch(charge); // begins to watch after the look, not before !
  return (await redis.multi().set(charge, agent, 'EX', 120).exec()) !== null; // overwrites whoever has come since !
}

async function assign(redis, { flight, agent, seat }) {
  const { charge, seats } = key(flight);
  if (!(await takeCharge(redis, charge, agent))) return at('refused');
  const map = JSON.parse(await redis.get(seats));
  await at('inside');
  map[seat] = agent;
  await redis.set(seats, JSON.stringify(map)); // without the seat of the other agent !
  await redis.watch(charge);
  if ((await redis.get(charge)) === agent) await redis.multi().del(charge).exec();
  else await redis.unwatch();
  await at('out');
}

function start(words) {
  const worker = new Worker(__filename, { workerData: words });
  const came = [];
  const waiting = [];
  worker.on('message', (place) => (waiting.length ? waiting.shift()(place) : came.push(place)));
  return {
    reaches: async (place) => assert.equal(came.shift() ?? (await new Promise((then) => waiting.push(then))), place),
    go: () => worker.postMessage('go'),
    end: once(worker, 'exit').then(([code]) => assert.equal(code, 0)),
  };
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  if (!isMainThread) {
    await assign(redis, workerData);
    return redis.quit();
  }
  const flight = `XR${100 + Math.floor(Math.random() * 900)}`;
  await redis.set(key(flight).seats, '{}');

  const one = start({ flight, agent: 'desk-1', seat: '12A' });
  const two = start({ flight, agent: 'desk-2', seat: '12C' });
  await Promise.all([one.reaches('looked'), two.reaches('looked')]);
  one.go();
  await one.reaches('inside');
  two.go();
  await two.reaches('inside');
  const three = start({ flight, agent: 'desk-3', seat: '30F' });
  await three.reaches('looked');
  three.go();
  await three.reaches('refused');
  three.go();
  one.go();
  await one.reaches('out');
  two.go();
  await two.reaches('out');
  one.go();
  two.go();
  await Promise.all([one.end, two.end, three.end]);

  const map = JSON.parse(await redis.get(key(flight).seats));
  if (!('12A' in map)) console.log(`damage: 12A was assigned, and the map has only ${Object.keys(map).join(', ')}`);
  await redis.quit();
}

main();
