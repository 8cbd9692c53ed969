// Toll station: the cashiers of one lane, a thread each, add their payments to the lane's sheet, one at a time.
//
// Wrong: the lock is a counter, and who gets 1 from INCR is in. But also the one who gets 2 comes through `finally`, and
// deletes the counter there: the third gets 1 while the first one is still inside.
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const { once } = require('node:events');
const Redis = require('ioredis');

const GATE = 'lane:9:gate';
const SHEET = 'lane:9:sheet';

class Cashier {
  constructor(name, cents) {
    this.name = name;
    this.cents = cents;
    this.redis = new Redis(process.env.REDIS_URL);
  }

  async book() {
    try {
      const turn = await this.redis.incr(GATE);
      await this.redis.expire(GATE, 120);
      if (turn > 1) return 'refused';
      const sheet = JSON.parse((await this.redis.get(SHEET)) ?? '{"cents":0,"paid":[]}');
      await pause('read');
      sheet.cents += this.cents;
      sheet.paid.push(this.name);
      await this.redis.set(SHEET, JSON.stringify(sheet)); // two of them, from the same sheet!
      return 'booked';
    } finally {
      await this.redis.del(GATE); // also when it was refused: the gate of the one inside!
    }
  }
}

async function pause(word) {
  const go = once(parentPort, 'message');
  parentPort.postMessage(word);
  await go;
}

async function thread() {
  const cashier = new Cashier(workerData.name, workerData.cents);
  await pause('open');
  parentPort.postMessage(await cashier.book());
  await cashier.redis.quit();
  parentPort.close();
}

async function hired(name, cents) {
  const worker = new Worker(__filename, { workerData: { name, cents } });
  const heard = [];
  let wake = () => {};
  worker.on('message', (word) => {
    heard.push(word);
    wake();
  });
  const hears = async (expected) => {
    while (heard.length === 0) await new Promise((resolve) => (wake = resolve));
    const word = heard.shift();
    if (word !== expected) throw new Error(`${name}: ${word} instead of ${expected}`);
  };
  await hears('open');
  return { hears, go: () => worker.postMessage('go') };
}

async function main() {
  const [ines, jon, kim] = [await hired('ines', 450), await hired('jon', 900), await hired('kim', 1250)];
  ines.go();
  await ines.hears('read');
  jon.go();
  await jon.hears('refused');
  kim.go();
  await kim.hears('read');
  ines.go();
  await ines.hears('booked');
  kim.go();
  await kim.hears('booked');

  const redis = new Redis(process.env.REDIS_URL);
  const sheet = JSON.parse(await redis.get(SHEET));
  await redis.quit();
  console.log(
    sheet.cents === 1700
      ? 'ok: both payments are in the sheet'
      : `damage: 450 and 1250 cents were paid, and the sheet has ${sheet.cents} of ${sheet.paid}`,
  );
}

if (isMainThread) main();
else thread();
