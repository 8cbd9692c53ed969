// Relief goods: two dispatchers, a process each, load convoys from the same depot. The depot is locked on three servers; its
// stock is on the first one.
//
// Wrong: a majority of three is two. This one divides by two and forgets to add one, so that a single server is enough: one
// dispatcher has two of three, the other one has the third, and both load.
const { fork } = require('node:child_process');
const { on, once } = require('node:events');
const { randomBytes } = require('node:crypto');
const Redis = require('ioredis');

const DEPOT = 'depot:juba';
const UNLOCK = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0";

class DistributedLock {
  constructor(servers, key) {
    this.servers = servers;
    this.key = key;
    this.token = randomBytes(20).toString('hex');
    this.quorum = Math.floor(servers.length / 2); // 1 of 3!
  }

  async acquire(lease, before = async () => {}) {
    let votes = 0;
    for (const server of this.servers) {
      await before(server);
      if ((await server.set(this.key, this.token, 'PX', lease, 'NX')) === 'OK') votes += 1;
    }
    if (votes >= this.quorum) return true;
    await this.release();
    return false;
  }

  release() {
    return Promise.all(this.servers.map((server) => server.eval(UNLOCK, 1, this.key, this.token)));
  }
}

async function dispatcher(name, tents) {
  const servers = process.env.REDIS_URLS.split(',').map((url) => new Redis(url));
  const [stock] = servers;
  const at = async (point) => {
    const go = once(process, 'message');
    process.send(point);
    await go;
  };

  const lock = new DistributedLock(servers, `${DEPOT}:lock`);
  await at('ready');
  const slow = name === 'north' ? (server) => (server === servers.at(-1) ? at('two servers asked') : null) : undefined;
  if (await lock.acquire(60_000, slow)) {
    const depot = JSON.parse(await stock.get(DEPOT));
    await at('loads');
    depot.tents -= tents;
    depot.convoys.push(name);
    await stock.set(DEPOT, JSON.stringify(depot)); // one of them has a minority!
    await lock.release();
    await at('loaded');
  } else {
    await at('refused');
  }
  await Promise.all(servers.map((server) => server.quit()));
  process.disconnect();
}

function send(name, tents) {
  const child = fork(__filename, [name, tents]);
  const points = on(child, 'message');
  const arrives = async (expected) => {
    const [point] = (await points.next()).value;
    if (point !== expected) throw new Error(`${name}: ${point}`);
  };
  return { arrives, go: () => child.send('go') };
}

async function main() {
  const redis = new Redis(process.env.REDIS_URLS.split(',')[0]);
  await redis.set(DEPOT, JSON.stringify({ tents: 100, convoys: [] }));
  const [north, south] = [send('north', 30), send('south', 45)];
  await Promise.all([north.arrives('ready'), south.arrives('ready')]);

  north.go();
  await north.arrives('two servers asked');
  south.go();
  await south.arrives('loads');
  north.go();
  await north.arrives('loads');
  south.go();
  await south.arrives('loaded');
  north.go();
  await north.arrives('loaded');
  south.go();
  north.go();

  const depot = JSON.parse(await redis.get(DEPOT));
  await redis.quit();
  console.log(
    depot.tents === 25
      ? 'ok: 25 tents are left'
      : `damage: 30 and 45 of 100 tents were loaded, and ${depot.tents} are said to be left (${depot.convoys})`,
  );
}

if (process.argv[2]) dispatcher(process.argv[2], Number(process.argv[3]));
else main();
