// A cinema: an agent takes the lease of a row, looks at the row's map, and books; each agent is a process.
//
// Right: the lease saves work and guards nothing. The map is watched from before it is read until EXEC: an agent that
// stalled until its lease was over and another one had booked is refused by EXEC, and begins again.
'use strict';
const assert = require('node:assert');
const { fork } = require('node:child_process');
const { randomUUID } = require('node:crypto');
const { once } = require('node:events');
const Redis = require('ioredis');

const RELEASE = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`;
const [role, show, seats, lease] = process.argv.slice(2);
const agent = (id) => `cinema:${id}:row-f:agent`;
const map = (id) => `cinema:${id}:row-f`;

// The process stops here until the parent lets it go on.
const at = (place) =>
  new Promise((go) => {
    process.once('message', go);
    process.send(place);
  });

async function book(redis) {
  for (let attempt = 1; ; attempt += 1) {
    const token = randomUUID();
    if (!(await redis.set(agent(show), token, 'PX', Number(lease), 'NX'))) {
      await at('refused');
      continue;
    }
    await redis.watch(map(show));
    const row = JSON.parse((await redis.get(map(show))) ?? '{}');
    if (row[seats]) {
      await redis.unwatch();
      await redis.eval(RELEASE, 1, agent(show), token);
      return;
    }
    row[seats] = `${role} at attempt ${attempt}`;
    if (attempt === 1) await at('read');
    const done = await redis.multi().set(map(show), JSON.stringify(row)).exec();
    await redis.eval(RELEASE, 1, agent(show), token);
    if (done) return;
  }
}

function start(...words) {
  const child = fork(__filename, words);
  const came = [];
  const waiting = [];
  child.on('message', (place) => (waiting.length ? waiting.shift()(place) : came.push(place)));
  return {
    reaches: async (place) => assert.equal(came.shift() ?? (await new Promise((then) => waiting.push(then))), place),
    go: () => child.send('go'),
    end: once(child, 'exit').then(([code]) => assert.equal(code, 0)),
  };
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  if (role) {
    await at('ready');
    await book(redis);
    return redis.quit();
  }
  const id = randomUUID().slice(0, 8);
  const kiosk = start('kiosk', id, 'F4', 800);
  const web = start('web', id, 'F5', 60000);
  await Promise.all([kiosk.reaches('ready'), web.reaches('ready')]);
  kiosk.go();
  await kiosk.reaches('read');
  web.go();
  await web.reaches('refused');
  await new Promise((then) => setTimeout(then, 900));
  web.go();
  await web.end;
  kiosk.go();
  await kiosk.end;

  const row = JSON.parse(await redis.get(map(id)));
  const fine = row.F4 === 'kiosk at attempt 2' && row.F5 === 'web at attempt 2';
  console.log(`${fine ? 'ok' : 'broken'}: row F has ${JSON.stringify(row)}`);
  await redis.quit();
}

main();
