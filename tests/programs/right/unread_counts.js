// Unread messages are counted per user; opening the inbox shows the number and sets it to zero.
//
// GETSET with 0 reads and resets in one step, so that a message that arrives meanwhile is counted for the next time. The
// badge reads the number with GET, without writing it.
// Keys: unread:<user>.
'use strict';
const { fork } = require('node:child_process');
const assert = require('node:assert');
const Redis = require('ioredis');

const USERS = ['ada', 'bob'];

function deliver(messages) {
  const redis = new Redis(process.env.REDIS_URL);
  const next = (n) => {
    if (n === messages) return redis.quit();
    redis.incr(`unread:${USERS[n % 2]}`, (error) => {
      if (error) throw error;
      redis.get(`unread:${USERS[n % 2]}`, () => next(n + 1)); // the badge
    });
  };
  next(0);
}

async function openInboxes() {
  const redis = new Redis(process.env.REDIS_URL);
  let seen = 0;
  for (let n = 0; n < 60; n += 1) {
    seen += Number((await redis.getset(`unread:${USERS[n % 2]}`, 0)) ?? 0);
  }
  await redis.quit();
  process.send(seen, () => process.disconnect());
}

async function main() {
  let seen = 0;
  const children = ['60', '60', 'open', 'open'].map((task) => fork(__filename, [task]));
  children.forEach((child) => child.on('message', (count) => (seen += count)));
  await Promise.all(children.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  const redis = new Redis(process.env.REDIS_URL);
  const left = (await redis.mget(USERS.map((user) => `unread:${user}`))).reduce((sum, count) => sum + Number(count), 0);
  await redis.quit();
  assert.strictEqual(seen + left, 120);
  console.log('ok: 120 messages were counted as read once each or are still unread');
}

if (process.argv[2] === 'open') openInboxes();
else if (process.argv[2]) deliver(Number(process.argv[2]));
else main();
