// Observatory: two observers, each with a connection of its own in one server, add targets to the plan of a dome. The first one
// thinks until its time is over, once before it looks at its lock again and once after.
//
// The lock is watched, then looked at, and then the plan is written by MULTI and EXEC: if the lock ends or gets another
// holder in between, EXEC writes nothing, and the observer begins again.
const { setTimeout: after } = require('node:timers/promises');
const { randomUUID } = require('node:crypto');
const { createClient, WatchError } = require('redis');

const LOCK = 'dome:2:lock';
const PLAN = 'dome:2:plan';
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

class LostLock extends Error {}

class Observer {
  restarts = 0;

  static async arrive(name) {
    const observer = new Observer();
    observer.name = name;
    observer.redis = createClient({ url: process.env.REDIS_URL });
    observer.redis.on('error', (error) => console.error(error));
    await observer.redis.connect();
    return observer;
  }

  async observe(target, lease = 60_000, thoughts = {}) {
    for (;;) {
      try {
        return await this.#attempt(target, lease, thoughts);
      } catch (error) {
        if (!(error instanceof LostLock || error instanceof WatchError)) throw error;
        this.restarts += 1;
      }
    }
  }

  async #attempt(target, lease, { beforeCheck, beforeWrite }) {
    const token = randomUUID();
    while (!(await this.redis.set(LOCK, token, { condition: 'NX', expiration: { type: 'PX', value: lease } }))) {
      await after(25);
    }
    try {
      const plan = JSON.parse((await this.redis.get(PLAN)) ?? '[]');
      await beforeCheck?.shift()?.();
      await this.redis.watch(LOCK);
      if ((await this.redis.get(LOCK)) !== token) {
        await this.redis.unwatch();
        throw new LostLock();
      }
      await beforeWrite?.shift()?.();
      await this.redis.multi().set(PLAN, JSON.stringify([...plan, `${this.name}: ${target}`])).exec();
    } finally {
      await this.redis.eval(RELEASE, { keys: [LOCK], arguments: [token] });
    }
  }
}

async function main() {
  const [rosa, timo] = [await Observer.arrive('Rosa'), await Observer.arrive('Timo')];

  await rosa.observe('M31', 500, {
    beforeCheck: [() => timo.observe('M13')],
    beforeWrite: [() => timo.observe('M57')],
  });

  const plan = JSON.parse(await rosa.redis.get(PLAN));
  const { restarts } = rosa;
  await Promise.all([rosa.redis.close(), timo.redis.close()]);
  console.log(
    plan.length === 3 && restarts >= 2
      ? `ok: three targets are planned, and one observer began again ${restarts} times`
      : `damage: three targets were planned, and the plan has ${plan}`,
  );
}

main();
