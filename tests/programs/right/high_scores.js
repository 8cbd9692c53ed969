// High scores of a game, from several game servers.
//
// ZADD GT stores a score only if it is higher, in one step. A player's best of the season is read for display; the medal of
// a player is a plain SET by the nightly job, which is the only one that writes medals.
// Keys: sorted set scores, medal:<player>.
'use strict';
const { fork } = require('node:child_process');
const assert = require('node:assert');
const { createClient } = require('redis');

const PLAYERS = ['ada', 'bob', 'cyd', 'dan'];
const score = (server, round, player) => (server * 37 + round * 53 + player * 71) % 997;

async function gameServer(number) {
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  for (let round = 0; round < 15; round += 1) {
    for (const [n, player] of PLAYERS.entries()) {
      const before = (await client.zScore('scores', player)) ?? 0;
      await client.zAdd('scores', { value: player, score: score(number, round, n) }, { comparison: 'GT' });
      assert.ok((await client.zScore('scores', player)) >= before);
    }
  }
  await client.close();
}

async function awardMedals(client) {
  const ranking = (await client.zRange('scores', 0, 2, { REV: true }));
  for (const [place, player] of ranking.entries()) await client.set(`medal:${player}`, ['gold', 'silver', 'bronze'][place]);
  return ranking;
}

async function main() {
  const servers = [0, 1, 2].map((number) => fork(__filename, [String(number)]));
  const codes = await Promise.all(servers.map((child) => new Promise((resolve) => child.once('exit', resolve))));
  assert.deepStrictEqual(codes, [0, 0, 0]);
  const client = await createClient({ url: process.env.REDIS_URL }).connect();
  for (const [n, player] of PLAYERS.entries()) {
    const all = servers.flatMap((_, server) => Array.from({ length: 15 }, (__, round) => score(server, round, n)));
    assert.strictEqual(await client.zScore('scores', player), Math.max(...all));
  }
  const ranking = await awardMedals(client);
  assert.strictEqual(await client.get(`medal:${ranking[0]}`), 'gold');
  await client.close();
  console.log('ok: four players have the best of their 45 scores from three servers');
}

process.argv[2] ? gameServer(Number(process.argv[2])) : main();
