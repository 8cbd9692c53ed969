module.exports = { preset: 'redouble', globals: { redouble: { audit: 'error' } }, maxWorkers: 4, testTimeout: 60_000 };
