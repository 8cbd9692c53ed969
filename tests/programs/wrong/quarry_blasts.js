// Quarry: blasting crews enter their charges into the plan of a wall, one crew at a time. The crews have named connections
// of one server process.
//
// Wrong: the lock is released with DEL, whoever has it then. A crew whose lease was over deletes the lock of the next crew,
// and a third one comes in.
const { setTimeout: after } = require('node:timers/promises');
const { randomUUID } = require('node:crypto');
const Redis = require('ioredis');

const WALL = 'wall:north';
const LOCK = `${WALL}:lock`;

class Crew {
  constructor(name) {
    this.redis = new Redis(process.env.REDIS_URL, { connectionName: `crew-${name}` });
    this.name = name;
  }

  async enter(lease) {
    while ((await this.redis.set(LOCK, randomUUID(), 'PX', lease, 'NX')) !== 'OK') await after(40);
  }

  async read() {
    this.plan = JSON.parse((await this.redis.get(`${WALL}:plan`)) ?? '{}');
  }

  async write(charges) {
    this.plan[this.name] = charges;
    await this.redis.set(`${WALL}:plan`, JSON.stringify(this.plan)); // of the second and third, from the same plan!
  }

  async leave() {
    return this.redis.del(LOCK); // no look at whose it is!
  }
}

async function main() {
  const [one, two, three] = ['one', 'two', 'three'].map((name) => new Crew(name));

  await one.enter(300);
  await one.read();
  await one.write(4);
  await two.enter(60_000); // when the lease of the first crew is over
  await two.read();
  const deleted = await one.leave();
  await three.enter(60_000);
  await three.read();
  await two.write(7);
  await two.leave();
  await three.write(5);
  await three.leave();

  const plan = JSON.parse(await one.redis.get(`${WALL}:plan`));
  console.log(
    Object.keys(plan).length === 3
      ? 'ok: the plan has the charges of three crews'
      : `damage: crew one deleted ${deleted} lock of crew two, and the plan lacks a crew: ${JSON.stringify(plan)}`,
  );
  await Promise.all([one, two, three].map((crew) => crew.redis.quit()));
}

main();
