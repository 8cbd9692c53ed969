'use strict';

// Starts the program, and ends it.

const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { spawn } = require('node:child_process');
// Fake timers of a test runner are not to stop a start.
const { setTimeout, clearTimeout } = require('node:timers');

const { findBinary } = require('./binary.js');
const { Endpoint, asyncDispose, fields } = require('./endpoint.js');
const { RedoubleError } = require('./errors.js');

const START_TIMEOUT_MS = 10_000;
const STOP_TIMEOUT_MS = 5_000;
const END_NOTICED_MS = 200;
const LOG_LINES_SHOWN = 20;

/** The programs that this process has started. They end by themselves when it is killed, and at once when it exits. */
const running = new Set();
let endsWithExit = false;

function endWithExit(child) {
  running.add(child);
  if (endsWithExit) return;
  endsWithExit = true;
  process.on('exit', () => {
    for (const each of running) each.kill();
  });
}

const OPTIONS = [
  'binary', 'host', 'port', 'password', 'compat', 'instances', 'threads', 'audit', 'locks', 'notLocks', 'auditAllow',
  'journal', 'journalSize', 'load', 'directory', 'args', 'startTimeout',
];

const list = (value) => (value === undefined ? [] : Array.isArray(value) ? value : [value]);

function flags(options, directory, portFile) {
  const made = ['--port', options.port ?? 0, '--port-file', portFile, '--exit-with-parent', 'yes', '--dir', directory];
  const add = (name, value) => value !== undefined && value !== false && made.push(name, value === true ? 'yes' : value);
  made.push('--bind', options.host ?? '127.0.0.1');
  add('--requirepass', options.password);
  add('--compat', options.compat);
  add('--instances', options.instances);
  add('--threads', options.threads);
  add('--audit', options.audit);
  add('--journal', options.journal);
  add('--journal-size', options.journalSize);
  for (const glob of list(options.locks)) add('--locks', glob);
  for (const glob of list(options.notLocks)) add('--not-locks', glob);
  for (const allowance of list(options.auditAllow)) add('--audit-allow', allowance);
  for (const file of list(options.load)) add('--load', path.resolve(file));
  return [...made, ...list(options.args)].map(String);
}

/** One of several servers that were started together. */
class Instance extends Endpoint {
  #number;
  #server;

  constructor(server, port, number, first) {
    super({ ...server, port }, undefined, first.explain);
    this.#number = number;
    this.#server = first;
  }

