// A bank's vault doors: the tests of the class that opens a door for one clerk at a time. The tests put a foreign holder there,
// let it disappear and change the door's key behind the class's back, all over the connection that the class uses too.
//
// A test is alone on its door, and what it writes is the situation that it asks about. No test leaves anything behind.
const assert = require('node:assert/strict');
const { randomBytes } = require('node:crypto');
const { setTimeout: after } = require('node:timers/promises');
const Redis = require('ioredis');

class VaultDoor {
  static scripts = {
    closeDoor: {
      numberOfKeys: 1,
      lua: `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`,
    },
    keepDoor: {
      numberOfKeys: 1,
      lua: `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`,
    },
  };

  #token = randomBytes(24).toString('base64url');

  constructor(redis, door, milliseconds = 60_000) {
    this.redis = redis;
    this.key = `vault:door:${door}`;
    this.milliseconds = milliseconds;
  }

  async open() {
    return (await this.redis.set(this.key, this.#token, 'PX', this.milliseconds, 'NX')) === 'OK';
  }

  async keep() {
    return (await this.redis.keepDoor(this.key, this.#token, this.milliseconds)) === 1;
  }

  async close() {
    return (await this.redis.closeDoor(this.key, this.#token)) === 1;
  }
}

const redis = new Redis(process.env.REDIS_URL, { scripts: VaultDoor.scripts });

const cases = {
  async 'a free door opens'() {
    const door = new VaultDoor(redis, 1);
    assert.equal(await door.open(), true);
    assert.equal(await door.close(), true);
    assert.equal(await redis.exists(door.key), 0);
  },

  async 'a door with a foreign clerk stays shut'() {
    const door = new VaultDoor(redis, 2);
    await redis.set(door.key, 'someone-else');
    assert.equal(await door.open(), false);
    assert.equal(await door.close(), false);
    assert.equal(await redis.get(door.key), 'someone-else');
  },

  async 'a door opens when the foreign clerk has gone'() {
    const door = new VaultDoor(redis, 3);
    await redis.set(door.key, 'someone-else', 'PX', 60_000);
    assert.equal(await door.open(), false);
    await redis.del(door.key);
    assert.equal(await door.open(), true);
    assert.equal(await door.close(), true);
  },

  async 'a door that was kept has its full time again'() {
    const door = new VaultDoor(redis, 4);
    await door.open();
    await redis.pexpire(door.key, 20_000);
    assert.equal(await door.keep(), true);
    assert.ok((await redis.pttl(door.key)) > 30_000);
    await door.close();
  },

  async 'a door whose time is over is not kept'() {
    const door = new VaultDoor(redis, 5, 250);
    await door.open();
    while ((await redis.exists(door.key)) === 1) await after(30);
    assert.equal(await door.keep(), false);
    assert.equal(await door.close(), false);
  },

  async 'a door that was taken over is not closed by the former clerk'() {
    const [former, next] = [new VaultDoor(redis, 6), new VaultDoor(redis, 6)];
    assert.equal(await former.open(), true);
    await redis.del(former.key); // as if its time were over
    assert.equal(await next.open(), true);
    assert.equal(await former.keep(), false);
    assert.equal(await former.close(), false);
    assert.equal(await next.close(), true);
  },

  async 'twelve clerks, one opens'() {
    const doors = Array.from({ length: 12 }, () => new VaultDoor(redis, 7));
    const opened = await Promise.all(doors.map((door) => door.open()));
    assert.equal(opened.filter(Boolean).length, 1);
    await Promise.all(doors.map((door) => door.close()));
    assert.equal(await redis.exists(doors[0].key), 0);
  },
};

async function main() {
  const failed = [];
  for (const [title, test] of Object.entries(cases)) {
    try {
      await test();
    } catch (error) {
      failed.push(`${title}: ${error.message}`);
    } finally {
      const left = await redis.keys('vault:door:*');
      if (left.length > 0) await redis.del(...left);
    }
  }
  await redis.quit();
  console.log(
    failed.length === 0 ? `ok: ${Object.keys(cases).length} tests passed` : `damage: ${failed.join('; ')}`,
  );
}

main();
