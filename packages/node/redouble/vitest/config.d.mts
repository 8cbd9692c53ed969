import type { RunOptions } from '../vitest.mjs';

/** A plugin for vitest.config that starts redouble for the run: `plugins: [redouble({ audit: 'error' })]`. */
export default function redouble(options?: RunOptions): { name: string };
