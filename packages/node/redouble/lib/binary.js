'use strict';

// Finds the program: `REDOUBLE_BINARY`, or the package of this platform.

const fs = require('node:fs');

const { RedoubleError } = require('./errors.js');

const PLATFORMS = ['linux-x64', 'linux-arm64', 'darwin-x64', 'darwin-arm64'];

/** Returns the path of the program. Throws an error that says what to do if there is none. */
function findBinary(chosen) {
  const named = chosen ?? process.env.REDOUBLE_BINARY;
  if (named !== undefined && named !== '') {
    const by = chosen === undefined ? 'REDOUBLE_BINARY names' : 'the option `binary` names';
    let found;
    try {
      found = fs.statSync(named);
    } catch {
      throw new RedoubleError(`${by} ${named}, which does not exist`);
    }
    if (!found.isFile()) throw new RedoubleError(`${by} ${named}, which is no file`);
    return named;
  }
  const platform = `${process.platform}-${process.arch}`;
  if (!PLATFORMS.includes(platform)) {
    throw new RedoubleError(
      `redouble has no program for ${platform}; it has one for ${PLATFORMS.join(', ')}. ` +
        'If you have built one yourself, name it in the environment variable REDOUBLE_BINARY.',
    );
  }
  const name = `redouble-${platform}`;
  let path;
  try {
    path = require.resolve(`${name}/bin/redouble`);
  } catch {
    throw new RedoubleError(
      `the package ${name}, which has the program for this platform, is not installed. ` +
        'It is an optional dependency of the package redouble, which npm leaves out with --omit=optional or ' +
        '--no-optional, or because the lock file or node_modules was made on another platform. ' +
        `Install it with: npm install --save-dev --include=optional redouble ` +
        `(if that does not help, remove node_modules and the lock file first, or add ${name} itself). ` +
        'Or name a program that you have in the environment variable REDOUBLE_BINARY.',
    );
  }
  makeExecutable(path);
  return path;
}

/** Caches of some CI systems lose the permission to execute. */
function makeExecutable(path) {
  try {
    fs.accessSync(path, fs.constants.X_OK);
  } catch {
    try {
      fs.chmodSync(path, 0o755);
    } catch {
      throw new RedoubleError(`${path} may not be executed; allow it with: chmod +x ${path}`);
    }
  }
}

module.exports = { findBinary };
