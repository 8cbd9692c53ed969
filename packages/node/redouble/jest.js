'use strict';

// For tests under jest with `preset: 'redouble'`: the space of this worker, which REDIS_URL leads to, too.

const { RedoubleError } = require('./lib/errors.js');
const { TestCheck, endpointOf, spaceOf } = require('./lib/test-run.js');

/** The preset's global setup has put it there; workers inherit it. */
const given = process.env.REDOUBLE_JEST;
const run = given === undefined ? undefined : JSON.parse(given);

function missing() {
  throw new RedoubleError(
    "no redouble was started for this run: add preset: 'redouble' to the configuration of jest " +
      "(or, beside another preset, ...require('redouble/jest-preset'))",
  );
}

const worker = Number(process.env.JEST_WORKER_ID);
const redouble = run === undefined ? new Proxy({}, { get: missing, set: missing }) : endpointOf(run, worker);

/** Runs `body` with a space of its own, which is checked and dropped afterwards. */
async function withSpace(body) {
  if (run === undefined) missing();
  const own = spaceOf(run, worker);
  const check = new TestCheck(own, run.level, true);
  const { currentTestName = 'of this file' } = globalThis.expect?.getState() ?? {};
  await check.begin();
  let result;
  try {
    result = await body(own);
  } catch (error) {
    await check.end(currentTestName, true).catch(() => {});
    await own.release().catch(() => {});
    throw error;
  }
  const error = await check.end(currentTestName, false);
  await own.release();
  if (error !== undefined) throw error;
  return result;
}

module.exports = { redouble, withSpace, run };
