// The tests of a room booking, with the code that they test; everything goes over the one connection of the process.
//
// Right: the tests put holds and values there by hand, as another client would have done, and take them away. The code
// takes a room by NX, and saves and releases by scripts that compare the token.
'use strict';
const assert = require('node:assert');
const { randomUUID } = require('node:crypto');
const { createClient } = require('redis');

const SAVE = `
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[2], ARGV[2])
return 1`;
const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
const HOLD = 'rooms:aspen:hold';
const GUESTS = 'rooms:aspen:guests';

// What is tested: "booked", "busy", or "lost" if the hold was lost before the save.
async function book(redis, guest, meanwhile = async () => {}) {
  const token = randomUUID();
  const options = { condition: 'NX', expiration: { type: 'PX', value: 60000 } };
  if (!(await redis.set(HOLD, token, options))) return 'busy';
  const guests = JSON.parse((await redis.get(GUESTS)) ?? '[]');
  await meanwhile();
  const words = [token, JSON.stringify([...guests, guest])];
  const saved = await redis.eval(SAVE, { keys: [HOLD, GUESTS], arguments: words });
  await redis.eval(RELEASE, { keys: [HOLD], arguments: [token] });
  return saved ? 'booked' : 'lost';
}

const tests = {
  async 'books a free room'(redis) {
    assert.equal(await book(redis, 'g1'), 'booked');
    assert.equal(await redis.get(GUESTS), '["g1"]');
    assert.equal(await redis.exists(HOLD), 0);
  },
  async 'is refused while somebody holds it'(redis) {
    await redis.set(HOLD, 'somebody else');
    assert.equal(await book(redis, 'g2'), 'busy');
    assert.equal(await redis.get(HOLD), 'somebody else');
  },
  async 'adds to who is there'(redis) {
    await redis.set(GUESTS, '["g7","g8"]');
    assert.equal(await book(redis, 'g3'), 'booked');
    assert.equal(await redis.get(GUESTS), '["g7","g8","g3"]');
  },
  async 'writes nothing when its hold is over'(redis) {
    await redis.set(GUESTS, '["g7"]');
    assert.equal(await book(redis, 'g4', () => redis.del(HOLD)), 'lost');
    assert.equal(await redis.get(GUESTS), '["g7"]');
  },
  async 'writes nothing when another one has it'(redis) {
    const stolen = async () => {
      await redis.set(HOLD, 'somebody else');
      await redis.set(GUESTS, '["g9"]');
    };
    assert.equal(await book(redis, 'g5', stolen), 'lost');
    assert.equal(await redis.get(GUESTS), '["g9"]');
    assert.equal(await redis.get(HOLD), 'somebody else');
  },
};

async function main() {
  const redis = await createClient({ url: process.env.REDIS_URL }).connect();
  let passed = 0;
  for (const [name, test] of Object.entries(tests)) {
    await redis.del([HOLD, GUESTS]);
    await test(redis);
    console.log(`- ${name}`);
    passed += 1;
  }
  await redis.del([HOLD, GUESTS]);
  console.log(`ok: ${passed} tests passed`);
  await redis.close();
}

main();
