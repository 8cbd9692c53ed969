// Hourly reports: threads take lock.hourly by SETNX, whose value says until when, and make what is missing.
//
// Right: who takes over an old lock compares the reply of GETSET with the time that it saw, as documented, and is
// refused otherwise. The lock is not deleted but grows old. A report is made of entries of an hour that is closed, and
// set once by HSETNX: should two make the same one, they make the same text.
'use strict';
const assert = require('node:assert');
const { once } = require('node:events');
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const Redis = require('ioredis');

const LOCK = 'lock.hourly';
const REPORTS = 'hourly:reports';
const HOURS = ['08', '09', '10'];

// The thread stops here until the main thread lets it go on.
const at = (place) =>
  new Promise((go) => {
    parentPort.once('message', go);
    parentPort.postMessage(place);
  });

async function acquire(redis, lease) {
  const until = () => String(Date.now() + lease + 1);
  if (await redis.setnx(LOCK, until())) return true;
  const seen = await redis.get(LOCK);
  if (Number(seen) > Date.now()) return false;
  await at('old');
  return (await redis.getset(LOCK, until())) === seen;
}

async function reports(redis, { lease, dies }) {
  await at('ready');
  if (!(await acquire(redis, lease))) return at('refused');
  for (const hour of HOURS) {
    const entries = await redis.lrange(`hourly:entries:${hour}`, 0, -1);
    const sum = entries.reduce((all, one) => all + Number(one), 0);
    await at('computed');
    if (dies) process.exit(0);
    await redis.hsetnx(REPORTS, hour, `${entries.length} entries, ${sum}`);
  }
  return at('done');
}

function start(words) {
  const worker = new Worker(__filename, { workerData: words });
  const came = [];
  const waiting = [];
  worker.on('message', (place) => (waiting.length ? waiting.shift()(place) : came.push(place)));
  const reaches = async (place) =>
    assert.equal(came.shift() ?? (await new Promise((then) => waiting.push(then))), place);
  return {
    reaches,
    go: () => worker.postMessage('go'),
    through: async (...places) => {
      for (const place of places) {
        await reaches(place);
        worker.postMessage('go');
      }
    },
    end: once(worker, 'exit').then(([code]) => assert.equal(code, 0)),
  };
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  if (!isMainThread) {
    await reports(redis, workerData);
    return redis.quit();
  }
  for (const hour of HOURS) await redis.rpush(`hourly:entries:${hour}`, 5, 7, Number(hour));

  const dead = start({ lease: 800, dies: true });
  const [one, two] = [start({ lease: 60000 }), start({ lease: 60000 })];
  await Promise.all([dead, one, two].map((each) => each.reaches('ready')));
  dead.go();
  await dead.through('computed');
  await dead.end;
  await new Promise((then) => setTimeout(then, 900));
  one.go();
  two.go();
  await Promise.all([one.reaches('old'), two.reaches('old')]);
  one.go();
  await one.through('computed', 'computed');
  two.go();
  await two.through('refused');
  await one.through('computed', 'done');
  await Promise.all([one.end, two.end]);

  const made = await redis.hgetall(REPORTS);
  const texts = HOURS.map((hour) => made[hour]).join('; ');
  const fine = texts === '3 entries, 20; 3 entries, 21; 3 entries, 22';
  console.log(`${fine ? 'ok' : 'broken'}: ${texts}`);
  await redis.quit();
}

main();
