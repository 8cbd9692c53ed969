// A ceramics studio: a list has one token for each kiln, and who pops the token may change the kiln's programme.
//
// What is wrong: the reaper puts the token of a slow controller back into the list. Two controllers have the token of
// one kiln, and when both give it back the list has two.
'use strict';
const { createClient } = require('redis');

const TOO_LONG = 300;
const TOKENS = 'studio:kilns:free';
const TAKEN = 'studio:kilns:taken';
const programme = (kiln) => `studio:kiln:${kiln}:programme`;
const connect = (name) => createClient({ url: process.env.REDIS_URL, name }).connect();

async function addStep(redis, step, meanwhile) {
  const kiln = await redis.lPop(TOKENS);
  if (kiln === null) return false;
  await redis.zAdd(TAKEN, { score: Date.now(), value: kiln });
  const steps = JSON.parse((await redis.get(programme(kiln))) ?? '[]');
  await meanwhile();
  steps.push(step);
  await redis.set(programme(kiln), JSON.stringify(steps)); // the token has been given to somebody else !
  await redis.zRem(TAKEN, kiln);
  await redis.rPush(TOKENS, kiln); // now it is there twice !
  return true;
}

async function reap(redis) {
  for (const kiln of await redis.zRangeByScore(TAKEN, '-inf', Date.now() - TOO_LONG)) {
    if (await redis.zRem(TAKEN, kiln)) await redis.rPush(TOKENS, kiln); // its controller works still !
  }
}

async function main() {
  const [first, second, third] = await Promise.all([1, 2, 3].map((n) => connect(`kiln-controller-${n}`)));
  const reaper = await connect('kiln-reaper');
  await reaper.rPush(TOKENS, 'kiln-1');

  await addStep(first, '600 C, 2 h', async () => {
    if (await addStep(second, 'never', async () => {})) throw new Error('a token too many');
    await new Promise((then) => setTimeout(then, TOO_LONG + 100));
    await reap(reaper);
    await addStep(second, '900 C, 1 h', async () => {});
  });
  // Two tokens for one kiln: they are inside together without any reaper.
  await addStep(second, '1040 C, 1 h', async () => {
    await addStep(third, '1220 C, 20 min', async () => {});
  });

  const steps = JSON.parse(await reaper.get(programme('kiln-1')));
  const tokens = await reaper.lLen(TOKENS);
  const lost = 4 - steps.length;
  if (lost) console.log(`damage: ${lost} of four steps are lost, and ${tokens} tokens are there`);
  await Promise.all([first, second, third, reaper].map((redis) => redis.close()));
}

main();
