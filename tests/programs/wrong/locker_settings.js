// Parcel lockers: PATCH /lockers/:id changes some settings of a locker. The server has a pool of connections, and each request
// takes the locker's lock before it writes.
//
// Wrong: the settings are read before the lock is taken, and written inside. The lock protects the write alone, which
// needs no protection, and not what happened since the read.
const http = require('node:http');
const { EventEmitter, once } = require('node:events');
const { randomUUID } = require('node:crypto');
const { createClientPool } = require('redis');

const RELEASE = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;
const requests = new EventEmitter();

class Lockers {
  constructor(pool) {
    this.pool = pool;
  }

  async locked(id, work) {
    const key = `locker:${id}:lock`;
    const token = randomUUID();
    while (!(await this.pool.set(key, token, { condition: 'NX', expiration: { type: 'EX', value: 60 } }))) {
      await new Promise((resolve) => setTimeout(resolve, 20));
    }
    try {
      return await work();
    } finally {
      await this.pool.eval(RELEASE, { keys: [key], arguments: [token] });
    }
  }

  async patch(id, changes) {
    const settings = JSON.parse((await this.pool.get(`locker:${id}:settings`)) ?? '{}'); // outside of the lock!
    const validated = once(requests, `validated ${Object.keys(changes)}`);
    requests.emit('has read');
    await validated;
    return this.locked(id, async () => {
      const next = { ...settings, ...changes };
      await this.pool.set(`locker:${id}:settings`, JSON.stringify(next)); // over what was written since!
      return next;
    });
  }
}

async function main() {
  const pool = createClientPool({ url: process.env.REDIS_URL }, { minimum: 2, maximum: 4 });
  pool.on('error', (error) => console.error(error));
  await pool.connect();
  const lockers = new Lockers(pool);

  const server = http.createServer(async (request, response) => {
    const parts = [];
    for await (const part of request) parts.push(part);
    const settings = await lockers.patch(request.url.split('/')[2], JSON.parse(Buffer.concat(parts)));
    response.setHeader('connection', 'close').end(JSON.stringify(settings));
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const patch = (changes) =>
    fetch(`http://127.0.0.1:${server.address().port}/lockers/88`, { method: 'PATCH', body: JSON.stringify(changes) });

  let read = once(requests, 'has read');
  const volume = patch({ volume: 3 });
  await read;
  read = once(requests, 'has read');
  const language = patch({ language: 'nl' });
  await read;
  requests.emit('validated volume');
  await volume;
  requests.emit('validated language');
  await language;
  server.close();

  const settings = JSON.parse(await pool.get('locker:88:settings'));
  console.log(
    settings.volume === 3 && settings.language === 'nl'
      ? 'ok: both settings are kept'
      : `damage: volume and language were set, and the locker has ${JSON.stringify(settings)}`,
  );
  await pool.close();
}

main();
