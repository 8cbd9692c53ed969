// Greenhouse vents: two climate controllers, a process each, open the vents of one house step by step. A claim document
// says who moves them now and until when.
//
// Wrong: the claim is read with GET, is found to be missing, and is then written with SET. Two controllers that look at
// the same moment both find nothing, and both believe that the house is theirs.
const { fork } = require('node:child_process');
const { on, once } = require('node:events');
const { createClient } = require('redis');

const CLAIM = 'house:4:claim';
const STATE = 'house:4:vents';

async function connected() {
  const client = createClient({ url: process.env.REDIS_URL });
  client.on('error', (error) => console.error(error));
  return client.connect();
}

async function controller(name, degrees) {
  const redis = await connected();
  const stop = async (point) => {
    const go = once(process, 'message');
    process.send(point);
    await go;
  };

  await stop('ready');
  const standing = await redis.get(CLAIM);
  if (standing !== null && JSON.parse(standing).until > Date.now()) {
    process.send('busy');
  } else {
    await stop('no claim');
    await redis.set(CLAIM, JSON.stringify({ by: name, until: Date.now() + 60_000 })); // the second one over the first!
    await stop('claimed');

    const vents = JSON.parse(await redis.get(STATE));
    await stop('has read');
    vents.opening += degrees;
    vents.moves.push(name);
    await redis.set(STATE, JSON.stringify(vents)); // from what was read before the other's move!

    const mine = JSON.parse((await redis.get(CLAIM)) ?? '{}');
    if (mine.by === name) await redis.del(CLAIM);
    process.send('done');
  }
  await redis.close();
  process.disconnect();
}

function start(name, degrees) {
  const child = fork(__filename, [name, degrees]);
  const said = on(child, 'message');
  return {
    go: () => child.send('go'),
    async reaches(point) {
      const [word] = (await said.next()).value;
      if (word !== point) throw new Error(`${name} is at "${word}", not at "${point}"`);
    },
  };
}

async function main() {
  const redis = await connected();
  await redis.set(STATE, JSON.stringify({ opening: 0, moves: [] }));
  const both = [start('heat', 15), start('humidity', 20)];

  for (const point of ['ready', 'no claim', 'claimed', 'has read']) {
    for (const one of both) await one.reaches(point);
    if (point !== 'has read') for (const one of both) one.go();
  }
  for (const one of both) {
    one.go();
    await one.reaches('done');
  }

  const vents = JSON.parse(await redis.get(STATE));
  console.log(
    vents.opening === 35
      ? 'ok: the vents stand at 35 degrees'
      : `damage: the vents were opened by 15 and by 20 degrees, and stand at ${vents.opening} (moves: ${vents.moves})`,
  );
  await redis.close();
}

if (process.argv[2]) controller(process.argv[2], Number(process.argv[3]));
else main();
