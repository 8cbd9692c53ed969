// Each lift has one controller. It keeps its place with a timer that sets the key again, with a new expiry.
//
// The timer does not look who has the place. A controller that stood still while its lease ran out, and was replaced, sets its
// own name again when it wakes up: two controllers move the lift.
// Keys: lock lift:<number>:controller, data lift:<number>:target. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const Redis = require('ioredis');

const PLACE = 'lift:2:controller';
const TARGET = 'lift:2:target';
const LEASE = 250;

async function controller(name) {
  const redis = new Redis(process.env.REDIS_URL);
  const id = `${name}-${process.pid}-${Math.random().toString(36).slice(2)}`;
  for await (const [order] of on(process, 'message')) {
    if (order.take) process.send((await redis.set(PLACE, id, 'PX', order.lease, 'NX')) === 'OK'); // !
    if (order.beat) process.send(await redis.set(PLACE, id, 'PX', 60_000)); // !
    if (order.move) process.send(await redis.set(TARGET, order.move)); // !
    if (order.end) break;
  }
  redis.disconnect();
  process.disconnect();
}

function start(name) {
  const child = fork(__filename, [name]);
  const said = on(child, 'message');
  return {
    ask: async (order) => {
      child.send(order);
      return (await said.next()).value[0];
    },
    end: () => {
      child.send({ end: true });
      return new Promise((resolve) => child.once('exit', resolve));
    },
  };
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  const [north, south] = [start('north'), start('south')];
  await north.ask({ take: true, lease: LEASE });
  await north.ask({ move: 'floor 4' });
  while ((await redis.exists(PLACE)) === 1) await new Promise((resolve) => setTimeout(resolve, 20));
  await south.ask({ take: true, lease: 60_000 });
  const owner = await redis.get(PLACE);
  await south.ask({ move: 'floor 9' });
  await north.ask({ beat: true });
  await north.ask({ move: 'floor 1' });
  const [now, target] = await redis.mget(PLACE, TARGET);
  if (now !== owner) console.log(`damage: south has the lift for a minute, and north sends it to ${target}`);
  await Promise.all([north.end(), south.end()]);
  redis.disconnect();
}

process.argv[2] ? controller(process.argv[2]) : main();
