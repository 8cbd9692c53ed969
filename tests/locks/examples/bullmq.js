// bullmq: a queue with two workers in processes of their own; delayed, retried and repeated jobs; parents with children.
const { Queue, Worker, QueueEvents, FlowProducer } = require('bullmq');
const { start, done, play, connection } = require('./processes');

const PAINTED = 30;

async function worker() {
  const worker = new Worker(
    'paint',
    async (job) => {
      if (job.name === 'twice' && job.attemptsMade === 0) throw new Error('at first it fails');
      await job.updateProgress(50);
      return job.data.color ?? 'done';
    },
    { connection, concurrency: 3 },
  );
  await new Promise((resolve) => process.once('message', resolve));
  await worker.close();
}

async function main() {
  const queue = new Queue('paint', { connection });
  const events = new QueueEvents('paint', { connection });
  await events.waitUntilReady();
  const workers = [start('worker'), start('worker')];
  const jobs = [];
  for (let number = 0; number < PAINTED; number++) jobs.push(await queue.add('car', { color: `blue ${number}` }));
  jobs.push(await queue.add('late', {}, { delay: 300 }));
  jobs.push(await queue.add('twice', {}, { attempts: 3, backoff: 100 }));
  jobs.push(await queue.add('once', {}, { jobId: 'once' }), await queue.add('once', {}, { jobId: 'once' }));
  jobs.push(await queue.add('gone', {}, { removeOnComplete: true }));
  jobs.push(...(await queue.addBulk([{ name: 'a', data: {} }, { name: 'b', data: {}, opts: { priority: 2 } }])));
  const results = await Promise.all(jobs.map((job) => job.waitUntilFinished(events, 20000)));
  done('each job has been painted', results.filter((result) => /^blue/.test(result)).length, PAINTED);
  done('all others are done', results.length, PAINTED + 7);

  const flow = new FlowProducer({ connection });
  const children = [1, 2, 3].map((number) => ({ name: 'child', data: { number }, queueName: 'paint' }));
  const { job } = await flow.add({ name: 'parent', queueName: 'paint', data: {}, children });
  await job.waitUntilFinished(events, 20000);
  done('the parent came after its children', Object.keys(await job.getChildrenValues()).length, 3);

  await queue.upsertJobScheduler('every', { every: 200 }, { name: 'tick' });
  await new Promise((resolve) => events.once('completed', resolve));
  await queue.removeJobScheduler('every');
  await queue.pause();
  await queue.resume();
  await queue.clean(0, 100);
  workers.forEach(({ child }) => child.send('stop'));
  await Promise.all(workers);
  await queue.obliterate({ force: true });
  done('the workers have ended', true);
  await Promise.all([queue.close(), events.close(), flow.close()]);
}

play({ main, worker });
