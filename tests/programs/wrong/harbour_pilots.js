// Harbour pilots: one of two offices, a process each, is on duty and writes the roster. The office on duty proves that it
// lives by setting the duty key again and again.
//
// Wrong: it sets the key with XX, which asks whether there is a value, and not whose. An office that stood still until its
// duty was over takes the duty away from the next one, and writes what it had in mind.
const { fork } = require('node:child_process');
const { once, EventEmitter } = require('node:events');
const { setTimeout: after } = require('node:timers/promises');
const Redis = require('ioredis');

const DUTY = 'harbour:duty';
const ROSTER = 'harbour:roster';

class Office extends EventEmitter {
  constructor(name, ttl) {
    super();
    this.name = name;
    this.ttl = ttl;
    this.redis = new Redis(process.env.REDIS_URL);
  }

  async comeOnDuty() {
    while ((await this.redis.set(DUTY, this.name, 'PX', this.ttl, 'NX')) !== 'OK') await after(50);
  }

  async stillOnDuty() {
    return (await this.redis.set(DUTY, this.name, 'PX', 60_000, 'XX')) === 'OK'; // over the other's duty!
  }

  async assign(ship, pilot, meanwhile) {
    const roster = JSON.parse((await this.redis.get(ROSTER)) ?? '{}');
    await meanwhile();
    if (!(await this.stillOnDuty())) throw new Error(`${this.name} is not on duty`);
    roster[ship] = pilot;
    await this.redis.set(ROSTER, JSON.stringify(roster)); // a roster that is older than the other's!
  }
}

async function office(name) {
  const one = new Office(name, name === 'outer' ? 350 : 60_000);
  const halt = async (word) => {
    const go = once(process, 'message');
    process.send(word);
    await go;
  };
  await halt('open');
  await one.comeOnDuty();
  if (name === 'outer') await one.assign('Gudrun Maersk', 'Petersen', () => halt('stands still'));
  else await one.assign('Ever Gentle', 'Yilmaz', async () => {});
  process.send('assigned');
  await one.redis.quit();
  process.disconnect();
}

async function main() {
  const [outer, inner] = ['outer', 'inner'].map((name) => fork(__filename, [name]));
  await Promise.all([once(outer, 'message'), once(inner, 'message')]);
  const forward = async (child) => {
    const said = once(child, 'message');
    child.send('go');
    return (await said)[0];
  };
  await forward(outer);
  await forward(inner);
  await forward(outer);

  const redis = new Redis(process.env.REDIS_URL);
  const [roster, duty] = [JSON.parse(await redis.get(ROSTER)), await redis.get(DUTY)];
  await redis.quit();
  console.log(
    Object.keys(roster).length === 2
      ? 'ok: both ships have a pilot'
      : `damage: two ships were given a pilot, and ${duty} has the roster ${JSON.stringify(roster)}`,
  );
}

if (process.argv[2]) office(process.argv[2]);
else main();
