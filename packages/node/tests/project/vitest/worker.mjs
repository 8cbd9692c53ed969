// Eight files run this at the same time, each in a worker of its own: same keys, same names, different values.

import { afterAll, expect, test as plain } from 'vitest';
import Redis from 'ioredis';
import { connectRedouble } from 'redouble';
import { redouble, test } from 'redouble/vitest';

const WORKERS = 8;

export function worksAlone(number) {
  const base = connectRedouble(`redis://127.0.0.1:${redouble.port}`);
  const client = new Redis(process.env.REDIS_URL);
  afterAll(() => client.disconnect());

  /** Goes on once all eight have come here. */
  const meet = async (where) => {
    await base.call('INCR', where);
    await base.journal.wait({ on: 'INCR', key: where }, WORKERS, { timeout: '50s' });
  };

  plain('keys, clock, faults and journal are of this worker', async () => {
    await client.set('who', number);
    await redouble.clock.freeze(number * 1_000_000);
    const fault = await redouble.fault({ error: `BUSY ${number}` }, { name: 'same', on: 'GET', key: 'refused' });
    await meet('everything is set');
    expect(await client.get('who')).toBe(String(number));
    expect(await redouble.clock.now()).toBe(number * 1_000_000);
    await expect(client.get('refused')).rejects.toThrow(`BUSY ${number}`);
    expect(await redouble.journal.count({ on: 'SET' })).toBe(1);
    expect(await fault.end()).toBe(1);
    await meet('everything is seen');
  });

  test('a test has a space of its own', async ({ redouble: own }) => {
    const its = new Redis(own.url);
    expect(await its.dbsize()).toBe(0);
    expect(await own.clock.now()).toBeGreaterThan(1_700_000_000_000);
    expect(await its.set('lock', 'token', 'PX', 30_000, 'NX')).toBe('OK');
    await own.clock.advance('30001ms');
    expect(await its.get('lock')).toBe(null);
    its.disconnect();
    expect(await client.get('who')).toBe(String(number));
  });

  test('a client that a test forgets does not fail the run', async ({ redouble: own }) => {
    const forgotten = new Redis(own.url);
    expect(await forgotten.ping()).toBe('PONG');
  });
}
