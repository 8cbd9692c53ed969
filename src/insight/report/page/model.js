// What is shown: the moments that the filters let through, their places on the axes, and the rows.

const data = JSON.parse(document.getElementById('data').textContent);
const { clients, locks, moments, stretches, stays, findings, codes, instances } = data;
const [ORDER, CLOCK, REAL] = [0, 1, 2];
const SYMBOLS = { error: '\u2716', warning: '!', note: 'i' };
const KINDS = {
  took: 'took the lock', refused: 'was refused', released: 'released the lock',
  foreign: "deleted or overwrote another's lock", missed: 'did not find its lock', extended: 'extended the lock',
  set: 'set the key', read: 'read the lock', other: 'another command',
};
const SET_UP = new Set(['HELLO', 'AUTH', 'CLIENT', 'SELECT', 'PING', 'ECHO', 'COMMAND', 'CONFIG', 'INFO', 'QUIT', 'RESET',
  'READONLY', 'SCRIPT', 'FUNCTION', 'LATENCY', 'DEBUG']);

const state = {
  axis: CLOCK, clock: CLOCK, isEven: true, showsAll: false, from: 0, to: 1, finding: -1, moment: -1, stretch: null,
  lock: -1, client: -1, search: '', onlyLocks: false, onlyFound: false,
};

const base = [0, Infinity, Infinity];
for (const moment of moments) {
  base[CLOCK] = Math.min(base[CLOCK], moment.at);
  base[REAL] = Math.min(base[REAL], moment.real);
}
for (const axis of [CLOCK, REAL]) if (!Number.isFinite(base[axis])) base[axis] = 0;

// The findings that rest on each moment.
const proofs = moments.map(() => null);

// What has happened to everybody, for the ruler and in a sentence.
const briefEvent = ({ event, line, node }) => ({
  clock: `clock ${line}`, started: `server starts, ${line || 'again'}`, evicted: `evicts ${line}`, missing: `missing: ${line}`,
  promoted: `${node} is master`, link: `link ${line}`, replaced: line, lost: `lost: ${line}`, topology: `${node}: ${line}`, mark: line,
}[event]);
const toldEvent = ({ event, line, node }) => ({
  clock: `The clock was moved: ${line}`, started: `The server started again, ${line}`, evicted: `The server evicted ${line}`,
  missing: `Missing in the journal: ${line}`, promoted: `${node} is master now${line ? `, in place of ${line}` : ''}`,
  topology: `Node ${node}: ${line}`, mark: `Mark: ${line}`, link: `The link to ${node} from here on: ${line}`,
  replaced: line === 'cut off' ? `${node} is master now in place of this server, which is cut off and goes on` : `This server follows ${node} from here on`,
  lost: `${node} is master now, and never got this change of ${line}`,
}[event]);
// The findings that are described: the first of each mistake that was made several times.
const firsts = findings.map((_, number) => number).filter((number) => findings[number].first === number);
const sameAs = (number) => findings.map((_, other) => other).filter((other) => findings[other].first === findings[number].first);
const keyOf = (finding) => lockName({ server: finding.server, db: finding.db, name: finding.key });
const lockName = (lock) => {
  const server = data.servers > 1 ? `server ${lock.server}, ` : '';
  const db = lock.db ? `database ${lock.db}` : '';
  const where = (server + db).replace(/, $/, '');
  return where ? `${lock.name} (${where})` : lock.name;
};
const seqOf = (moment) => (data.servers > 1 ? `${moment.server}.${moment.seq}` : `${moment.seq}`);
const isSetUp = moments.map((moment) => !moment.event && !moment.kind && !moment.fault
  && SET_UP.has(moment.line.split(' ', 1)[0].toUpperCase()));

