module.exports = { preset: 'redouble', globals: { redouble: { audit: true } } };
