'use strict';

// A connection that sends REDOUBLE commands. It speaks RESP2 and needs no client library.

const net = require('node:net');

const { RedoubleError } = require('./errors.js');

/**
 * Splits the bytes of a server into replies.
 *
 * It keeps its place inside an array, so that a long reply that comes in many parts is read once.
 */
class ReplyParser {
  #rest = Buffer.alloc(0);
  #open = [];

  /** Takes more bytes, and returns the replies that are complete now. Errors are instances of `RedoubleError`. */
  push(bytes) {
    this.#rest = this.#rest.length === 0 ? bytes : Buffer.concat([this.#rest, bytes]);
    const replies = [];
    let at = 0;
    for (;;) {
      const end = this.#rest.indexOf('\r\n', at);
      if (end === -1) break;
      const kind = String.fromCharCode(this.#rest[at]);
      const line = this.#rest.toString('utf8', at + 1, end);
      let next = end + 2;
      let value;
      if (kind === '$' && line !== '-1') {
        const length = Number(line);
        if (this.#rest.length < next + length + 2) break;
        value = this.#rest.toString('utf8', next, next + length);
        next += length + 2;
      } else if (kind === '*' && Number(line) > 0) {
        this.#open.push({ items: [], missing: Number(line) });
        at = next;
        continue;
      } else {
        value = scalar(kind, line);
      }
      at = next;
      // A complete value may complete the arrays around it.
      for (;;) {
        const array = this.#open.at(-1);
        if (array === undefined) {
          replies.push(value);
          break;
        }
        array.items.push(value);
        array.missing -= 1;
        if (array.missing > 0) break;
        this.#open.pop();
        value = array.items;
      }
    }
    this.#rest = this.#rest.subarray(at);
    return replies;
  }
}

function scalar(kind, line) {
  switch (kind) {
    case '+':
      return line;
    case ':':
      return Number(line);
    case '$':
      return null;
    case '*':
      return line === '-1' ? null : [];
    case '-':
      return new RedoubleError(line);
    default:
      throw new RedoubleError(`the server sends what is no reply of RESP2: ${kind}${line}`);
  }
}

function encode(words) {
  const parts = [`*${words.length}\r\n`];
  for (const word of words) {
    const text = String(word);
    parts.push(`$${Buffer.byteLength(text)}\r\n${text}\r\n`);
  }
  return parts.join('');
}

/** A connection to one server or one of its spaces. It is opened by the first command, and again when it was lost. */
class ControlConnection {
  #target;
  #explain;
  #opening;
  #socket;
  #waiting = [];

  /**
   * `target` has host, port, password (of the default user) and space. `explain(error)` resolves to an error
   * that says why the connection was lost.
   */
  constructor(target, explain) {
    this.#target = target;
    this.#explain = explain;
  }

  /** Sends commands in one trip, and resolves to their replies. Rejects with the first error among them. */
  async callAll(commands) {
    // Made here, so that its stack names the line of the test.
    const error = new RedoubleError('');
    try {
      const replies = await this.#send(await this.#open(), commands);
      const failed = replies.findIndex((reply) => reply instanceof Error);
      if (failed === -1) return replies;
      error.message = `${replies[failed].message} (${commands[failed].join(' ')})`;
    } catch (cause) {
      error.message = cause.message;
    }
    error.stack = error.stack.replace(/^.*$/m, () => `${error.name}: ${error.message}`);
    throw error;
  }

  async call(...words) {
    const [reply] = await this.callAll([words]);
    return reply;
  }

  #open() {
    this.#opening ??= this.#connect().catch((error) => {
      this.#opening = undefined;
      throw error;
    });
    return this.#opening;
  }

  async #connect() {
    const { host, port, password, space } = this.#target;
    const socket = net.connect({ host, port, noDelay: true });
    try {
      await new Promise((resolve, reject) => {
        socket.once('connect', resolve);
        socket.once('error', reject);
      });
    } catch (error) {
      throw await this.#explain(error);
    }
    this.#socket = socket;
    const parser = new ReplyParser();
    socket.removeAllListeners('error');
    socket.on('data', (bytes) => {
      let replies;
      try {
        replies = parser.push(bytes);
      } catch (error) {
        socket.destroy(error);
        return;
      }
      for (const reply of replies) this.#waiting.shift()?.resolve(reply);
      if (this.#waiting.length === 0) socket.unref();
    });
    let lost;
    socket.on('error', (error) => (lost = error));
    socket.on('close', async () => {
      this.#opening = undefined;
      const unanswered = this.#waiting.splice(0);
      if (unanswered.length === 0) return;
      const error = await this.#explain(lost ?? new Error('the server has closed the connection'));
      for (const { reject } of unanswered) reject(error);
    });
    const greeting = [];
    if (password !== undefined) greeting.push(['AUTH', 'default', password]);
    // Not the user name: AUTH would stand in the journal of the space.
    if (space !== undefined) greeting.push(['REDOUBLE', 'SPACE', space]);
    if (greeting.length > 0) {
      for (const reply of await this.#send(socket, greeting)) if (reply instanceof Error) throw reply;
    }
    socket.unref();
    return socket;
  }

  #send(socket, commands) {
    // An idle connection does not keep the process of the tests alive.
    socket.ref();
    const replies = commands.map(() => new Promise((resolve, reject) => this.#waiting.push({ resolve, reject })));
    socket.write(commands.map(encode).join(''));
    return Promise.all(replies);
  }

  close() {
    this.#socket?.destroy();
  }
}

module.exports = { ControlConnection };