// How much passed, in microseconds, for people.
function duration(micros) {
  const size = Math.abs(micros);
  const digits = (value) => (value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2))
    .replace(/(\.\d*?)0+$/, '$1').replace(/\.$/, '');
  const sign = micros < 0 ? '\u2212' : '';
  if (size < 1e3) return `${sign}${size} \u00b5s`;
  if (size < 1e6) return `${sign}${digits(size / 1e3)} ms`;
  if (size < 6e7) return `${sign}${digits(size / 1e6)} s`;
  if (size < 3.6e9) return `${sign}${digits(size / 6e7)} min`;
  if (size < 8.64e10) return `${sign}${digits(size / 3.6e9)} h`;
  return `${sign}${digits(size / 8.64e10)} d`;
}

function instant(micros) {
  const date = new Date(Math.floor(micros / 1000));
  if (Number.isNaN(date.getTime())) return `${micros} \u00b5s`;
  const rest = ((micros % 1000) + 1000) % 1000;
  return `${date.toISOString().replace('T', ' ').replace('Z', '')}${String(rest).padStart(3, '0')} UTC`;
}

// What the filters let through, and how many of that stand in front of each moment.
const kept = new Uint8Array(moments.length);
const before = new Float64Array(moments.length + 1);

function isKept(at) {
  const moment = moments[at];
  if (moment.event) {
    if (moment.event !== 'closed') return state.lock < 0 || locks[state.lock].server === moment.server;
    return moment.client !== undefined && (state.client < 0 || state.client === moment.client)
      && !state.search && !state.onlyFound && (!state.onlyLocks || hasLocks[moment.client] === 1) && state.lock < 0;
  }
  if (state.client >= 0 && moment.client !== state.client) return false;
  const mine = proofs[at];
  if (state.lock >= 0 && moment.lock !== state.lock
    && !(mine && mine.some(({ number }) => findings[number].lock === state.lock))) return false;
  if (state.onlyFound && !mine) return false;
  if (state.onlyLocks && moment.lock === undefined && !mine) return false;
  if (isSetUp[at] && !mine && !state.search && !state.showsAll) return false;
  if (!state.search) return true;
  const client = clients[moment.client];
  const texts = [moment.line, moment.reply ?? '', client ? title(client) : '', moment.fault ?? '',
    moment.lock === undefined ? '' : locks[moment.lock].name, ...(moment.gates ?? [])];
  return texts.some((text) => text.toLowerCase().includes(state.search));
}

const hasLocks = new Uint8Array(clients.length);
for (const moment of moments) if (moment.lock !== undefined && moment.client !== undefined) hasLocks[moment.client] = 1;

// A time axis is drawn to scale, or evenly: a longer gap is wider than a shorter one, and less so the longer it is; those beside the
// steps of the chosen finding have more room. Gaps that
// are drawn much shorter than most others are cut: the ruler has a mark there, and how long they were.
// `times` are those at which something happened, `places` where they are then.
let even = null;
const isCut = (at) => even.cuts[at] === 1;

function measureEven() {
  even = null;
  if (state.axis === ORDER || !state.isEven) return;
  const seen = new Set();
  const note = (spot) => { if (spot) seen.add(spot[state.axis] - base[state.axis]); };
  for (let at = 0; at < moments.length; at += 1) {
    if (kept[at]) seen.add((state.axis === CLOCK ? moments[at].at : moments[at].real) - base[state.axis]);
  }
  for (const { from, until, unnoticed } of stretches) [from, until, unnoticed].forEach(note);
  for (const { from, until } of stays) [from, until].forEach(note);
  const times = [...seen].sort((one, other) => one - other);
  if (times.length < 3) return;
  const gaps = times.slice(1).map((time, at) => time - times[at]);
  const middle = [...gaps].sort((one, other) => one - other)[gaps.length >> 1];
  const steps = new Set(state.finding < 0 ? times : findings[state.finding].evidence.map(({ spot }) => spot[state.axis] - base[state.axis]));
  const share = (at) => (steps.has(times[at]) || steps.has(times[at + 1]) ? 1 : 0.5);
  const wide = gaps.map((gap, at) => share(at) * (1 + 1.5 * Math.log10(1 + (4 * gap) / middle)));
  const unit = (times.at(-1) - times[0]) / wide.reduce((sum, one) => sum + one, 0);
  const usual = 4 * (middle / (1 + 1.5 * Math.log10(5)));
  const cuts = Uint8Array.from(gaps, (gap, at) => (gap / wide[at] > usual ? 1 : 0));
  const places = [0];
  for (const one of wide) places.push(places.at(-1) + one * unit);
  even = { times, places, cuts };
}

