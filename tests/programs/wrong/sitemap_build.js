// The sitemap is built by whoever finds no mark that somebody else builds it.
//
// The mark is looked for with EXISTS and set afterwards. Two builders look before either sets it, and both build; the
// revision that one of them counts up is lost.
// Keys: lock sitemap:building, data sitemap:revision. The lines marked ! are the evidence.
'use strict';
const { spawn } = require('node:child_process');
const readline = require('node:readline');
const { createClient } = require('redis');

const BUILDING = 'sitemap:building';
const REVISION = 'sitemap:revision';

const lines = (stream) => readline.createInterface({ input: stream })[Symbol.asyncIterator]();

async function build() {
  const client = createClient({ url: process.env.REDIS_URL });
  await client.connect();
  const stdin = lines(process.stdin);
  const step = async (word) => {
    console.log(word);
    await stdin.next();
  };

  if ((await client.exists(BUILDING)) === 0) { // !
    await step('free');
    await client.set(BUILDING, process.pid, { expiration: { type: 'EX', value: 120 } }); // !
    const revision = Number(await client.get(REVISION)); // !
    await step('building');
    await client.set(REVISION, revision + 1); // !
    await client.del(BUILDING);
  }
  await client.close();
  process.exit(0);
}

async function main() {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  await client.set(REVISION, 41);
  const builders = [1, 2].map(() => {
    const child = spawn(process.execPath, [__filename, 'build'], { stdio: ['pipe', 'pipe', 'inherit'] });
    return { child, said: lines(child.stdout), exit: new Promise((resolve) => child.on('exit', resolve)) };
  });
  let inside = 0;
  for (const word of ['free', 'building']) {
    for (const builder of builders) if ((await builder.said.next()).value === word) inside += word === 'building';
    for (const builder of builders) builder.child.stdin.write('go\n');
  }
  await Promise.all(builders.map((builder) => builder.exit));
  const revision = await client.get(REVISION);
  if (revision !== '43') console.log(`damage: ${inside} builders were at work, two builds after 41 are revision ${revision}`);
  await client.close();
}

process.argv[2] === 'build' ? build() : main();
