// The page around the picture: findings, filters, details, and what the mouse, fingers and keys do.

const byId = (id) => document.getElementById(id);

// An element with texts and elements in it. Texts stay texts, whatever stands in them.
function make(name, attributes = {}, ...content) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (value !== undefined) element.setAttribute(key, value);
  }
  element.append(...content);
  return element;
}

const counted = (count, what) => `${count.toLocaleString('en')} ${what}${count === 1 ? '' : 's'}`;
const badge = (severity, text) => make('span', { class: `badge ${severity}` }, `${SYMBOLS[severity]} ${text}`);

let isWaiting = false;
function redraw() {
  if (isWaiting) return;
  isWaiting = true;
  requestAnimationFrame(() => {
    isWaiting = false;
    draw();
  });
}

// The picture's size. In a very wide window all of it is larger.
function measure() {
  zoomed = stage.clientWidth > 1500 ? Math.min(stage.clientWidth / 1150, 1.8) : 1;
  const width = stage.clientWidth / zoomed;
  size = { width, height: stage.clientHeight / zoomed, gutter: measureGutter(width) };
}

function resize() {
  const before = size.width;
  measure();
  const [width, tall] = [stage.clientWidth, stage.clientHeight];
  const scale = window.devicePixelRatio || 1;
  // Names are broken for the column that they stand in.
  if (size.width !== before) arrange();
  const points = [Math.round(width * scale), Math.round(tall * scale)];
  const isChanged = canvas.width !== points[0] || canvas.height !== points[1];
  if (isChanged) {
    [canvas.width, canvas.height] = points;
    canvas.style.width = `${width}px`;
    canvas.style.height = `${tall}px`;
  }
  const whole = Math.ceil((height + RULER + 6) * zoomed);
  byId('space').style.height = `${Math.max(whole - tall, 0)}px`;
  stage.style.height = `${whole + 2}px`;
  // A canvas of another size is empty until it is drawn.
  if (isChanged) draw();
  else redraw();
}

function refresh(isNewExtent) {
  measure();
  arrange();
  if (isNewExtent) fit();
  const hidden = isSetUp.filter((is, at) => is && !kept[at]).length;
  const shown = `${commandCount.toLocaleString('en')} of ${counted(data.commands, 'command')}, ${lanes.length} of ${counted(clients.length, 'client')} shown`;
  const toggle = (text) => [make('button', { type: 'button', class: 'link', onclick: () => { state.showsAll = !state.showsAll; refresh(true); drawLegend(); } }, text)];
  byId('shown').replaceChildren(shown, ...(hidden ? [`; ${hidden} that only set up connections: `, ...toggle('show')] : state.showsAll ? ['; ', ...toggle('hide what sets up connections')] : []));
  stage.setAttribute('aria-label', `Timeline: ${counted(lanes.length, 'client')}, ${counted(rows.filter((row) => row.type === 'head').length, 'lock')}, ${counted(findings.length, 'finding')}`);
  resize();
}

// Looking at another part.

function look(from, until) {
  const [least, most] = bounds;
  const all = most - least;
  const narrowest = state.axis === ORDER ? 2 : 20;
  let span = Math.min(Math.max(until - from, Math.min(narrowest, all)), all);
  let start = (from + until - span) / 2;
  start = Math.min(Math.max(start, least), most - span);
  if (!Number.isFinite(start) || !Number.isFinite(span)) [start, span] = [least, all];
  state.from = start;
  state.to = start + span;
  redraw();
}

const fit = () => look(...bounds);

function zoom(factor, x = size.gutter + plot() / 2) {
  const place = placeAt(x);
  const span = (state.to - state.from) * factor;
  const share = (place - state.from) / (state.to - state.from);
  look(place - span * share, place + span * (1 - share));
}

function pan(share) {
  const by = (state.to - state.from) * share;
  look(state.from + by, state.to + by);
}

// Makes a place visible, if it is not.
function show(place) {
  const span = state.to - state.from;
  if (place < state.from + span * 0.05 || place > state.to - span * 0.05) look(place - span / 2, place + span / 2);
}

function showRow(test) {
  const row = rows.find(test);
  if (!row) return;
  const top = stage.scrollTop / zoomed;
  if (row.y < top) stage.scrollTop = row.y * zoomed;
  else if (row.y + row.height > top + size.height - RULER) stage.scrollTop = (row.y + row.height - size.height + RULER + 4) * zoomed;
}

// Findings.

