// bull: two workers in processes of their own; delayed, retried and repeated jobs.
const Queue = require('bull');
const { start, done, play, url } = require('./processes');

const SENT = 30;

async function worker() {
  const queue = new Queue('video', url);
  queue.process(3, async (job) => {
    if (job.data.fails && job.attemptsMade === 0) throw new Error('at first it fails');
    await job.progress(42);
    return { framerate: 29.5 };
  });
  await new Promise((resolve) => process.once('message', resolve));
  await queue.close();
}

async function main() {
  const queue = new Queue('video', url);
  const workers = [start('worker'), start('worker')];
  const jobs = [];
  for (let number = 0; number < SENT; number++) jobs.push(await queue.add({ video: `v${number}` }));
  jobs.push(await queue.add({ late: true }, { delay: 300 }));
  jobs.push(await queue.add({ fails: true }, { attempts: 2, backoff: 100 }));
  jobs.push(await queue.add({}, { removeOnComplete: true, priority: 1 }));
  const results = await Promise.all(jobs.map((job) => job.finished()));
  done('all jobs are done', results.filter((result) => result.framerate === 29.5).length, SENT + 3);
  await queue.add({ tick: true }, { repeat: { every: 200, limit: 2 } });
  await new Promise((resolve) => queue.once('global:completed', resolve));
  await queue.pause();
  await queue.resume();
  await queue.clean(0);
  workers.forEach(({ child }) => child.send('stop'));
  await Promise.all(workers);
  done('the workers have ended', true);
  await queue.empty();
  await queue.close();
}

play({ main, worker });
