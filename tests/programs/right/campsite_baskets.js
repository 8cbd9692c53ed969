// Campsite: the shop's web server runs in a cluster, and the session of a guest is a hash. Requests of one guest reach all
// workers, and whichever is first begins the session.
//
// No request computes a field from what it has read: articles are counted by HINCRBY, and language and last page are what
// the latest request says. Logging out deletes the session when the guest has nothing open any more.
const cluster = require('node:cluster');
const http = require('node:http');
const { once } = require('node:events');
const Redis = require('ioredis');

const ARTICLES = ['gas', 'rope', 'lamp'];

class SessionStore {
  constructor(redis) {
    this.redis = redis;
  }

  async touch(id, page) {
    const key = `session:${id}`;
    const now = new Date().toISOString();
    await this.redis.multi().hsetnx(key, 'begun', now).hset(key, 'page', page).expire(key, 1800).exec();
  }

  put(id, article) {
    return this.redis.hincrby(`session:${id}`, `basket:${article}`, 1);
  }

  speak(id, language) {
    return this.redis.hset(`session:${id}`, 'language', language);
  }

  read(id) {
    return this.redis.hgetall(`session:${id}`);
  }

  end(id) {
    return this.redis.del(`session:${id}`);
  }
}

async function worker() {
  const store = new SessionStore(new Redis(process.env.REDIS_URL));
  const server = http.createServer(async (request, response) => {
    const [, action, word] = request.url.split('/');
    const id = request.headers.cookie.split('=')[1];
    let reply = {};
    if (action !== 'leave') await store.touch(id, request.url);
    if (action === 'put') reply.count = await store.put(id, word);
    else if (action === 'speak') await store.speak(id, word);
    else if (action === 'basket') reply = await store.read(id);
    else if (action === 'leave') reply.ended = await store.end(id);
    response.setHeader('connection', 'close').end(JSON.stringify({ ...reply, worker: cluster.worker.id }));
  });
  server.listen(0, '127.0.0.1');
  await once(process, 'message');
  server.close();
  await store.redis.quit();
  process.disconnect();
}

async function main() {
  const workers = [cluster.fork(), cluster.fork(), cluster.fork()];
  const listening = await Promise.all(workers.map((one) => once(one, 'listening')));
  const { port } = listening[0][0];
  const served = new Set();
  const ask = async (guest, path) => {
    const reply = await fetch(`http://127.0.0.1:${port}/${path}`, { headers: { cookie: `sid=${guest}` } });
    const answer = await reply.json();
    served.add(answer.worker);
    return answer;
  };

  const wrong = [];
  for (const guest of ['tent-7', 'van-12']) {
    const requests = [];
    for (let round = 0; round < 5; round++) {
      for (const article of ARTICLES) requests.push(ask(guest, `put/${article}`));
      requests.push(ask(guest, `speak/${round % 2 ? 'sv' : 'en'}`));
    }
    await Promise.all(requests);
    const session = await ask(guest, 'basket');
    for (const article of ARTICLES) if (session[`basket:${article}`] !== '5') wrong.push(`${guest} ${article}`);
    if (!['sv', 'en'].includes(session.language)) wrong.push(`${guest} speaks ${session.language}`);
    if ((await ask(guest, 'leave')).ended !== 1) wrong.push(`${guest} does not leave`);
  }
  for (const one of workers) one.send('close');
  console.log(
    wrong.length === 0
      ? `ok: two baskets have fifteen articles each, by ${served.size} workers`
      : `damage: ${wrong}`,
  );
}

if (cluster.isPrimary) main();
else worker();
