'use strict';

// Starts the server of the run. `globals.redouble` of the configuration has its options.

const { startRedouble } = require('../lib/server.js');
const { runnerOptions } = require('../lib/test-check.js');

module.exports = async function globalSetup(_, project) {
  const { level, reset, server: options } = runnerOptions(project?.globals?.redouble);
  const running = await startRedouble(options);
  process.env.REDOUBLE_JEST = JSON.stringify({ level, reset, server: running.server });
  // The teardown is another module of the same process.
  globalThis[Symbol.for('redouble.jest')] = running;
};
