// Museum: the workers of a cluster render the texts of the audio guide and keep them in a cache, while a curator publishes
// new revisions and clears the pages of the old ones.
//
// The text of a revision never changes, and the revision is part of the cache's key. Whoever fills a page writes the same as
// anybody else would, also late, also after it was cleared.
const cluster = require('node:cluster');
const { once } = require('node:events');
const { createClient } = require('redis');

const ROOMS = [1, 2, 3];
const REVISIONS = 6;
const render = (room, revision, text) => `<article data-room="${room}" data-revision="${revision}">${text}</article>`;
const textOf = (room, revision) => `Room ${room}, told for the ${revision}th time.`;

class Guides {
  constructor(redis) {
    this.redis = redis;
  }

  async publish(room, revision) {
    await this.redis.hSetNX(`room:${room}:texts`, String(revision), textOf(room, revision));
    await this.redis.set(`room:${room}:revision`, revision);
    const old = [];
    for await (const keys of this.redis.scanIterator({ MATCH: `page:${room}:r*`, COUNT: 100 })) {
      old.push(...keys.filter((key) => key !== `page:${room}:r${revision}`));
    }
    if (old.length > 0) await this.redis.del(old);
  }

  async page(room) {
    const revision = Number(await this.redis.get(`room:${room}:revision`));
    const key = `page:${room}:r${revision}`;
    const cached = await this.redis.get(key);
    if (cached !== null) return { revision, html: cached, hit: true };
    const html = render(room, revision, await this.redis.hGet(`room:${room}:texts`, String(revision)));
    await this.redis.set(key, html, { condition: 'NX', expiration: { type: 'EX', value: 3600 } });
    return { revision, html, hit: false };
  }
}

async function connect() {
  const redis = createClient({ url: process.env.REDIS_URL });
  redis.on('error', (error) => console.error(error));
  return redis.connect();
}

async function reader() {
  const redis = await connect();
  const guides = new Guides(redis);
  const doors = once(process, 'message');
  process.send('ready');
  await doors;
  const report = { hits: 0, pages: 0, wrong: [] };
  const last = {};
  for (let visit = 0; visit < 60; visit++) {
    const room = ROOMS[visit % ROOMS.length];
    const { revision, html, hit } = await guides.page(room);
    report.pages += 1;
    report.hits += hit;
    if (html !== render(room, revision, textOf(room, revision)) || revision < (last[room] ?? 0)) report.wrong.push(html);
    last[room] = revision;
  }
  await redis.close();
  process.send(report, () => process.disconnect());
}

async function main() {
  const redis = await connect();
  const guides = new Guides(redis);
  for (const room of ROOMS) await guides.publish(room, 1);
  const readers = [1, 2, 3].map(() => cluster.fork());
  await Promise.all(readers.map((worker) => once(worker, 'message')));
  const reports = Promise.all(readers.map((worker) => once(worker, 'message')));
  for (const worker of readers) worker.send('open');
  for (let revision = 2; revision <= REVISIONS; revision++) {
    for (const room of ROOMS) await guides.publish(room, revision);
  }
  const all = (await reports).map(([report]) => report);
  const wrong = all.flatMap((report) => report.wrong);
  const count = (field) => all.reduce((sum, report) => sum + report[field], 0);
  await redis.close();
  console.log(
    wrong.length === 0
      ? `ok: ${count('pages')} pages have the text of their revision, ${count('hits')} of them from the cache`
      : `damage: ${wrong.length} pages are wrong: ${wrong[0]}`,
  );
}

if (cluster.isPrimary) main();
else reader();
