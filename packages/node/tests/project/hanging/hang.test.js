const { writeFileSync } = require('node:fs');
const { redouble } = require('redouble/jest');

test('waits until the runner is killed', async () => {
  await redouble.clock.now();
  writeFileSync(process.env.MARKER, '');
  await redouble.call('BLPOP', 'nothing', 0);
}, 600_000);
