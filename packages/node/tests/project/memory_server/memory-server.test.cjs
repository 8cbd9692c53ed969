// Tests as users of redis-memory-server have them; only the name of the package differs.

const assert = require('node:assert/strict');
const { test } = require('node:test');
const Redis = require('ioredis');
const { RedisMemoryServer } = require('redouble/memory-server');
const { default: ByDefault } = require('redouble/memory-server');

test('a server starts with the first question for its port', async () => {
  const redisServer = new RedisMemoryServer();
  const host = await redisServer.getHost();
  const port = await redisServer.getPort();
  const client = new Redis({ host, port });
  assert.equal(await client.ping(), 'PONG');
  client.disconnect();
  assert.deepEqual(redisServer.getInstanceInfo(), { ip: host, port });
  assert.equal(await redisServer.stop(), true);
  assert.equal(redisServer.getInstanceInfo(), false);
});

test('options go to the server, and a program or version that they name does not matter', async () => {
  const redisServer = await RedisMemoryServer.create({
    instance: { args: ['--requirepass', 'secret'] },
    binary: { version: '6.0.0', systemBinary: '/nonexistent' },
    autoStart: true,
  });
  await assert.rejects(redisServer.start(), /started already/);
  const client = new Redis({ port: await redisServer.getPort(), password: 'secret' });
  assert.equal(await client.ping(), 'PONG');
  client.disconnect();
  await redisServer.stop();
});

test('a port that is taken is replaced by a free one', async () => {
  const first = new ByDefault();
  const port = await first.getPort();
  const second = new RedisMemoryServer({ instance: { port } });
  assert.notEqual(await second.getPort(), port);
  await Promise.all([first.stop(), second.stop()]);
});
