// Ambulance: calls come in at the end of a list. A process of its own sorts them by urgency now and then.
//
// Wrong: the sorted list replaces the old one in a transaction, but nothing watches the list between LRANGE and MULTI. What
// came in since then is deleted with the old list.
const { fork } = require('node:child_process');
const { once } = require('node:events');
const Redis = require('ioredis');

const CALLS = 'calls:waiting';

const roles = {
  async intake(redis) {
    const take = async (call) => redis.rpush(CALLS, JSON.stringify(call));
    await take({ id: 1, urgency: 3 });
    await take({ id: 2, urgency: 1 });
    await turn('two calls');
    await take({ id: 3, urgency: 1 });
    await turn('a third call');
  },

  async sorter(redis) {
    const calls = (await redis.lrange(CALLS, 0, -1)).map((text) => JSON.parse(text));
    calls.sort((one, other) => one.urgency - other.urgency);
    await turn('sorted');
    await redis
      .multi()
      .del(CALLS)
      .rpush(CALLS, ...calls.map((call) => JSON.stringify(call))) // a list that is older than the last call!
      .exec();
    await turn('stored');
  },
};

async function turn(word) {
  const next = once(process, 'message');
  process.send(word);
  await next;
}

async function play(role) {
  const redis = new Redis(process.env.REDIS_URL);
  await turn('here');
  await roles[role](redis);
  await redis.quit();
  process.disconnect();
}

async function main() {
  const [intake, sorter] = ['intake', 'sorter'].map((role) => fork(__filename, [role]));
  await Promise.all([once(intake, 'message'), once(sorter, 'message')]);
  const forward = async (child) => {
    const said = once(child, 'message');
    child.send('next');
    await said;
  };
  await forward(intake);
  await forward(sorter);
  await forward(intake);
  await forward(sorter);
  intake.send('next');
  sorter.send('next');

  const redis = new Redis(process.env.REDIS_URL);
  const waiting = (await redis.lrange(CALLS, 0, -1)).map((text) => JSON.parse(text).id);
  await redis.quit();
  console.log(
    waiting.length === 3
      ? 'ok: three calls wait'
      : `damage: three calls came in, and ${waiting.length} wait: ${waiting}`,
  );
}

if (process.argv[2]) play(process.argv[2]);
else main();
