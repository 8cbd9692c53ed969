import { begin } from '../vitest.mjs';

await begin();