// Goes from one list of numbers to the other, with the same steps outside.
function between(from, to, value) {
  let [low, high] = [0, from.length - 1];
  if (value <= from[0]) return to[0] + value - from[0];
  if (value >= from[high]) return to[high] + value - from[high];
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (from[middle] <= value) low = middle; else high = middle;
  }
  return to[low] + ((value - from[low]) / (from[high] - from[low])) * (to[high] - to[low]);
}

const placeOfTime = (time) => (even ? between(even.times, even.places, time) : time);
const timeOfPlace = (place) => (even ? between(even.places, even.times, place) : place);

// Where a spot is on the axis that is shown.
function position(spot) {
  if (state.axis !== ORDER) return placeOfTime(spot[state.axis] - base[state.axis]);
  const at = Math.min(Math.max(Math.ceil(spot[ORDER]), 0), moments.length);
  return kept[at] && at === spot[ORDER] ? before[at] : before[at] - 0.5;
}

const positionOf = (at) => (state.axis === ORDER ? before[at]
  : placeOfTime((state.axis === CLOCK ? moments[at].at : moments[at].real) - base[state.axis]));

// Rows: `lanes` have the kept moments of a client in the order of the axis, `groups` the bands of a lock.
let rows = [];
let lanes = [];
let height = 0;
let keptCount = 0;
let commandCount = 0;
let bounds = [0, 1];
let wide = [];

const staysOf = grouped(stays, (stay) => stay.lock);
const captions = grouped(findings.keys(), (number) => findings[number].lock ?? keyOf(findings[number]));

const LANE = 52;
const BAND = 25;
const STAY = 23;
const CAPTION = 20;
const HEAD = 26;
const LINE = 15;
const WORDS = 14;

function arrange() {
  keptCount = 0;
  commandCount = 0;
  const mine = clients.map(() => []);
  const isShown = new Uint8Array(clients.length);
  wide = [];
  for (let at = 0; at < moments.length; at += 1) {
    before[at] = keptCount;
    kept[at] = isKept(at) ? 1 : 0;
    if (!kept[at]) continue;
    keptCount += 1;
    const { client, event } = moments[at];
    // What concerns one instance stands in its row.
    if (event && !['closed', 'link', 'replaced', 'lost'].includes(event)) wide.push(at);
    if (client === undefined) continue;
    mine[client].push(at);
    if (!event) {
      isShown[client] = 1;
      commandCount += 1;
    }
  }
  before[moments.length] = keptCount;
  measureEven();
  lanes = [];
  clients.forEach((client, number) => {
    if (!isShown[number]) return;
    const list = mine[number];
    if (state.axis !== ORDER) list.sort((one, other) => positionOf(one) - positionOf(other) || one - other);
    lanes.push({ client: number, moments: list });
  });
  lay(state.finding);
  bounds = extent();
}

// The locks that a finding is about, and those that its steps took or released.
function locksOf(finding) {
  const found = finding.lock === null ? [] : [finding.lock];
  for (const { moment } of finding.evidence) {
    const lock = moment === null ? undefined : moments[moment].lock;
    if (lock !== undefined && !found.includes(lock)) found.push(lock);
  }
  return found;
}

// The clients of a finding's steps in the order of the steps, those of one process side by side.
function clientsOf(finding) {
  const found = [];
  for (const { moment } of finding.evidence) {
    const client = moment === null ? undefined : moments[moment].client;
    if (client === undefined || found.includes(client)) continue;
    const place = found.findLastIndex((other) => isOfProcess(other, client));
    found.splice(place < 0 ? found.length : place + 1, 0, client);
  }
  return found;
}

