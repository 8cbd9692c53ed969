// Ski passes: guests pay each other from prepaid wallets. Three threads of the server, each with a connection of its own, carry
// out transfers at the same time.
//
// Both wallets are watched before they are read, and EXEC is refused if one of them has changed; then the transfer begins
// again. Nobody else uses the connection between WATCH and EXEC.
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const { once } = require('node:events');
const Redis = require('ioredis');

const GUESTS = ['ada', 'ben', 'cem', 'dora'];
const CENTS = 10_000;

class Wallets {
  refused = 0;

  constructor(redis) {
    this.redis = redis;
  }

  key(guest) {
    return `wallet:${guest}`;
  }

  async transfer(from, to, cents) {
    for (;;) {
      await this.redis.watch(this.key(from), this.key(to));
      const [giver, taker] = [await this.#read(from), await this.#read(to)];
      if (giver.cents < cents) {
        await this.redis.unwatch();
        return false;
      }
      const done = await this.redis
        .multi()
        .hset(this.key(from), { cents: giver.cents - cents, moves: giver.moves + 1 })
        .hset(this.key(to), { cents: taker.cents + cents, moves: taker.moves + 1 })
        .exec();
      if (done !== null) return true;
      this.refused += 1;
    }
  }

  async #read(guest) {
    const { cents, moves } = await this.redis.hgetall(this.key(guest));
    return { cents: Number(cents), moves: Number(moves) };
  }
}

async function till() {
  const redis = new Redis(process.env.REDIS_URL);
  const wallets = new Wallets(redis);
  await redis.ping();
  const start = once(parentPort, 'message');
  parentPort.postMessage('ready');
  await start;
  const moved = Object.fromEntries(GUESTS.map((guest) => [guest, 0]));
  for (let round = 0; round < 12; round++) {
    const from = GUESTS[(round + workerData.number) % GUESTS.length];
    const to = GUESTS[(round * 3 + workerData.number + 1) % GUESTS.length];
    const cents = 100 + 10 * round + workerData.number;
    if (from !== to && (await wallets.transfer(from, to, cents))) {
      moved[from] -= cents;
      moved[to] += cents;
    }
  }
  await redis.quit();
  parentPort.postMessage({ moved, refused: wallets.refused });
  parentPort.close();
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  for (const guest of GUESTS) await redis.hset(`wallet:${guest}`, { cents: CENTS, moves: 0 });
  const tills = [0, 1, 2].map((number) => new Worker(__filename, { workerData: { number } }));
  await Promise.all(tills.map((worker) => once(worker, 'message')));
  const reports = Promise.all(tills.map((worker) => once(worker, 'message')));
  for (const worker of tills) worker.postMessage('start');

  const expected = Object.fromEntries(GUESTS.map((guest) => [guest, CENTS]));
  let refused = 0;
  for (const [report] of await reports) {
    refused += report.refused;
    for (const guest of GUESTS) expected[guest] += report.moved[guest];
  }
  const wrong = [];
  for (const guest of GUESTS) {
    const cents = Number(await redis.hget(`wallet:${guest}`, 'cents'));
    if (cents !== expected[guest]) wrong.push(`${guest} has ${cents} instead of ${expected[guest]}`);
  }
  await redis.quit();
  console.log(
    wrong.length === 0
      ? `ok: four wallets have what was moved, and ${refused} transactions were refused and begun again`
      : `damage: ${wrong}`,
  );
}

if (isMainThread) main();
else till();
