// What node-redlock does when the reply to its lock script is lost.
const Redis = require('ioredis');
const Redlock = require('redlock');

const test = new Redis(process.env.REDIS_URL);
const power = (words) => test.call('REDOUBLE', ...words.split(' '));

async function trial(verdict) {
  await test.flushall();
  const redlock = new Redlock([new Redis(process.env.REDIS_URL)], { retryCount: 3, retryDelay: 1, retryJitter: 1 });
  // Loads the script into the server, so that the fault matches the lock itself.
  await (await redlock.lock('other', 1000)).unlock();
  await power(`FAULT ADD f on EVALSHA key lock times 1 ${verdict}`);
  const said = await redlock.lock('lock', 30000).then(() => 'gives the lock', (error) => `throws ${error.name}`);
  console.log(['node-redlock 4.2.0, ioredis', verdict, `\`lock\` ${said}`, (await test.exists('lock')) ? 'taken' : 'free'].join(' | '));
  await power('FAULT CLEAR');
}

async function main() {
  await trial('close-before');
  await trial('close-after');
}

main().then(() => process.exit(0), (error) => { console.error(error); process.exit(1); });
