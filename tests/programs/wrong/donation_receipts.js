// Donations: the payment provider delivers each event at least once, to any worker of the cluster. A set has the events that
// are booked already.
//
// Wrong: a worker looks with SISMEMBER, books, and adds the event with SADD, whose answer nobody reads. Two deliveries of one
// event that come together are both booked.
const cluster = require('node:cluster');
const { once } = require('node:events');
const { createClient } = require('redis');

const SEEN = 'donations:seen';

class Receipts {
  constructor(redis, checkpoint) {
    this.redis = redis;
    this.checkpoint = checkpoint;
  }

  async handle(event) {
    if (await this.redis.sIsMember(SEEN, event.id)) return this.checkpoint('known');
    await this.checkpoint('new');
    await this.redis.sAdd(SEEN, event.id); // 0 for the second one!
    await this.redis.hIncrBy(`donor:${event.donor}`, 'euros', event.euros); // once more!
    await this.redis.rPush(`donor:${event.donor}:receipts`, `${event.id} worker ${cluster.worker.id}`);
    return this.checkpoint('booked');
  }
}

async function worker() {
  const redis = createClient({ url: process.env.REDIS_URL });
  redis.on('error', (error) => console.error(error));
  await redis.connect();
  const checkpoint = async (word) => {
    const go = once(process, 'message');
    process.send(word);
    await go;
  };
  await checkpoint('ready');
  await new Receipts(redis, checkpoint).handle({ id: 'evt_5301', donor: 'brandt', euros: 80 });
  await redis.close();
  process.disconnect();
}

async function main() {
  const workers = [cluster.fork(), cluster.fork()];
  const all = (begin) => {
    const words = Promise.all(workers.map((one) => once(one, 'message')));
    begin?.();
    return words;
  };
  const go = () => workers.forEach((one) => one.send('go'));
  await all();
  await all(go);
  await all(go);
  go();

  const redis = createClient({ url: process.env.REDIS_URL });
  redis.on('error', (error) => console.error(error));
  await redis.connect();
  const euros = Number(await redis.hGet('donor:brandt', 'euros'));
  const receipts = await redis.lLen('donor:brandt:receipts');
  await redis.close();
  console.log(
    euros === 80
      ? 'ok: the donation is booked once'
      : `damage: two were inside at once: one donation of 80 euros is booked as ${euros} with ${receipts} receipts`,
  );
}

if (cluster.isPrimary) main();
else worker();
