import { defineConfig } from 'vitest/config';
import redouble from 'redouble/vitest/config';

export default defineConfig({ plugins: [redouble({ audit: true })] });