function listFindings() {
  const counts = { error: 0, warning: 0, note: 0 };
  let allowed = 0;
  for (const finding of findings) {
    if (finding.allowed === null) counts[finding.severity] += 1; else allowed += 1;
  }
  const badges = Object.entries(counts).filter(([, count]) => count).map(([severity, count]) => badge(severity, counted(count, severity)));
  if (allowed) badges.push(make('span', { class: 'badge none' }, `${allowed} allowed`));
  if (!badges.length) badges.push(make('span', { class: 'badge none' }, '\u2713 nothing found'));
  byId('counts').append(...badges);
  const facts = [counted(data.commands, 'command'), counted(clients.length, 'client'), counted(locks.length + data.locks_left_out, 'lock')];
  if (data.servers > 1) facts.push(counted(data.servers, 'server'));
  const left = [[data.moments_left_out, 'command'], [data.locks_left_out, 'lock'], [data.findings_left_out, 'finding']]
    .filter(([count]) => count).map(([count, what]) => counted(count, what));
  if (moments.length) facts.push(`from ${instant(base[CLOCK])} on`);
  if (left.length) facts.push(`not shown: ${left.join(', ')}`);
  byId('facts').textContent = facts.join(' \u00b7 ');
  if (!findings.length) byId('list').append(make('li', {}, make('p', {}, 'Nothing was found that is wrong with the locks.')));
  for (const incident of incidents) {
    const items = incident.numbers.map(listed);
    if (items.length < 2) {
      byId('list').append(...items);
      continue;
    }
    const heading = make('p', { class: `cause ${findings[incident.numbers[0]].severity}` }, make('b', {}, `${items.length} findings from one command: `), ...quoted(causeTold(incident)));
    byId('list').append(make('li', { class: 'incident' }, heading, make('ul', {}, ...items)));
  }
}

function listed(number) {
  const finding = findings[number];
  const same = sameAs(number);
  const times = same.reduce((sum, other) => sum + findings[other].times, 0);
  const often = times > 1 ? [make('span', { class: 'often' }, `${times.toLocaleString('en')} times`
    + (new Set(same.map((other) => findings[other].key)).size > 1 ? `, in ${finding.keys}` : '') + (same.length > 1 ? '; this is the first' : ''))] : [];
  const button = make('button', {
    type: 'button', class: 'finding', 'aria-pressed': 'false', 'aria-expanded': 'false', id: `finding-${number + 1}`,
    onclick: () => chooseFinding(findings[state.finding]?.first === number ? -1 : number),
  }, badge(finding.severity, `${finding.severity} ${number + 1}`), make('span', { class: 'code' }, finding.code),
  make('span', { class: 'sentence' }, ...quoted(headline(finding))), ...often);
  return make('li', {}, button, make('div', { class: 'more', hidden: '' }));
}

// Text in which what stands between backticks is code.
const quoted = (text) => text.split('`').map((part, at) => (at % 2 ? make('code', {}, part) : part));

// A line to copy.
function copied(text) {
  const button = make('button', {
    type: 'button', class: 'copy',
    onclick: () => {
      const done = () => { button.textContent = 'copied'; };
      const selected = () => window.getSelection().selectAllChildren(line);
      if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, selected); else selected();
    },
  }, 'copy');
  const line = make('code', {}, text);
  return make('span', { class: 'line' }, line, ' ', button);
}

// What a code means: paragraphs, examples, lists and tables of the page about findings.
function explained(markdown) {
  const parts = [];
  let isCode = false;
  for (const part of markdown.split('```')) {
    const text = isCode ? part.replace(/^\w*\n/, '') : part;
    if (isCode) parts.push(make('pre', { class: 'mono' }, text.trimEnd()));
    else for (const one of text.split('\n\n').filter((paragraph) => paragraph.trim())) parts.push(make('p', {}, ...inked(one.trim())));
    isCode = !isCode;
  }
  return parts;
}

// Links lead to pages that the reader may not have: their texts are shown alone.
function inked(text) {
  const plain = text.replace(/\[([^\]]*)\]\([^)]*\)/g, '$1');
  return plain.split('**').flatMap((part, at) => (at % 2 ? [make('b', {}, part)] : quoted(part)));
}

