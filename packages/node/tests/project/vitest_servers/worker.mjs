// Four files run this at the same time. The code under test knows a host and a port only.

import { expect, test } from 'vitest';
import Redis from 'ioredis';
import { connectRedouble } from 'redouble';

const WORKERS = 4;

export function worksAlone(number) {
  test('a host and a port are of this worker alone', async () => {
    const client = new Redis(Number(process.env.REDIS_PORT), process.env.REDIS_HOST);
    await client.set('who', number);
    const meeting = connectRedouble(`redis://127.0.0.1:${process.env.MEETING}`);
    await meeting.call('INCR', 'set');
    await meeting.journal.wait({ on: 'INCR', key: 'set' }, WORKERS, { timeout: '50s' });
    expect(await client.get('who')).toBe(String(number));
    client.disconnect();
  });
}
