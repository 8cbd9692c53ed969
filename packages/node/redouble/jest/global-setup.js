'use strict';

// Starts the server of the run. `globals.redouble` of the configuration has its options.

const { runnerOptions, startRun } = require('../lib/test-run.js');

module.exports = async function globalSetup({ maxWorkers }, project) {
  const running = await startRun(runnerOptions(project?.globals?.redouble), maxWorkers);
  process.env.REDOUBLE_JEST = JSON.stringify(running.told);
  // The teardown is another module of the same process.
  globalThis[Symbol.for('redouble.jest')] = running;
};
