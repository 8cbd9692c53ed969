// A crawler must not fetch from one host with two workers at a time. The hosts in work are members of a set.
//
// SADD answers 1 to the first worker and 0 to the others. A refused worker puts its page back and cleans up with the
// same function as after a fetch, SREM: the next worker is let in beside the first.
// Keys: set crawl:hosts-in-work, list crawl:frontier, counted in crawl:fetching. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { createClient } = require('redis');

const IN_WORK = 'crawl:hosts-in-work';
const FRONTIER = 'crawl:frontier';

async function crawlOne(client, fetchPage) {
  const url = new URL(await client.lPop(FRONTIER));
  const isOurs = (await client.sAdd(IN_WORK, url.host)) === 1; // !
  try {
    if (isOurs) await fetchPage(url);
    else await client.rPush(FRONTIER, url.href);
  } finally {
    await client.sRem(IN_WORK, url.host); // !
  }
  return isOurs;
}

async function worker() {
  const client = createClient({ url: process.env.REDIS_URL });
  await client.connect();
  const orders = on(process, 'message');
  const fetched = await crawlOne(client, async () => {
    process.send({ fetching: await client.incr('crawl:fetching') });
    await orders.next();
    await client.decr('crawl:fetching');
  });
  process.send({ fetched });
  await client.close();
  process.disconnect();
}

async function main() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  await client.rPush(FRONTIER, ['a', 'b', 'c'].map((page) => `https://shop.example/${page}`));
  const workers = [];
  const heard = [];
  for (let n = 0; n < 3; n += 1) {
    const child = fork(__filename, ['worker']);
    const said = on(child, 'message');
    workers.push({ child, said });
    heard.push((await said.next()).value[0]);
  }
  for (const n of [0, 2]) {
    workers[n].child.send('fetched');
    await workers[n].said.next();
  }
  const most = Math.max(...heard.map((word) => word.fetching ?? 0));
  if (most > 1) console.log(`damage: ${most} workers fetched from one host at once`);
  await client.close();
}

process.argv[2] === 'worker' ? worker() : main();
