// A token bucket for outgoing mails, shared by all senders: it fills with time and each mail takes one token.
//
// Level and time are two fields of a hash; one script reads both, fills, takes and writes. Two senders cannot read the same
// level, and the clock is the server's.
// Keys: hash bucket:mail (fields level, ms).
'use strict';
const { fork } = require('node:child_process');
const assert = require('node:assert');
const { createClient, defineScript } = require('redis');

const take = defineScript({
  NUMBER_OF_KEYS: 1,
  SCRIPT: `
    local t = redis.call('TIME')
    local now = t[1] * 1000 + math.floor(t[2] / 1000)
    local stored = redis.call('HMGET', KEYS[1], 'level', 'ms')
    local level = tonumber(stored[1] or ARGV[1])
    local filled = (now - tonumber(stored[2] or now)) * tonumber(ARGV[2]) / 1000
    level = math.min(tonumber(ARGV[1]), level + filled)
    local isTaken = level >= 1 and 1 or 0
    redis.call('HSET', KEYS[1], 'level', level - isTaken, 'ms', now)
    return isTaken`,
  parseCommand(parser, key, capacity, perSecond) {
    parser.pushKey(key);
    parser.push(String(capacity), String(perSecond));
  },
  transformReply: (reply) => reply === 1,
});

async function sender() {
  const client = createClient({ url: process.env.REDIS_URL, scripts: { take } });
  await client.connect();
  let mails = 0;
  for (let n = 0; n < 40; n += 1) if (await client.take('bucket:mail', 25, 0.001)) mails += 1;
  await client.close();
  process.exit(mails);
}

async function main() {
  const senders = [1, 2, 3].map(() => fork(__filename, ['sender']));
  const mails = await Promise.all(senders.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  const sum = mails.reduce((a, b) => a + b, 0);
  assert.strictEqual(sum, 25);
  console.log('ok: 25 of 120 mails of three senders went out, as many as the bucket had tokens');
}

process.argv[2] === 'sender' ? sender() : main();
