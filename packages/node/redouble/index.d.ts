/// <reference lib="esnext.disposable" />

/** A number of milliseconds, or `'250ms'`, `'1.5s'`, `'2m'`, `'1h'`. */
export type Duration = number | string;

/** Milliseconds since 1970, or a date. */
export type Instant = number | Date;

/** A command `'SET'`, a subcommand `'CLIENT|KILL'`, or a category `'@write'`. */
export type CommandName = string;

export type Profile =
  | 'redis-6.2'
  | 'redis-7.0'
  | 'redis-7.2'
  | 'redis-7.4'
  | 'redis-8.4'
  | 'valkey-8.1'
  | 'valkey-9.1'
  | (string & {});

export type Severity = 'error' | 'warning' | 'note';

export interface ServerOptions {
  /** The program, in the place of `REDOUBLE_BINARY` or the installed package. */
  binary?: string;
  /** `'127.0.0.1'` unless given. */
  host?: string;
  /** A free port unless given. */
  port?: number;
  password?: string;
  /** Which server to behave as. */
  compat?: Profile;
  /** So many servers in one process, for Redlock. */
  instances?: number;
  threads?: number;
  /** Watches who holds which lock; keeps a journal, too. */
  audit?: boolean;
  /** Keys that are locks whatever is done with them. */
  locks?: string | string[];
  notLocks?: string | string[];
  /** Known findings, each as `'CODE GLOB REASON'`. */
  auditAllow?: string | string[];
  journal?: boolean;
  /** The memory that the journal may take: `'64mb'`. */
  journalSize?: string | number;
  /** Data to begin with: a dump.rdb, an append-only file, or commands, one a line. */
  load?: string | string[];
  /** The directory of `REDOUBLE SAVE` and of configured files; the one for temporary files unless given. */
  directory?: string;
  /** Further flags: `['--maxmemory', '10mb']`. */
  args?: readonly (string | number)[];
  /** Milliseconds until a start counts as failed; 10,000 unless given. */
  startTimeout?: number;
}

/** Which commands a fault or a gate is about. Without `on`, also those that clients send by themselves. */
export interface Pattern {
  on?: CommandName | readonly CommandName[];
  /** A glob that one of the command's keys matches. */
  key?: string;
  /** A glob for the client's name, or its CLIENT ID. */
  client?: string | number;
  db?: number;
}

export interface FaultConditions extends Pattern {
  /** A name of its own, in the place of a random one. */
  name?: string;
  /** Only this match, counted from 1. */
  nth?: number;
  /** The first matches, or so many from `nth` on. */
  times?: number;
  probability?: number;
  seed?: number;
}

export type Verdict =
  /** The command runs, and its reply is lost. */
  | 'close-after'
  /** The command does not run, and the connection closes. */
  | 'close-before'
  | 'hang'
  | 'reset'
  | 'refuse'
  | 'pause'
  | { error: string }
  | { delay: Duration }
  | { truncate: number }
  | { drip: number; every: Duration };

export interface FaultInfo {
  name: string;
  rule: string;
  matched: number;
  fired: number;
  hanging: number;
}

export interface Fault extends AsyncDisposable {
  readonly name: string;
  info(): Promise<FaultInfo>;
  /** How often it has fired. */
  fired(): Promise<number>;
  /** Removes it, and resolves to how often it has fired. Rejects with an `UnusedError` if it never has. */
  end(): Promise<number>;
}

export interface GateConditions extends Pattern {
  name?: string;
  /** Holds the reply of a command that has run, in the place of the command. */
  after?: boolean;
  /** The longest that a command is held; one minute unless given, 0 is for ever. */
  timeout?: Duration;
}

export interface GateInfo {
  name: string;
  rule: string;
  state: 'closed' | 'open';
  arrived: number;
  passed: number;
  /** The commands that are held. */
  held: string[];
}

export interface WaitOptions {
  /** In real time; 4 s unless given. */
  timeout?: Duration;
}

export interface Gate extends AsyncDisposable {
  readonly name: string;
  info(): Promise<GateInfo>;
  /** Resolves to the number of held commands once that is `count` (1). */
  wait(count?: number, options?: WaitOptions): Promise<number>;
  /** Lets the first one go on, and resolves once it is done. */
  step(): Promise<void>;
  /** Lets all go on, and holds none from then on. */
  open(): Promise<number>;
  /** Removes it, and resolves to how many commands came. Rejects with an `UnusedError` if none did. */
  end(): Promise<number>;
}

export interface ClockInfo {
  mode: 'running' | 'frozen' | 'auto';
  speed: number;
  now: number;
  /** Milliseconds ahead of the machine's clock. */
  offset: number;
  nextDeadline: number | null;
  idle: number | null;
}

