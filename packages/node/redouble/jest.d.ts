import type { Redouble, ServerOptions, Severity, Space } from './index.js';

/** The options of `globals.redouble` in jest's configuration. */
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

/** Runs `body` with a space of its own, which is checked and dropped afterwards. */
export function withSpace<T>(body: (redouble: Space) => Promise<T> | T): Promise<T>;
