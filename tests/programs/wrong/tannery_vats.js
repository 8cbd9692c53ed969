// Tannery: the dosing pumps, a process each, take a vat with SETNX on `lock.vat:3`, whose value is the time when it is over.
// A pump that was switched off has left its lock behind.
//
// Wrong: who finds a lock whose time is over deletes it and takes it with SETNX. The documentation says why one must not: two
// find the same old lock, and the DEL of the second one removes the new lock of the first one.
const { fork } = require('node:child_process');
const { on, once } = require('node:events');
const { setTimeout: after } = require('node:timers/promises');
const { createClient } = require('redis');

const LOCK = 'lock.vat:3';
const RECIPE = 'vat:3:recipe';

async function open() {
  const redis = createClient({ url: process.env.REDIS_URL });
  redis.on('error', (error) => console.error(error));
  return redis.connect();
}

const until = (milliseconds) => String(Date.now() + milliseconds);

async function switchedOff() {
  const redis = await open();
  await redis.setNX(LOCK, until(300));
  process.exit(0);
}

async function pump(name, litres) {
  const redis = await open();
  const checkpoint = async (point) => {
    const go = once(process, 'message');
    process.send(point);
    await go;
  };

  await checkpoint('ready');
  for (;;) {
    if (await redis.setNX(LOCK, until(60_000))) break;
    const over = Number(await redis.get(LOCK));
    if (over < Date.now()) {
      await checkpoint('found an old lock');
      await redis.del(LOCK); // the second one deletes the new lock of the first one!
      if (await redis.setNX(LOCK, until(60_000))) break;
    }
    await after(50);
  }
  const recipe = JSON.parse(await redis.get(RECIPE));
  await checkpoint('read');
  recipe.litres += litres;
  recipe.by.push(name);
  await redis.set(RECIPE, JSON.stringify(recipe)); // both are at the vat!
  await checkpoint('written');
  await redis.del(LOCK);
  await redis.close();
  process.disconnect();
}

function begin(...words) {
  const child = fork(__filename, words);
  const points = on(child, 'message');
  return {
    over: once(child, 'exit'),
    async goesTo(point) {
      if (point !== 'ready') child.send('go');
      const [reached] = (await points.next()).value;
      if (reached !== point) throw new Error(`${words[1]}: ${reached}`);
    },
    leave: () => child.send('go'),
  };
}

async function main() {
  const redis = await open();
  await redis.set(RECIPE, JSON.stringify({ litres: 0, by: [] }));
  await begin('off').over;

  const [lime, tannin] = [begin('pump', 'lime', '40'), begin('pump', 'tannin', '65')];
  await Promise.all([lime.goesTo('ready'), tannin.goesTo('ready')]);
  await Promise.all([lime.goesTo('found an old lock'), tannin.goesTo('found an old lock')]);
  await lime.goesTo('read');
  await tannin.goesTo('read');
  await lime.goesTo('written');
  await tannin.goesTo('written');
  lime.leave();
  tannin.leave();
  await Promise.all([lime.over, tannin.over]);

  const recipe = JSON.parse(await redis.get(RECIPE));
  console.log(
    recipe.litres === 105
      ? 'ok: the recipe has both doses'
      : `damage: 40 l and 65 l were dosed, and the recipe says ${recipe.litres} l by ${recipe.by}`,
  );
  await redis.close();
}

const [role, name, litres] = process.argv.slice(2);
if (role === 'off') switchedOff();
else if (role === 'pump') pump(name, Number(litres));
else main();