export interface Clock {
  /** Milliseconds since 1970. */
  now(): Promise<number>;
  info(): Promise<ClockInfo>;
  /** Stops it, now or at an instant. */
  freeze(at?: Instant): Promise<void>;
  /** Moves it forward, and resolves once everything that falls due has happened. */
  advance(duration: Duration): Promise<void>;
  set(at: Instant): Promise<void>;
  speed(factor: number): Promise<void>;
  /** Stops it, and moves it to the next deadline whenever every client waits. */
  auto(options?: { idle?: Duration }): Promise<void>;
  /** Lets it run as fast as real time, on from where it is. */
  resume(): Promise<void>;
}

export type Outcome = 'answered' | 'lost' | 'never-ran' | 'silent' | 'queued' | 'evicted' | 'unknown' | 'mark';

export interface JournalQuery extends Pattern {
  /** A glob for the reply, as an entry shows it. */
  reply?: string;
  outcome?: Outcome;
  /** The name of the fault that it met. */
  fault?: string;
  /** Also the commands that EXEC and scripts ran. */
  children?: boolean;
  since?: number;
}

export interface JournalChild {
  db: number;
  command: string[];
  commandMissing: number;
  reply: string;
  raw: string;
  replyLength: number;
  fault: string | null;
  children: JournalChild[];
}

export interface JournalEntry {
  seq: number;
  timeUs: number;
  realTimeUs: number;
  /** When an upstream server was sent it; null for what ran in this server. */
  sentUs: number | null;
  order: 'total' | 'exact' | 'interval';
  durationUs: number;
  heldAfterUs: number | null;
  client: number;
  name: string;
  address: string;
  db: number;
  command: string[];
  commandMissing: number;
  outcome: Outcome;
  /** On one line: `OK`, `(integer) 1`, `"text"`, `(nil)`, `(error) ...`; null without a reply. */
  reply: string | null;
  raw: string | null;
  replyLength: number;
  fault: string | null;
  gates: string[];
  children: JournalChild[];
  childrenMissing: number;
  /** `no` if it is unknown what EXEC or a script ran: `children` is empty then. */
  childrenKnown: 'yes' | 'no';
}

export interface JournalInfo {
  state: 'on' | 'off';
  entries: number;
  forgotten: number;
  lastSeq: number;
  bytes: number;
  mostBytes: number;
}

export interface Journal {
  on(): Promise<void>;
  off(): Promise<void>;
  clear(): Promise<void>;
  info(): Promise<JournalInfo>;
  /** The last 100 entries, or `limit`; with `since` the first ones after that number. */
  list(query?: JournalQuery & { limit?: number }): Promise<JournalEntry[]>;
  count(query?: JournalQuery): Promise<number>;
  /** Resolves to the number of entries that match once that is `count` (1). */
  wait(query?: JournalQuery, count?: number, options?: WaitOptions): Promise<number>;
  /** The entries nearest to a command. */
  near(...command: (string | number)[]): Promise<(JournalEntry & { distance: number; times: number })[]>;
  /** Writes all entries to a file, one JSON object a line, and resolves to their number. */
  export(path: string): Promise<number>;
}

export interface AuditQuery {
  key?: string;
  code?: string;
  /** This severity or a worse one. */
  severity?: Severity;
  since?: number;
  /** Also findings that are allowed. */
  allowed?: boolean;
}

export interface Evidence {
  seq: number;
  server: number;
  client: number;
  name: string;
  timeUs: number;
  command: string;
  what: string;
}

export interface Finding {
  code: string;
  severity: Severity;
  key: string;
  db: number;
  server: number;
  /** What is wrong. */
  sentence: string;
  /** What to do instead. */
  instead: string;
  docs: string;
  times: number;
  seq: number;
  lastSeq: number;
  timeUs: number;
  /** The CLIENT ID of the client whose mistake it is; 0 is none. */
  culprit: number;
  /** The mark that it came after, such as the name of a test. */
  mark: string | null;
  allowed: string | null;
  evidence: Evidence[];
}

export interface LockHolder {
  client: number;
  name: string;
  address: string;
  token: string;
  sinceUs: number;
  untilUs: number | null;
  extensions: number;
  certain: 'yes' | 'may-hold';
  standing: 'held' | 'deleted' | 'overwritten' | 'flushed' | 'evicted' | 'vanished';
  by: string | null;
}

export interface LockWaiter {
  client: number;
  name: string;
  address: string;
  sinceUs: number;
  lastUs: number;
  attempts: number;
}

export interface LockEnd {
  client: number;
  name: string;
  sinceUs: number;
  untilUs: number;
  how: 'released' | 'expired' | 'closed' | 'told';
}

export interface Lock {
  key: string;
  db: number;
  server: number;
  state: 'held' | 'held-by-several' | 'lost' | 'taken' | 'free';
  shape: 'value' | 'hash' | 'semaphore';
  value: string | null;
  deadlineMs: number | null;
  holders: LockHolder[];
  waiters: LockWaiter[];
  reasons: string[];
  ended: LockEnd[];
}

