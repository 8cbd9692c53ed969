// A test and a configuration for vitest.

import { expect } from 'vitest';
import { defineConfig } from 'vitest/config';
import { redouble, test } from 'redouble/vitest';
import plugin from 'redouble/vitest/config';

export default defineConfig({
  plugins: [plugin({ audit: 'warning', reset: 'test', instances: 3 })],
  test: { globalSetup: 'redouble/vitest' },
});

test('the fixture has a type', async ({ redouble: own }) => {
  const now: number = await own.clock.now();
  expect(now).toBeGreaterThan(0);
  await redouble.reset();
  // @ts-expect-error There is no such level.
  plugin({ audit: 'loud' });
});
