'use strict';

// The interface of the package redis-memory-server, on redouble: nothing is downloaded or compiled.

const { startRedouble, RedoubleError } = require('./index.js');

/** Starts on the wanted port, or on a free one if that is taken. */
async function start({ port, ip: host, args } = {}) {
  try {
    return await startRedouble({ port: port ?? 0, host, args });
  } catch (error) {
    if (!port || !error.message.includes('Address already in use')) throw error;
    return startRedouble({ host, args });
  }
}

class RedisMemoryServer {
  #starting = null;
  #server;

  instanceInfoSync = null;

  /** Which program `opts.binary` names does not matter here. */
  constructor(opts = {}) {
    this.opts = opts;
    // Whoever asks for the port gets the error.
    if (opts.autoStart === true) this.#begin().catch(() => {});
  }

  static async create(opts = {}) {
    const made = new RedisMemoryServer({ ...opts, autoStart: false });
    if (opts.autoStart === true) await made.start();
    return made;
  }

  get runningInstance() {
    return this.#starting;
  }

  #begin() {
    this.#starting ??= this.#launch().catch((error) => {
      this.#starting = null;
      throw error;
    });
    return this.#starting;
  }

  async #launch() {
    this.#server = await start(this.opts.instance);
    const { host: ip, port } = this.#server;
    this.instanceInfoSync = { ip, port };
    return this.instanceInfoSync;
  }

  async start() {
    if (this.#starting !== null) throw new RedoubleError('this server has been started already; stop() it first');
    await this.#begin();
    return true;
  }

  async stop() {
    if (this.#starting === null) return true;
    await this.#starting;
    await this.#server.stop();
    this.#starting = null;
    this.instanceInfoSync = null;
    return true;
  }

  ensureInstance() {
    return this.#begin();
  }

  getInstanceInfo() {
    return this.instanceInfoSync ?? false;
  }

  async getIp() {
    return (await this.#begin()).ip;
  }

  getHost() {
    return this.getIp();
  }

  async getPort() {
    return (await this.#begin()).port;
  }

  /** What redis-memory-server does not have: the clock, faults and all else of redouble. */
  async getRedouble() {
    await this.#begin();
    return this.#server;
  }
}

module.exports = { RedisMemoryServer, default: RedisMemoryServer };
