'use strict';

// What a server and a space have in common: an address, and the powers that REDOUBLE commands give.

const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { execFile } = require('node:child_process');
const { promisify } = require('node:util');

const { ControlConnection } = require('./connection.js');
const { findBinary } = require('./binary.js');
const { RedoubleError, UnusedError } = require('./errors.js');

/** Node before 18.18 has no such symbol; there, `end()`, `drop()` and `stop()` are called by hand. */
const asyncDispose = Symbol.asyncDispose ?? Symbol.for('redouble.asyncDispose');

const NEAREST_COMMANDS = 5;

/** Makes an object of a flat list of names and values, as RESP2 has them. */
function fields(flat) {
  const made = {};
  for (let index = 0; index < flat.length; index += 2) {
    made[flat[index].replace(/-(\w)/g, (_, letter) => letter.toUpperCase())] = flat[index + 1];
  }
  return made;
}

function entry(flat) {
  const made = fields(flat);
  if (made.children !== undefined) made.children = made.children.map(entry);
  return made;
}

function finding(flat) {
  const made = fields(flat);
  return { ...made, evidence: made.evidence.map(fields) };
}

function lock(flat) {
  const made = fields(flat);
  for (const name of ['holders', 'waiters', 'ended']) made[name] = made[name].map(fields);
  return made;
}

/** Names the parts of a query or pattern one after another, as the server reads them. */
function words(what, given, known) {
  const made = [];
  for (const [name, value] of Object.entries(given)) {
    if (!known.includes(name)) {
      throw new RedoubleError(`${what} has no part ${name}; its parts are ${known.join(', ')}`);
    }
    if (value === undefined || value === false) continue;
    if (value === true) made.push(name);
    else made.push(name, ...(Array.isArray(value) ? value : [value]));
  }
  return made;
}

const PATTERN = ['on', 'key', 'client', 'db'];
const FAULT = [...PATTERN, 'nth', 'times', 'probability', 'seed'];
const JOURNAL_QUERY = [...PATTERN, 'reply', 'outcome', 'fault', 'children', 'since'];
const AUDIT_QUERY = ['key', 'code', 'severity', 'since', 'mark', 'allowed'];
const LONGEST_MARK = 1024;

function verdictWords(verdict) {
  if (typeof verdict === 'string') return [verdict];
  const [[name, value], ...more] = Object.entries(verdict);
  if (name === 'drip' && more.length === 1 && more[0][0] === 'every') return ['drip', value, 'every', more[0][1]];
  if (more.length === 0 && ['error', 'delay', 'truncate'].includes(name)) return [name, value];
  throw new RedoubleError(`${JSON.stringify(verdict)} is no verdict of a fault`);
}

/** An instant as the server reads it: milliseconds since 1970. */
function instant(given) {
  return given instanceof Date ? given.getTime() : given;
}

/** Runs `body` with something that ends afterwards. An error of `body` is not replaced by one of the end. */
async function during(resource, body) {
  let result;
  try {
    result = await body(resource);
  } catch (error) {
    await resource.end().catch(() => {});
    throw error;
  }
  await resource.end();
  return result;
}

class Clock {
  #endpoint;

  constructor(endpoint) {
    this.#endpoint = endpoint;
  }

  #call(...rest) {
    return this.#endpoint.call('REDOUBLE', 'CLOCK', ...rest);
  }

  now() {
    return this.#call('NOW');
  }

  async info() {
    const { speed, ...rest } = fields(await this.#call('INFO'));
    return { ...rest, speed: Number(speed) };
  }

  async freeze(at) {
    await this.#call('FREEZE', ...(at === undefined ? [] : [instant(at)]));
  }

  async advance(duration) {
    await this.#call('ADVANCE', duration);
  }

  async set(at) {
    await this.#call('SET', instant(at));
  }

  async speed(factor) {
    await this.#call('SPEED', factor);
  }

  async auto({ idle } = {}) {
    await this.#call('AUTO', ...(idle === undefined ? [] : ['idle', idle]));
  }

  async resume() {
    await this.#call('RESUME');
  }
}

/** A fault that was added. It ends with `end()` or `await using`. */
class Fault {
  #endpoint;
  #rule;

  constructor(endpoint, name, rule) {
    this.#endpoint = endpoint;
    this.name = name;
    this.#rule = rule;
  }