export interface AuditInfo {
  state: 'on' | 'off';
  findings: number;
  allowed: number;
  unlisted: number;
  entries: number;
  missed: number;
  locks: string[];
  notLocks: string[];
  allowances: string[];
}

export interface Audit {
  on(): Promise<void>;
  off(): Promise<void>;
  /** Deletes the findings; who holds what stays known. */
  clear(): Promise<void>;
  info(): Promise<AuditInfo>;
  /** The last 100 findings, or `limit`. With `final` as if no more commands came. */
  findings(query?: AuditQuery & { final?: boolean; limit?: number }): Promise<Finding[]>;
  count(query?: AuditQuery & { final?: boolean }): Promise<number>;
  wait(query?: AuditQuery, count?: number, options?: WaitOptions): Promise<number>;
  allow(code: string, key: string, reason: string): Promise<void>;
  locks(query?: { key?: string }): Promise<Lock[]>;
}

/** A reply of the server: text, numbers, null, or lists of them. */
export type Reply = string | number | null | Reply[];

export interface ConnectionOptions {
  host: string;
  port: number;
  username?: string;
  password?: string;
}

/** A server or a space: an address, and the powers over it. */
export interface Redouble {
  /** For `createClient({ url })` of node-redis and `new Redis(url)` of ioredis. */
  readonly url: string;
  readonly host: string;
  readonly port: number;
  readonly username?: string;
  readonly password?: string;
  /** Options as ioredis and BullMQ take them. */
  readonly connection: ConnectionOptions;
  /** REDIS_URL, REDIS_HOST and REDIS_PORT, and REDIS_USERNAME and REDIS_PASSWORD where they matter. */
  readonly env: Record<string, string>;
  readonly clock: Clock;
  readonly journal: Journal;
  readonly audit: Audit;
  /** Makes the server fail: the commands that match meet the verdict. */
  fault(verdict: Verdict, conditions?: FaultConditions): Promise<Fault>;
  /** The same while `body` runs. */
  fault<T>(verdict: Verdict, conditions: FaultConditions, body: (fault: Fault) => Promise<T> | T): Promise<T>;
  /** Holds the commands that match. */
  gate(conditions?: GateConditions): Promise<Gate>;
  /** The same while `body` runs. */
  gate<T>(conditions: GateConditions, body: (gate: Gate) => Promise<T> | T): Promise<T>;
  /** Puts everything back to its state at the start. Clients stay connected. */
  reset(): Promise<void>;
  /** Says what comes next, such as a test: findings say after which mark they came. A reset keeps the last one. */
  mark(text: string): Promise<void>;
  /** A private space on the same port, made on first use. Without a name, one that nobody else has. */
  space(name?: string): Space;
  /** Writes one HTML page that draws who held which lock when. It needs a journal. */
  report(path: string): Promise<void>;
  /** Tells the same as text. */
  reportText(): Promise<string>;
  /** Sends one command, word for word. */
  call(...command: (string | number)[]): Promise<Reply>;
  /** Closes the control connections. The server and its data stay. */
  close(): void;
}

export interface Space extends Redouble, AsyncDisposable {
  readonly name: string;
  /** Deletes the space and closes its connections. */
  drop(): Promise<void>;
}

export interface InstanceInfo {
  number: number;
  port: number;
  state: string;
  skew: number;
  clients: number;
}

/** One of several servers that were started together. */
export interface Instance extends Redouble {
  /** Refuses connections and closes those there are. */
  stop(): Promise<void>;
  start(options?: { empty?: boolean }): Promise<void>;
  /** Answers nothing but REDOUBLE commands. */
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** Sets its clock ahead of the first instance's, or behind it: `'-1.5s'`. */
  skew(duration: Duration): Promise<void>;
  /** Leaves the commands of the clients with such a name unanswered. */
  cut(client: string): Promise<void>;
  heal(client?: string): Promise<void>;
  info(): Promise<InstanceInfo>;
}

export interface Server extends Redouble, AsyncDisposable {
  readonly pid: number;
  /** The URLs of all instances. */
  readonly urls: string[];
  readonly instances: Instance[];
  /** What it has written to its log. */
  log(): string;
  /** Ends it, and resolves when its process is gone. */
  stop(): Promise<void>;
}

/** Starts a server on a free port. It ends with this process, however that ends. */
export function startRedouble(options?: ServerOptions): Promise<Server>;

/** Powers over a server that runs already: of `redouble run`, or in a container. */
export function connectRedouble(url: string, options?: { directory?: string; binary?: string }): Redouble;

/** The path of the program. Throws an error that says what to do if there is none. */
export function findBinary(chosen?: string): string;

/** What the server refuses, and what cannot be started or reached. */
export class RedoubleError extends Error {}

/** A fault that never fired, or a gate that no command came to. */
export class UnusedError extends RedoubleError {}
