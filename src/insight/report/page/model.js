// What is shown: the moments that the filters let through, their places on the axes, and the rows.

const data = JSON.parse(document.getElementById('data').textContent);
const { clients, locks, moments, stretches, stays, findings, codes } = data;
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
  axis: CLOCK, isEven: true, from: 0, to: 1, finding: -1, moment: -1, stretch: null,
  lock: -1, client: -1, search: '', onlyLocks: false, onlyFound: false,
};

const base = [0, Infinity, Infinity];
for (const moment of moments) {
  base[CLOCK] = Math.min(base[CLOCK], moment.at);
  base[REAL] = Math.min(base[REAL], moment.real);
}
for (const axis of [CLOCK, REAL]) if (!Number.isFinite(base[axis])) base[axis] = 0;

// The findings that rest on each moment, with the number of the step.
const proofs = moments.map(() => null);
findings.forEach((finding, number) => {
  finding.evidence.forEach((step, at) => {
    if (step.moment !== null) (proofs[step.moment] ??= []).push({ number, at });
  });
});

// How many connections each process has: where it has several, they are told apart by their numbers.
const sharing = new Map();
const sharers = ({ server, process }) => sharing.get(`${server} ${process}`) ?? 0;
for (const client of clients) sharing.set(`${client.server} ${client.process}`, sharers(client) + 1);
const title = (client) => {
  if (client.name || !client.process) return client.name || `client ${client.id}`;
  return sharers(client) > 1 ? `${client.process}, client ${client.id}` : client.process;
};
// The same in a few characters.
const brief = (client) => client.name || (client.process && sharers(client) === 1 && /pid \d+/.exec(client.process)?.[0]) || `client ${client.id}`;
const placeOf = (client) => {
  const server = data.servers > 1 ? `server ${client.server}, ` : '';
  const node = client.node ? ` to ${client.node}` : '';
  const number = client.name || client.process ? `client ${client.id}, ` : '';
  const process = client.name && client.process ? `${client.process}, ` : '';
  return `${server}${number}${process}${client.address}${node}`;
};
// What has happened to everybody, for the ruler and in a sentence.
const briefEvent = ({ event, line, node }) => ({
  clock: `clock ${line}`, started: `server starts, ${line || 'again'}`, evicted: `evicts ${line}`, missing: `missing: ${line}`,
  promoted: `${node} is master`, topology: `${node}: ${line}`, mark: line,
}[event]);
const toldEvent = ({ event, line, node }) => ({
  clock: `The clock was moved: ${line}`, started: `The server started again, ${line}`, evicted: `The server evicted ${line}`,
  missing: `Missing in the journal: ${line}`, promoted: `${node} is master now${line ? `, in place of ${line}` : ''}`,
  topology: `Node ${node}: ${line}`, mark: `Mark: ${line}`,
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
  if (isSetUp[at] && !mine && !state.search) return false;
  if (!state.search) return true;
  const client = clients[moment.client];
  const texts = [moment.line, moment.reply ?? '', client ? title(client) : '', moment.fault ?? '',
    moment.lock === undefined ? '' : locks[moment.lock].name, ...(moment.gates ?? [])];
  return texts.some((text) => text.toLowerCase().includes(state.search));
}

const hasLocks = new Uint8Array(clients.length);
for (const moment of moments) if (moment.lock !== undefined && moment.client !== undefined) hasLocks[moment.client] = 1;

// A time axis is drawn to scale, or evenly: long gaps are shortened and short ones widened, and the ruler tells how long they were.
// `times` are those at which something happened, `places` where they are then.
let even = null;

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
  const sorted = [...gaps].sort((one, other) => one - other);
  const enough = 3 * sorted[sorted.length >> 1];
  const sum = (most) => gaps.reduce((all, gap) => all + Math.min(gap, most), 0);
  let most = sorted.at(-1);
  for (let round = 0; round < 60 && most > enough && most > 0.12 * sum(most); round += 1) most = Math.max(0.9 * most, 0);
  const least = sum(most) / (1.4 * gaps.length);
  const places = [0];
  for (const gap of gaps) places.push(places.at(-1) + Math.max(Math.min(gap, most), least));
  even = { times, places, most };
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

const LANE = 50;
const BAND = 25;
const STAY = 23;
const CAPTION = 20;
const HEAD = 26;
const LINE = 15;

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
    if (event && event !== 'closed') wide.push(at);
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
  lay(-1);
  // Where there is more than fits, what a chosen finding is about comes first.
  if (state.finding >= 0 && height + RULER > stage.clientHeight) lay(state.finding);
  bounds = extent();
}

// Puts the rows below one another: the bands of each lock, then the lanes; those of a finding in front of all others.
function lay(chosen) {
  const first = chosen < 0 ? null : findings[chosen];
  const own = new Set(first ? first.evidence.map(({ moment }) => (moment === null ? undefined : moments[moment].client)) : []);
  const ownFirst = (one, other) => own.has(other) - own.has(one);
  const shownLocks = locksShown();
  if (first) shownLocks.sort((one, other) => (other === first.lock) - (one === first.lock));
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
    && add({ type: 'captions', found, height: CAPTION * Math.min(found.length, 4) + 4 });
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
      add({ type: 'lane', ...lane, names, places, above, height: isNarrow ? above + LANE : Math.max(LANE, tall) });
    }
  };
  let rest = lanes;
  const addOwn = () => {
    addLanes('Commands of the clients of this finding', lanes.filter(({ client }) => own.has(client)));
    rest = lanes.filter(({ client }) => !own.has(client));
  };
  // Data is no lock: nobody holds it, but what was found about it has a place, too.
  const datas = state.lock < 0 && !state.search ? [...captions.keys()].filter((key) => typeof key === 'string') : [];
  if (first) datas.sort((one, other) => (other === keyOf(first)) - (one === keyOf(first)));
  const addData = (key) => {
    const found = captions.get(key);
    add({ type: 'head', lock: null, text: `Data ${key}`, found, overlaps: [], until: height + HEAD, height: HEAD });
    addCaptions(found);
    if (first && first.lock === null && key === keyOf(first)) addOwn();
    add({ type: 'gap', height: 9 });
  };
  if (first && first.lock === null) datas.splice(0, 1).forEach(addData);
  for (const lock of shownLocks) {
    const found = captions.get(lock) ?? [];
    const head = add({ type: 'head', lock, text: `Lock ${lockName(locks[lock])}`, found, height: HEAD });
    addCaptions(found);
    add({ type: 'stay', lock, stays: staysOf.get(lock) ?? [], above: isNarrow ? LINE + 3 : 0, height: isNarrow ? STAY + LINE + 3 : STAY });
    const group = [...bands.get(lock)].sort(([one], [other]) => ownFirst(one, other));
    const isChosen = first && first.lock === lock;
    for (const [client, list] of group) {
      if (!isChosen || own.has(client)) addBand(lock, client, list);
    }
    if (isChosen) addOwn();
    for (const [client, list] of group) {
      if (isChosen && !own.has(client)) addBand(lock, client, list);
    }
    head.until = height;
    head.overlaps = found.some((number) => findings[number].code === 'two-holders') ? overlaps(bands.get(lock)) : [];
    add({ type: 'gap', height: 9 });
  }
  datas.forEach(addData);
  addLanes(rest === lanes ? 'Commands of each client' : 'Commands of all other clients', rest);
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
  return [least - room, most + room];
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
