// bee-queue: two workers in processes of their own; retried, delayed and named jobs; a look for stalled ones.
const Queue = require('bee-queue');
const { start, done, play, connection } = require('./processes');

const ADDED = 30;
const settings = { redis: connection, activateDelayedJobs: true };

async function worker() {
  const queue = new Queue('addition', settings);
  let failed = false;
  queue.process(2, async (job) => {
    if (job.data.fails && !failed) {
      failed = true;
      throw new Error('at first it fails');
    }
    job.reportProgress({ page: 1 });
    return job.data.x + job.data.y;
  });
  await new Promise((resolve) => process.once('message', resolve));
  await queue.close(1000);
}

async function main() {
  const queue = new Queue('addition', { ...settings, isWorker: false });
  await queue.ready();
  const workers = [start('worker'), start('worker')];
  const finished = [];
  const add = async (job) => {
    finished.push(new Promise((resolve) => job.on('succeeded', resolve)));
    await job.save();
  };
  for (let x = 0; x < ADDED; x++) await add(queue.createJob({ x, y: 1 }));
  await add(queue.createJob({ x: 0, y: 1, fails: true }).retries(2).backoff('fixed', 100));
  await add(queue.createJob({ x: 0, y: 1 }).delayUntil(Date.now() + 300));
  await add(queue.createJob({ x: 0, y: 1 }).setId('mine').timeout(5000));
  const sums = await Promise.all(finished);
  done('all sums are there', sums.length, ADDED + 3);
  done('they are right', sums.reduce((all, sum) => all + sum, 0), (ADDED * (ADDED + 1)) / 2 + 3);
  await queue.checkStalledJobs();
  workers.forEach(({ child }) => child.send('stop'));
  await Promise.all(workers);
  await queue.destroy();
  await queue.close();
  done('the workers have ended', true);
}

play({ main, worker });