// What stands below a finding in the list while it is chosen, or is printed.
function tell(number) {
  const finding = findings[number];
  const times = timesOf(finding.evidence.map(({ spot }) => microsOf(spot)));
  const steps = finding.evidence.map((step, at) => {
    const line = step.moment !== null && step.line.startsWith('EVAL') ? compact(moments[step.moment])[0] : step.line;
    const content = [make('span', { class: `number ${finding.severity}`, 'aria-hidden': 'true' }, `${at + 1}`),
      make('span', {}, make('span', { class: 'time' }, times[at]), ' ', make('b', {}, step.who || 'the server'), data.servers > 1 && step.moment !== null ? ` on server ${moments[step.moment].server} ` : ' ', make('span', {}, ...quoted(step.what))),
      ...(step.line.startsWith('(') ? [] : [make('code', { class: 'what' }, line)])];
    return make('li', {}, make('button', { type: 'button', class: 'step', onclick: () => chooseStep(number, at) }, ...content));
  });
  const more = [make('ol', { 'aria-label': 'What proves it' }, ...steps)];
  const same = sameAs(number);
  if (same.length > 1) {
    const links = same.slice(0, 40).flatMap((other) => [make('button', {
      type: 'button', class: 'link', 'aria-pressed': String(other === number), onclick: () => chooseFinding(other),
    }, `${other + 1}`), ' ']);
    const rest = same.length > links.length / 2 ? [`and ${same.length - links.length / 2} more`] : [];
    more.push(make('p', {}, make('b', {}, 'The same, elsewhere: '), ...links, ...rest));
  }
  if (finding.mark !== null) more.push(make('p', {}, make('b', {}, 'Mark: '), finding.mark));
  if (finding.allowed !== null) more.push(make('p', { class: 'allowed' }, `Allowed: ${finding.allowed}`));
  more.unshift(make('p', { class: 'instead' }, make('b', {}, 'Instead: '), ...quoted(advice(finding))));
  if (levelReason(finding)) more.unshift(make('p', {}, levelReason(finding)));
  more.unshift(...reasons(finding).map((reason) => make('p', {}, ...quoted(reason))));
  if (number !== finding.first) more.unshift(make('p', {}, make('b', {}, `Finding ${number + 1}: `), ...quoted(headline(finding))));
  more.push(make('details', {}, make('summary', {}, `What ${finding.code} means, and when it is wrong`),
    ...explained(codes[finding.code] ?? ''), make('p', {}, 'In a terminal: ', copied(finding.more))));
  const asked = finding.ask === null ? [] : ['why: ', copied(finding.ask), ' '];
  more.push(make('p', { class: 'doubts' }, make('b', {}, finding.deny.startsWith('--audit') ? 'Is it meant? Add to redouble run: ' : 'Is it no lock? Add to redouble run: '), copied(finding.deny), ' ', ...asked));
  return more;
}

function chooseFinding(number, isQuiet = false) {
  state.finding = number;
  const first = number < 0 ? -1 : findings[number].first;
  document.querySelectorAll('.finding').forEach((button) => {
    const isChosen = button.id === `finding-${first + 1}`;
    button.setAttribute('aria-pressed', String(isChosen));
    button.setAttribute('aria-expanded', String(isChosen));
    const more = button.nextElementSibling;
    more.hidden = !isChosen;
    more.replaceChildren(...(isChosen ? tell(number) : []));
    if (isChosen && !isQuiet && stage.clientWidth >= NARROW) button.scrollIntoView({ block: 'nearest' });
  });
  if (!isQuiet) window.history.replaceState(null, '', number < 0 ? ' ' : `#finding-${number + 1}`);
  byId('headline').replaceChildren(...(number < 0 ? [] : [badge(findings[number].severity, `${findings[number].severity} ${number + 1}`), ' ', ...quoted(headline(findings[number]))]));
  arrange();
  resize();
  drawLegend();
  if (number >= 0) reveal(number);
}

// Filters that hide what proves a finding are taken off, and its moments are brought into the picture.
function reveal(number) {
  const finding = findings[number];
  if (finding.evidence.some((step) => step.moment !== null && !kept[step.moment])) clearFilters();
  const places = [finding.spot, ...finding.evidence.map((step) => step.spot)].map(position);
  const [least, most] = [Math.min(...places), Math.max(...places)];
  const span = state.to - state.from;
  // Enough around it to see what went before, and for labels.
  const enough = ((bounds[1] - bounds[0]) * Math.max(plot() / 60, 6)) / Math.max(keptCount, 1);
  const room = Math.max((most - least) * 0.25, (enough - (most - least)) / 2, state.axis === ORDER ? 1.5 : 20);
  const isSmall = most - least < span / 8 && span > enough * 1.5;
  if (least < state.from || most > state.to || isSmall) look(least - room, most + room);
  const isIts = (row) => (finding.lock === null ? row.text === `Data ${keyOf(finding)}` : row.lock === finding.lock);
  showRow((row) => row.type === 'head' && isIts(row));
}

function chooseStep(number, at) {
  if (state.finding !== number) chooseFinding(number);
  const step = findings[number].evidence[at];
  if (step.moment !== null) return chooseMoment(step.moment);
  show(position(step.spot));
  redraw();
}

// Moments and their details.

function chooseMoment(number, isTold = true) {
  state.moment = number;
  state.stretch = null;
  if (number >= 0) {
    if (!kept[number]) clearFilters();
    show(positionOf(number));
    const { client } = moments[number];
    showRow((row) => row.type === 'lane' && row.client === client);
  }
  if (isTold) tellDetails();
  redraw();
}

const row = (list, name, ...content) => list.append(make('dt', {}, name), make('dd', {}, ...content));

