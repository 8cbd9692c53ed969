import { afterAll, expect, test as plain } from 'vitest';
import Redis from 'ioredis';
import { redouble, test } from 'redouble/vitest';

const client = new Redis(process.env.REDIS_URL);
afterAll(() => client.disconnect());

plain('a fault that nobody meets', async () => {
  await redouble.fault('close-after', { on: 'DEL' });
});

plain('a gate that nobody comes to', async () => {
  await redouble.gate({ on: 'DEL' });
});

plain('a lock that another client deletes', async () => {
  const [one, two] = ['one', 'two'].map((connectionName) => new Redis(process.env.REDIS_URL, { connectionName }));
  await one.set('lock:tea', 'token-of-one', 'PX', 30_000, 'NX');
  await two.set('lock:tea', 'token-of-two', 'PX', 30_000, 'NX');
  await two.del('lock:tea');
  await two.set('lock:tea', 'token-of-two', 'PX', 30_000, 'NX');
  [one, two].forEach((each) => each.disconnect());
});

plain('a good test behind the bad one', async () => {
  expect(await client.set('key', 'value')).toBe('OK');
});

test('a wrong value', async ({ redouble: own }) => {
  const its = new Redis(own.url);
  await its.set('colour', 'green');
  const colour = await its.get('colour');
  its.disconnect();
  expect(colour).toBe('blue');
});

plain.concurrent('a test that runs beside others keeps its fault', async () => {
  const fault = await redouble.fault({ error: 'BUSY' }, { on: 'GET', key: 'mine' });
  await redouble.journal.wait({ on: 'SET', key: 'theirs' });
  await expect(client.get('mine')).rejects.toThrow('BUSY');
  expect(await fault.end()).toBe(1);
});

plain.concurrent('another one ends first', async () => {
  await client.set('theirs', 1);
});
