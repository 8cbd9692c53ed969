#!/usr/bin/env node
'use strict';

// `npx redouble ...`: runs the program with these arguments, and ends as it ends.

const { spawn } = require('node:child_process');
const os = require('node:os');

const { findBinary } = require('../lib/binary.js');

const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGQUIT', 'SIGUSR2'];
const CANNOT_RUN = 125;

/** Adds the flag that ends a server when this process is killed, where the program takes it. */
function tied(words) {
  const [first] = words;
  const flag = ['--exit-with-parent', 'yes'];
  if (first === 'run') return [first, ...flag, ...words.slice(1)];
  const serves = first === undefined || first.endsWith('.conf') || first === '-' || first.startsWith('--');
  const ends = ['--help', '--version', '--daemonize', '--exit-with-parent', '--test-memory', '--check-system'];
  return serves && !words.some((word) => ends.includes(word.split('=')[0])) ? [...words, ...flag] : words;
}

function run() {
  let binary;
  try {
    binary = findBinary();
  } catch (error) {
    console.error(`redouble: ${error.message}`);
    process.exit(CANNOT_RUN);
  }
  const child = spawn(binary, tied(process.argv.slice(2)), { stdio: 'inherit' });
  for (const signal of SIGNALS) {
    process.on(signal, () => {
      // A terminal has sent these two to the program, too.
      const isFromKeyboard = (signal === 'SIGINT' || signal === 'SIGQUIT') && process.stdin.isTTY;
      if (!isFromKeyboard) child.kill(signal);
    });
  }
  child.on('error', (error) => {
    console.error(`redouble: ${binary} cannot be run: ${error.message}`);
    process.exit(CANNOT_RUN);
  });
  child.on('exit', (status, signal) => {
    if (signal === null) process.exit(status);
    for (const name of SIGNALS) process.removeAllListeners(name);
    process.kill(process.pid, signal);
    // A signal that this process ignores does not end it.
    process.exitCode = 128 + os.constants.signals[signal];
  });
}

run();
