// What is told of each finding: who did what when, with which values, and which findings have one cause.

// Names: a client has one name everywhere, as short as it can be told from the others.

const INTERPRETERS = /^(python|pypy|node|nodejs|deno|bun|tsx|ruby|perl|php|java|dotnet|sh|bash|env)[\d.]*$/;
const partsOf = (process) => {
  const [, line, pid] = /^(.*) \(pid (\d+)\)$/s.exec(process) ?? [null, process, ''];
  const words = line.split(' ').filter(Boolean);
  const last = (path) => path.split('/').at(-1);
  const isOption = (word) => word.startsWith('-');
  const at = INTERPRETERS.test(last(words[0] ?? '')) ? words.findIndex((word, place) => place > 0 && !isOption(word)) : 0;
  const program = last(words[Math.max(at, 0)] ?? process);
  const role = words.slice(Math.max(at, 0) + 1).find((word) => /^[A-Za-z][\w-]{0,15}$/.test(word)) ?? '';
  return { program, role, pid };
};
const processes = [...new Set(clients.map(({ process }) => process).filter(Boolean))];
const shortOf = new Map(processes.map((process) => {
  const { program, role, pid } = partsOf(process);
  const others = processes.filter((other) => other !== process).map(partsOf).filter((other) => other.program === program);
  if (role && program !== 'redis-cli' && others.every((other) => other.role !== role)) return [process, `${program} ${role}`];
  return [process, pid ? `${program} ${pid}` : program];
}));
// How many connections each process has, and how many clients have a name.
const sharing = new Map();
const countOf = (...keys) => sharing.get(keys.join('\n')) ?? 0;
for (const { server, process, name } of clients) {
  for (const keys of [['process', server, process], ['name', server, name]]) sharing.set(keys.join('\n'), countOf(...keys) + 1);
}
const isShared = ({ server, process }) => countOf('process', server, process) > 1;
function title(client) {
  const short = shortOf.get(client.process);
  if (client.name) {
    if (countOf('name', client.server, client.name) < 2) return client.name;
    return short && !clients.some((other) => other !== client && other.name === client.name && other.process === client.process)
      ? `${short} (${client.name})` : `${client.name}, client ${client.id}`;
  }
  if (!short) return `client ${client.id}`;
  // One process alone is no name.
  if (isShared(client)) return processes.length > 1 ? `${short}, client ${client.id}` : `client ${client.id}`;
  return short;
}
const lastWord = (name) => /(client \d+|\S+ \([^)]*\))$/.exec(name)?.[0] ?? name.split(' ').at(-1);
const nameOf = (number) => (number === undefined || number === null ? 'the server' : title(clients[number]));
const placeOf = (client) => {
  const server = data.servers > 1 ? `server ${client.server}, ` : '';
  const node = client.node ? ` to ${client.node}` : '';
  const number = title(client) === `client ${client.id}` ? '' : `client ${client.id}, `;
  const process = client.process ? `${client.process}, ` : '';
  return `${server}${number}${process}${client.address}${node}`;
};
// A text of the auditor with the names that the picture has.
const renamed = [...clients.flatMap((client) => {
  const names = client.name ? [`${client.name} (client ${client.id})`] : [];
  if (client.process) names.push(`client ${client.id} of ${client.process}`);
  return data.servers > 1 ? [] : names.map((name) => [name, title(client)]);
}), ...shortOf].sort(([one], [other]) => other.length - one.length);
const shortened = (text) => renamed.slice(0, 4000).reduce((told, [name, short]) => (told.includes(name) ? told.split(name).join(short) : told), text);

// Times, from the beginning: as many digits as tell some of them apart.

const clockOf = () => (state.axis === ORDER ? state.clock : state.axis);
const microsOf = (spot) => spot[clockOf()] - base[clockOf()];
function timesOf(list) {
  const most = Math.max(0, ...list.map(Math.abs));
  const told = (digits) => list.map((micros) => {
    const sign = micros < 0 ? '\u2212' : '+';
    const size = Math.abs(micros);
    if (most < 1e3) return `${sign}${size} \u00b5s`;
    const [unit, name] = most < 1e7 ? [1e3, 'ms'] : [1e6, 's'];
    return `${sign}${(size / unit).toFixed(digits)} ${name}`;
  });
  const count = new Set(list).size;
  const first = most >= 1e8 ? 2 : most >= 1e7 ? 3 : most < 1e6 ? 1 : 0;
  for (let digits = first; digits < 3; digits += 1) if (new Set(told(digits)).size === count) return told(digits);
  return told(3);
}

