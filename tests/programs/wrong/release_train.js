// Releases: who ships takes the track until the end of the release window, then writes the manifest of the train.
//
// What is wrong: the script lets the track expire at the end of the window. If the window is over already that is an
// expiry in the past, which deletes the key at once, and the script answers "yours" nevertheless.
'use strict';
const { randomBytes } = require('node:crypto');
const { createClient } = require('redis');

const TAKE = `
if redis.call('SETNX', KEYS[1], ARGV[1]) == 0 then return 0 end
redis.call('EXPIRE', KEYS[1], ARGV[2])
return 1`;
const LEAVE = `if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('DEL', KEYS[1]) return 1 end return 0`;
const train = randomBytes(3).toString('hex');
const track = `train:${train}:track`;
const manifest = `train:${train}:manifest`;
const now = () => Math.floor(Date.now() / 1000);

async function ship(redis, component, windowEnds, meanwhile = async () => {}) {
  const ticket = randomBytes(16).toString('hex');
  const seconds = String(windowEnds - now()); // below zero after the window: the script deletes what it set !
  if (!(await redis.eval(TAKE, { keys: [track], arguments: [ticket, seconds] }))) return false;
  const parts = JSON.parse((await redis.get(manifest)) ?? '[]');
  await meanwhile();
  await redis.set(manifest, JSON.stringify([...parts, component])); // nobody holds the track !
  await redis.eval(LEAVE, { keys: [track], arguments: [ticket] });
  return true;
}

async function main() {
  const clients = await Promise.all([1, 2].map(() => createClient({ url: process.env.REDIS_URL }).connect()));
  const [left, right] = clients;

  // Within the window the second one is refused.
  let second;
  await ship(left, 'api 4.1', now() + 600, async () => {
    second = await ship(right, 'web 9.0', now() + 600);
  });
  if (second) throw new Error('two were inside within the window');

  // After it both are let in.
  await ship(left, 'worker 2.7', now() - 1, async () => {
    second = await ship(right, 'web 9.0', now() - 1);
  });

  const parts = JSON.parse(await left.get(manifest));
  const lost = second && !parts.includes('web 9.0');
  if (lost) console.log(`damage: web 9.0 was shipped and is not in ${parts.join(', ')}`);
  await Promise.all(clients.map((client) => client.close()));
}

main();
