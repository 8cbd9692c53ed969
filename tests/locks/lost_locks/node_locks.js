// What Node's lock libraries do when a failover loses a lock. `python_locks.py` says how.
const { once } = require('node:events');
const { join } = require('node:path');
const { inspect } = require('node:util');
const { pathToFileURL } = require('node:url');
const Redis = require('ioredis');

const env = process.env;
const urls = env.REDIS_URLS.split(',');
const sentinels = env.REDIS_SENTINELS.split(',').map((one) => ({ host: one.split(':')[0], port: Number(one.split(':')[1]) }));
const services = ['', '2', '3'].map((number) => env.REDIS_SENTINEL_SERVICE + number);
// The second master, because the first one dies.
const test = new Redis(urls[1]);
const power = (...words) => test.call('REDOUBLE', ...words);
const open = (service, connectionName) => new Redis({ sentinels, name: service, connectionName });
const clients = (name, masters) => services.slice(0, masters).map((service) => open(service, name));
const still = { retryCount: 0, retryDelay: 1, retryJitter: 1 };

const said = async ([name, run]) => {
  try {
    const result = await run();
    return typeof result === 'string' ? `\`${name}\` ${result}` : `\`${name}\` returns ${inspect(result)}`;
  } catch (error) {
    return `\`${name}\` throws ${error.constructor.name}`;
  }
};

const value = async (service, key) => {
  const master = open(service);
  const found = await master.get(key);
  master.disconnect();
  return found;
};

const values = async (key) => {
  const found = [];
  for (const service of services) found.push(await value(service, key));
  return found.find((value) => value !== null && found.filter((other) => other === value).length > 1) ?? found[0];
};

// A reply to REDOUBLE is a list of names and values.
const codes = (findings) => [...new Set(findings.map((finding) => finding[finding.indexOf('code') + 1]))].sort();

const trial = async (library, key, steps, masters = 1) => {
  for (const url of urls) {
    const instance = new Redis(url);
    await instance.call('REDOUBLE', 'RESET');
    instance.disconnect();
  }
  await power('AUDIT', 'CLEAR');
  await power('LINK', 1, 'HOLD');
  const [take, extend, release] = await steps('a', masters);
  const first = await said(take);
  const ofA = await values(key);
  await power('INSTANCE', 'STOP', 1);
  await power('FAILOVER', 1);
  const [takeB] = await steps('b', masters);
  const second = await said(takeB);
  const ofB = await values(key);
  const extended = extend ? await said(extend) : '—';
  const released = await said(release);
  const left = await values(key);
  const state = left === null ? 'free' : left === ofB && left !== ofA ? "b's" : left === ofA ? "a's" : 'another';
  const found = codes(await power('AUDIT', 'LIST', 'SEVERITY', 'ERROR'));
  await power('INSTANCE', 'START', 1);
  console.log([library, masters, first, second, extended, released, state, found.join(', ') || 'nothing'].join(' | '));
};

// What `take` gives is what the other steps work with.
const of = (names, take, extend, release) => {
  let lock;
  const taken = async () => {
    lock = await take();
    return 'gives the lock';
  };
  return [[names[0], taken], extend && [names[1], async () => { lock = (await extend(lock)) ?? lock; return 'succeeds'; }],
    [names[2], async () => { await release(lock); return 'succeeds'; }]];
};

const redlock = (name, masters) => {
  const redlock = new (require('redlock'))(clients(name, masters), still);
  return of(['lock', 'extend', 'unlock'], () => redlock.lock('redlock', 30000), (lock) => lock.extend(30000), (lock) => lock.unlock());
};

const redlock5 = (name, masters) => {
  const redlock = new (require('redlock-5').default)(clients(name, masters), still);
  redlock.on('error', () => {});
  return of(['acquire', 'extend', 'release'], () => redlock.acquire(['redlock-5'], 30000), (lock) => lock.extend(30000), (lock) => lock.release());
};

