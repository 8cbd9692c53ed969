// A gift card is charged by one shop at a time.
//
// The release reads the token back and deletes the key in a second trip. The lease ends between the two, the next shop has
// taken the card, and the DEL hands it to a third one: the card is charged twice with the same balance.
// Keys: lock giftcard:<n>:held, data giftcard:<n>:balance. The lines marked ! are the evidence.
'use strict';
const { fork } = require('node:child_process');
const { on } = require('node:events');
const { randomBytes } = require('node:crypto');
const Redis = require('ioredis');

const HELD = 'giftcard:5550:held';
const BALANCE = 'giftcard:5550:balance';

function shop(name, cents, pausesBefore) {
  const redis = new Redis(process.env.REDIS_URL);
  const token = randomBytes(24).toString('base64');
  let go;
  process.on('message', () => go());
  const pause = (place, then) => {
    if (place !== pausesBefore) return then();
    go = then;
    process.send(place);
  };

  const hold = (then) => redis.set(HELD, token, 'PX', 500, 'NX', (_, reply) => (reply === 'OK' ? then() : setTimeout(hold, 20, then))); // !
  const release = (then) => {
    redis.get(HELD, (_, value) => { // !
      if (value !== token) return then();
      pause('delete', () => redis.del(HELD, then)); // !
    });
  };
  hold(() => {
    redis.get(BALANCE, (_, balance) => { // !
      pause('charge', () => {
        redis.set(BALANCE, Number(balance) - cents, () => { // !
          release(() => redis.quit(() => process.send('done', () => process.exit(0))));
        });
      });
    });
  });
}

async function main() {
  const redis = new Redis(process.env.REDIS_URL);
  await redis.set(BALANCE, 10_000);
  const start = async (...args) => {
    const child = fork(__filename, args);
    const said = on(child, 'message');
    await said.next();
    return async () => {
      child.send('go on');
      await said.next();
    };
  };
  const kiosk = await start('kiosk', '100', 'delete');
  const books = await start('books', '2500', 'charge');
  await kiosk();
  const music = await start('music', '4000', 'charge');
  await books();
  await music();
  const balance = Number(await redis.get(BALANCE));
  if (balance !== 3400) console.log(`damage: 6600 cents were charged on 10000, the balance is ${balance}`);
  await redis.quit();
}

process.argv[2] ? shop(process.argv[2], Number(process.argv[3]), process.argv[4]) : main();
