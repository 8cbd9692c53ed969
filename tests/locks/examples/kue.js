// kue: two workers in processes of their own; priorities, delays and failures.
const kue = require('kue');
const { start, done, play, url } = require('./processes');

const SENT = 15;

async function worker() {
  const queue = kue.createQueue({ redis: url });
  queue.process('email', 2, (job, finish) => {
    job.progress(1, 2);
    finish(null, job.data.to);
  });
  await new Promise((resolve) => process.once('message', resolve));
  await new Promise((resolve) => queue.shutdown(1000, resolve));
}

async function main() {
  const queue = kue.createQueue({ redis: url });
  queue.watchStuckJobs(500);
  const workers = [start('worker'), start('worker')];
  const sent = [];
  for (let number = 0; number < SENT; number++) {
    const job = queue.create('email', { title: `welcome ${number}`, to: `a${number}` }).priority('high').attempts(3);
    if (number % 5 === 0) job.removeOnComplete(true);
    if (number % 7 === 0) job.delay(200);
    sent.push(new Promise((resolve, reject) => job.on('complete', resolve).on('failed', reject)));
    await new Promise((resolve, reject) => job.save((error) => (error ? reject(error) : resolve())));
  }
  done('all emails are sent', (await Promise.all(sent)).length, SENT);
  workers.forEach(({ child }) => child.send('stop'));
  await Promise.all(workers);
  await new Promise((resolve) => queue.shutdown(1000, resolve));
}

play({ main, worker });
