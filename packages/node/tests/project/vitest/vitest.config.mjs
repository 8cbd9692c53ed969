import { defineConfig } from 'vitest/config';
import redouble from 'redouble/vitest/config';

export default defineConfig({
  plugins: [redouble({ audit: 'error' })],
  test: { pool: process.env.POOL, minWorkers: 8, maxWorkers: 8, testTimeout: 60_000, include: ['*.test.mjs'] },
});
