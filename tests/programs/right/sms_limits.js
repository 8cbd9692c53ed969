// SMS gateway: a customer may send twenty messages a minute. Three senders, each with a connection of its own, try far more.
//
// The window's counter is incremented before a message is sent, and the answer decides. A counter that is too high by refused
// attempts, or one whose sender died, only refuses more.
const Redis = require('ioredis');

const LIMIT = 20;
const SECONDS = 60;

const limiter = (redis) =>
  async function allowed(customer) {
    const window = Math.floor(Date.now() / 1000 / SECONDS);
    const key = `sms:${customer}:${window}`;
    const [[, count]] = await redis
      .multi()
      .incr(key)
      .expire(key, SECONDS * 2)
      .exec();
    return { window, sent: count <= LIMIT };
  };

async function sender(name, attempts) {
  const redis = new Redis(process.env.REDIS_URL);
  const allowed = limiter(redis);
  const tried = [];
  for (let number = 0; number < attempts; number++) {
    const { window, sent } = await allowed('acme');
    tried.push(window);
    if (sent) await redis.rpush('outbox:acme', JSON.stringify({ window, text: `${name} ${number}` }));
  }
  await redis.quit();
  return tried;
}

async function main() {
  const tried = (await Promise.all(['alerts', 'codes', 'offers'].map((name) => sender(name, 30)))).flat();

  const redis = new Redis(process.env.REDIS_URL);
  const outbox = (await redis.lrange('outbox:acme', 0, -1)).map((text) => JSON.parse(text));
  await redis.quit();
  const within = (messages, window) => messages.filter((one) => one === window).length;
  const windows = [...new Set(tried)];
  const right = windows.every((window) => {
    const sent = within(outbox.map((message) => message.window), window);
    return sent === Math.min(LIMIT, within(tried, window));
  });
  console.log(
    right
      ? `ok: ${outbox.length} of ${tried.length} messages were sent in ${windows.length} window(s)`
      : `damage: ${outbox.length} messages were sent`,
  );
}

main();
