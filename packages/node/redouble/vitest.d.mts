import type { TestAPI } from 'vitest';

import type { Redouble, ServerOptions, Severity, Space } from './index.js';

/** The options of a run: those of `startRedouble`, and what the tests are watched for. */
export interface RunOptions extends Omit<ServerOptions, 'audit'> {
  /** A test whose commands misuse a lock fails: for findings of this severity or a worse one; `true` is `'error'`. */
  audit?: boolean | Severity | 'warn';
  /** When the space of a worker is emptied: before each test file (`'file'`), before each test, or never. */
  reset?: 'file' | 'test' | 'never';
  /** Whether each worker has a space of one server (`'space'`), or a server, so that REDIS_PORT is its own (`'server'`). */
  perWorker?: 'space' | 'server';
}

/** The space of this worker, which REDIS_URL leads to, too. */
export const redouble: Redouble;

/** `test` of vitest with the fixture `redouble`: a space of this test's own. */
export const test: TestAPI<{ redouble: Space }>;
export { test as it };

interface Project {
  config: object;
  provide(key: never, value: never): void;
}

/** The global setup: starts the server of the run. */
export default function setup(project: Project): Promise<() => Promise<void>>;
