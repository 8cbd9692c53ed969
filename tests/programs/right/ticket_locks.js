// Tickets are edited under locks whose tokens come from whatever the team has at hand: 21 letters of a web alphabet, a UUID without
// hyphens, 22 letters of base 62, base64 with padding. All of them have 120 random bits or more.
//
// Many locks are taken, so that there is a token that looks less random than it is.
// Keys: locks ticket:<number>:editor, data ticket:<number>:text.
'use strict';
const { fork } = require('node:child_process');
const { once } = require('node:events');
const crypto = require('node:crypto');
const assert = require('node:assert');
const { createClient } = require('redis');

const letters = (alphabet, length) => Array.from({ length }, () => alphabet[crypto.randomInt(alphabet.length)]).join('');
const SMALL = 'abcdefghijklmnopqrstuvwxyz';
const WORDS = `${SMALL}${SMALL.toUpperCase()}0123456789`;
const STYLES = [
  () => letters(`${WORDS}_-`, 21),
  () => crypto.randomUUID().replaceAll('-', ''),
  () => letters(WORDS, 22),
  () => crypto.randomBytes(16).toString('base64'),
  () => letters(SMALL, 26),
];
const RELEASE = "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end";
const TICKETS = 60;

async function editor(word) {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  await client.clientSetName(`editor-${word}`);
  process.send('ready');
  await once(process, 'message');
  for (let ticket = 0; ticket < TICKETS; ticket += 1) {
    const [key, token] = [`ticket:${ticket}:editor`, STYLES[ticket % STYLES.length]()];
    const options = { condition: 'NX', expiration: { type: 'PX', value: 60_000 } };
    while ((await client.set(key, token, options)) === null) await new Promise((resolve) => setTimeout(resolve, 2));
    const text = (await client.get(`ticket:${ticket}:text`)) ?? '';
    await client.set(`ticket:${ticket}:text`, `${text}${word} `);
    assert.strictEqual(await client.eval(RELEASE, { keys: [key], arguments: [token] }), 1);
  }
  await client.close();
  process.disconnect();
}

async function main() {
  const editors = ['one', 'two', 'three'].map((word) => fork(__filename, [word]));
  await Promise.all(editors.map((child) => once(child, 'message')));
  for (const child of editors) child.send('go');
  await Promise.all(editors.map((child) => once(child, 'exit')));
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  for (let ticket = 0; ticket < TICKETS; ticket += 1) {
    const words = (await client.get(`ticket:${ticket}:text`)).trim().split(' ').sort();
    assert.deepStrictEqual(words, ['one', 'three', 'two']);
  }
  await client.close();
  console.log(`ok: three editors wrote into ${TICKETS} tickets, and no word is missing`);
}

process.argv[2] ? editor(process.argv[2]) : main();
