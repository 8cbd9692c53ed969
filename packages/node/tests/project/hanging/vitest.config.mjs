import { defineConfig } from 'vitest/config';

export default defineConfig({ test: { globalSetup: 'redouble/vitest', pool: process.env.POOL, include: ['*.test.mjs'] } });
