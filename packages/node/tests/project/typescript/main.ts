// A program in strict TypeScript. It is compiled for every way of resolving modules, and run.

import { strict as assert } from 'assert';
import Redis from 'ioredis';
import { createClient } from 'redis';
import { connectRedouble, startRedouble, UnusedError, type Finding, type JournalEntry, type Server } from 'redouble';
import { RedisMemoryServer } from 'redouble/memory-server';

async function main(): Promise<void> {
  await using server: Server = await startRedouble({ audit: true, compat: 'redis-7.4', args: ['--maxmemory', '10mb'] });
  const ioredis = new Redis(server.connection);
  const nodeRedis = await createClient({ url: server.url }).connect();

  await server.clock.freeze(new Date(0));
  assert.equal(await server.clock.now(), 0);
  {
    await using lost = await server.fault('close-after', { on: ['SET'], times: 1 });
    assert.equal(await ioredis.set('lock', 'mine', 'NX'), null);
    const fired: number = await lost.fired();
    assert.equal(fired, 1);
  }
  const held: number = await server.gate({ on: 'GET' }, async (gate) => {
    const value = nodeRedis.get('lock');
    const count = await gate.wait();
    await gate.step();
    assert.equal(await value, 'mine');
    return count;
  });
  assert.equal(held, 1);

  const findings: Finding[] = await server.audit.findings({ severity: 'warning', final: true });
  assert.ok(findings.every(({ code, evidence }) => code.length > 0 && evidence.length > 0));
  const entries: JournalEntry[] = await server.journal.list({ on: 'SET', outcome: 'lost' });
  assert.equal(entries.length, 1);
  await assert.rejects(
    server.fault({ delay: '1s' }, { on: 'DEL' }, () => undefined),
    UnusedError,
  );
  {
    await using space = server.space('other');
    assert.deepEqual(await space.call('KEYS', '*'), []);
    connectRedouble(space.url).close();
  }
  const memory: RedisMemoryServer = await RedisMemoryServer.create();
  const port: number = await memory.getPort();
  assert.ok(port > 0);
  await memory.stop();

  // @ts-expect-error There is no such verdict.
  await assert.rejects(server.fault('explode'));
  // @ts-expect-error There is no such option.
  await assert.rejects(startRedouble({ instance: 5 }));
  ioredis.disconnect();
  nodeRedis.destroy();
}

main().then(
  () => console.log('the program has run'),
  (error) => {
    console.error(error);
    process.exitCode = 1;
  },
);