  #call(action, ...rest) {
    return this.#server.call('REDOUBLE', 'INSTANCE', action, this.#number, ...rest);
  }

  /** Refuses connections and closes those there are. */
  async stop() {
    await this.#call('STOP');
  }

  async start({ empty = false } = {}) {
    await this.#call('START', ...(empty ? ['empty'] : []));
  }

  /** Accepts connections, and answers nothing but REDOUBLE commands. */
  async pause() {
    await this.#call('PAUSE');
  }

  async resume() {
    await this.#call('RESUME');
  }

  /** Sets its clock ahead of the first instance's, or behind it. */
  async skew(duration) {
    await this.#call('SKEW', duration);
  }

  /** Leaves the commands of these clients unanswered. */
  async cut(client) {
    await this.#call('CUT', client);
  }

  async heal(client) {
    await this.#call('HEAL', ...(client === undefined ? [] : [client]));
  }

  async info() {
    const all = (await this.#server.call('REDOUBLE', 'INSTANCE', 'LIST')).map(fields);
    return all.find(({ number }) => number === this.#number);
  }
}

/** A server that this process has started. */
class Server extends Endpoint {
  #child;
  #ended;
  #log;

  constructor(server, ports, child, ended, log) {
    super(server, undefined, (error) => this.#explain(error));
    this.#child = child;
    this.#ended = ended;
    this.#log = log;
    this.pid = child.pid;
    this.instances = ports.map((port, index) => new Instance(server, port, index + 1, this));
    Object.defineProperty(this, 'instances', { enumerable: false });
  }

  get urls() {
    return this.instances.map(({ url }) => url);
  }

  get env() {
    return { ...super.env, REDIS_URLS: this.urls.join(',') };
  }

  /** What the server has written to its log. */
  log() {
    return this.#log.text();
  }

  async #explain(error) {
    // The connection may be known to be lost before the process is known to have ended.
    await Promise.race([this.#ended, new Promise((resolve) => setTimeout(resolve, END_NOTICED_MS))]);
    const { exitCode, signalCode } = this.#child;
    if (exitCode === null && signalCode === null) {
      return new RedoubleError(`the connection to redouble was lost: ${error.message}`);
    }
    return new RedoubleError(`redouble has ended ${how(exitCode, signalCode)}${this.#log.shown()}`);
  }

  /** Ends the server. Resolves when its process is gone. */
  async stop() {
    this.close();
    this.instances.forEach((instance) => instance.close());
    this.#child.kill('SIGTERM');
    this.#child.ref();
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), STOP_TIMEOUT_MS);
    await this.#ended;
    clearTimeout(timer);
    this.#log.close();
  }

  reported() {
    return this.instances;
  }

  [asyncDispose]() {
    return this.stop();
  }
}

function how(status, signal) {
  return signal === null ? `with status ${status}` : `by ${signal}`;
}

/** The server's log: a file without a name, so that nothing is left of it however this process ends. */
class Log {
  #descriptor;
  #kept;

  constructor(file) {
    this.#descriptor = fs.openSync(file, 'a+', 0o600);
  }

  get descriptor() {
    return this.#descriptor;
  }

  text() {
    if (this.#kept !== undefined) return this.#kept;
    const bytes = Buffer.alloc(fs.fstatSync(this.#descriptor).size);
    return bytes.toString('utf8', 0, fs.readSync(this.#descriptor, bytes, 0, bytes.length, 0));
  }

  /** The end of the log, to stand behind a sentence. */
  shown() {
    const lines = this.text().trimEnd().split('\n').slice(-LOG_LINES_SHOWN);
    return lines.join('') === '' ? '' : `; its log:\n${lines.map((line) => `  ${line}`).join('\n')}`;
  }

  close() {
    if (this.#kept !== undefined) return;
    this.#kept = this.text();
    fs.closeSync(this.#descriptor);
  }
}

/** Starts a server on a free port. It ends with this process, however that ends. */
async function startRedouble(options = {}) {
  for (const name of Object.keys(options)) {
    if (!OPTIONS.includes(name)) {
      throw new RedoubleError(`startRedouble has no option ${name}; its options are ${OPTIONS.join(', ')}`);
    }
  }
  const binary = findBinary(options.binary);
  const directory = path.resolve(options.directory ?? os.tmpdir());
  const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'redouble-'));
  try {
    const portFile = path.join(folder, 'port');
    const log = new Log(path.join(folder, 'log'));
    const stdio = ['ignore', log.descriptor, log.descriptor];
    const child = spawn(binary, flags(options, directory, portFile), { stdio });
    endWithExit(child);
    const ended = new Promise((resolve) => {
      child.once('exit', resolve);
      child.once('error', resolve);
    }).then((error) => {
      running.delete(child);
      return error;
    });
    let failure;
    const failed = ended.then((error) => {
      if (error instanceof Error) failure = `${binary} cannot be run: ${error.message}`;
      else failure = `redouble could not start; it ended ${how(child.exitCode, child.signalCode)}${log.shown()}`;
    });
    const ports = await portsIn(portFile, options.startTimeout ?? START_TIMEOUT_MS, failed);
    if (ports === undefined) {
      failure ??= `redouble was not ready within ${options.startTimeout ?? START_TIMEOUT_MS} ms${log.shown()}`;
      child.kill('SIGKILL');
      log.close();
      throw new RedoubleError(failure);
    }
    child.unref();
    const host = options.host ?? '127.0.0.1';
    const server = { host, port: ports[0], password: options.password, directory, binary };
    return new Server(server, ports, child, ended, log);
  } finally {
    fs.rmSync(folder, { recursive: true, force: true });
  }
}

/** Resolves to the ports once the file has them: then the server can be connected to. */
async function portsIn(file, timeout, failed) {
  let isOver = false;
  const timer = setTimeout(() => (isOver = true), timeout);
  failed.then(() => (isOver = true));
  try {
    while (!isOver) {
      if (fs.existsSync(file)) return fs.readFileSync(file, 'utf8').trim().split('\n').map(Number);
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    return undefined;
  } finally {
    clearTimeout(timer);
  }
}

module.exports = { Server, startRedouble };