function tellDetails() {
  const panel = byId('details');
  panel.hidden = false;
  if (state.stretch) return panel.replaceChildren(aboutStretch(state.stretch));
  panel.hidden = state.moment < 0;
  if (panel.hidden) return panel.replaceChildren();
  const moment = moments[state.moment];
  const client = clients[moment.client];
  const list = make('dl');
  if (moment.event) {
    row(list, 'Event', moment.event === 'closed' ? 'The connection ended' : toldEvent(moment));
  } else {
    row(list, 'Command', make('code', {}, moment.line));
    row(list, 'Reply', make('code', {}, moment.reply || 'none'), OUTCOMES[moment.outcome] ?? '');
  }
  if (client) row(list, 'Client', `${title(client)} \u00b7 ${placeOf(client)}`);
  if (moment.lock !== undefined) row(list, 'Lock', `${lockName(locks[moment.lock])}: ${KINDS[moment.kind]}`);
  row(list, 'Place', `#${seqOf(moment)} in the order${moment.db ? `, database ${moment.db}` : ''}`);
  row(list, "Server's clock", `${instant(moment.at)} (+${duration(moment.at - base[CLOCK])})`);
  row(list, 'Real time', `${instant(moment.real)} (+${duration(moment.real - base[REAL])})`);
  if (!moment.event) row(list, 'Took', duration(moment.took ?? 0));
  if (moment.fault) row(list, 'Fault', moment.fault);
  if (moment.gates) row(list, 'Gates', moment.gates.join(', '));
  if (moment.inside) row(list, 'Ran inside', make('pre', { class: 'mono' }, moment.inside.join('\n')));
  const found = [...new Set((proofs[state.moment] ?? []).map(({ number }) => number))];
  if (found.length) {
    const links = found.slice(0, 20).flatMap((number) => [make('button', { type: 'button', class: 'link', onclick: () => chooseFinding(number) },
      `${SYMBOLS[findings[number].severity]} ${findings[number].title}`), ' ']);
    row(list, 'Findings', ...links);
  }
  panel.replaceChildren(list);
}

const OUTCOMES = {
  lost: ' \u2014 it ran, and the client never got this reply', 'never-ran': ' \u2014 it never ran',
  silent: ' \u2014 the client wanted no reply', queued: ' \u2014 it waited for EXEC',
  unknown: ' \u2014 the connection to the server broke first, so nobody knows whether it ran',
};

function aboutStretch(stretch) {
  const list = make('dl');
  const kinds = { held: 'holds', 'may-hold': 'may hold: the reply was lost', waiting: 'waits for' };
  row(list, 'Client', `${title(clients[stretch.client])} \u00b7 ${placeOf(clients[stretch.client])}`);
  row(list, 'Lock', `${kinds[stretch.kind]} ${lockName(locks[stretch.lock])}`);
  row(list, 'From', instant(stretch.from[1]));
  const ends = { released: 'released', expired: 'expired', closed: 'the connection ended', told: 'was told that it is lost', unknown: 'unknown: the journal does not say' };
  row(list, 'Until', stretch.until ? `${instant(stretch.until[1])} (${duration(stretch.until[1] - stretch.from[1])})${stretch.end ? `: ${ends[stretch.end]}` : ''}` : 'the end of the journal');
  if (stretch.lost) row(list, 'Lost', `${stretch.lost[1]}, ${instant(stretch.lost[0][1])}`);
  if (stretch.unnoticed) row(list, 'Went on', `until ${instant(stretch.unnoticed[1])}`);
  if (stretch.attempts) row(list, 'Attempts', `${stretch.attempts}`);
  return list;
}

// Filters.

function fillFilters() {
  const fill = (select, all, names) => {
    select.append(make('option', { value: '-1' }, all));
    names.slice(0, 2000).forEach((name, at) => select.append(make('option', { value: String(at) }, name)));
  };
  fill(byId('lock'), 'all', locks.map((lock) => `${lock.worst ? `${SYMBOLS[lock.worst]} ` : ''}${lockName(lock)}`));
  fill(byId('client'), 'all', clients.map((client) => `${title(client)} (${placeOf(client)})`));
  const filter = (id, event, apply) => byId(id).addEventListener(event, () => {
    apply(byId(id));
    refresh(true);
    stage.scrollTop = 0;
  });
  filter('lock', 'change', (input) => { state.lock = Number(input.value); });
  filter('client', 'change', (input) => { state.client = Number(input.value); });
  filter('search', 'input', (input) => { state.search = input.value.trim().toLowerCase(); });
  filter('only-locks', 'change', (input) => { state.onlyLocks = input.checked; });
  filter('only-found', 'change', (input) => { state.onlyFound = input.checked; });
}

