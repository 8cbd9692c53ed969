// A crawler of one process: connections walk a site together; a set has the addresses that are known already.
//
// Right: an address is made known and put into the list in one script, and a walker moves it to its own list in one
// step, where it stays until its page is there. The pause between two requests to a host is a key that only its expiry
// removes: it keeps nobody out of data.
'use strict';
const Redis = require('ioredis');

const LINKS = {
  '/': ['/news', '/shop', '/about'],
  '/news': ['/', '/news/1', '/news/2'],
  '/news/1': ['/news/2', '/'],
  '/news/2': ['/news/1', '/shop'],
  '/shop': ['/shop/lamp', '/shop/chair', '/'],
  '/shop/lamp': ['/shop'],
  '/shop/chair': ['/shop', '/about'],
  '/about': ['/'],
};
const DISCOVER = `
if redis.call('sadd', KEYS[1], ARGV[1]) == 0 then return 0 end
return redis.call('rpush', KEYS[2], ARGV[1])`;
const site = `crawl:${Math.random().toString(36).slice(2, 8)}`;
const [known, todo, pages, pause] = ['known', 'todo', 'pages', 'pause'].map((part) => `${site}:${part}`);

const discover = (redis, path) => redis.eval(DISCOVER, 2, known, todo, path);

async function walk(redis, walker) {
  const mine = `${site}:doing:${walker}`;
  for (;;) {
    const path = await redis.blmove(todo, mine, 'LEFT', 'RIGHT', 0.1);
    if (path === null) {
      // Whoever works may still find something; all is done when all known pages are there.
      if ((await redis.hlen(pages)) === (await redis.scard(known))) return;
      continue;
    }
    while (!(await redis.set(pause, walker, 'PX', 40, 'NX'))) {
      const ms = await redis.pttl(pause);
      await new Promise((then) => setTimeout(then, Math.max(ms, 1)));
    }
    for (const link of LINKS[path]) await discover(redis, link);
    await redis.multi().hsetnx(pages, path, LINKS[path].length).lrem(mine, 1, path).exec();
  }
}

async function main() {
  const pool = [1, 2, 3].map(() => new Redis(process.env.REDIS_URL));
  await discover(pool[0], '/');
  await Promise.all(pool.map((redis, index) => walk(redis, index)));

  const found = await pool[0].hgetall(pages);
  const links = Object.values(found).reduce((sum, count) => sum + Number(count), 0);
  const fine = Object.keys(found).length === 8 && links === 17 && (await pool[0].llen(todo)) === 0;
  console.log(`${fine ? 'ok' : 'broken'}: ${Object.keys(found).length} pages with ${links} links`);
  await Promise.all(pool.map((redis) => redis.quit()));
}

main();
