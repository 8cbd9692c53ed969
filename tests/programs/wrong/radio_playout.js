// Radio playout: the schedulers of a station, a process each, add songs to the log of the coming hour. Finding them in the
// archive takes some hundred milliseconds.
//
// Wrong: the lock was to last for 30 seconds, and lasts for 30 milliseconds, since the unit of PX was forgotten. It is over
// before any song is found, and the script that releases it never finds it.
const { fork } = require('node:child_process');
const { on, once } = require('node:events');
const { setTimeout: after } = require('node:timers/promises');
const { randomBytes } = require('node:crypto');
const { createClient } = require('redis');

const LOCK = 'playout:hour:21:lock';
const LOG = 'playout:hour:21:log';
const LOCK_SECONDS = 30;
const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;

async function open() {
  const client = createClient({ url: process.env.REDIS_URL });
  client.on('error', (error) => console.error(error));
  return client.connect();
}

async function scheduler(songs) {
  const redis = await open();
  const token = randomBytes(16).toString('hex');
  const tell = async (point) => {
    const go = once(process, 'message');
    process.send(point);
    await go;
  };

  await tell('ready');
  const options = { condition: 'NX', expiration: { type: 'PX', value: LOCK_SECONDS } }; // milliseconds!
  while ((await redis.set(LOCK, token, options)) === null) await after(20);
  const log = JSON.parse(await redis.get(LOG));
  await after(300); // the archive
  await tell('found');
  await redis.set(LOG, JSON.stringify([...log, ...songs])); // the lock was over long ago!
  const released = await redis.eval(RELEASE, { keys: [LOCK], arguments: [token] });
  await tell(released ? 'released' : 'nothing to release');
  await redis.close();
  process.disconnect();
}

function launch(...songs) {
  const child = fork(__filename, songs);
  const said = on(child, 'message');
  return {
    go: () => child.send('go'),
    says: async () => (await said.next()).value[0],
  };
}

async function main() {
  const redis = await open();
  await redis.set(LOG, '[]');
  const [music, adverts] = [launch('Blue Monday', 'Kids'), launch('Spot 12')];
  await Promise.all([music.says(), adverts.says()]);
  music.go();
  await music.says();
  adverts.go();
  await adverts.says();
  music.go();
  await music.says();
  music.go();
  adverts.go();
  await adverts.says();
  adverts.go();

  const log = JSON.parse(await redis.get(LOG));
  console.log(
    log.length === 3
      ? 'ok: the log has three entries'
      : `damage: three entries were scheduled, and the log of the hour has ${log.length}: ${log}`,
  );
  await redis.close();
}

if (process.argv.length > 2) scheduler(process.argv.slice(2));
else main();
