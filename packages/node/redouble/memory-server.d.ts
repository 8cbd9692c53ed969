import type { Server } from './index.js';

export interface RedisMemoryServerOptsT {
  instance?: { port?: number | null; ip?: string; args?: string[] };
  /** Accepted and not looked at: there is one program, and it is installed. */
  binary?: { version?: string; downloadDir?: string; systemBinary?: string; ignoreDownloadCache?: boolean };
  spawn?: object;
  autoStart?: boolean;
}

export interface StartupInstanceData {
  ip: string;
  port: number;
}

/** The interface of the package redis-memory-server, on redouble. */
export class RedisMemoryServer {
  constructor(opts?: RedisMemoryServerOptsT);
  static create(opts?: RedisMemoryServerOptsT): Promise<RedisMemoryServer>;
  opts: RedisMemoryServerOptsT;
  readonly runningInstance: Promise<StartupInstanceData> | null;
  readonly instanceInfoSync: StartupInstanceData | null;
  start(): Promise<boolean>;
  stop(): Promise<boolean>;
  ensureInstance(): Promise<StartupInstanceData>;
  getInstanceInfo(): StartupInstanceData | false;
  getHost(): Promise<string>;
  getIp(): Promise<string>;
  getPort(): Promise<number>;
  /** What redis-memory-server does not have: the clock, faults and all else of redouble. */
  getRedouble(): Promise<Server>;
}

export default RedisMemoryServer;
