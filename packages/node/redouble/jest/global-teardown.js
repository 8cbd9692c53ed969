'use strict';

module.exports = async function globalTeardown() {
  await globalThis[Symbol.for('redouble.jest')]?.stop();
  delete process.env.REDOUBLE_JEST;
};
