// The types alone, without those of Node, and checked themselves.

import type { Redouble } from 'redouble';
import { redouble, withSpace } from 'redouble/jest';
import { RedisMemoryServer } from 'redouble/memory-server';

export const worker: Redouble = redouble;
export const port = (server: RedisMemoryServer): Promise<number> => server.getPort();
export const now = (): Promise<number> => withSpace((space: Redouble) => space.clock.now());