// Puts the rows below one another. What a chosen finding is about comes first: its data, its locks, the commands of its clients.
function lay(chosen) {
  const first = chosen < 0 ? null : findings[chosen];
  const own = first ? clientsOf(first) : [];
  const ownLocks = first ? locksOf(first) : [];
  const place = (list, one) => (list.includes(one) ? list.indexOf(one) : list.length);
  const shownLocks = locksShown();
  shownLocks.sort((one, other) => place(ownLocks, one) - place(ownLocks, other));
  const bands = new Map(shownLocks.map((lock) => [lock, new Map()]));
  for (const stretch of stretches) {
    const group = bands.get(stretch.lock);
    if (!group || (state.client >= 0 && stretch.client !== state.client)) continue;
    if (!group.has(stretch.client)) group.set(stretch.client, []);
    group.get(stretch.client).push(stretch);
  }
  const isNarrow = size.width < NARROW;
  rows = [];
  height = 0;
  const add = (row) => {
    row.y = height;
    height += row.height;
    rows.push(row);
    return row;
  };
  const addCaptions = (found) => found.length
    && add({ type: 'captions', found, height: CAPTION * Math.min(new Set(found.map((number) => findings[number].spot[ORDER])).size, 4) + 4 });
  const addBand = (lock, client, list) => {
    const names = wrapped(title(clients[client]), BOLD, roomForNames());
    const above = isNarrow ? names.length * LINE + 3 : 0;
    add({ type: 'band', lock, client, names, above, stretches: list, height: isNarrow ? above + BAND : Math.max(BAND, names.length * LINE + 8) });
  };
  const addLanes = (text, list) => {
    if (list.length) add({ type: 'title', text, height: HEAD });
    for (const lane of list) {
      const names = wrapped(title(clients[lane.client]), BOLD, roomForNames());
      const places = wrapped(placeOf(clients[lane.client]), TEXT, roomForNames());
      const tall = (names.length + places.length) * LINE + 8;
      const above = isNarrow ? tall : 0;
      // Each step has a line for its text.
      const steps = first ? first.evidence.filter(({ moment }) => moment !== null && moments[moment].client === lane.client).length : 0;
      const lines = Math.min(Math.max(steps + (steps ? 1 : 0), 2), 8);
      const marks = LANE + (lines - 2) * WORDS;
      add({ type: 'lane', ...lane, names, places, above, lines, height: isNarrow ? above + marks : Math.max(marks, tall) });
    }
  };
  const addLock = (lock) => {
    const found = captions.get(lock) ?? [];
    const head = add({ type: 'head', lock, text: `Lock ${lockName(locks[lock])}`, found, height: HEAD });
    addCaptions(found);
    add({ type: 'stay', lock, stays: staysOf.get(lock) ?? [], above: isNarrow ? LINE + 3 : 0, height: isNarrow ? STAY + LINE + 3 : STAY });
    for (const [client, list] of [...bands.get(lock)].sort(([one], [other]) => place(own, one) - place(own, other))) addBand(lock, client, list);
    head.until = height;
    head.overlaps = found.some((number) => findings[number].code === 'two-holders') ? overlaps(bands.get(lock)) : [];
    add({ type: 'gap', height: 9 });
  };
  // Which instance was master when, and what reached the others.
  const addInstances = () => {
    add({ type: 'title', text: 'Who was master, and what reached the replicas', height: HEAD });
    for (const instance of instances) {
      const names = wrapped(instance.server ? `server ${instance.server}` : 'replica', BOLD, roomForNames());
      const places = wrapped(instance.name, TEXT, roomForNames());
      const tall = (names.length + places.length) * LINE + 8;
      const above = isNarrow ? tall : 0;
      const marks = STAY + WORDS + 6;
      add({ type: 'instance', instance, names, places, above, height: isNarrow ? above + marks : Math.max(marks, tall) });
    }
    add({ type: 'gap', height: 9 });
  };
  if (instances.length) addInstances();
  // Data is no lock: nobody holds it, but it has values.
  const datas = state.lock < 0 && !state.search ? [...captions.keys()].filter((key) => typeof key === 'string') : [];
  const addData = (key) => {
    const found = captions.get(key);
    add({ type: 'head', lock: null, text: `Data ${key}`, found, overlaps: [], until: height + HEAD, height: HEAD });
    addCaptions(found);
    const one = first && keyOf(first) === key ? first : findings[found[0]];
    for (const value of valuesOf(one)) {
      const name = [value.part || 'value'];
      add({ type: 'value', ...value, names: null, name, above: isNarrow ? LINE + 3 : 0, height: (isNarrow ? LINE + 3 : 0) + STAY + WORDS * (isNarrow ? 3 : 1) });
    }
    add({ type: 'gap', height: 9 });
  };
  const isOwnData = (key) => first && first.lock === null && key === keyOf(first);
  datas.filter(isOwnData).forEach(addData);
  shownLocks.filter((lock) => ownLocks.includes(lock)).forEach(addLock);
  const mine = lanes.filter(({ client }) => own.includes(client)).sort((one, other) => place(own, one.client) - place(own, other.client));
  addLanes('Commands of the clients of this finding', mine);
  datas.filter((key) => !isOwnData(key)).forEach(addData);
  shownLocks.filter((lock) => !ownLocks.includes(lock)).forEach(addLock);
  addLanes(mine.length ? 'Commands of all other clients' : 'Commands of each client', lanes.filter(({ client }) => !own.includes(client)));
}