function clearFilters() {
  Object.assign(state, { lock: -1, client: -1, search: '', onlyLocks: false, onlyFound: false });
  for (const id of ['lock', 'client']) byId(id).value = '-1';
  byId('search').value = '';
  for (const id of ['only-locks', 'only-found']) byId(id).checked = false;
  refresh(true);
}

function chooseAxis(axis) {
  state.axis = axis;
  if (axis !== ORDER) state.clock = axis;
  document.querySelectorAll('#axes input').forEach((input) => { input.checked = Number(input.value) === axis; });
  byId('even').disabled = axis === ORDER;
  refresh(true);
}

// The mouse, fingers, and keys.

function hitAt(x, y) {
  let best = null;
  let nearest = Infinity;
  for (const hit of hits) {
    if (hit.box) {
      const [left, top, right, bottom] = hit.box;
      const distance = hit.finding === undefined ? 60 : 0;
      if (x >= left && x <= right && y >= top && y <= bottom && distance < nearest) [best, nearest] = [hit, distance];
    } else {
      const distance = Math.hypot(hit.x - x, hit.y - y);
      if (distance <= hit.reach && distance < nearest) [best, nearest] = [hit, distance];
    }
  }
  return best;
}

function about(hit) {
  if (hit.finding !== undefined) {
    if (hit.numbers.length === 1) return [make('b', {}, findings[hit.finding].title), make('div', {}, headline(findings[hit.finding]))];
    return hit.numbers.slice(0, 12).map((number) => make('div', {}, `${SYMBOLS[findings[number].severity]} ${number + 1}: ${findings[number].title}`));
  }
  if (hit.stretch) {
    const { stretch } = hit;
    const words = { held: 'holds', 'may-hold': 'may hold', waiting: 'waits for' }[stretch.kind];
    const time = stretch.until ? ` for ${duration(stretch.until[1] - stretch.from[1])}` : ' to the end';
    return [`${title(clients[stretch.client])} ${words} ${locks[stretch.lock].name}${time}${stretch.lost ? `; ${shortened(stretch.lost[1])}` : ''}`];
  }
  const moment = moments[hit.moment];
  const who = moment.client === undefined ? '' : title(clients[moment.client]);
  if (moment.event) return [moment.event === 'closed' ? `${who}: the connection ended` : toldEvent(moment)];
  const came = moment.kind ? `: ${KINDS[moment.kind]}` : '';
  return [make('b', {}, `${who} #${seqOf(moment)}${came}`), make('code', {}, moment.line), make('code', {}, `\u2192 ${answer(moment)}`),
    `+${duration(moment.at - base[CLOCK])}, took ${duration(moment.took ?? 0)}${moment.fault ? `, fault ${moment.fault}` : ''}${moment.gates ? `, gates ${moment.gates.join(', ')}` : ''}`];
}

function point(event) {
  const [x, y] = spotOf(event);
  const hit = hitAt(x, y);
  stage.classList.toggle('pointing', Boolean(hit));
  const tip = byId('tip');
  tip.hidden = !hit;
  if (!hit) return;
  tip.replaceChildren(...about(hit));
  const outer = byId('picture').getBoundingClientRect();
  const [left, top] = [event.clientX - outer.left, event.clientY - outer.top];
  tip.style.left = `${Math.max(Math.min(left + 14, outer.width - tip.offsetWidth - 8), 4)}px`;
  tip.style.top = `${top + 18 + tip.offsetHeight > outer.height ? top - tip.offsetHeight - 10 : top + 18}px`;
}

function spotOf(event) {
  const box = canvas.getBoundingClientRect();
  return [(event.clientX - box.left) / zoomed, (event.clientY - box.top) / zoomed];
}

const fingers = new Map();
let hasMoved = false;

function press(event) {
  if (event.button !== 0 || event.target !== canvas) return;
  fingers.set(event.pointerId, spotOf(event));
  hasMoved = false;
  stage.setPointerCapture(event.pointerId);
}

function drag(event) {
  const last = fingers.get(event.pointerId);
  if (!last) return point(event);
  const now = spotOf(event);
  if (Math.hypot(now[0] - last[0], now[1] - last[1]) < 3 && !hasMoved) return;
  hasMoved = true;
  stage.classList.add('moving');
  byId('tip').hidden = true;
  if (fingers.size === 2) {
    const [other] = [...fingers].filter(([id]) => id !== event.pointerId).map(([, spot]) => spot);
    const [was, is] = [Math.abs(last[0] - other[0]), Math.abs(now[0] - other[0])];
    if (was > 10 && is > 10) zoom(was / is, (now[0] + other[0]) / 2);
  } else {
    pan((last[0] - now[0]) / plot());
    stage.scrollTop += (last[1] - now[1]) * zoomed;
  }
  fingers.set(event.pointerId, now);
}

