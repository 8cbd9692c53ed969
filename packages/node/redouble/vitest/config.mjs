// For vitest.config with options: `plugins: [redouble({ audit: 'error' })]`.

import { fileURLToPath } from 'node:url';

import runs from '../lib/test-run.js';

const GLOBAL_SETUP = fileURLToPath(new URL('../vitest.mjs', import.meta.url));

export default function redouble(options = {}) {
  // A mistake is told before the run starts.
  runs.runnerOptions(options);
  return { name: 'redouble', config: () => ({ test: { globalSetup: [GLOBAL_SETUP], redouble: options } }) };
}
