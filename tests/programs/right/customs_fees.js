// Customs: a declaration is charged once, whatever its sender does: all three workers of the cluster get all requests, each with
// its idempotency key.
//
// A function of the server looks for the key, charges the account, gives the receipt its number and keeps the answer, in one
// step. There is no moment at which a request is charged and not known, or known and not charged.
const cluster = require('node:cluster');
const { once } = require('node:events');
const Redis = require('ioredis');

const LIBRARY = `#!lua name=customs
local function charge(keys, args)
  local known = redis.call('GET', keys[1])
  if known then return known end
  local number = redis.call('INCR', keys[2])
  redis.call('HINCRBY', keys[3], args[1], args[2])
  local receipt = cjson.encode({number = number, trader = args[1], cents = tonumber(args[2])})
  redis.call('SET', keys[1], receipt, 'EX', 86400)
  return receipt
end
redis.register_function('charge', charge)`;

const DECLARATIONS = Array.from({ length: 10 }, (_, number) => ({
  key: `decl-${4000 + number}`,
  trader: number % 3 === 0 ? 'nordfracht' : 'sole-import',
  cents: 1500 + 250 * number,
}));

class Customs {
  constructor(redis) {
    this.redis = redis;
  }

  async charge({ key, trader, cents }) {
    const keys = [`idempotency:${key}`, 'receipts:number', 'accounts:due'];
    return JSON.parse(await this.redis.call('FCALL', 'charge', keys.length, ...keys, trader, cents));
  }
}

async function worker() {
  const redis = new Redis(process.env.REDIS_URL);
  const customs = new Customs(redis);
  await redis.ping();
  const open = once(process, 'message');
  process.send('ready');
  await open;
  const turned = DECLARATIONS.map((_, place) => DECLARATIONS[(place + 3 * cluster.worker.id) % DECLARATIONS.length]);
  const receipts = await Promise.all(turned.map(async (one) => [one.key, (await customs.charge(one)).number]));
  await redis.quit();
  process.send(Object.fromEntries(receipts), () => process.disconnect());
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  await redis.call('FUNCTION', 'LOAD', 'REPLACE', LIBRARY);
  const workers = [1, 2, 3].map(() => cluster.fork());
  await Promise.all(workers.map((one) => once(one, 'message')));
  const answers = Promise.all(workers.map((one) => once(one, 'message')));
  for (const one of workers) one.send('open');
  const receipts = (await answers).map(([receipt]) => receipt);

  const due = await redis.hgetall('accounts:due');
  await redis.quit();
  const charged = Number(due.nordfracht) + Number(due['sole-import']);
  const expected = DECLARATIONS.reduce((sum, one) => sum + one.cents, 0);
  const same = DECLARATIONS.every(({ key }) => new Set(receipts.map((receipt) => receipt[key])).size === 1);
  const numbers = new Set(Object.values(receipts[0])).size;
  console.log(
    charged === expected && same && numbers === DECLARATIONS.length
      ? `ok: ${numbers} declarations were sent thrice and charged once, ${charged} cents`
      : `damage: ${charged} cents are charged instead of ${expected}`,
  );
}

if (cluster.isPrimary) main();
else worker();
