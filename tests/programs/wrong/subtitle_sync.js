// Subtitles: two translators, a thread each, move the cues of one film. The lease of the film is renewed before each batch.
// The first one parses a huge file in the meantime, which lets no timer and no promise of its thread run.
//
// Wrong: the renewal says that the lease is lost, the program says so in its log, and goes on writing.
const { Worker, isMainThread, parentPort, workerData } = require('node:worker_threads');
const { setTimeout: after } = require('node:timers/promises');
const { randomUUID } = require('node:crypto');
const { once } = require('node:events');
const Redis = require('ioredis');

const CUES = 'film:771:cues';
const RENEW = `
  if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
  return redis.call('PEXPIRE', KEYS[1], ARGV[2])`;
const RELEASE = `
  if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
  return redis.call('DEL', KEYS[1])`;

class Lease {
  #token = randomUUID();
  #redis;
  #key;
  #milliseconds;

  constructor(redis, key, milliseconds) {
    this.#redis = redis;
    this.#key = key;
    this.#milliseconds = milliseconds;
  }

  async acquire() {
    while (!(await this.#redis.set(this.#key, this.#token, 'PX', this.#milliseconds, 'NX'))) await after(30);
  }

  async renew() {
    const kept = await this.#redis.eval(RENEW, 1, this.#key, this.#token, this.#milliseconds);
    if (!kept) parentPort.postMessage('lease lost, will be taken anew later'); // and nothing else is done!
  }

  release() {
    return this.#redis.eval(RELEASE, 1, this.#key, this.#token);
  }
}

async function translate() {
  const { name, lease, signal, parses } = workerData;
  const redis = new Redis(process.env.REDIS_URL);
  const film = new Lease(redis, 'film:771:lease', lease);

  await film.acquire();
  const cues = JSON.parse(await redis.get(CUES));
  if (parses) {
    parentPort.postMessage('parses');
    Atomics.wait(new Int32Array(signal), 0, 0); // until the other one is done
  }
  await film.renew();
  cues.push(`${name}: 00:41:07`);
  await redis.set(CUES, JSON.stringify(cues)); // by the one that was told so!
  await film.release();
  await redis.quit();
}

function hire(name, lease, signal, parses) {
  return new Worker(__filename, { workerData: { name, lease, signal, parses } });
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  await redis.set(CUES, '[]');
  const signal = new SharedArrayBuffer(4);

  const french = hire('fr', 300, signal, true);
  await once(french, 'message');
  const told = once(french, 'message');
  const left = once(french, 'exit');
  await once(hire('de', 60_000, signal, false), 'exit');
  Atomics.store(new Int32Array(signal), 0, 1);
  Atomics.notify(new Int32Array(signal), 0);
  const [words] = await told;
  await left;

  const cues = JSON.parse(await redis.get(CUES));
  console.log(
    cues.length === 2
      ? 'ok: both cues are in the film'
      : `damage: "${words}", and one of two cues is left: ${cues}`,
  );
  await redis.quit();
}

if (isMainThread) main();
else translate();
