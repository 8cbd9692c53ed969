// Kennel: three dogs can be washed at the same time. Five groomers of one program, each with a named connection, wash two dogs
// each. A sorted set has the permits and when they are over.
//
// A script removes what is over, counts and adds in one step, by the time of the server. The set disappears with its last
// permit, and is made anew by the next one.
const { setTimeout: after } = require('node:timers/promises');
const { randomUUID } = require('node:crypto');
const { createClient } = require('redis');

const PERMITS = 'kennel:permits';
const PLACES = 3;
const ENTER = `
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
  if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
  redis.call('ZADD', KEYS[1], now + ARGV[3], ARGV[2])
  redis.call('PEXPIRE', KEYS[1], ARGV[3] * 2)
  return 1`;

class Semaphore {
  #redis;

  constructor(redis) {
    this.#redis = redis;
  }

  async run(work) {
    const permit = randomUUID();
    const options = { keys: [PERMITS], arguments: [String(PLACES), permit, '120000'] };
    while ((await this.#redis.eval(ENTER, options)) === 0) await after(40);
    try {
      return await work();
    } finally {
      await this.#redis.zRem(PERMITS, permit);
    }
  }
}

async function groomer(name) {
  const redis = await createClient({ url: process.env.REDIS_URL, name: `groomer-${name}` })
    .on('error', (error) => console.error(error))
    .connect();
  const tubs = new Semaphore(redis);
  for (const dog of ['first', 'second']) {
    await tubs.run(async () => {
      const inside = await redis.incr('kennel:inside');
      await after(10);
      await redis.rPush('kennel:log', JSON.stringify({ inside, dog: `${name}'s ${dog}` }));
      await redis.decr('kennel:inside');
    });
  }
  await redis.close();
}

async function main() {
  await Promise.all(['amy', 'bo', 'cy', 'di', 'ed'].map(groomer));
  await groomer('flo'); // when all the others have left, and the set is gone

  const redis = await createClient({ url: process.env.REDIS_URL }).connect();
  const washed = (await redis.lRange('kennel:log', 0, -1)).map((text) => JSON.parse(text));
  const left = await redis.zCard(PERMITS);
  await redis.close();
  const most = Math.max(...washed.map((entry) => entry.inside));
  console.log(
    most <= PLACES && washed.length === 12 && left === 0
      ? `ok: 12 dogs were washed, at most ${most} at once`
      : `damage: ${washed.length} dogs were washed, ${most} at once, and ${left} permits are left`,
  );
}

main();
