// Two requests of one browser change the shopping cart in its session.
//
// A session is one JSON value: each request loads it, changes its copy and stores the whole. Two requests that run on
// two web servers have both loaded before either stores, so the article of the first one disappears from the cart.
// Keys: sess:<id>. There is no lock. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { createClient } = require('redis');

const SESSION = 'sess:8f14e45f';

async function webServer(article) {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  const orders = on(process, 'message');
  const session = JSON.parse(await client.get(SESSION)); // !
  process.send('loaded');
  await orders.next();
  session.cart.push(article);
  await client.set(SESSION, JSON.stringify(session), { expiration: { type: 'EX', value: 1800 } }); // !
  process.send('stored');
  await client.close();
  process.disconnect();
}

async function main() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  await client.set(SESSION, JSON.stringify({ user: 'ada', cart: [] }));

  const servers = ['lamp', 'chair'].map((article) => {
    const child = fork(__filename, [article]);
    return { child, said: on(child, 'message') };
  });
  for (const server of servers) await server.said.next();
  for (const server of servers) {
    server.child.send('store');
    await server.said.next();
  }

  const { cart } = JSON.parse(await client.get(SESSION));
  if (cart.length < 2) console.log(`damage: lamp and chair were put into the cart, it has only ${cart.join(', ')}`);
  await client.close();
}

process.argv[2] ? webServer(process.argv[2]) : main();
