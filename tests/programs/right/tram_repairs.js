// Tram depot: drivers report defects, and each tram has at most one open repair: a hash that whoever reports first creates,
// that a workshop takes from a list, changes and removes. Then the next report of the tram opens a new one.
//
// A repair is created together with its place in the list, and removed together with being counted, so that one that is open
// is always in exactly one list. A workshop has its repair for itself, since LMOVE gives it to nobody else.
const { fork } = require('node:child_process');
const { once } = require('node:events');
const { createClient } = require('redis');

const OPEN = 'repairs:open';
const TRAMS = ['t1', 't2', 't3', 't4'];
const REPORTS = 20;
const REPORT = `
  redis.call('HINCRBY', KEYS[3], ARGV[1], 1)
  if redis.call('EXISTS', KEYS[1]) == 1 then
    redis.call('HINCRBY', KEYS[1], 'reports', 1)
    return 0
  end
  redis.call('HSET', KEYS[1], 'state', 'open', 'reports', 1)
  redis.call('LPUSH', KEYS[2], ARGV[1])
  return 1`;

const connect = async () => {
  const client = createClient({ url: process.env.REDIS_URL });
  client.on('error', (error) => console.error(error));
  return client.connect();
};

const started = async () => {
  const start = once(process, 'message');
  process.send('ready');
  await start;
};

const roles = {
  async driver(redis) {
    await started();
    let opened = 0;
    for (let count = 0; count < REPORTS; count++) {
      const tram = TRAMS[count % TRAMS.length];
      opened += await redis.eval(REPORT, { keys: [`repair:${tram}`, OPEN, 'repairs:reports'], arguments: [tram] });
    }
    return { opened };
  },

  async workshop(redis, name) {
    let closing = false;
    await started();
    process.once('message', () => (closing = true));
    const bench = `repairs:at:${name}`;
    for (;;) {
      const last = closing;
      const tram = await redis.lMove(OPEN, bench, 'RIGHT', 'LEFT');
      if (tram === null) {
        if (last) return {};
        await new Promise((resolve) => setTimeout(resolve, 10));
        continue;
      }
      await redis.hSet(`repair:${tram}`, { state: 'running', workshop: name });
      await redis
        .multi()
        .del(`repair:${tram}`)
        .lRem(bench, 1, tram)
        .hIncrBy('repairs:done', tram, 1)
        .exec();
    }
  },
};

async function work(role, name) {
  const redis = await connect();
  const report = await roles[role](redis, name);
  await redis.close();
  process.send(report, () => process.disconnect());
}

async function main() {
  const drivers = ['ana', 'bert'].map((name) => fork(__filename, ['driver', name]));
  const workshops = ['north', 'south'].map((name) => fork(__filename, ['workshop', name]));
  const all = [...drivers, ...workshops];
  await Promise.all(all.map((child) => once(child, 'message')));
  const reports = Promise.all(drivers.map((child) => once(child, 'message')));
  for (const child of all) child.send('start');
  const opened = (await reports).reduce((sum, [report]) => sum + report.opened, 0);
  const closed = Promise.all(workshops.map((child) => once(child, 'message')));
  for (const child of workshops) child.send('close');
  await closed;

  const redis = await connect();
  const sum = async (key) => Object.values(await redis.hGetAll(key)).reduce((total, count) => total + Number(count), 0);
  const [done, told] = [await sum('repairs:done'), await sum('repairs:reports')];
  const left = await redis.exists([OPEN, ...TRAMS.map((tram) => `repair:${tram}`)]);
  await redis.close();
  console.log(
    done === opened && told === 2 * REPORTS && left === 0
      ? `ok: ${opened} repairs were opened and done, for ${told} reports`
      : `damage: ${opened} repairs were opened and ${done} done, for ${told} reports, ${left} are left`,
  );
}

const [role, name] = process.argv.slice(2);
if (role) work(role, name);
else main();
