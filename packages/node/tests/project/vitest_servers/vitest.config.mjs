import { defineConfig } from 'vitest/config';
import redouble from 'redouble/vitest/config';

export default defineConfig({
  plugins: [redouble({ perWorker: 'server' })],
  test: { minWorkers: 4, maxWorkers: 4, testTimeout: 60_000, include: ['*.test.mjs'] },
});
