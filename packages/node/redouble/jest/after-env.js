'use strict';

// Around each test of a file.

const { redouble, run } = require('../jest.js');
const { TestCheck } = require('../lib/test-run.js');

/** Jest tells a hook nothing of the test that it follows; its runner keeps that here. */
function hasFailed() {
  const symbol = Object.getOwnPropertySymbols(globalThis).find(({ description }) => description === 'JEST_STATE_SYMBOL');
  const test = symbol && globalThis[symbol]?.currentlyRunningTest;
  return (test?.errors?.length ?? 0) > 0;
}

if (run !== undefined) {
  const isResetForEachTest = run.reset === 'test';
  const check = new TestCheck(redouble, run.level, isResetForEachTest);
  const fail = (error) => {
    if (error !== undefined) throw error;
  };
  beforeAll(async () => {
    if (run.reset !== 'never') await redouble.reset();
  });
  beforeEach(async () => {
    if (isResetForEachTest) await redouble.reset();
    await check.begin(expect.getState().currentTestName);
  });
  afterEach(async () => fail(await check.end(expect.getState().currentTestName, hasFailed())));
  afterAll(async () => {
    if (!isResetForEachTest) fail(await check.endAll());
    redouble.close();
  });
}
