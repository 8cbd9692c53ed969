// Glacier stations: three stations, a process each, enter their measurements into one series. They lock it on three servers; the
// series itself is on the first one.
//
// Two of three servers are needed, what the asking took is subtracted from the time that is left, and a station that does
// not get them gives back what it has. A series is replaced only in the edition that was read, should a lock end early.
const { fork } = require('node:child_process');
const { once } = require('node:events');
const { setTimeout: after } = require('node:timers/promises');
const { randomBytes } = require('node:crypto');
const Redis = require('ioredis');

const SERIES = 'series:aletsch';
const MEASUREMENTS = 4;
const LEASE = 60_000;

const scripts = {
  unlock: {
    numberOfKeys: 1,
    lua: `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`,
  },
  replaceEdition: {
    numberOfKeys: 1,
    lua: `
      local now = redis.call('GET', KEYS[1])
      local edition = now and cjson.decode(now).edition or 0
      if edition ~= tonumber(ARGV[1]) then return 0 end
      redis.call('SET', KEYS[1], ARGV[2])
      return 1`,
  },
};

const connectAll = () => process.env.REDIS_URLS.split(',').map((url) => new Redis(url, { scripts }));

class Redlock {
  constructor(servers, resource) {
    this.servers = servers;
    this.key = `lock:${resource}`;
    this.majority = Math.floor(servers.length / 2) + 1;
  }

  async using(work) {
    for (;;) {
      const token = randomBytes(20).toString('hex');
      const begin = performance.now();
      const replies = await Promise.allSettled(this.servers.map((server) => server.set(this.key, token, 'PX', LEASE, 'NX')));
      const votes = replies.filter((reply) => reply.value === 'OK').length;
      const left = LEASE - (performance.now() - begin) - LEASE * 0.01 - 2;
      if (votes >= this.majority && left > 0) {
        try {
          return await work();
        } finally {
          await this.#giveBack(token);
        }
      }
      await this.#giveBack(token);
      await after(10 + Math.random() * 50);
    }
  }

  #giveBack(token) {
    return Promise.allSettled(this.servers.map((server) => server.unlock(this.key, token)));
  }
}

async function station(name) {
  const servers = connectAll();
  const lock = new Redlock(servers, SERIES);
  await Promise.all(servers.map((server) => server.ping()));
  const start = once(process, 'message');
  process.send('ready');
  await start;
  for (let number = 1; number <= MEASUREMENTS; ) {
    const entered = await lock.using(async () => {
      const series = JSON.parse((await servers[0].get(SERIES)) ?? '{"edition":0,"values":[]}');
      const next = { edition: series.edition + 1, values: [...series.values, `${name} ${number}`] };
      return servers[0].replaceEdition(SERIES, series.edition, JSON.stringify(next));
    });
    if (entered === 1) number += 1;
  }
  await Promise.all(servers.map((server) => server.quit()));
  process.disconnect();
}

async function main() {
  const stations = ['concordia', 'moosfluh', 'jungfrau'].map((name) => fork(__filename, [name]));
  await Promise.all(stations.map((child) => once(child, 'message')));
  const done = Promise.all(stations.map((child) => once(child, 'exit')));
  for (const child of stations) child.send('start');
  await done;

  const servers = connectAll();
  const { edition, values } = JSON.parse(await servers[0].get(SERIES));
  const held = await Promise.all(servers.map((server) => server.exists(`lock:${SERIES}`)));
  await Promise.all(servers.map((server) => server.quit()));
  const expected = stations.length * MEASUREMENTS;
  console.log(
    edition === expected && new Set(values).size === expected && !held.includes(1)
      ? `ok: ${expected} measurements are in the series, and no server has a lock any more`
      : `damage: ${values.length} of ${expected} measurements are in the series, locks ${held}`,
  );
}

if (process.argv[2]) station(process.argv[2]);
else main();
