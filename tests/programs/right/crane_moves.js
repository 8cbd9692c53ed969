// Container cranes: two planners, a process each, plan the moves of one crane. A planner has the crane for a short time; the
// first one stands still until its time is over, and writes its plan then.
//
// The script that takes the crane also raises its fence, in the same step. The script that writes a plan compares the fence
// with the one that the planner was given: after the next planner has come, nothing of the former one is written.
const { fork } = require('node:child_process');
const { on, once } = require('node:events');
const { setTimeout: after } = require('node:timers/promises');
const { randomUUID } = require('node:crypto');
const Redis = require('ioredis');

const KEYS = ['crane:{5}:lease', 'crane:{5}:fence', 'crane:{5}:plan'];

const scripts = {
  takeCrane: {
    numberOfKeys: 2,
    lua: `
      if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('INCR', KEYS[2]) end
      return 0`,
  },
  writePlan: {
    numberOfKeys: 2,
    lua: `
      if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
      redis.call('SET', KEYS[2], ARGV[2])
      return 1`,
  },
  freeCrane: {
    numberOfKeys: 1,
    lua: `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`,
  },
};

class Planner {
  stale = 0;

  constructor(name) {
    this.name = name;
    this.redis = new Redis(process.env.REDIS_URL, { scripts });
  }

  async add(moves, lease, thinking) {
    for (;;) {
      const token = randomUUID();
      let fence;
      while ((fence = await this.redis.takeCrane(KEYS[0], KEYS[1], token, lease)) === 0) await after(30);
      const plan = JSON.parse((await this.redis.get(KEYS[2])) ?? '[]');
      await thinking();
      const next = [...plan, ...moves.map((move) => `${this.name}: ${move}`)];
      const written = await this.redis.writePlan(KEYS[1], KEYS[2], fence, JSON.stringify(next));
      await this.redis.freeCrane(KEYS[0], token);
      if (written === 1) return;
      this.stale += 1;
      lease = 60_000;
      thinking = async () => {};
    }
  }
}

async function work(name) {
  const planner = new Planner(name);
  const halt = async (word) => {
    const go = once(process, 'message');
    process.send(word);
    await go;
  };
  await halt('ready');
  if (name === 'ship') await planner.add(['MSKU 1 to bay 3', 'MSKU 2 to bay 4'], 300, () => halt('thinks'));
  else await planner.add(['HLXU 9 to stack 12'], 60_000, async () => {});
  await planner.redis.quit();
  process.send({ stale: planner.stale }, () => process.disconnect());
}

async function main() {
  const begin = (name) => {
    const child = fork(__filename, [name]);
    const words = on(child, 'message');
    return { go: () => child.send('go'), next: async () => (await words.next()).value[0] };
  };
  const [ship, yard] = [begin('ship'), begin('yard')];
  await Promise.all([ship.next(), yard.next()]);
  ship.go();
  await ship.next();
  yard.go();
  await yard.next();
  ship.go();
  const { stale } = await ship.next();

  const redis = new Redis(process.env.REDIS_URL);
  const plan = JSON.parse(await redis.get(KEYS[2]));
  await redis.quit();
  console.log(
    plan.length === 3 && stale === 1
      ? 'ok: three moves are planned, and the plan of a planner that was late was refused'
      : `damage: ${stale} plans were refused, and ${plan.length} of three moves are there`,
  );
}

if (process.argv[2]) work(process.argv[2]);
else main();
