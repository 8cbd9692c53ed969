'use strict';

// Before the modules of a test file are loaded: they find the space of their worker in REDIS_URL.

const { redouble, run } = require('../jest.js');

if (run !== undefined) Object.assign(process.env, redouble.env);
