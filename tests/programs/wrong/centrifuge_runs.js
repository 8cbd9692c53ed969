// Laboratory: an instance of the service takes the name of a free centrifuge from a list, adds samples to the rotor plan of
// that centrifuge, and puts the name back. Each instance has a connection of its own.
//
// Wrong: whoever starts fills the list anew. A centrifuge that is in use at that moment is then in the list again.
const Redis = require('ioredis');

const FREE = 'centrifuges:free';
const ALL = ['c1', 'c2'];

class Instance {
  constructor(name) {
    this.name = name;
    this.redis = new Redis(process.env.REDIS_URL);
  }

  async start() {
    await this.redis.multi().del(FREE).rpush(FREE, ...ALL).exec(); // also the one that somebody has taken!
    return this;
  }

  async withCentrifuge(work) {
    const unit = await this.redis.lpop(FREE);
    if (unit === null) throw new Error('all centrifuges are in use');
    try {
      await work(unit);
    } finally {
      await this.redis.rpush(FREE, unit);
    }
  }

  async plan(unit, samples, meanwhile) {
    const plan = JSON.parse((await this.redis.get(`rotor:${unit}`)) ?? '[]');
    await meanwhile();
    plan.push(...samples);
    await this.redis.set(`rotor:${unit}`, JSON.stringify(plan)); // two of them with one centrifuge!
  }
}

async function main() {
  const first = await new Instance('morning').start();

  let second;
  await first.withCentrifuge((unit) =>
    first.plan(unit, ['s-101', 's-102'], async () => {
      // A second instance is deployed in the meantime, and has work at once.
      second = await new Instance('scaled-up').start();
      await second.withCentrifuge((other) => second.plan(other, ['s-201'], async () => {}));
    }),
  );

  const planned = [];
  for (const unit of ALL) planned.push(...JSON.parse((await first.redis.get(`rotor:${unit}`)) ?? '[]'));
  console.log(
    planned.length === 3
      ? 'ok: three samples are planned'
      : `damage: three samples were planned, and the rotors have ${planned.length} of them: ${planned}`,
  );
  await Promise.all([first.redis.quit(), second.redis.quit()]);
}

main();
