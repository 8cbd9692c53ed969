// Two clients delete an expired lock and take it: both believe they hold it. With GETSET only one does.
const assert = require('assert');
const Redis = require('ioredis');

const NOW = 1700000000;
const test = new Redis(process.env.REDIS_URL);
const power = (words) => test.call('REDOUBLE', ...words.split(' '));

async function withDelAndSetnx(client) {
  if ((await client.get('lock.foo')) >= NOW) return false;
  await client.del('lock.foo');
  return (await client.setnx('lock.foo', NOW + 60)) === 1;
}

const withGetset = async (client) =>
  (await client.get('lock.foo')) < NOW && (await client.getset('lock.foo', NOW + 60)) < NOW;

// C1 and C2 have both seen that the lock is expired, then C1 goes all the way, then C2.
async function holders(takeOver, command) {
  await test.set('lock.foo', NOW - 1);
  const racers = [{ name: 'C1' }, { name: 'C2' }];
  for (const racer of racers) {
    await power(`GATE ADD ${racer.name} on ${command} client ${racer.name}`);
    racer.holds = takeOver(new Redis(process.env.REDIS_URL, { connectionName: racer.name }));
    await power(`GATE WAIT ${racer.name}`);
  }
  for (const racer of racers) {
    await power(`GATE REMOVE ${racer.name}`);
    racer.held = await racer.holds;
  }
  return racers.filter((racer) => racer.held).map((racer) => racer.name);
}

async function main() {
  assert.deepStrictEqual(await holders(withDelAndSetnx, 'DEL'), ['C1', 'C2'], 'the documented race');
  assert.deepStrictEqual(await holders(withGetset, 'GETSET'), ['C1'], 'the documented remedy');
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
