// Recipe cards: printers, a process each, move a job from the list of waiting ones to a list of their own, print it, and
// acknowledge it. One of them dies with a job in its hands; the supervisor sees it die and gives its jobs back.
//
// A job is in exactly one list at each moment, since LMOVE moves it and the acknowledgement removes it together with
// noting the result. A job that is printed twice has the same result, and only the first is noted.
const { fork } = require('node:child_process');
const { once } = require('node:events');
const Redis = require('ioredis');

const WAITING = 'cards:waiting';
const PRINTED = 'cards:printed';
const JOBS = 24;

const print = (job) => `${job.toUpperCase()} on A6`;

async function printer(name, dies) {
  const redis = new Redis(process.env.REDIS_URL);
  const mine = `cards:at:${name}`;
  const start = once(process, 'message');
  process.send('ready');
  await start;
  for (;;) {
    const job = await redis.lmove(WAITING, mine, 'LEFT', 'RIGHT');
    if (job === null) break;
    if (dies) await new Promise(() => process.send('has a job', () => process.kill(process.pid, 'SIGKILL')));
    await redis.multi().hsetnx(PRINTED, job, print(job)).lrem(mine, 1, job).exec();
  }
  await redis.quit();
  process.disconnect();
}

class Supervisor {
  constructor(redis) {
    this.redis = redis;
    this.givenBack = 0;
  }

  async run(name, dies) {
    const child = fork(__filename, dies ? [name, 'dies'] : [name]);
    const exit = once(child, 'exit');
    await once(child, 'message');
    return {
      hasJob: once(child, 'message'),
      begin: async () => {
        child.send('print');
        const [, signal] = await exit;
        if (signal === null) return;
        while ((await this.redis.lmove(`cards:at:${name}`, WAITING, 'RIGHT', 'LEFT')) !== null) this.givenBack += 1;
        await (await this.run(name, false)).begin();
      },
    };
  }
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  const jobs = Array.from({ length: JOBS }, (_, number) => `card-${number}`);
  await redis.rpush(WAITING, ...jobs);
  const supervisor = new Supervisor(redis);
  const printers = await Promise.all([supervisor.run('left', true), supervisor.run('right', false)]);
  const [dying, other] = printers;
  const replaced = dying.begin();
  await dying.hasJob;
  await other.begin();
  await replaced;

  const printed = await redis.hgetall(PRINTED);
  const open = (await redis.llen(WAITING)) + (await redis.llen('cards:at:left')) + (await redis.llen('cards:at:right'));
  await redis.quit();
  console.log(
    open === 0 && jobs.every((job) => printed[job] === print(job)) && Object.keys(printed).length === JOBS
      ? `ok: ${JOBS} cards are printed, ${supervisor.givenBack} of them were given back by a printer that died`
      : `damage: ${Object.keys(printed).length} of ${JOBS} cards are printed, ${open} are still in a list`,
  );
}

if (process.argv[2]) printer(process.argv[2], process.argv[3] === 'dies');
else main();