function release(event) {
  if (!fingers.delete(event.pointerId)) return;
  stage.classList.remove('moving');
  if (hasMoved || event.type === 'pointercancel') return;
  const hit = hitAt(...spotOf(event));
  if (!hit) {
    state.moment = -1;
    state.stretch = null;
    tellDetails();
    return redraw();
  }
  if (hit.finding !== undefined) return chooseFinding(hit.finding);
  if (hit.stretch) {
    Object.assign(state, { stretch: hit.stretch, moment: -1 });
    tellDetails();
    return redraw();
  }
  chooseMoment(hit.moment);
}

function turn(event) {
  const [x] = spotOf(event);
  const unit = event.deltaMode === 1 ? 18 : event.deltaMode === 2 ? 400 : 1;
  const [dx, dy] = [event.deltaX * unit, event.deltaY * unit];
  // Over the names the wheel scrolls, as everywhere.
  if (x < size.gutter && !event.ctrlKey) return;
  event.preventDefault();
  if (event.shiftKey || Math.abs(dx) > Math.abs(dy)) return pan((Math.abs(dx) > Math.abs(dy) ? dx : dy) / plot());
  zoom(Math.exp(Math.min(Math.max(dy, -240), 240) * (event.ctrlKey ? 0.01 : 0.002)), x);
}

// The next moment in a lane, or the nearest one in the next lane.
function step(across, down) {
  if (!lanes.length) return;
  const current = moments[state.moment];
  let lane = lanes.findIndex((one) => current && one.client === current.client);
  if (lane < 0) return chooseMoment(lanes[0].moments[firstFrom(lanes[0].moments, state.from)] ?? lanes[0].moments[0]);
  if (across) {
    const list = lanes[lane].moments;
    return chooseMoment(list[Math.min(Math.max(list.indexOf(state.moment) + across, 0), list.length - 1)]);
  }
  lane = Math.min(Math.max(lane + down, 0), lanes.length - 1);
  const list = lanes[lane].moments;
  const place = positionOf(state.moment);
  const at = firstFrom(list, place);
  const nearer = [list[at - 1], list[at]].filter((one) => one !== undefined)
    .sort((one, other) => Math.abs(positionOf(one) - place) - Math.abs(positionOf(other) - place));
  chooseMoment(nearer[0]);
}

function key(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const chosen = firsts.indexOf(findings[state.finding]?.first ?? -1);
  const around = (by) => firsts.length && chooseFinding(firsts[(chosen + by + firsts.length + (chosen < 0 && by < 0 ? 1 : 0)) % firsts.length]);
  const keys = {
    '+': () => zoom(0.6), '=': () => zoom(0.6), '-': () => zoom(1 / 0.6), 0: fit, f: fit,
    ArrowLeft: () => (event.shiftKey ? pan(-0.2) : step(-1, 0)), ArrowRight: () => (event.shiftKey ? pan(0.2) : step(1, 0)),
    ArrowUp: () => (event.shiftKey ? stage.scrollBy(0, -60) : step(0, -1)), ArrowDown: () => (event.shiftKey ? stage.scrollBy(0, 60) : step(0, 1)),
    PageUp: () => stage.scrollBy(0, -stage.clientHeight * 0.8), PageDown: () => stage.scrollBy(0, stage.clientHeight * 0.8),
    Home: () => look(bounds[0], bounds[0] + state.to - state.from), End: () => look(bounds[1] - state.to + state.from, bounds[1]),
    n: () => around(1), p: () => around(-1), Escape: () => { chooseFinding(-1); chooseMoment(-1); },
  };
  if (!Object.hasOwn(keys, event.key)) return;
  event.preventDefault();
  keys[event.key]();
}

// Light and dark.

function wear(theme) {
  document.documentElement.dataset.theme = theme;
  document.documentElement.style.colorScheme = theme;
  byId('theme').textContent = theme === 'dark' ? 'Light' : 'Dark';
  readColours();
  drawLegend();
  redraw();
}

