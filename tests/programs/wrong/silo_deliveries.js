// Grain silos: the handlers of a web server share one connection, as is usual in Node. A delivery reads the silo with WATCH,
// asks the scales, and writes the new figure with MULTI and EXEC.
//
// Wrong: WATCH belongs to the connection and not to the handler. The EXEC of one handler forgets what the other has watched,
// so that the other's EXEC is never refused.
const { EventEmitter, once } = require('node:events');
const Redis = require('ioredis');

const redis = new Redis(process.env.REDIS_URL);
const scales = new EventEmitter();

async function deliver(silo, lorry) {
  const key = `silo:${silo}:stock`;
  for (;;) {
    await redis.watch(key);
    const stock = JSON.parse(await redis.get(key));
    scales.emit('asked', lorry);
    const [tonnes] = await once(scales, lorry);
    const next = { tonnes: stock.tonnes + tonnes, lorries: [...stock.lorries, lorry] };
    const replies = await redis.multi().set(key, JSON.stringify(next)).exec(); // watches nothing any more!
    if (replies !== null) return next;
  }
}

const asks = async (lorry) => {
  for (;;) if ((await once(scales, 'asked'))[0] === lorry) return;
};

async function main() {
  await redis.set('silo:B:stock', JSON.stringify({ tonnes: 0, lorries: [] }));

  let asked = asks('lorry-1');
  const slow = deliver('B', 'lorry-1');
  await asked;
  asked = asks('lorry-2');
  const quick = deliver('B', 'lorry-2');
  await asked;
  scales.emit('lorry-2', 26);
  await quick;
  scales.emit('lorry-1', 18);
  await slow;

  const stock = JSON.parse(await redis.get('silo:B:stock'));
  console.log(
    stock.tonnes === 44
      ? 'ok: the silo has 44 t'
      : `damage: 26 t and 18 t were delivered, and the silo has ${stock.tonnes} t of ${stock.lorries}`,
  );
  await redis.quit();
}

main();
