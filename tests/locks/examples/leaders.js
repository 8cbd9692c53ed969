// Leaders: processes elect one of them, who steps down, and the next one follows. A job of a cron runs in one of them.
const Redis = require('ioredis');
const { start, done, pause, play, url } = require('./processes');

// The leader says so and steps down; then another one is elected.
async function member() {
  const redis = new Redis(url);
  const Leader = require('redis-leader');
  const leader = new Leader(redis, { ttl: 400, wait: 50, key: 'team' });
  leader.elect();
  await new Promise((resolve) => leader.once('elected', resolve));
  await redis.incr('terms');
  await pause(500);
  leader.stop();
  await pause(100);
  await redis.quit();
}

async function safe() {
  const redis = new Redis(url);
  const { createSafeRedisLeader } = require('safe-redis-leader');
  const leader = await createSafeRedisLeader({ asyncRedis: redis, ttl: 400, wait: 100, key: 'the-election' });
  const elected = new Promise((resolve) => leader.once('elected', resolve));
  await leader.elect();
  await elected;
  await redis.incr('safe-terms');
  await pause(500);
  await leader.shutdown();
  await redis.quit();
}

async function cron() {
  const redis = require('redis-3').createClient(url);
  const { CronJob } = require('cron-cluster')(redis, { ttl: 500, wait: 100 });
  const job = new CronJob('* * * * * *', () => redis.incr('ticks'));
  job.start();
  await new Promise((resolve) => process.once('message', resolve));
  job.stop();
  await pause(100);
}

async function main() {
  const redis = new Redis(url);
  await Promise.all([start('member'), start('member'), start('member')]);
  done('each was the leader once', await redis.get('terms'), '3');
  await Promise.all([start('safe'), start('safe')]);
  done('and here', await redis.get('safe-terms'), '2');
  const jobs = [start('cron'), start('cron')];
  while (Number(await redis.get('ticks')) < 2) await pause(20);
  jobs.forEach(({ child }) => child.send('stop'));
  await Promise.all(jobs);
  done('the job has run', true);
  await redis.quit();
}

play({ main, member, safe, cron });
