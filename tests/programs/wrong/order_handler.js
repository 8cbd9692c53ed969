// Web servers that accept an order once at a time for each customer, and answer 409 to the rest.
//
// The handler releases in `finally`, also when it was refused: the refused request frees the customer for a third one, and two
// orders are written from the same balance.
// Keys: locks customer:<id>:ordering, data customer:<id>:credit. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { once, EventEmitter } = require('node:events');
const http = require('node:http');
const Redis = require('ioredis');

const held = new EventEmitter();

async function order(redis, customer, sum) {
  const key = `customer:${customer}:ordering`;
  const credit = `customer:${customer}:credit`;
  try {
    if ((await redis.set(key, process.pid, 'EX', 30, 'NX')) !== 'OK') return 409; // !
    const left = Number(await redis.get(credit)); // !
    process.send('inside');
    if (process.argv[2] === 'slow') await once(held, 'go');
    await redis.set(credit, left - sum); // !
    return 201;
  } finally {
    await redis.del(key); // !
  }
}

async function server() {
  const redis = new Redis(process.env.REDIS_URL);
  process.on('message', () => held.emit('go'));
  const web = http.createServer(async (request, response) => {
    const [customer, sum] = request.url.slice(1).split('/');
    response.writeHead(await order(redis, customer, Number(sum)));
    response.end();
  });
  web.listen(0, '127.0.0.1', () => process.send(web.address().port));
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  await redis.set('customer:c8:credit', 100);
  const servers = [];
  for (const kind of ['slow', 'fast', 'fast']) {
    const child = fork(__filename, [kind]);
    const [port] = await once(child, 'message');
    const post = (sum) =>
      new Promise((resolve) => http.get({ port, path: `/c8/${sum}`, agent: false }, (answer) => resolve(answer.resume().statusCode)));
    servers.push({ child, post });
  }
  const [first, second, third] = servers;
  const inside = once(first.child, 'message');
  const answers = [first.post(60)];
  await inside;
  answers.push(await second.post(10), await third.post(30));
  first.child.send('go');
  const codes = await Promise.all(answers);
  const left = Number(await redis.get('customer:c8:credit'));
  if (left !== 10) console.log(`damage: orders answered ${codes.join(', ')}; 10 should be left of the credit, there are ${left}`);
  for (const { child } of servers) child.kill();
  redis.disconnect();
}

process.argv[2] ? server() : main();