function drawLegend() {
  const mark = (kind) => (brush) => { pen = brush; shape(kind, 10, 8, 6); };
  const bar = (fill, edge, dash) => (brush) => {
    pen = brush;
    part(0, 30, 2, 12, fill, edge, dash, [], paint.ink);
  };
  const key = (end) => (brush) => {
    pen = brush;
    pen.fillStyle = paint.soft;
    pen.fillRect(0, 2, 27, 12);
    pen.strokeStyle = paint.faint;
    pen.strokeRect(0.5, 2.5, 26, 11);
    if (end) drawStayEnd(end, 27, 1, 14);
  };
  const shownStays = stays.length > 0;
  const of = (isMeant) => stretches.some(isMeant);
  const kinds = new Set(moments.flatMap((moment, at) => (kept[at] && !moment.event ? [kindOf(at)] : [])));
  const chosen = state.finding >= 0 ? findings[state.finding] : null;
  const hasValues = rows.some(({ type, spans }) => type === 'value' && spans.length);
  const dot = (text, size, isRound = true) => (brush) => {
    pen = brush;
    pen.fillStyle = paint[chosen?.severity ?? 'error'];
    if (isRound) { pen.beginPath(); pen.arc(10, 8, size, 0, 7); pen.fill(); }
    pen.textAlign = 'center'; pen.textBaseline = 'middle'; write(text, 10, 8.5, paint.paper, BOLD);
  };
  const flag = (severity, isFull) => (brush) => {
    pen = brush;
    pen.fillStyle = isFull ? paint[severity] : paint.paper;
    pen.strokeStyle = paint[severity];
    pen.setLineDash(severity === 'error' ? [] : severity === 'warning' ? [4, 2] : [1.5, 2]);
    pen.beginPath(); pen.roundRect(1, 2, 26, 12, 6); pen.fill(); pen.stroke();
  };
  const line = (draws) => (brush) => { pen = brush; draws(); };
  const severities = [...new Set(findings.map(({ severity }) => severity))];
  const wanted = [['What the server has', [
    [hasValues, 30, key(''), 'the value, and who wrote it, or who is in'], [hasValues && lostMoments.size > 0, 30, bar(hatches.lost, paint.lost, []), 'a value that is lost'],
    [shownStays, 30, key(''), "the lock's key, and who set it; beside it the lock is free"],
    [stays.some(({ end }) => end === 'expired'), 30, key('expired'), 'the key expires'],
    [stays.some(({ end }) => ['deleted', 'flushed', 'evicted'].includes(end)), 30, key('deleted'), 'a command deletes it'],
    [stays.some(({ end }) => end === 'lost'), 30, key('deleted'), 'the server forgets it, because it follows another one'],
  ]], ['Who was master', [
    ...[['master', 'master'], ['replica', 'replica that gets each write at once'], ['held', 'nothing reaches it: its link is held'],
      ['late', 'all reaches it late'], ['cut', 'cut off: nothing reaches it'], ['unaware', 'was replaced, goes on as master, and does not know']]
      .map(([name, text]) => [instances.some(({ spans }) => spans.some((span) => span.part === name)), 30, bar(...lookOf(name).slice(0, 3)), text]),
    [instances.some(({ losses }) => losses.length), 20, line(() => { for (const way of [-1, 1]) stroke([[5, 8 - 5 * way], [15, 8 + 5 * way]], paint.error, 2.5); }), 'a write that it never got, and lost for all when it was promoted'],
  ]], ['What each client believes', [
    [of(({ kind }) => kind === 'held'), 30, bar(paint.held, paint.held, []), 'holds the lock'],
    [of(({ lost, kind }) => lost && kind !== 'waiting'), 30, bar(hatches.lost, paint.lost, []), 'believes that it holds it, and does not'],
    [of(({ unnoticed }) => unnoticed), 30, bar(null, paint.late, [4, 4]), 'its lock has expired, and it goes on'],
    [of(({ kind }) => kind === 'may-hold'), 30, bar(hatches['may-hold'], paint.may, [6, 3]), 'may hold it: the reply was lost'],
    [of(({ kind }) => kind === 'waiting'), 30, bar(hatches.waiting, paint.wait, [2, 3]), 'waits'],
    [rows.some(({ overlaps }) => overlaps?.length), 30, bar(null, paint.error, []), 'frame: several act as holders at once'],
    [of(({ end }) => end === 'expired'), 20, line(() => { stroke([[6, 4], [14, 12]], paint.late, 2); stroke([[6, 12], [14, 4]], paint.late, 2); }), 'the time is over'],
    [of(({ end }) => end === 'closed'), 20, line(() => { pen.fillStyle = paint.late; pen.fillRect(7, 4, 7, 8); }), 'its connection ended with the lock'],
  ]], ['Commands', [
    ...[['took', 'takes'], ['refused', 'is refused'], ['released', 'releases'], ['foreign', "deletes or overwrites another's lock"],
      ['missed', 'finds no lock of its own'], ['extended', 'extends'], ['set', 'writes'], ['read', 'reads'], ['watched', 'WATCH'], ['other', 'other']]
      .map(([kind, text]) => [kinds.has(kind), 20, mark(kind), text]),
    [moments.some(({ event }) => event === 'closed'), 20, line(() => stroke([[10, 1], [10, 15]], paint.ink, 3)), 'connection ends'],
    [moments.some(({ fault }) => fault), 20, line(() => bolt(10, 8, paint.late)), 'fault'],
    [moments.some(({ gates }) => gates), 20, line(() => { stroke([[8, 2], [8, 14]], paint.may, 2); stroke([[12, 2], [12, 14]], paint.may, 2); }), 'gate'],
    [moments.some(({ outcome }) => outcome === 'lost'), 20, line(() => { pen.strokeStyle = paint.late; pen.setLineDash([3, 2]); pen.beginPath(); pen.arc(10, 8, 6.5, 0, 7); pen.stroke(); }), 'its reply was lost'],
  ]], ['Findings', [
    ...severities.map((severity) => [true, 30, flag(severity, false), severity]),
    [chosen, 30, flag(chosen?.severity ?? 'error', true), 'the chosen one'],
    [chosen, 20, dot('1', 7), 'its steps, on yellow lines, joined by arrows; what is no step is pale'],
    [even && even.cuts.includes(1), 20, line(() => { for (const x of [8, 12]) stroke([[x - 2, 14], [x + 2, 2]], paint.late, 1.5); }), 'time left out, and how much'],
  ]]];
  const groups = wanted.map(([name, items]) => [name, items.filter(([isThere]) => isThere).map(([, ...item]) => item)]).filter(([, items]) => items.length);
  const [inner, outer] = [pen, size];
  byId('legend').replaceChildren(...groups.map(([name, items]) => make('div', {}, make('b', {}, name), ...items.map(([width, paintOn, words]) => {
    const picture = make('canvas', { width: String(width * 2), height: '32', 'aria-hidden': 'true' });
    picture.style.width = `${width}px`;
    picture.style.height = '16px';
    const brush = picture.getContext('2d');
    brush.scale(2, 2);
    size = { width, height: 16, gutter: 0 };
    paintOn(brush);
    return make('span', {}, picture, words);
  }))));
  [pen, size] = [inner, outer];
  labels = [];
}

