'use strict';

/** What the server refuses, and what cannot be started or reached. */
class RedoubleError extends Error {
  name = 'RedoubleError';
}

/** A fault that no command met, or a gate that no command came to: the test may have passed for the wrong reason. */
class UnusedError extends RedoubleError {
  name = 'UnusedError';
}

module.exports = { RedoubleError, UnusedError };