// Values of data.

const usesAt = new Map();
for (const use of data.uses) {
  if (!usesAt.has(use.moment)) usesAt.set(use.moment, []);
  usesAt.get(use.moment).push(use);
}
const dataOf = (finding) => data.values.findIndex((one) => one.server === finding.server && one.db === finding.db && one.name === finding.key);
const isWrite = ({ act }) => act === 'wrote' || act === 'changed' || act === 'deleted';
const useOf = (place, moment, isMeant) => (usesAt.get(moment) ?? []).filter((use) => use.data === place && isMeant(use));
// Recordings have hashes in place of values, which tell a reader nothing.
const isHidden = (value) => value === undefined || /^(h:[0-9a-f]{16}|\(redacted\))/.test(value);
const shownValue = (use) => (isHidden(use.value) ? '' : use.part ? `${use.part}=${use.value}` : use.value || '""');
const clipped = (text, most) => (text.length > most ? `${text.slice(0, most - 1)}\u2026` : text);

// The writes of a lost update: the one that is lost, and the one that came over it.
function writesOf(finding) {
  if (finding.code !== 'lost-update') return null;
  const writes = finding.evidence.filter((step) => step.moment !== null && /^wrote/.test(step.what));
  const win = writes.at(-1);
  const lost = writes.find((step) => / is lost$/.test(step.what)) ?? writes.at(-2);
  if (!win || !lost || win === lost) return null;
  const place = dataOf(finding);
  const write = (step) => ({ step, who: moments[step.moment].client, uses: useOf(place, step.moment, isWrite) });
  const [one, other] = [write(lost), write(win)];
  // Of several fields that both wrote, the first one is told.
  const both = other.uses.find((use) => one.uses.some(({ part }) => part === use.part)) ?? other.uses[0];
  const mine = one.uses.find(({ part }) => part === both?.part) ?? one.uses[0];
  const isSame = mine?.value !== undefined && mine.value === both?.value && mine.value !== '(redacted)';
  return { place, isSame, lost: { ...one, value: mine ? shownValue(mine) : '' }, win: { ...other, value: both ? shownValue(both) : '' } };
}

const isOfProcess = (one, other) => one === other || (clients[one].process !== undefined
  && clients[one].process === clients[other].process && clients[one].server === clients[other].server);

// What a lost update does not rest on, and what explains it: locks that were given up before the write, and watches.
function explainLostUpdate(finding) {
  const writes = writesOf(finding);
  if (!writes) return;
  const extra = [];
  // Two connections of one process are two parties here: only what they did themselves is theirs.
  const isOnePart = isOfProcess(writes.lost.who, writes.win.who);
  const isTheirs = (client, who) => client === who || (!isOnePart && isOfProcess(client, who));
  for (const { step, who } of [writes.lost, writes.win]) {
    const reads = finding.evidence.filter(({ moment, what }) => moment !== null && /^(read|found)/.test(what)
      && isTheirs(moments[moment].client, who));
    const [read, write] = [reads[0]?.spot[ORDER] ?? step.spot[ORDER], step.spot[ORDER]];
    for (const { moment } of data.uses) {
      const isIts = moment > read && moment < write && moments[moment].client === who;
      if (isIts && useOf(writes.place, moment, ({ act }) => act === 'watched').length) {
        extra.push(stepAt(moment, reads.length ? 'watched the key, after it had read it' : 'watched the key'));
      }
    }
    // Where the auditor tells of locks, it is those.
    const told = new Set(finding.evidence.filter(({ what }) => what.startsWith('took `')).map(({ moment }) => moment));
    const around = stretches.filter((stretch) => stretch.kind === 'held' && stretch.lock !== finding.lock && isTheirs(stretch.client, who)
      && stretch.from[ORDER] < write && (stretch.until?.[ORDER] ?? Infinity) > read && (!told.size || told.has(stretch.from[ORDER])));
    // Of several it cannot be told which was for this.
    for (const stretch of around.length === 1 ? around : []) {
      const lock = `\`${locks[stretch.lock].name}\``;
      if (stretch.end === 'expired' && stretch.until[ORDER] < write) finding.over = { stretch, who, write: step.spot };
      const isEarly = stretch.end === 'released' && stretch.until[ORDER] < write;
      extra.push(stepAt(stretch.from[ORDER], `took ${lock}`));
      if (stretch.end === 'released') extra.push(stepAt(stretch.until[ORDER], `released ${lock}${isEarly ? ', before it wrote' : ''}`));
      const known = finding.evidence.find(({ moment, what }) => isEarly && moment === stretch.until[ORDER] && what.startsWith('released'));
      if (known) known.what += ', before it wrote';
      if (isEarly) finding.early = [...(finding.early ?? []), { stretch, who, write: step.spot }];
    }
  }
  const known = new Set(finding.evidence.map(({ moment }) => moment));
  const fresh = extra.filter((step) => step && !known.has(step.moment) && known.add(step.moment));
  finding.evidence.push(...fresh);
  finding.evidence.sort((one, other) => one.spot[ORDER] - other.spot[ORDER]);
}

