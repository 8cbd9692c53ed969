// For vitest.config with options: `plugins: [redouble({ audit: 'error' })]`.

import { fileURLToPath } from 'node:url';

import check from '../lib/test-check.js';

const GLOBAL_SETUP = fileURLToPath(new URL('../vitest.mjs', import.meta.url));

export default function redouble(options = {}) {
  // A mistake is told before the run starts.
  check.runnerOptions(options);
  return { name: 'redouble', config: () => ({ test: { globalSetup: [GLOBAL_SETUP], redouble: options } }) };
}
