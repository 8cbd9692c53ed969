// For vitest: `globalSetup: 'redouble/vitest'` starts one server for the run, and each worker gets a space of it.
//
// The runner loads this module in its own process, where the server is started, and tests load it in the workers.

import os from 'node:os';
import { fileURLToPath } from 'node:url';

import errors from './lib/errors.js';
import runs from './lib/test-run.js';

const SETUP = fileURLToPath(new URL('./vitest/setup.mjs', import.meta.url));
const CONTEXT = 'redouble';

/** Starts the server of the run. The plugin in `vitest/config.mjs` has put its options into the configuration. */
export default async function setup(project) {
  const { config } = project;
  const running = await runs.startRun(runs.runnerOptions(config.redouble), workersOf(project));
  project.provide(CONTEXT, running.told);
  const others = [config.setupFiles ?? []].flat();
  // First, so that other setup files find REDIS_URL.
  if (!others.includes(SETUP)) config.setupFiles = [SETUP, ...others];
  return () => running.stop();
}

function workersOf({ config, vitest }) {
  const { maxWorkers } = { ...vitest?.config, ...config };
  return Number.isInteger(maxWorkers) ? maxWorkers : os.cpus().length;
}

// Vitest cannot be imported in the process of the runner.
const isInWorker = globalThis.__vitest_worker__ !== undefined;
const vitest = isInWorker ? await import('vitest') : undefined;
const run = vitest?.inject(CONTEXT);

const worker = Number(process.env.VITEST_POOL_ID);

function missing() {
  throw new errors.RedoubleError(
    isInWorker
      ? "no redouble was started for this run: add globalSetup: 'redouble/vitest' to `test` in vitest.config"
      : "redouble/vitest gives `redouble` and `test` to tests only; elsewhere: import { startRedouble } from 'redouble'",
  );
}

const absent = new Proxy({}, { get: missing, set: missing });

/** The space of this worker, which REDIS_URL leads to, too. */
export const redouble = run === undefined ? absent : runs.endpointOf(run, worker);

/** `test` of vitest with the fixture `redouble`: a space of this test's own. */
export const test = vitest === undefined ? missing : vitest.test.extend({
  redouble: async ({ task }, use) => {
    if (run === undefined) missing();
    const own = runs.spaceOf(run, worker);
    const watch = new runs.TestCheck(own, run.level, true);
    await watch.begin(nameOf(task));
    await use(own);
    const error = await watch.end(task.name, task.result?.state === 'fail');
    await own.release();
    if (error !== undefined) throw error;
  },
});

export { test as it };

/** The name of a test with its file and suites. */
function nameOf(task) {
  const names = [];
  for (let each = task; each; each = each.suite) names.unshift(each.name);
  if (task.file && task.file.name !== names[0]) names.unshift(task.file.name);
  return names.filter(Boolean).join(' > ');
}

/** Vitest leaves workers behind when it is killed. A worker of a runner that is gone has nobody to tell its results. */
function endWithRunner() {
  const mark = Symbol.for('redouble.vitest');
  // In the pool vmForks each test file has a global object of its own.
  if (process.channel === undefined || process[mark]) return;
  process[mark] = true;
  // Vitest does not let tests call process.exit.
  process.once('disconnect', () => process.kill(process.pid, 'SIGKILL'));
}

/** Lets the tests of this file run in the worker's space. Called by `redouble/vitest/setup`. */
export async function begin() {
  if (run === undefined) missing();
  endWithRunner();
  Object.assign(process.env, redouble.env);
  const { afterAll, afterEach, beforeEach } = vitest;
  const isResetForEachTest = run.reset === 'test';
  const watch = new runs.TestCheck(redouble, run.level, isResetForEachTest);
  if (run.reset !== 'never') await redouble.reset();
  // Of tests that run at the same time in one space, nobody can tell which one has sent a command.
  beforeEach(async ({ task }) => {
    if (task.concurrent) return;
    if (isResetForEachTest) await redouble.reset();
    await watch.begin(nameOf(task));
  });
  afterEach(async ({ task }) => {
    if (task.concurrent) return;
    const error = await watch.end(task.name, task.result?.state === 'fail');
    if (error !== undefined) throw error;
  });
  if (!isResetForEachTest) {
    afterAll(async () => {
      const error = await watch.endAll();
      if (error !== undefined) throw error;
    });
  }
}
