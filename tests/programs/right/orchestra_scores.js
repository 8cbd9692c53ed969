// Orchestra: arrangers edit one score. To transpose a part is to rewrite bars, and both take the score's lock: who has it may
// take it again, and it is free when all has been given back. Three threads with two arrangers each.
//
// The owner is the asynchronous task and not the thread or its connection, so that two arrangers of one thread exclude each
// other. The score is written by a script that compares the owner once more.
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const { AsyncLocalStorage } = require('node:async_hooks');
const { setTimeout: after } = require('node:timers/promises');
const { randomUUID } = require('node:crypto');
const { once } = require('node:events');
const Redis = require('ioredis');

const SCORE = 'score:nocturne';
const LOCK = 'score:nocturne:lock';
const ROUNDS = 4;
const owners = new AsyncLocalStorage();

const scripts = {
  enter: {
    numberOfKeys: 1,
    lua: `
      if redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
      redis.call('HSET', KEYS[1], 'owner', ARGV[1])
      redis.call('PEXPIRE', KEYS[1], ARGV[2])
      return redis.call('HINCRBY', KEYS[1], 'depth', 1)`,
  },
  leave: {
    numberOfKeys: 1,
    lua: `
      if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return -1 end
      local depth = redis.call('HINCRBY', KEYS[1], 'depth', -1)
      if depth == 0 then redis.call('DEL', KEYS[1]) end
      return depth`,
  },
  saveAsOwner: {
    numberOfKeys: 2,
    lua: `
      if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return 0 end
      redis.call('SET', KEYS[2], ARGV[2])
      return 1`,
  },
};

class Score {
  constructor(redis) {
    this.redis = redis;
  }

  async locked(work) {
    const owner = owners.getStore();
    while ((await this.redis.enter(LOCK, owner, 90_000)) === 0) await after(12);
    try {
      return await work();
    } finally {
      await this.redis.leave(LOCK, owner);
    }
  }

  transpose(part, steps) {
    return this.locked(async () => {
      await this.rewrite(part, (bar) => ({ ...bar, pitch: bar.pitch + steps }));
      await this.rewrite(part, (bar) => ({ ...bar, edits: bar.edits + 1 }));
    });
  }

  rewrite(part, change) {
    return this.locked(async () => {
      const score = JSON.parse(await this.redis.get(SCORE));
      score[part] = change(score[part]);
      const saved = await this.redis.saveAsOwner(LOCK, SCORE, owners.getStore(), JSON.stringify(score));
      if (saved === 0) throw new Error('the lock of the score was lost');
    });
  }
}

async function desk() {
  const redis = new Redis(process.env.REDIS_URL, { scripts });
  const score = new Score(redis);
  const baton = once(parentPort, 'message');
  parentPort.postMessage('ready');
  await baton;
  const arranger = async (part, steps) => {
    for (let round = 0; round < ROUNDS; round++) await score.transpose(part, steps);
  };
  await Promise.all(workerData.map(([part, steps]) => owners.run(randomUUID(), () => arranger(part, steps))));
  await redis.quit();
  parentPort.close();
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  await redis.set(SCORE, JSON.stringify({ oboe: { pitch: 0, edits: 0 }, horn: { pitch: 0, edits: 0 } }));
  const desks = [
    [['oboe', 2], ['horn', -3]],
    [['oboe', 5], ['oboe', -1]],
    [['horn', 7], ['oboe', 4]],
  ].map((tasks) => new Worker(__filename, { workerData: tasks }));
  await Promise.all(desks.map((worker) => once(worker, 'message')));
  const done = Promise.all(desks.map((worker) => once(worker, 'exit')));
  for (const worker of desks) worker.postMessage('begin');
  await done;

  const { oboe, horn } = JSON.parse(await redis.get(SCORE));
  const free = (await redis.exists(LOCK)) === 0;
  await redis.quit();
  const right = oboe.pitch === 10 * ROUNDS && oboe.edits === 4 * ROUNDS && horn.pitch === 4 * ROUNDS && horn.edits === 2 * ROUNDS;
  console.log(
    right && free
      ? `ok: all ${6 * ROUNDS} transpositions are in the score, and its lock is free`
      : `damage: ${JSON.stringify({ oboe, horn, free })}`,
  );
}

if (isMainThread) main();
else desk();