function stepAt(order, what) {
  const moment = moments[order];
  if (!moment || moment.event) return null;
  return { spot: [order, moment.at, moment.real], moment: order, who: nameOf(moment.client), line: moment.line, what };
}

// Whoever lost a lock by a command, and how.
const losersBy = (order) => stretches.filter(({ lost }) => lost && lost[0][ORDER] === order);

// What a command that takes another client's lock did: the auditor tells it as the beginning of that client's own hold.
function tellOverwrites(finding) {
  for (const step of finding.evidence) {
    if (step.moment === null || moments[step.moment].kind !== 'foreign' || !/^took/.test(step.what)) continue;
    const victims = losersBy(step.moment).map(({ client }) => nameOf(client));
    if (!victims.length) continue;
    const words = moments[step.moment].line.toUpperCase().split(' ');
    const how = words[0] === 'SET' && !words.includes('NX') ? ' (SET without NX)' : '';
    step.what = `overwrote the live lock of ${victims.join(' and ')}${how}; ${step.what}`;
  }
}

for (const finding of findings) {
  explainLostUpdate(finding);
  tellOverwrites(finding);
  for (const step of finding.evidence) {
    step.what = shortened(step.what);
    const read = finding.code === 'lost-update' && step.moment !== null && /^read it(, too)?$/.test(step.what)
      ? useOf(dataOf(finding), step.moment, ({ act, value }) => act === 'read' && value !== undefined)[0] : undefined;
    if (read) step.what = `read \`${clipped(shownValue(read), 60)}\``;
    const wrote = finding.code === 'lost-update' && step.moment !== null && /^wrote (it|the same)/.test(step.what)
      ? useOf(dataOf(finding), step.moment, isWrite).map(shownValue).find(Boolean) : undefined;
    if (wrote) step.what = step.what.replace('wrote it', `wrote \`${clipped(wrote, 60)}\``).replace('wrote the same', `wrote the same, \`${clipped(wrote, 60)}\`,`);
    if (step.who) step.who = step.moment !== null && moments[step.moment].client !== undefined ? nameOf(moments[step.moment].client) : shortened(step.who);
  }
}

findings.forEach((finding, number) => {
  for (const { moment } of finding.evidence) if (moment !== null) (proofs[moment] ??= []).push({ number });
});

// The headline of a finding: what was damaged, by whom and when.
function headline(finding) {
  const writes = writesOf(finding);
  if (finding.code === 'two-holders') return twoHolders(finding);
  if (!writes) return shortened(finding.sentence);
  const { lost, win } = writes;
  const [early, late] = timesOf([microsOf(lost.step.spot), microsOf(win.step.spot)]);
  const [one, other] = [nameOf(lost.who), nameOf(win.who)];
  const key = `\`${finding.key}\``;
  const short = (value) => clipped(value, 40);
  if (writes.isSame) {
    const same = win.value ? `\`${short(win.value)}\`` : 'the same';
    return `${one} (${early}) and ${other} (${late}) both wrote ${same} to ${key}: one of the two changes is lost`;
  }
  if (lost.value && win.value) {
    const whose = lost.who === win.who ? 'its own' : `the \`${short(lost.value)}\` of ${one}`;
    return `${other} wrote \`${short(win.value)}\` to ${key} at ${late} over ${whose} (${early}), which is lost`;
  }
  return `${other} overwrote at ${late} what ${one} had written to ${key} at ${early}, which is lost`;
}