const sesamecare = (name, masters) => {
  const redlock = new (require('@sesamecare-oss/redlock').Redlock)(clients(name, masters), still);
  redlock.on('error', () => {});
  return of(['acquire', 'extend', 'release'], () => redlock.acquire(['sesamecare'], 30000), (lock) => lock.extend(30000), (lock) => lock.release());
};

const ioredisLock = (name) => {
  const lock = require('ioredis-lock').createLock(clients(name, 1)[0], { timeout: 30000, retries: 0, delay: 1 });
  return of(['acquire', 'extend', 'release'], () => lock.acquire('ioredis-lock').then(() => lock), () => lock.extend(30000).then(() => lock), () => lock.release());
};

// It extends its locks by itself.
const semaphore = (name, masters) => {
  const { Mutex, RedlockMutex } = require('redis-semaphore');
  let lose;
  const lost = new Promise((resolve) => (lose = resolve));
  const options = { acquireAttemptsLimit: 1, lockTimeout: 30000, refreshInterval: name === 'a' ? 100 : 0, onLockLost: lose };
  const mutex = masters > 1 ? new RedlockMutex(clients(name, masters), 'semaphore', options) : new Mutex(clients(name, 1)[0], 'semaphore', options);
  // An extension takes the lock anew where it is lost. One that does so after the release would leave it there.
  const isAcquired = async () => {
    const end = Date.now() + 30000;
    while (Date.now() < end && (await value(services[0], 'mutex:semaphore')) !== mutex.identifier);
    return mutex.isAcquired;
  };
  const extended = masters > 1
    ? ['isAcquired', isAcquired]
    : ['onLockLost', async () => `gets ${(await lost).constructor.name}`];
  return [['tryAcquire', () => mutex.tryAcquire()], extended, ['release', () => mutex.release()]];
};

const atOneAddress = async (createClient, name) => {
  const [url] = env[`REDIS_ENDPOINTS_OF_${name.toUpperCase()}`].split(',');
  const client = createClient({ url });
  client.on('error', () => {});
  await client.connect();
  return client;
};

const redisLock = async (name) => {
  const lock = require('redis-lock')(await atOneAddress(require('redis-4').createClient, name), 10);
  return of(['lock', '', 'release'], () => lock('redis-lock', 30000), null, (release) => release());
};

const simpleRedisMutex = async (name) => {
  // It is an ES module, which NODE_PATH does not lead to.
  const { tryLock } = await import(pathToFileURL(join(env.NODE_PATH, 'simple-redis-mutex', 'dist', 'index.js')));
  const client = await atOneAddress(require('redis').createClient, name);
  let release;
  const take = async () => {
    const [hasLock, give] = await tryLock(client, 'simple');
    release = give;
    return hasLock ? `gives the lock and the token ${give.fencingToken}` : 'does not give the lock';
  };
  return [['tryLock', take], ['refreshTimeout', () => release.refreshTimeout()], ['release', () => release()]];
};

const main = async () => {
  await once(test, 'ready');
  await trial('node-redlock 4.2.0', 'redlock', redlock);
  await trial('node-redlock 4.2.0', 'redlock', redlock, 3);
  await trial('node-redlock 5.0.0-beta.2', 'redlock-5', redlock5);
  await trial('node-redlock 5.0.0-beta.2', 'redlock-5', redlock5, 3);
  await trial('@sesamecare-oss/redlock 1.4.0', 'sesamecare', sesamecare);
  await trial('@sesamecare-oss/redlock 1.4.0', 'sesamecare', sesamecare, 3);
  await trial('ioredis-lock 4.0.0', 'ioredis-lock', ioredisLock);
  await trial('redis-semaphore 5.8.0 `Mutex`', 'mutex:semaphore', semaphore);
  await trial('redis-semaphore 5.8.0 `RedlockMutex`', 'mutex:semaphore', semaphore, 3);
  await trial('redis-lock 1.0.0', 'lock.redis-lock', redisLock);
  await trial('simple-redis-mutex 3.0.0', '@simple-redis-mutex:lock-simple', simpleRedisMutex);
};

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
