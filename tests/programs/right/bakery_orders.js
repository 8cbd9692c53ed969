// Bakery: the order sheet of a day is one document. Three shops, a process each, add their orders to it at the same time.
//
// A script replaces the document only if it still has the revision that the shop has read; otherwise the shop reads again.
// Whatever stops between the read and the script, an order that was accepted is in the document.
const { fork } = require('node:child_process');
const { once } = require('node:events');
const { createClient, defineScript } = require('redis');

const SHEET = 'bakery:2026-03-14';
const ORDERS = 15;

const replaceIfUnchanged = defineScript({
  NUMBER_OF_KEYS: 1,
  SCRIPT: `
    local now = redis.call('GET', KEYS[1])
    if now and cjson.decode(now).revision ~= tonumber(ARGV[1]) then return 0 end
    if not now and ARGV[1] ~= '0' then return 0 end
    redis.call('SET', KEYS[1], ARGV[2])
    return 1`,
  parseCommand(parser, key, revision, document) {
    parser.pushKey(key);
    parser.push(String(revision), JSON.stringify(document));
  },
  transformReply: (reply) => reply === 1,
});

async function connect() {
  const client = createClient({ url: process.env.REDIS_URL, scripts: { replaceIfUnchanged } });
  client.on('error', (error) => console.error(error));
  return client.connect();
}

async function add(redis, order) {
  for (let attempts = 1; ; attempts++) {
    const text = await redis.get(SHEET);
    const sheet = text ? JSON.parse(text) : { revision: 0, orders: [] };
    const next = { revision: sheet.revision + 1, orders: [...sheet.orders, order] };
    if (await redis.replaceIfUnchanged(SHEET, sheet.revision, next)) return attempts;
  }
}

async function shop(name) {
  const redis = await connect();
  const opening = once(process, 'message');
  process.send('ready');
  await opening;
  let attempts = 0;
  for (let number = 1; number <= ORDERS; number++) attempts += await add(redis, `${name}-${number}`);
  await redis.close();
  process.send({ attempts }, () => process.disconnect());
}

async function main() {
  const shops = ['mitte', 'hafen', 'bahnhof'].map((name) => fork(__filename, [name]));
  await Promise.all(shops.map((child) => once(child, 'message')));
  const closed = Promise.all(shops.map((child) => once(child, 'message')));
  for (const child of shops) child.send('open');
  const attempts = (await closed).reduce((sum, [report]) => sum + report.attempts, 0);

  const redis = await connect();
  const { orders } = JSON.parse(await redis.get(SHEET));
  await redis.close();
  const complete = orders.length === shops.length * ORDERS && new Set(orders).size === orders.length;
  console.log(
    complete
      ? `ok: ${orders.length} orders are in the sheet after ${attempts} attempts`
      : `damage: ${orders.length} orders are in the sheet`,
  );
}

if (process.argv[2]) shop(process.argv[2]);
else main();