  /** Returns how many commands it matched, how often it fired, and how many clients wait for it now. */
  async info() {
    const faults = (await this.#endpoint.call('REDOUBLE', 'FAULT', 'LIST')).map(fields);
    const found = faults.find(({ name }) => name === this.name);
    if (found === undefined) throw new RedoubleError(`the fault ${this.name} has been removed`);
    return found;
  }

  async fired() {
    return (await this.info()).fired;
  }

  async end() {
    let fired;
    try {
      fired = await this.#endpoint.call('REDOUBLE', 'FAULT', 'REMOVE', this.name);
    } catch (error) {
      // A reset has removed it.
      if (error.message.startsWith('ERR there is no fault')) return 0;
      throw error;
    }
    if (fired === 0) {
      throw new UnusedError(`the fault "${this.#rule}" never fired${await lastCommands(this.#endpoint)}`);
    }
    return fired;
  }

  [asyncDispose]() {
    return this.end();
  }
}

/** A gate that was added. It ends with `end()` or `await using`. */
class Gate {
  #endpoint;
  #rule;

  constructor(endpoint, name, rule) {
    this.#endpoint = endpoint;
    this.name = name;
    this.#rule = rule;
  }

  /** Resolves to the number of held commands once that is `count`. */
  wait(count = 1, { timeout } = {}) {
    return this.#endpoint.callAlone('REDOUBLE', 'GATE', 'WAIT', this.name, count, ...(timeout ? [timeout] : []));
  }

  async step() {
    await this.#endpoint.call('REDOUBLE', 'GATE', 'STEP', this.name);
  }

  open() {
    return this.#endpoint.call('REDOUBLE', 'GATE', 'OPEN', this.name);
  }

  async info() {
    const found = await this.#find();
    if (found === undefined) throw new RedoubleError(`the gate ${this.name} has been removed`);
    return found;
  }

  async #find() {
    const gates = (await this.#endpoint.call('REDOUBLE', 'GATE', 'LIST')).map(fields);
    return gates.find(({ name }) => name === this.name);
  }

  async end() {
    const found = await this.#find();
    if (found === undefined) return 0;
    await this.#endpoint.call('REDOUBLE', 'GATE', 'REMOVE', this.name);
    if (found.arrived === 0) {
      throw new UnusedError(`no command came to the gate "${this.#rule}"${await lastCommands(this.#endpoint)}`);
    }
    return found.arrived;
  }

  [asyncDispose]() {
    return this.end();
  }
}

/** Tells the commands that came instead, if there is a journal. */
async function lastCommands(endpoint) {
  const entries = await endpoint.journal.list({ limit: NEAREST_COMMANDS + 1 }).catch(() => undefined);
  if (entries === undefined) return '';
  if (entries.length === 0) return '; no command came at all';
  return `; the last commands: ${entries.slice(-NEAREST_COMMANDS).map(({ command }) => command.join(' ')).join(', ')}`;
}

class Journal {
  #endpoint;

  constructor(endpoint) {
    this.#endpoint = endpoint;
  }

  #call(...rest) {
    return this.#endpoint.call('REDOUBLE', 'JOURNAL', ...rest);
  }

  async on() {
    await this.#call('ON');
  }

  async off() {
    await this.#call('OFF');
  }

  async clear() {
    await this.#call('CLEAR');
  }

  async info() {
    return fields(await this.#call('INFO'));
  }

  async list(query = {}) {
    const entries = (await this.#call('LIST', ...words('a journal query', query, [...JOURNAL_QUERY, 'limit']))).map(entry);
    // Marks are no commands.
    return entries.filter(({ outcome }) => outcome !== 'mark' || query.outcome === 'mark');
  }

  count(query = {}) {
    return this.#call('COUNT', ...words('a journal query', query, JOURNAL_QUERY));
  }

  /** Resolves to the number of entries that match once that is `count`. */
  wait(query = {}, count = 1, { timeout } = {}) {
    const parts = words('a journal query', query, JOURNAL_QUERY);
    return this.#endpoint.callAlone('REDOUBLE', 'JOURNAL', 'AWAIT', ...parts, count, ...(timeout ? [timeout] : []));
  }

  /** Returns the entries nearest to this command. */
  async near(...command) {
    return (await this.#call('NEAR', ...command)).map(entry);
  }

  /** Writes all entries to a file, one JSON object a line, and returns how many there are. */
  export(to) {
    return this.#endpoint.exportJournals([this.#endpoint], async ([{ file, entries }]) => {
      await fs.promises.mkdir(path.dirname(path.resolve(to)), { recursive: true });
      await fs.promises.copyFile(file, to);
      return entries;
    });
  }
}

class Audit {
  #endpoint;

  constructor(endpoint) {
    this.#endpoint = endpoint;
  }

  #call(...rest) {
    return this.#endpoint.call('REDOUBLE', 'AUDIT', ...rest);
  }

  async on() {
    await this.#call('ON');
  }

  async off() {
    await this.#call('OFF');
  }

  async clear() {
    await this.#call('CLEAR');
  }

