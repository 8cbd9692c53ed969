// A chat room is served by one node, which owns the room's state.
//
// The node refreshes its ownership with SET XX PX. XX asks only whether the key is there, not whose it is: a node that was
// cut off for longer than the lease takes the room back from the node that has got it, and both serve it.
// Keys: lock room:lobby:node, data room:lobby:topic. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { setTimeout: sleep } = require('node:timers/promises');
const Redis = require('ioredis');

const NODE = 'room:lobby:node';
const MESSAGES = 'room:lobby:messages';

async function node(name, isCutOff) {
  const redis = new Redis(process.env.REDIS_URL, { connectionName: name });
  const orders = on(process, 'message');
  while ((await redis.set(NODE, name, 'PX', 600, 'NX')) !== 'OK') await sleep(20); // !
  const messages = Number((await redis.get(MESSAGES)) ?? 0); // !
  process.send('serves');
  await orders.next();

  const refreshed = await redis.set(NODE, name, 'PX', 600, 'XX'); // !
  if (refreshed === 'OK') {
    await redis.set(MESSAGES, messages + (isCutOff ? 1 : 10)); // !
  }
  process.send(refreshed === 'OK' ? 'still serves' : 'has lost the room');
  await redis.quit();
  process.disconnect();
}

async function main() {
  const start = (...args) => {
    const child = fork(__filename, args);
    const said = on(child, 'message');
    return { child, next: async () => (await said.next()).value[0] };
  };
  const cutOff = start('node-a', 'cut off');
  await cutOff.next();
  const successor = start('node-b');
  await successor.next();
  const beliefs = [];
  for (const server of [successor, cutOff]) {
    server.child.send('go on');
    beliefs.push(await server.next());
  }
  const redis = new Redis(process.env.REDIS_URL);
  const messages = await redis.get(MESSAGES);
  if (messages !== '11') {
    console.log(`damage: 11 messages were sent, the room counts ${messages}; node-b ${beliefs[0]}, node-a ${beliefs[1]}`);
  }
  await redis.quit();
}

process.argv[2] ? node(process.argv[2], process.argv[3] === 'cut off') : main();
