// A SET NX that never ran and one whose reply was lost look alike to the client. The server knows.
const assert = require('assert');
const Redis = require('ioredis');

async function main() {
  const test = new Redis(process.env.REDIS_URL);
  const once = { maxRetriesPerRequest: 0, retryStrategy: () => 1 };

  const takesTheLock = async () => {
    const client = new Redis(process.env.REDIS_URL, once);
    client.on('error', () => {});
    const answer = await client.set('lock', 'token', 'PX', 30000, 'NX').catch(() => 'connection lost');
    client.disconnect();
    return answer;
  };

  await test.call('REDOUBLE', 'FAULT', 'ADD', 'never-ran', 'on', 'SET', 'times', 1, 'close-before');
  assert.strictEqual(await takesTheLock(), 'connection lost');
  assert.strictEqual(await test.get('lock'), null, 'close-before leaves the lock free');

  await test.call('REDOUBLE', 'FAULT', 'ADD', 'reply-lost', 'on', 'SET', 'times', 1, 'close-after');
  assert.strictEqual(await takesTheLock(), 'connection lost');
  assert.strictEqual(await test.get('lock'), 'token', 'close-after leaves it taken');
  assert.strictEqual(await takesTheLock(), null, 'who tries again meets its own lock');

  assert.deepStrictEqual(await test.call('REDOUBLE', 'FAULT', 'CLEAR'), [], 'both faults have fired');
  test.disconnect();
}

main().catch((error) => { console.error(error); process.exit(1); });
