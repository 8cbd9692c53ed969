module.exports = { preset: 'redouble' };
