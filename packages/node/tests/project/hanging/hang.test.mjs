import { writeFileSync } from 'node:fs';
import { test } from 'vitest';
import { startRedouble } from 'redouble';
import { redouble } from 'redouble/vitest';

test('waits until the runner is killed', { timeout: 600_000 }, async () => {
  const own = await startRedouble(); // also one that this worker has started itself
  await redouble.clock.now();
  writeFileSync(process.env.MARKER, String(own.port));
  await own.call('BLPOP', 'nothing', 0);
});
