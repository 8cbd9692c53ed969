// A lock is held for its last millisecond, and gone one later. Nobody sleeps.
const assert = require('assert');
const Redis = require('ioredis');

async function main() {
  const [test, worker, waiter, listener] = [1, 2, 3, 4].map(() => new Redis(process.env.REDIS_URL));
  await test.config('SET', 'notify-keyspace-events', 'Ex');
  await listener.subscribe('__keyevent@0__:expired');
  const expired = new Promise((resolve) => listener.on('message', (channel, key) => resolve(key)));
  await test.call('REDOUBLE', 'CLOCK', 'FREEZE');

  assert.strictEqual(await worker.set('lock:job', 'token', 'PX', 30000, 'NX'), 'OK');
  await test.call('REDOUBLE', 'CLOCK', 'ADVANCE', '30s');
  assert.strictEqual(await worker.get('lock:job'), 'token', 'the last millisecond');
  await test.call('REDOUBLE', 'CLOCK', 'ADVANCE', 1);
  assert.strictEqual(await worker.get('lock:job'), null, 'one later');
  assert.strictEqual(await expired, 'lock:job');

  await test.call('REDOUBLE', 'GATE', 'ADD', 'waiting', 'on', 'BLPOP');
  const nothing = waiter.blpop('queue', 60);
  await test.call('REDOUBLE', 'GATE', 'WAIT', 'waiting');
  await test.call('REDOUBLE', 'GATE', 'STEP', 'waiting');
  await test.call('REDOUBLE', 'CLOCK', 'ADVANCE', '1m');
  assert.strictEqual(await nothing, null, 'who waits for a minute waits for no time');
  [test, worker, waiter, listener].forEach((client) => client.disconnect());
}

main().catch((error) => { console.error(error); process.exit(1); });
