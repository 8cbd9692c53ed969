// Node loads this before a suite. It redirects connections from port 6379 to the server under test.
'use strict';

const { Socket } = require('net');

const REDIS = 6379;
const UNDER_TEST = Number(process.env.LOCKS_PORT);
const connect = Socket.prototype.connect;

Socket.prototype.connect = function (...words) {
  // net.connect() passes its arguments on as one array, with the options first.
  const options = Array.isArray(words[0]) ? words[0][0] : words[0];
  if (Number(options?.port) === REDIS) options.port = UNDER_TEST;
  return connect.apply(this, words);
};
