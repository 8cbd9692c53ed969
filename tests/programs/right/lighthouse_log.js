// Lighthouses: one of three keepers, a process each, writes the numbered log of the night. The first one that gets to it dies
// in the middle, and the next one goes on when its term is over.
//
// The script that writes an entry also compares the leader, and takes the number from the log itself. A keeper that is not the
// leader any more, however late its command comes, writes nothing.
const { fork } = require('node:child_process');
const { once } = require('node:events');
const { setTimeout: after } = require('node:timers/promises');
const { randomUUID } = require('node:crypto');
const { createClient } = require('redis');

const LEADER = 'lights:leader';
const TERMS = 'lights:terms';
const LOG = 'lights:log';
const ENTRIES = 9;

const LEAD = `
  local leader = redis.call('GET', KEYS[1])
  if leader == ARGV[1] then
    redis.call('PEXPIRE', KEYS[1], ARGV[2])
    return tonumber(redis.call('GET', KEYS[2]))
  end
  if leader then return 0 end
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return redis.call('INCR', KEYS[2])`;
const WRITE = `
  if redis.call('GET', KEYS[1]) ~= ARGV[1] then return -1 end
  local number = redis.call('LLEN', KEYS[2]) + 1
  if number <= tonumber(ARGV[4]) then
    redis.call('RPUSH', KEYS[2], cjson.encode({number = number, term = tonumber(ARGV[2]), keeper = ARGV[3]}))
  end
  return number`;
const RESIGN = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`;

class Keeper {
  constructor(redis, name, milliseconds) {
    this.redis = redis;
    this.name = name;
    this.id = `${name}:${randomUUID()}`;
    this.milliseconds = String(milliseconds);
  }

  lead() {
    return this.redis.eval(LEAD, { keys: [LEADER, TERMS], arguments: [this.id, this.milliseconds] });
  }

  write(term) {
    const words = [this.id, String(term), this.name, String(ENTRIES)];
    return this.redis.eval(WRITE, { keys: [LEADER, LOG], arguments: words });
  }

  resign() {
    return this.redis.eval(RESIGN, { keys: [LEADER], arguments: [this.id] });
  }
}

async function connect() {
  const redis = createClient({ url: process.env.REDIS_URL });
  redis.on('error', (error) => console.error(error));
  return redis.connect();
}

async function watchman(name, dies) {
  const redis = await connect();
  const keeper = new Keeper(redis, name, 400);
  const dusk = once(process, 'message');
  process.send('ready');
  await dusk;
  for (let written = 0; ; ) {
    const term = await keeper.lead();
    if (term === 0) {
      if ((await redis.lLen(LOG)) >= ENTRIES) break;
      await after(80);
      continue;
    }
    const number = await keeper.write(term);
    if (number > ENTRIES) break;
    if (number > 0) written += 1;
    if (dies && written === 3) await new Promise(() => process.send('three', () => process.kill(process.pid, 'SIGKILL')));
    await after(5);
  }
  await keeper.resign();
  await redis.close();
  process.disconnect();
}

async function main() {
  const [first, ...others] = ['skagen', 'hanstholm', 'lista'].map((name, place) =>
    fork(__filename, place === 0 ? [name, 'dies'] : [name]),
  );
  const gone = Promise.all([first, ...others].map((child) => once(child, 'exit')));
  await Promise.all([first, ...others].map((child) => once(child, 'message')));
  first.send('dusk');
  await once(first, 'message');
  for (const child of others) child.send('dusk');
  await gone;

  const redis = await connect();
  const log = (await redis.lRange(LOG, 0, -1)).map((text) => JSON.parse(text));
  await redis.close();
  const ordered = log.every((entry, place) => entry.number === place + 1 && entry.term >= (log[place - 1]?.term ?? 1));
  const single = new Set(log.map((entry) => entry.term)).size === new Set(log.map((entry) => entry.term + entry.keeper)).size;
  console.log(
    ordered && single && log.length === ENTRIES
      ? `ok: ${ENTRIES} entries in order, by one keeper for each term`
      : `damage: ${JSON.stringify(log)}`,
  );
}

if (process.argv[2]) watchman(process.argv[2], process.argv[3] === 'dies');
else main();