function grouped(things, groupOf) {
  const groups = new Map();
  for (const thing of things) {
    const group = groupOf(thing);
    if (!groups.has(group)) groups.set(group, []);
    groups.get(group).push(thing);
  }
  return groups;
}

function locksShown() {
  const own = locks.map((_, number) => number);
  if (state.lock >= 0) return [state.lock];
  if (!state.search && !state.onlyFound && state.client < 0) return own;
  const touched = new Set();
  moments.forEach((moment, at) => {
    if (kept[at] && moment.lock !== undefined) touched.add(moment.lock);
  });
  return own.filter((lock) => touched.has(lock));
}

// When several believed at once that they hold a lock.
function overlaps(bands) {
  const ends = [];
  for (const [client, list] of bands) {
    for (const stretch of list) {
      if (stretch.kind !== 'held') continue;
      ends.push({ spot: stretch.from, client, step: 1 });
      if (stretch.until) ends.push({ spot: stretch.until, client, step: -1 });
    }
  }
  ends.sort((one, other) => one.spot[ORDER] - other.spot[ORDER] || one.step - other.step);
  const holders = new Map();
  const found = [];
  for (const { spot, client, step } of ends) {
    const count = (holders.get(client) ?? 0) + step;
    if (count > 0) holders.set(client, count); else holders.delete(client);
    const last = found.at(-1);
    if (holders.size > 1 && (!last || last.until)) found.push({ from: spot, until: null, clients: [...holders.keys()] });
    else if (holders.size < 2 && last && !last.until) last.until = spot;
  }
  return found;
}

function extent() {
  if (state.axis === ORDER) return [-0.8, Math.max(keptCount, 1) - 0.1];
  let [least, most] = [Infinity, -Infinity];
  for (let at = 0; at < moments.length; at += 1) {
    if (!kept[at]) continue;
    least = Math.min(least, positionOf(at));
    most = Math.max(most, positionOf(at));
  }
  if (!Number.isFinite(least)) return [0, 1000];
  const room = Math.max((most - least) * 0.04, 50);
  // What has not ended needs room for its name.
  const isOpen = [...stretches, ...stays].some(({ until }) => !until);
  return [least - room, most + room * (isOpen ? 4 : 1)];
}

// The first of a list of moments that is not in front of a place on the axis.
function firstFrom(list, place) {
  let [low, high] = [0, list.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (positionOf(list[middle]) < place) low = middle + 1; else high = middle;
  }
  return low;
}
