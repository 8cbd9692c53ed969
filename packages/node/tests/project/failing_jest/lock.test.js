const Redis = require('ioredis');
const { redouble } = require('redouble/jest');

const client = new Redis(process.env.REDIS_URL);
afterAll(() => client.disconnect());

test('a fault that nobody meets', async () => {
  await redouble.fault('close-after', { on: 'DEL' });
});

test('a lock that another client deletes', async () => {
  const [one, two] = ['one', 'two'].map((connectionName) => new Redis(process.env.REDIS_URL, { connectionName }));
  await one.set('lock:tea', 'token-of-one', 'PX', 30_000, 'NX');
  await two.set('lock:tea', 'token-of-two', 'PX', 30_000, 'NX');
  await two.del('lock:tea');
  await two.set('lock:tea', 'token-of-two', 'PX', 30_000, 'NX');
  [one, two].forEach((each) => each.disconnect());
});

test('a wrong value', async () => {
  await client.set('colour', 'green');
  expect(await client.get('colour')).toBe('blue');
});
