// A report is built by functions that call each other, each of which takes the report's lock: a reentrant lock.
//
// The lock is a hash with the owner and a depth. Scripts enter (if it is free or one's own), count the depth, and delete the
// hash when the outermost call leaves. The owner is one builder with a random id; the expiry is renewed at each entry.
// Keys: hash report:7:lock, data report:7:pages.
'use strict';
const { fork } = require('node:child_process');
const { randomUUID } = require('node:crypto');
const { setTimeout: sleep } = require('node:timers/promises');
const assert = require('node:assert');
const Redis = require('ioredis');

const LOCK = 'report:7:lock';
const scripts = {
  enterLock: {
    numberOfKeys: 1,
    lua: `local owner = redis.call('HGET', KEYS[1], 'owner')
          if owner and owner ~= ARGV[1] then return 0 end
          redis.call('HSET', KEYS[1], 'owner', ARGV[1])
          redis.call('PEXPIRE', KEYS[1], ARGV[2])
          return redis.call('HINCRBY', KEYS[1], 'depth', 1)`,
  },
  leaveLock: {
    numberOfKeys: 1,
    lua: `if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] then return -1 end
          local depth = redis.call('HINCRBY', KEYS[1], 'depth', -1)
          if depth == 0 then redis.call('DEL', KEYS[1]) end
          return depth`,
  },
};

class Builder {
  constructor() {
    this.redis = new Redis(process.env.REDIS_URL, { scripts });
    this.id = randomUUID();
  }

  async locked(work) {
    while ((await this.redis.enterLock(LOCK, this.id, 30_000)) === 0) await sleep(3);
    try {
      return await work();
    } finally {
      assert.ok((await this.redis.leaveLock(LOCK, this.id)) >= 0);
    }
  }

  addPage() {
    return this.locked(async () => {
      const pages = Number((await this.redis.get('report:7:pages')) ?? 0);
      await this.redis.set('report:7:pages', pages + 1);
      return pages + 1;
    });
  }

  addChapter() {
    return this.locked(async () => {
      const first = await this.addPage();
      await sleep(1);
      assert.strictEqual(await this.addPage(), first + 1);
    });
  }
}

async function build() {
  const builder = new Builder();
  for (let n = 0; n < 6; n += 1) await builder.addChapter();
  await builder.redis.quit();
}

async function main() {
  const builders = [1, 2, 3].map(() => fork(__filename, ['build']));
  const codes = await Promise.all(builders.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  const redis = new Redis(process.env.REDIS_URL);
  const [pages, isHeld] = [await redis.get('report:7:pages'), await redis.exists(LOCK)];
  await redis.quit();
  assert.deepStrictEqual([codes, pages, isHeld], [[0, 0, 0], '36', 0]);
  console.log('ok: 18 chapters of three builders have two pages in a row each');
}

process.argv[2] === 'build' ? build() : main();
