'use strict';

const { connectRedouble } = require('./lib/endpoint.js');
const { findBinary } = require('./lib/binary.js');
const { RedoubleError, UnusedError } = require('./lib/errors.js');
const { startRedouble } = require('./lib/server.js');

module.exports = { startRedouble, connectRedouble, findBinary, RedoubleError, UnusedError };
