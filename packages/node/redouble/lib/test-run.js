'use strict';

// What test runners have in common: the servers of a run, the space of a worker, and what is asked of it for each test:
// faults and gates that nothing met, misused locks, and what to show when the test has failed.

const { Endpoint, Space, markText } = require('./endpoint.js');
const { RedoubleError } = require('./errors.js');
const { startRedouble } = require('./server.js');

const LEVELS = ['error', 'warning', 'note'];
const COMMANDS_SHOWN = 20;
const FINDINGS_SHOWN = 10;
const TEXT_SHOWN = 160;

/** Clients send these when they connect. */
const HANDSHAKE = /^(HELLO|AUTH|CLIENT SETINFO|CLIENT MAINT_NOTIFICATIONS)\b/i;

/** Reads the options that a test runner takes beside those of `startRedouble`. */
function runnerOptions(options = {}) {
  const { audit = false, reset = 'file', perWorker = 'space', ...server } = options;
  const level = audit === true ? 'error' : audit === 'warn' ? 'warning' : audit;
  if (level !== false && !LEVELS.includes(level)) {
    throw new RedoubleError(`audit: ${JSON.stringify(audit)} is no level; there are true, error, warn, note and false`);
  }
  if (!['file', 'test', 'never'].includes(reset)) {
    throw new RedoubleError(`reset: ${JSON.stringify(reset)} is not known; there are "file", "test" and "never"`);
  }
  if (!['space', 'server'].includes(perWorker)) {
    throw new RedoubleError(`perWorker: ${JSON.stringify(perWorker)} is not known; there are "space" and "server"`);
  }
  if (perWorker === 'server' && (server.port ?? 0) !== 0) {
    throw new RedoubleError("perWorker: 'server' starts several servers, which cannot all have one port");
  }
  // A failing test shows its last commands, so there is a journal.
  return { level, reset, perWorker, server: { journal: true, ...server, audit: level !== false } };
}

/** Starts the servers of a run. Workers count from 1 to `workers`. */
async function startRun({ level, reset, perWorker, server }, workers) {
  const count = perWorker === 'server' ? Math.max(1, workers) : 1;
  const servers = await Promise.all(Array.from({ length: count }, () => startRedouble(server)));
  return {
    /** What workers are told. */
    told: { level, reset, perWorker, servers: servers.map((each) => each.server) },
    stop: () => Promise.all(servers.map((each) => each.stop())),
  };
}

/** Returns the endpoint of a worker: a space, or with a server of its own that server. */
function endpointOf({ perWorker, servers }, worker) {
  const server = servers[(worker - 1) % servers.length];
  const isAlone = perWorker === 'server' && worker <= servers.length;
  return isAlone ? new Endpoint(server) : new Space(server, `worker-${worker}`);
}

/** Returns a space for one test. */
function spaceOf({ servers }, worker) {
  return new Space(servers[(worker - 1) % servers.length]);
}

const client = ({ name, client: id }) => (name ? `${name} (client ${id})` : `client ${id}`);
const short = (text) => (text.length > TEXT_SHOWN ? `${text.slice(0, TEXT_SHOWN)}...` : text);
const indented = (lines) => lines.map((line) => `    ${line}`).join('\n');

function findingText({ severity, code, sentence, instead, evidence }) {
  const commands = evidence.map((each) => `${client(each)}: ${each.command}${each.what ? `  - ${each.what}` : ''}`);
  return `  ${severity} ${code}: ${sentence}\n${indented([...commands, `instead: ${instead}`])}`;
}

function commandsText(entries) {
  const shown = entries.filter(({ command }) => !HANDSHAKE.test(command.join(' '))).slice(-COMMANDS_SHOWN);
  if (shown.length === 0) return undefined;
  const lines = shown.map((entry) => {
    const reply = entry.outcome === 'answered' ? entry.reply : `(${entry.outcome})`;
    const fault = entry.fault === null ? '' : `  [fault ${entry.fault}]`;
    return `${client(entry)}: ${short(entry.command.join(' '))}  =>  ${short(reply)}${fault}`;
  });
  return `its last commands:\n${indented(lines)}`;
}

/** Watches the tests that run in one space, one after another. */
class TestCheck {
  #endpoint;
  #level;
  #isFinal;
  #mark = 0;
  #resets = 0;
  #known = new Set();
  #reported = new Set();
  #tests = [];