// Why it came to that, as far as the picture shows it.
function reasons(finding) {
  const writes = writesOf(finding);
  let why = shortened(finding.sentence).split(/ is lost: /)[1];
  // The auditor may have met the other one as the only connection of the process.
  const alone = writes && shortOf.get(clients[writes.lost.who].process);
  if (why && alone && processes.length === 1) why = why.split(alone).join(nameOf(writes.lost.who));
  const told = writes && why ? [`Why: ${why.replace(/^it\b/, nameOf(writes.win.who)).replace(/^they\b/, 'both')}`] : [];
  if (finding.over) {
    const { stretch, who, write } = finding.over;
    const [expired, wrote] = timesOf([microsOf(stretch.until), microsOf(write)]);
    told.unshift(`The hold of ${nameOf(who)} on \`${locks[stretch.lock].name}\` had expired at ${expired}, `
      + `${duration(microsOf(write) - microsOf(stretch.until))} before it wrote at ${wrote}`);
  }
  for (const { stretch, who, write } of (finding.early ?? []).slice(-1)) {
    const [released, wrote] = timesOf([microsOf(stretch.until), microsOf(write)]);
    told.unshift(`${nameOf(who)} had released \`${locks[stretch.lock].name}\` at ${released}, before it wrote at ${wrote}: the lock did not cover the write`);
  }
  return told;
}

const advice = (finding) => (finding.early ? `Release \`${locks[finding.early[0].stretch.lock].name}\` only after the write: the lock must cover all from the read to the write.` : finding.instead);

// Why a finding of a kind that can be an error is said more quietly.
function levelReason(finding) {
  if (finding.code !== 'lost-update' || finding.severity === 'error') return '';
  return `Why it is only a ${finding.severity}: nothing shows that both changes were meant to stay. It may be a cache that is filled twice, or a value `
    + 'of which the last one counts. --resources with the key says that no change of it may be lost; then it is an error.';
}

// What a flag says, the longest first.
function flagTexts(finding) {
  const writes = writesOf(finding);
  if (writes) {
    const { lost, win } = writes;
    const [one, other] = [nameOf(lost.who), nameOf(win.who)];
    if (writes.isSame) return [`${one} and ${other} both wrote ${clipped(win.value || 'the same', 24)}`, 'both wrote the same', finding.caption];
    if (lost.value && win.value) {
      const [mine, others] = [clipped(win.value, 24), clipped(lost.value, 24)];
      return [`${other} wrote ${mine} over the ${others} of ${one}`, `${mine} by ${other} over ${others}`, `${mine} over ${others}`, finding.caption];
    }
    return [`${other} overwrote what ${one} wrote`, finding.caption];
  }
  if (finding.code === 'two-holders') {
    const names = holdersOf(finding);
    if (names) return [names, holdersOf(finding, false, (client) => lastWord(nameOf(client))), 'two act as holders'];
  }
  return finding.culprit === null ? [finding.caption] : [`${nameOf(finding.culprit)}: ${finding.caption}`, finding.caption];
}

// Who held a lock, and who only believed it, and why.
function twoHolders(finding) {
  const names = holdersOf(finding, true);
  if (!names) return shortened(finding.sentence);
  const why = shortened(finding.sentence).split(', because ')[1];
  return `From ${timesOf([microsOf(finding.spot)])[0]} on ${names} \`${finding.key}\`${why ? `, because ${why}` : ''}`;
}

// The locks of which several believe at once that they hold them.
const overlapsOf = new Map();
function overlapsIn(lock) {
  if (!overlapsOf.has(lock)) overlapsOf.set(lock, overlaps(grouped(stretches.filter((stretch) => stretch.lock === lock), ({ client }) => client)));
  return overlapsOf.get(lock);
}

// Who holds a lock, and who only believes it, when a second one comes.
function holdersOf(finding, isPast = false, named = nameOf) {
  const overlap = overlapsIn(finding.lock).find(({ from }) => from[ORDER] === finding.spot[ORDER]);
  if (!overlap) return '';
  const isLost = (client) => stretches.some((stretch) => stretch.lock === finding.lock && stretch.client === client && stretch.lost
    && stretch.lost[0][ORDER] <= overlap.from[ORDER] && (stretch.until?.[ORDER] ?? Infinity) > overlap.from[ORDER]);
  const [believers, holders] = [overlap.clients.filter(isLost), overlap.clients.filter((client) => !isLost(client))];
  const told = (list) => list.map(named).join(' and ');
  if (!believers.length || !holders.length) return `${told(overlap.clients)} ${overlap.clients.length > 2 ? 'all' : 'both'} ${isPast ? 'held' : 'hold'}`;
  if (isPast) return `${told(holders)} held, and ${told(believers)} still believed to hold,`;
  return `${told(holders)} ${holders.length > 1 ? 'hold' : 'holds'}, ${told(believers)} still ${believers.length > 1 ? 'believe' : 'believes'} it`;
}

