export * from './vitest.mjs';