  async info() {
    return fields(await this.#call('INFO'));
  }

  async findings(query = {}) {
    const parts = words('an audit query', query, [...AUDIT_QUERY, 'final', 'run', 'limit']);
    return (await this.#call('LIST', ...parts)).map(finding);
  }

  count(query = {}) {
    return this.#call('COUNT', ...words('an audit query', query, [...AUDIT_QUERY, 'final', 'run']));
  }

  /** Resolves to the number of findings that match once that is `count`. */
  wait(query = {}, count = 1, { timeout } = {}) {
    const parts = words('an audit query', query, AUDIT_QUERY);
    return this.#endpoint.callAlone('REDOUBLE', 'AUDIT', 'AWAIT', ...parts, count, ...(timeout ? [timeout] : []));
  }

  async allow(code, key, reason) {
    await this.#call('ALLOW', code, key, reason);
  }

  async locks({ key } = {}) {
    return (await this.#endpoint.call('REDOUBLE', 'LOCKS', ...words('a query of locks', { key }, ['key']))).map(lock);
  }
}

/** A server, or a space of one. */
class Endpoint {
  #connection;
  #alone = new Set();

  /**
   * `server` has host, port, password, and, as far as they are known, the server's directory and program.
   * `explain(error)` resolves to an error that says why a connection was lost.
   */
  constructor(server, space, explain) {
    this.server = server;
    this.explain = explain ?? (async (error) => unreachable(server, error));
    this.host = server.host;
    this.port = server.port;
    if (space !== undefined) {
      this.username = `space.${space}`;
      this.password = server.password ?? 'any';
    } else if (server.password !== undefined) {
      this.username = 'default';
      this.password = server.password;
    }
    this.target = { host: server.host, port: server.port, password: server.password, space };
    this.#connection = new ControlConnection(this.target, this.explain);
    this.clock = new Clock(this);
    this.journal = new Journal(this);
    this.audit = new Audit(this);
    // A reset starts the numbers of the journal again.
    this.resets = 0;
    // These are no part of what a test prints or compares.
    for (const name of ['server', 'explain', 'target', 'resets']) Object.defineProperty(this, name, { enumerable: false });
  }

  get url() {
    const user = this.username && `${encodeURIComponent(this.username)}:${encodeURIComponent(this.password)}@`;
    const host = this.host.includes(':') ? `[${this.host}]` : this.host;
    return `redis://${user ?? ''}${host}:${this.port}`;
  }

  /** Options as ioredis and BullMQ take them. */
  get connection() {
    const { host, port, username, password } = this;
    return username === undefined ? { host, port } : { host, port, username, password };
  }

  /** Environment variables for a program under test. */
  get env() {
    const variables = { REDIS_URL: this.url, REDIS_HOST: this.host, REDIS_PORT: String(this.port) };
    if (this.username !== undefined) {
      Object.assign(variables, { REDIS_USERNAME: this.username, REDIS_PASSWORD: this.password });
    }
    return variables;
  }

  /** Sends one command, word for word, and resolves to its reply. */
  call(...command) {
    return this.#connection.call(...command);
  }

  /** Sends commands in one trip. */
  callAll(commands) {
    return this.#connection.callAll(commands);
  }

  /** Sends a command that waits. It has a connection of its own, so that others do not wait behind it. */
  async callAlone(...command) {
    const connection = new ControlConnection(this.target, this.explain);
    this.#alone.add(connection);
    try {
      return await connection.call(...command);
    } finally {
      this.#alone.delete(connection);
      connection.close();
    }
  }

  async fault(verdict, conditions = {}, body) {
    const { name = `fault-${crypto.randomBytes(4).toString('hex')}`, ...pattern } = conditions;
    const rule = [...words('a fault', pattern, FAULT), ...verdictWords(verdict)];
    await this.call('REDOUBLE', 'FAULT', 'ADD', name, ...rule);
    const fault = new Fault(this, name, rule.join(' '));
    return body === undefined ? fault : during(fault, body);
  }

  async gate(conditions = {}, body) {
    const { name = `gate-${crypto.randomBytes(4).toString('hex')}`, after, timeout, ...pattern } = conditions;
    const rule = words('a gate', pattern, PATTERN);
    if (after) rule.push('after');
    if (timeout !== undefined) rule.push('timeout', timeout);
    await this.call('REDOUBLE', 'GATE', 'ADD', name, ...rule);
    const gate = new Gate(this, name, rule.join(' '));
    return body === undefined ? gate : during(gate, body);
  }

  /** Puts it back to its state at the start. */
  async reset() {
    await this.call('REDOUBLE', 'RESET');
    this.resets += 1;
  }

  /** Says what comes next, such as a test: findings say after which mark they came. */
  async mark(text) {
    await this.call('REDOUBLE', 'MARK', markText(text));
  }

  /** Returns a private space of the same server. */
  space(name) {
    return new Space(this.server, name, this.explain);
  }

  /** Writes the drawing of who held which lock when. */
  async report(to) {
    await this.#draw(['-o', path.resolve(to)]);
  }

  /** Tells the same as text. */
  reportText() {
    return this.#draw(['--text']);
  }

  #draw(flags) {
    return this.exportJournals(this.reported(), async (journals) => {
      const files = journals.map(({ file }) => file);
      const binary = this.server.binary ?? findBinary();
      const { stdout } = await promisify(execFile)(binary, ['report', ...flags, ...files], { maxBuffer: 1 << 28 });
      return stdout;
    });
  }

  /** The endpoints that a report is about. */
  reported() {
    return [this];
  }

  /** Lets the server write journals to files, and removes them when `use` has ended. */
  async exportJournals(endpoints, use) {
    const { directory } = this.server;
    if (directory === undefined) {
      throw new RedoubleError(
        'the directory of this server is not known, so its journal cannot be read; ' +
          'name it: connectRedouble(url, { directory })',
      );
    }
    const folder = await fs.promises.mkdtemp(path.join(directory, 'redouble-journal-'));
    try {
      const journals = [];
      for (const [index, endpoint] of endpoints.entries()) {
        const file = path.join(folder, `${index + 1}.jsonl`);
        const relative = path.relative(directory, file);
        journals.push({ file, entries: await endpoint.call('REDOUBLE', 'JOURNAL', 'EXPORT', relative) });
      }
      return await use(journals);
    } finally {
      await fs.promises.rm(folder, { recursive: true, force: true });
    }
  }

  /** Closes the control connections. The server and its data stay. */
  close() {
    this.#connection.close();
    for (const connection of this.#alone) connection.close();
  }
}

/** A text as a mark takes it: the beginning of one that is too long. */
function markText(text) {
  const bytes = Buffer.from(text);
  return bytes.length <= LONGEST_MARK ? text : bytes.subarray(0, LONGEST_MARK - 3).toString().replace(/\uFFFD+$/, '');
}

function unreachable({ host, port }, error) {
  return new RedoubleError(`the redouble at ${host}:${port} cannot be reached: ${error.message}`);
}

/** A private server behind the port of another: keys, clock, faults, gates, journal and audit of its own. */
class Space extends Endpoint {
  constructor(server, name = `space-${crypto.randomBytes(6).toString('hex')}`, explain) {
    super(server, name, explain);
    this.name = name;
  }

  /** Deletes the space and closes its connections. */
  async drop() {
    this.close();
    const server = new ControlConnection({ ...this.target, space: undefined }, this.explain);
    try {
      await server.call('REDOUBLE', 'SPACES', 'DROP', this.name);
    } catch (error) {
      // A space that nobody has entered does not exist yet.
      if (!error.message.startsWith('ERR no such space')) throw error;
    } finally {
      server.close();
    }
  }

  /** Drops the space unless a client is connected, which would connect again and again; then empties it. */
  async release() {
    const spaces = (await this.call('REDOUBLE', 'SPACES', 'LIST')).map(fields);
    const clients = spaces.find(({ name }) => name === this.name)?.clients ?? 0;
    if (clients > 1) {
      await this.reset();
      this.close();
    } else {
      await this.drop();
    }
  }

  [asyncDispose]() {
    return this.drop();
  }
}

/** Reads a URL as clients take it; `redis://space.NAME:any@host:port` leads into a space. */
function connectRedouble(url, { directory, binary } = {}) {
  let parsed;
  try {
    parsed = new URL(url);
  } catch {
    throw new RedoubleError(`${url} is no URL like redis://127.0.0.1:6379`);
  }
  if (!['redis:', 'valkey:'].includes(parsed.protocol)) {
    throw new RedoubleError(`${url} is no URL like redis://127.0.0.1:6379; redouble has no TLS`);
  }
  const username = decodeURIComponent(parsed.username);
  const password = decodeURIComponent(parsed.password) || undefined;
  const host = parsed.hostname.replace(/^\[(.*)\]$/, '$1') || '127.0.0.1';
  const space = username.startsWith('space.') ? username.slice('space.'.length) : undefined;
  const server = { host, port: Number(parsed.port) || 6379, directory, binary };
  if (password !== undefined && !(space !== undefined && password === 'any')) server.password = password;
  return space === undefined ? new Endpoint(server) : new Space(server, space);
}

module.exports = { Endpoint, Space, asyncDispose, connectRedouble, fields, markText };