  /** With `isFinal` a lock that is still held at the end of a test counts as never released. */
  constructor(endpoint, level, isFinal) {
    this.#endpoint = endpoint;
    this.#level = level;
    this.#isFinal = isFinal;
  }

  /** `name` is that of the test: findings say in which one they came. */
  async begin(name) {
    const [journal, rules, gates] = await this.#endpoint.callAll([
      ['REDOUBLE', 'JOURNAL', 'INFO'],
      ['REDOUBLE', 'FAULT', 'LIST'],
      ['REDOUBLE', 'GATE', 'LIST'],
      ...(name ? [['REDOUBLE', 'MARK', markText(name)]] : []),
    ]);
    this.#mark = journal[journal.indexOf('last-seq') + 1];
    this.#resets = this.#endpoint.resets;
    this.#known = new Set([...rules, ...gates].map(([, name]) => name));
  }

  /** Returns the error that fails the test, if there is one. Prints what it knows of a test that has failed. */
  async end(name, hasFailed) {
    const problems = await this.#unused();
    const since = this.#resets === this.#endpoint.resets ? this.#mark : 0;
    this.#tests.push({ name, since });
    const findings = await this.#findings({ since, final: this.#isFinal });
    if (hasFailed) {
      // Without a journal there is nothing to show.
      const entries = await this.#endpoint.journal.list({ limit: 2 * COMMANDS_SHOWN }).catch(() => []);
      const commands = commandsText(entries.filter(({ seq }) => seq > since));
      if (commands !== undefined) {
        const misused = findings.length === 0 ? '' : `\n  misused locks:\n${findings.map(findingText).join('\n')}`;
        console.error(`redouble: the test "${name}" has failed; ${commands}${misused}`);
      }
      return undefined;
    }
    const bad = findings.filter((finding) => this.#fails(finding));
    if (bad.length > 0) {
      bad.forEach((finding) => this.#reported.add(identity(finding)));
      problems.push(`the commands of this test misuse a lock:\n${bad.map(findingText).join('\n')}`);
    }
    return problems.length === 0 ? undefined : new TestError(problems);
  }

  /** Returns the error for what is known only when no more commands come. */
  async endAll() {
    const findings = await this.#findings({ final: true });
    const bad = findings.filter((finding) => this.#fails(finding) && !this.#reported.has(identity(finding)));
    if (bad.length === 0) return undefined;
    const told = bad.map((finding) => {
      const test = this.#tests.findLast(({ since }) => since < finding.seq);
      return `${test === undefined ? '' : `  in the test "${test.name}":\n`}${findingText(finding)}`;
    });
    return new TestError([`the commands of this file misuse a lock:\n${told.join('\n')}`]);
  }

  #fails({ severity }) {
    return LEVELS.indexOf(severity) <= LEVELS.indexOf(this.#level);
  }

  async #findings(query) {
    return this.#level === false ? [] : this.#endpoint.audit.findings({ ...query, limit: FINDINGS_SHOWN });
  }

  /** Removes the faults and gates that the test has left, and names those that nothing met. */
  async #unused() {
    const [faults, gates] = await this.#endpoint.callAll([
      ['REDOUBLE', 'FAULT', 'LIST'],
      ['REDOUBLE', 'GATE', 'LIST'],
    ]);
    const problems = [];
    const commands = [];
    for (const [kind, rules, count, what] of [
      ['FAULT', faults, 'fired', 'never fired'],
      ['GATE', gates, 'arrived', 'was never reached'],
    ]) {
      for (const rule of rules) {
        const value = (field) => rule[rule.indexOf(field) + 1];
        const name = value('name');
        if (this.#known.has(name)) continue;
        commands.push(['REDOUBLE', kind, 'REMOVE', name]);
        if (value(count) === 0) problems.push(`the ${kind.toLowerCase()} "${value('rule')}" ${what}`);
      }
    }
    if (commands.length > 0) await this.#endpoint.callAll(commands);
    return problems;
  }
}

const identity = ({ code, key, db, culprit, seq }) => JSON.stringify([code, key, db, culprit, seq]);

class TestError extends RedoubleError {
  constructor(problems) {
    super(problems.join('\n'));
    // The line of this file says nothing to the test.
    this.stack = `${this.name}: ${this.message}`;
  }
}

module.exports = { TestCheck, endpointOf, runnerOptions, spaceOf, startRun };
