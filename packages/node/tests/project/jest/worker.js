// Four files run this at the same time, each in a worker of its own: same keys, different values.

const Redis = require('ioredis');
const { connectRedouble } = require('redouble');
const { redouble, withSpace } = require('redouble/jest');

const WORKERS = 4;

module.exports = function worksAlone(number) {
  const base = connectRedouble(`redis://127.0.0.1:${redouble.port}`);
  const client = new Redis(process.env.REDIS_URL);
  afterAll(() => client.disconnect());

  const meet = async (where) => {
    await base.call('INCR', where);
    await base.journal.wait({ on: 'INCR', key: where }, WORKERS, { timeout: '50s' });
  };

  test('keys, clock and faults are of this worker', async () => {
    await client.set('who', number);
    await redouble.clock.freeze(number * 1_000_000);
    await meet('everything is set');
    expect(await client.get('who')).toBe(String(number));
    expect(await redouble.clock.now()).toBe(number * 1_000_000);
    await redouble.fault({ error: 'BUSY' }, { on: 'GET', times: 1 }, async () => {
      await expect(client.get('who')).rejects.toThrow('BUSY');
    });
    await meet('everything is seen');
  });

  test('a test can have a space of its own', () =>
    withSpace(async (own) => {
      const its = new Redis(own.url);
      expect(await its.dbsize()).toBe(0);
      its.disconnect();
    }));

  test('fake timers do not stop the driver', async () => {
    jest.useFakeTimers();
    await redouble.clock.advance('1h');
    jest.useRealTimers();
    expect(await redouble.clock.now()).toBe(number * 1_000_000 + 3_600_000);
  });
};