function begin() {
  // A clock that stands tells nothing; those of several servers differ.
  const isStill = new Set(moments.map((moment) => moment.at)).size * 2 <= moments.length;
  state.clock = isStill || data.servers > 1 ? REAL : CLOCK;
  listFindings();
  fillFilters();
  // Where there is little room, the picture has it.
  byId('key').open = window.innerHeight >= 720;
  const isDark = window.matchMedia('(prefers-color-scheme: dark)');
  wear(isDark.matches ? 'dark' : 'light');
  isDark.addEventListener('change', () => wear(isDark.matches ? 'dark' : 'light'));
  byId('theme').addEventListener('click', () => wear(document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'));
  byId('in').addEventListener('click', () => zoom(0.6));
  byId('out').addEventListener('click', () => zoom(1 / 0.6));
  byId('fit').addEventListener('click', fit);
  byId('even').addEventListener('change', () => {
    state.isEven = !byId('even').checked;
    refresh(true);
    if (state.finding >= 0) reveal(state.finding);
  });
  document.querySelectorAll('#axes input').forEach((input) => input.addEventListener('change', () => chooseAxis(Number(input.value))));
  stage.addEventListener('scroll', redraw);
  stage.addEventListener('pointerdown', press);
  stage.addEventListener('pointermove', drag);
  stage.addEventListener('pointerup', release);
  stage.addEventListener('pointercancel', release);
  stage.addEventListener('pointerleave', () => { byId('tip').hidden = true; });
  stage.addEventListener('wheel', turn, { passive: false });
  stage.addEventListener('keydown', key);
  // In the next frame: what is measured must not change while it is.
  new ResizeObserver(() => requestAnimationFrame(resize)).observe(stage);
  let worn = '';
  window.addEventListener('beforeprint', () => {
    worn = document.documentElement.dataset.theme;
    wear('light');
    draw();
    document.querySelectorAll('.more').forEach((more) => {
      more.hidden = false;
      more.replaceChildren(...tell(Number(more.previousElementSibling.id.replace('finding-', '')) - 1));
    });
  });
  window.addEventListener('afterprint', () => { wear(worn); chooseFinding(state.finding, true); });
  refresh(true);
  byId('even').checked = false;
  chooseAxis(state.clock);
  tellDetails();
  const asked = /^#finding-(\d+)$/.exec(window.location.hash);
  // What did most harm is open from the beginning.
  const first = asked ? Number(asked[1]) - 1 : 0;
  if (findings[first]) chooseFinding(first, !asked);
  // The picture has the room, where there is not enough for both.
  if (stage.clientHeight < 0.8 * stage.scrollHeight) byId('key').open = false;
  drawLegend();
  draw();
}

begin();
// For whoever wants to ask the picture something, such as this project's tests.
window.report = { data, state, drawn, kept, draw, zoom, fit, chooseFinding, chooseMoment, chooseAxis, hits: () => hits, labels: () => labels, size: () => size, scale: () => zoomed, place: (spot) => across(position(spot)), caption: (number) => flagTexts(findings[number])[0], title: (number) => title(clients[number]), headline: (number) => headline(findings[number]), incidents: () => incidents, cut: () => (even ? [...even.cuts] : []), lanes: () => lanes, rows: () => rows };
