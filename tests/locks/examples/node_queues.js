// Queues for Node: node-resque with its locks and schedulers, rsmq and groupmq, each with workers in processes of their own.
const Redis = require('ioredis');
const { start, done, pause, play, url, connection } = require('./processes');

const RESQUE = { ...connection, pkg: 'ioredis', database: 0 };

function jobs() {
  const { Plugins } = require('node-resque');
  const redis = new Redis(url);
  const count = (name) => async () => {
    await pause(5);
    return redis.incr(`did:${name}`);
  };
  return {
    add: { plugins: [Plugins.JobLock], pluginOptions: { JobLock: { reEnqueue: true } }, perform: count('add') },
    once: { plugins: [Plugins.QueueLock, Plugins.DelayQueueLock], perform: count('once') },
    flaky: { plugins: [Plugins.Retry], pluginOptions: { Retry: { retryLimit: 3, retryDelay: 50 } }, perform: count('flaky') },
  };
}

async function resque() {
  const { Worker, Scheduler } = require('node-resque');
  const worker = new Worker({ connection: RESQUE, queues: ['math', 'other'], timeout: 50, name: `worker:${process.pid}` }, jobs());
  await worker.connect();
  worker.start();
  const scheduler = new Scheduler({ connection: RESQUE, timeout: 100, leaderLockTimeout: 2 });
  await scheduler.connect();
  scheduler.start();
  await new Promise((resolve) => process.once('message', resolve));
  await scheduler.end();
  await worker.end();
}

async function smq() {
  const RedisSMQ = require('rsmq');
  const rsmq = new RedisSMQ({ ...connection, ns: 'rsmq' });
  const redis = new Redis(url);
  for (;;) {
    const message = await rsmq.receiveMessageAsync({ qname: 'myqueue', vt: 5 });
    if (!message.id) {
      if (Number(await redis.llen('received')) >= 12) return;
      await pause(5);
      continue;
    }
    await rsmq.changeMessageVisibilityAsync({ qname: 'myqueue', vt: 10, id: message.id });
    await redis.rpush('received', message.message);
    await rsmq.deleteMessageAsync({ qname: 'myqueue', id: message.id });
  }
}

async function groups() {
  const { Queue, Worker } = require('groupmq');
  const redis = new Redis(url, { maxRetriesPerRequest: null });
  const counter = new Redis(url);
  const queue = new Queue({ redis, namespace: 'orders', jobTimeoutMs: 5000 });
  const worker = new Worker({ queue, concurrency: 2, handler: async (job) => counter.incrby('charged', job.data.amount) });
  worker.run();
  await new Promise((resolve) => process.once('message', resolve));
  await worker.close();
}

async function main() {
  const redis = new Redis(url);
  const { Queue } = require('node-resque');
  const queue = new Queue({ connection: RESQUE }, jobs());
  await queue.connect();
  for (let number = 0; number < 4; number++) {
    await queue.enqueue('math', 'add', [1, 2]);
    await queue.enqueue('math', 'once', [7]);
    await queue.enqueue('other', 'flaky', [number]);
  }
  await queue.enqueueIn(100, 'math', 'add', [3, 4]);
  let workers = [start('resque'), start('resque')];
  while (Number(await redis.get('did:add')) < 5 || Number(await redis.get('did:flaky')) < 4) await pause(20);
  workers.forEach(({ child }) => child.send('stop'));
  await Promise.all(workers);
  await queue.end();
  done('resque did all jobs', await redis.get('did:add'), '5');

  const RedisSMQ = require('rsmq');
  const rsmq = new RedisSMQ({ ...connection, ns: 'rsmq' });
  await rsmq.createQueueAsync({ qname: 'myqueue' });
  workers = [start('smq'), start('smq')];
  for (let number = 0; number < 12; number++) await rsmq.sendMessageAsync({ qname: 'myqueue', message: `m${number}` });
  await Promise.all(workers);
  done('each message came once', await redis.llen('received'), 12);
  await rsmq.deleteQueueAsync({ qname: 'myqueue' });

  const { Queue: Groups } = require('groupmq');
  const orders = new Groups({ redis: new Redis(url), namespace: 'orders', jobTimeoutMs: 5000 });
  for (let number = 0; number < 12; number++) {
    await orders.add({ groupId: `user:${number % 3}`, data: { amount: 1 }, orderMs: Date.now(), maxAttempts: 5 });
  }
  workers = [start('groups'), start('groups')];
  while (Number(await redis.get('charged')) < 12) await pause(20);
  workers.forEach(({ child }) => child.send('stop'));
  await Promise.all(workers);
  done('all orders are charged', await redis.get('charged'), '12');
  await redis.quit();
}

play({ main, resque, smq, groups });
