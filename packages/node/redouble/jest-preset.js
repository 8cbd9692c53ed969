'use strict';

const path = require('node:path');

module.exports = {
  globalSetup: path.join(__dirname, 'jest', 'global-setup.js'),
  globalTeardown: path.join(__dirname, 'jest', 'global-teardown.js'),
  setupFiles: [path.join(__dirname, 'jest', 'environment.js')],
  setupFilesAfterEnv: [path.join(__dirname, 'jest', 'after-env.js')],
};
