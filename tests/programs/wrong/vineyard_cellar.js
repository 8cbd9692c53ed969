// Vineyard: the presses, a process each, book their litres into the cellar book. A barrel's page is locked while a press
// computes the new level; the pages themselves go through a write-behind store that has a connection of its own.
//
// Wrong: the lock is released when the page is in the store's queue, and not when it is on the server. The next press
// reads the page as it was before.
const { fork } = require('node:child_process');
const { on, once } = require('node:events');
const { setTimeout: after } = require('node:timers/promises');
const { randomUUID } = require('node:crypto');
const Redis = require('ioredis');

const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";

class WriteBehind {
  #queue = new Map();

  constructor(url) {
    this.redis = new Redis(url, { connectionName: 'pages' });
  }

  put(key, page) {
    this.#queue.set(key, JSON.stringify(page));
  }

  async flush() {
    const pages = [...this.#queue];
    this.#queue.clear();
    for (const [key, page] of pages) await this.redis.set(key, page); // the lock is free or has another holder!
  }
}

class Press {
  constructor(name) {
    this.name = name;
    this.locks = new Redis(process.env.REDIS_URL, { connectionName: 'locks' });
    this.pages = new WriteBehind(process.env.REDIS_URL);
  }

  async book(barrel, litres) {
    const lock = `barrel:${barrel}:lock`;
    const token = randomUUID();
    while ((await this.locks.set(lock, token, 'PX', 60_000, 'NX')) === null) await after(25);
    try {
      const page = JSON.parse((await this.pages.redis.get(`barrel:${barrel}`)) ?? '{"litres":0,"presses":[]}');
      page.litres += litres;
      page.presses.push(this.name);
      this.pages.put(`barrel:${barrel}`, page);
    } finally {
      await this.locks.eval(RELEASE, 1, lock, token); // before the page is written!
    }
  }

  async close() {
    await Promise.all([this.locks.quit(), this.pages.redis.quit()]);
  }
}

async function work(name, litres) {
  const press = new Press(name);
  const commands = on(process, 'message');
  process.send('ready');
  for await (const [command] of commands) {
    if (command === 'book') await press.book(12, litres);
    if (command === 'flush') await press.pages.flush();
    process.send(`${command} is done`);
    if (command === 'flush') break;
  }
  await press.close();
  process.disconnect();
}

async function main() {
  const [first, second] = [fork(__filename, ['riesling', '300']), fork(__filename, ['silvaner', '450'])];
  await Promise.all([once(first, 'message'), once(second, 'message')]);
  const tell = async (press, command) => {
    const done = once(press, 'message');
    press.send(command);
    await done;
  };
  await tell(first, 'book');
  await tell(second, 'book');
  await tell(first, 'flush');
  await tell(second, 'flush');

  const redis = new Redis(process.env.REDIS_URL);
  const page = JSON.parse(await redis.get('barrel:12'));
  await redis.quit();
  console.log(
    page.litres === 750
      ? 'ok: the barrel has 750 l'
      : `damage: 300 l and 450 l were filled in, and the book says ${page.litres} l from ${page.presses}`,
  );
}

if (process.argv[2]) work(process.argv[2], Number(process.argv[3]));
else main();
