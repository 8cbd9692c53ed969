// The two client libraries, under Node's own test runner.

import assert from 'node:assert/strict';
import { after, before, beforeEach, test } from 'node:test';
import Redis from 'ioredis';
import { createClient } from 'redis';
import { connectRedouble, startRedouble, UnusedError } from 'redouble';

let server;
before(async () => (server = await startRedouble({ audit: true, password: 'secret' })));
beforeEach(() => server.reset());
after(() => server.stop());

test('ioredis takes the connection, node-redis the URL, both of a server and of a space', async () => {
  for (const endpoint of [server, server.space('with spaces/and signs')]) {
    const ioredis = new Redis(endpoint.connection);
    const byUrl = new Redis(endpoint.url);
    const nodeRedis = await createClient({ url: endpoint.url }).connect();
    await ioredis.set('from', 'ioredis');
    assert.equal(await nodeRedis.get('from'), 'ioredis');
    assert.equal(await byUrl.get('from'), 'ioredis');
    assert.equal(await endpoint.call('GET', 'from'), 'ioredis');
    ioredis.disconnect();
    byUrl.disconnect();
    nodeRedis.destroy();
  }
});

test('a gate holds one client while another goes first', async () => {
  const [one, two] = [new Redis(server.url), new Redis(server.url)];
  const gate = await server.gate({ on: 'SET' });
  const late = one.set('lock', 'one', 'NX');
  assert.equal(await gate.wait(), 1);
  assert.equal((await gate.info()).held.length, 1);
  assert.equal(await two.setnx('lock', 'two'), 1);
  assert.equal(await gate.end(), 1);
  assert.equal(await late, null);
  [one, two].forEach((client) => client.disconnect());
});

test('a wait does not stop the driver from going on', async () => {
  const client = new Redis(server.url);
  const waiting = server.journal.wait({ on: 'SET', key: 'order:*' }, 2);
  await server.clock.freeze();
  await client.set('order:1', 'new');
  await client.set('order:2', 'new');
  assert.equal(await waiting, 2);
  client.disconnect();
});

test('a fault that never fires and a gate that nobody reaches are errors with the last commands', async () => {
  await server.call('SET', 'key', 'value');
  const fault = await server.fault('close-after', { on: 'DEL', key: 'lock:*' });
  await assert.rejects(fault.end(), (error) => {
    assert.ok(error instanceof UnusedError);
    assert.match(error.message, /"on DEL key lock:\* close-after" never fired; the last commands: .*SET key value/);
    return true;
  });
  await assert.rejects(server.gate({ on: 'DEL' }, () => {}), /no command came to the gate "on DEL"/);
});

test('an error of the body is not replaced by one of the end', async () => {
  const body = () => {
    throw new Error('mine');
  };
  await assert.rejects(server.fault('hang', { on: 'DEL' }, body), /mine/);
  assert.deepEqual(await server.call('REDOUBLE', 'FAULT', 'LIST'), []);
});

test('findings, locks and the journal are objects, and the report tells them', async () => {
  const [one, two] = ['one', 'two'].map((connectionName) => new Redis(server.url, { connectionName }));
  await one.set('lock:tea', 'token-of-one', 'PX', 30_000, 'NX');
  await two.set('lock:tea', 'token-of-two', 'PX', 30_000, 'NX');
  await two.del('lock:tea');
  const [finding] = await server.audit.findings({ code: 'blind-delete' });
  assert.equal(finding.severity, 'error');
  assert.equal(finding.evidence.at(-1).name, 'two');
  const [held] = await server.audit.locks({ key: 'lock:*' });
  assert.equal(held.holders[0].standing, 'deleted');
  const [entry] = await server.journal.list({ on: 'DEL' });
  assert.deepEqual([entry.command, entry.reply, entry.outcome], [['del', 'lock:tea'], '(integer) 1', 'answered']);
  assert.match(await server.reportText(), /blind-delete/);
  [one, two].forEach((client) => client.disconnect());
});

test('an error has the words of the server and the line of the test', async () => {
  const error = await server.clock.advance('soon').catch((caught) => caught);
  assert.match(error.message, /soon/);
  assert.match(error.stack, /clients\.test\.mjs/);
});

test('five servers stop, lose clients and go wrong one by one', async () => {
  const five = await startRedouble({ instances: 5 });
  assert.equal(five.urls.length, 5);
  const [, second, third] = five.instances;
  await second.stop();
  assert.equal((await second.info()).state, 'stopped');
  await third.skew('5s');
  assert.ok((await third.clock.now()) - (await five.clock.now()) >= 4_900);
  await five.stop();
});

test('a server that has died says so, with its log', async () => {
  const mortal = await startRedouble();
  process.kill(mortal.pid, 'SIGKILL');
  await assert.rejects(mortal.call('BLPOP', 'nothing', 0), /redouble has ended by SIGKILL; its log:[^]*Ready to accept/);
  await mortal.stop();
});

test('a flag that is wrong is told by the server', async () => {
  await assert.rejects(startRedouble({ args: ['--maxmemroy', '1'] }), /ended with status 1[^]*maxmemroy/);
  await assert.rejects(startRedouble({ instance: 5 }), /no option instance; its options are/);
});

test('await using ends a server, and what is asked afterwards says so', async () => {
  const other = await startRedouble();
  await using(other, async ({ url }) => assert.ok(url));
  await assert.rejects(other.clock.now(), /redouble has ended with status 0/);
});

/** What `await using` does, for versions of Node without it. */
async function using(resource, body) {
  try {
    await body(resource);
  } finally {
    await resource[Symbol.asyncDispose]();
  }
}

test('an address that cannot be kept is refused', () => {
  for (const url of ['rediss://127.0.0.1:6379', 'http://127.0.0.1', 'nowhere']) {
    assert.throws(() => connectRedouble(url), /is no URL like redis:/);
  }
});
