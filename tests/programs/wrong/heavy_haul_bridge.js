// Heavy haulage: a bridge bears two transports at once. Each transport is a worker of the cluster; a sorted set has those
// who are on the bridge, with the time when their permit is over.
//
// Wrong: a worker counts with ZCARD first and adds itself with ZADD then. Between both others count as well.
const cluster = require('node:cluster');
const { once } = require('node:events');
const Redis = require('ioredis');

const PERMITS = 'bridge:elbe:permits';
const LOAD = 'bridge:elbe:tonnes';
const LIMIT = 2;
const TONNES = 48;

async function transport() {
  const redis = new Redis(process.env.REDIS_URL);
  const plate = process.env.PLATE;
  const hold = async (point, figure) => {
    const go = once(process, 'message');
    process.send({ point, figure });
    await go;
  };

  await redis.ping();
  await hold('waiting');
  await redis.zremrangebyscore(PERMITS, '-inf', Date.now());
  if ((await redis.zcard(PERMITS)) < LIMIT) {
    await hold('counted');
    await redis.zadd(PERMITS, Date.now() + 90_000, plate); // nobody counts again!
    const tonnes = await redis.incrby(LOAD, TONNES); // three are on the bridge!
    await hold('crossing', tonnes);
    await redis.decrby(LOAD, TONNES);
    await redis.zrem(PERMITS, plate);
  } else {
    await hold('refused');
  }
  await redis.quit();
  process.disconnect();
}

async function main() {
  const plates = ['HH-1', 'HH-2', 'HH-3'];
  const heard = [];
  let complete;
  cluster.on('message', (worker, message) => {
    if (heard.push(message) === plates.length) complete(heard.splice(0));
  });
  const step = (begin) =>
    new Promise((resolve) => {
      complete = resolve;
      begin();
    });
  const go = () => Object.values(cluster.workers).forEach((worker) => worker.send('go'));

  await step(() => plates.forEach((PLATE) => cluster.fork({ PLATE })));
  await step(go);
  const crossing = await step(go);
  const redis = new Redis(process.env.REDIS_URL);
  const permits = await redis.zcard(PERMITS);
  await redis.quit();
  go();

  const tonnes = Math.max(...crossing.map((one) => one.figure ?? 0));
  console.log(
    permits > LIMIT && tonnes > LIMIT * TONNES
      ? `damage: ${permits} transports with ${tonnes} t are on a bridge for ${LIMIT} with ${LIMIT * TONNES} t`
      : `ok: ${permits} transports are on the bridge`,
  );
}

if (cluster.isPrimary) main();
else transport();