// Findings that come from one command: by number, what they have in common.
const causeOf = findings.map((finding) => {
  const foreign = finding.evidence.find(({ moment }) => moment !== null && moments[moment].kind === 'foreign');
  const last = finding.evidence.filter(({ moment }) => moment !== null).at(-1);
  return (foreign ?? last)?.moment ?? -1;
});
const incidents = [];
for (const number of firsts) {
  const known = causeOf[number] >= 0 ? incidents.find(({ moment }) => moment === causeOf[number]) : undefined;
  if (known) known.numbers.push(number);
  else incidents.push({ moment: causeOf[number], numbers: [number] });
}

// What a common cause is: a command, what it did, and to whom.
function causeTold({ moment, numbers }) {
  const { line, client, at, real } = moments[moment];
  const [time] = timesOf([microsOf([moment, at, real])]);
  const victims = losersBy(moment);
  const verb = /^(DEL|UNLINK|GETDEL|EVAL|EVALSHA|FCALL|DELEX)\b/i.test(line) ? 'deleted' : /^FLUSH/i.test(line) ? 'flushed' : 'overwrote';
  if (!victims.length) return `${nameOf(client)} at ${time}: \`${clipped(line, 60)}\``;
  const lock = locks[victims[0].lock].name;
  return `${nameOf(client)} ${verb} \`${lock}\` at ${time}, while ${victims.map((stretch) => nameOf(stretch.client)).join(' and ')} held it`;
}

// A value over time: what each write made of it, and whether that is lost.
const lostMoments = new Set(findings.map(writesOf).filter(Boolean)
  .filter(({ isSame }) => !isSame).map(({ lost }) => lost.step.moment));

// Who is in a set or sorted set that clients enter after a look at it.
function membersOf(finding) {
  const members = new Map();
  const spans = [];
  moments.forEach((moment, at) => {
    if (moment.event || moment.server !== finding.server || (moment.db ?? 0) !== finding.db) return;
    const words = moment.line.split(' ');
    const count = Number(/^\(integer\) (\d+)$/.exec(moment.reply ?? '')?.[1] ?? 0);
    const name = words[0].toUpperCase();
    if (words[1] !== finding.key || !count || !/^(ZADD|SADD|ZREM|SREM|ZREMRANGEBYSCORE|ZREMRANGEBYRANK)$/.test(name)) return;
    if (name.endsWith('ADD')) members.set(words.at(-1), moment.client);
    else if (name === 'ZREM' || name === 'SREM') words.slice(2).forEach((word) => members.delete(word));
    else [...members.keys()].slice(0, count).forEach((word) => members.delete(word));
    const spot = [at, moment.at, moment.real];
    if (spans.length) spans.at(-1).until = spot;
    const names = [...new Set([...members.values()].map(nameOf))];
    spans.push({ from: spot, until: null, value: members.size ? `${members.size}: ${names.join(', ')}` : 'nobody', count: `${members.size}`, client: null, isLost: false });
  });
  return spans.length ? [{ part: 'who is in', spans }] : [];
}

function valuesOf(finding) {
  if (finding.code === 'checked-then-taken') return membersOf(finding);
  const place = dataOf(finding);
  if (place < 0) return [];
  const all = data.uses.filter((use) => use.data === place && use.act !== 'watched');
  const shown = new Set(finding.evidence.flatMap(({ moment }) => (moment === null ? [] : useOf(place, moment, isWrite))).map(({ part }) => part));
  return [...shown].slice(0, 3).map((part) => {
    const spans = [];
    for (const use of all.filter((one) => one.part === part || (one.act === 'deleted' && !one.part))) {
      const { at, real, client } = moments[use.moment];
      const spot = [use.moment, at, real];
      const last = spans.at(-1);
      if (!isWrite(use)) {
        const value = use.act === 'missed' ? 'nothing' : isHidden(use.value) ? undefined : use.value;
        if (!last && value !== undefined) spans.push({ from: null, until: null, value, client: null, isLost: false });
        else if (last && last.value === undefined) last.value = value;
        continue;
      }
      if (last) last.until = spot;
      const value = use.act === 'deleted' ? 'nothing' : isHidden(use.value) ? undefined : use.value;
      spans.push({ from: spot, until: null, value, client, isLost: lostMoments.has(use.moment), moment: use.moment });
    }
    return { part, spans };
  });
}
