// The picture on the canvas. Only what can be seen is drawn.

const canvas = document.getElementById('canvas');
let pen = canvas.getContext('2d');
const stage = document.getElementById('stage');
const RULER = 26;
const SMALL = '11.5px ui-monospace, "SF Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace';
const TEXT = '12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif';
const BOLD = `600 ${TEXT}`;
const drawn = { draws: 0, marks: 0, labels: 0, bars: 0, captions: 0, slowest: 0, total: 0 };
let paint = {};
let hatches = {};
let size = { width: 0, height: 0, gutter: 0 };
let hits = [];
let letter = 7;

function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ['paper', 'ground', 'ink', 'faint', 'line', 'soft', 'held', 'held-ink', 'wait', 'lost', 'late', 'may',
    'error', 'warning', 'note', 'mark', 'glow']) paint[name] = style.getPropertyValue(`--${name}`).trim();
  hatches = {
    waiting: hatch(paint.wait, 6, 'dots'), 'may-hold': hatch(paint.may, 7, 'up'), lost: hatch(paint.lost, 6, 'cross'),
    both: hatch(paint.error, 9, 'down'),
  };
}

function hatch(colour, step, way) {
  const tile = document.createElement('canvas');
  tile.width = step * 2;
  tile.height = step * 2;
  const brush = tile.getContext('2d');
  brush.scale(2, 2);
  brush.strokeStyle = colour;
  brush.fillStyle = colour;
  brush.lineWidth = 1.2;
  brush.beginPath();
  if (way === 'dots') {
    brush.fillRect(step / 2 - 0.8, step / 2 - 0.8, 1.6, 1.6);
  } else {
    for (const shift of [-step, 0, step]) {
      if (way !== 'down') { brush.moveTo(shift, step); brush.lineTo(shift + step, 0); }
      if (way !== 'up') { brush.moveTo(shift, 0); brush.lineTo(shift + step, step); }
    }
    brush.stroke();
  }
  const pattern = pen.createPattern(tile, 'repeat');
  pattern.setTransform(new DOMMatrix().scale(0.5));
  return pattern;
}

const plot = () => size.width - size.gutter - 14;
const across = (place) => size.gutter + ((place - state.from) / (state.to - state.from)) * plot();
const placeAt = (x) => state.from + ((x - size.gutter) / plot()) * (state.to - state.from);

function cut(text, room) {
  const most = Math.floor(room / letter);
  if (text.length <= most) return text;
  return most < 4 ? '' : `${text.slice(0, most - 1)}\u2026`;
}

function cutWords(text, room) {
  if (pen.measureText(text).width <= room) return text;
  let most = text.length;
  while (most > 3 && pen.measureText(`${text.slice(0, most)}\u2026`).width > room) most -= 1;
  return most > 3 ? `${text.slice(0, most)}\u2026` : '';
}

function write(text, x, y, colour = paint.ink, font = TEXT) {
  pen.font = font;
  pen.fillStyle = colour;
  pen.fillText(text, x, y);
  drawn.labels += 1;
}

function stroke(points, colour, width = 1, dash = []) {
  pen.strokeStyle = colour;
  pen.lineWidth = width;
  pen.setLineDash(dash);
  pen.beginPath();
  points.forEach(([x, y], at) => (at ? pen.lineTo(x, y) : pen.moveTo(x, y)));
  pen.stroke();
  pen.setLineDash([]);
}

function draw() {
  const begun = performance.now();
  Object.assign(drawn, { draws: drawn.draws + 1, marks: 0, labels: 0, bars: 0, captions: 0 });
  const scale = window.devicePixelRatio || 1;
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  pen.textBaseline = 'middle';
  pen.fillStyle = paint.paper;
  pen.fillRect(0, 0, size.width, size.height);
  pen.font = SMALL;
  letter = pen.measureText('mmmmmmmmmm').width / 10;
  hits = [];
  const top = stage.scrollTop;
  const shown = rows.filter((row) => row.y + row.height >= top && row.y + RULER - top < size.height);
  const heads = rows.filter((row) => row.type === 'head' && row.until >= top && row.y + RULER - top < size.height);
  const yOf = (row) => row.y + RULER - top;
  pen.save();
  pen.beginPath();
  pen.rect(size.gutter, RULER, size.width - size.gutter, size.height);
  pen.clip();
  for (const row of shown) drawGround(row, yOf(row));
  drawEvidenceGlow();
  for (const head of heads) drawOverlaps(head, yOf(head));
  drawWide();
  for (const row of shown) {
    const y = yOf(row);
    if (row.type === 'stay') drawStays(row, y);
    else if (row.type === 'band') drawBands(row, y);
    else if (row.type === 'lane') drawLane(row, y);
  }
  drawSteps(yOf);
  for (const row of shown) if (row.type === 'captions') drawCaptions(row, yOf(row));
  pen.restore();
  stroke([[size.gutter + 0.5, 0], [size.gutter + 0.5, size.height]], paint.line);
  for (const row of shown) drawName(row, yOf(row));
  drawRuler();
  const took = performance.now() - begun;
  drawn.slowest = Math.max(drawn.slowest, took);
  drawn.total += took;
}

function drawGround(row, y) {
  if (row.type === 'head' || row.type === 'title') {
    pen.fillStyle = paint.soft;
    pen.fillRect(0, y, size.width, row.height);
  } else if (row.type === 'lane') {
    stroke([[0, y + row.height - 0.5], [size.width, y + row.height - 0.5]], paint.soft);
    const [first, last] = [row.moments[0], row.moments.at(-1)];
    const end = moments[last].event === 'closed' ? across(positionOf(last)) : size.width;
    stroke([[across(positionOf(first)), y + 15.5], [end, y + 15.5]], paint.line);
  }
}

function drawName(row, y) {
  if (row.type === 'gap' || row.type === 'captions') return;
  const room = size.gutter - 14;
  const middle = y + row.height / 2;
  if (row.type === 'head' || row.type === 'title') {
    pen.fillStyle = paint.soft;
    pen.fillRect(0, y, size.gutter, row.height);
    pen.font = BOLD;
    const text = row.type === 'title' ? row.text : `Lock ${lockName(locks[row.lock])}`;
    write(cutWords(text, size.width - 28), 8, middle, paint.ink, BOLD);
    return;
  }
  if (row.type === 'stay') {
    pen.font = TEXT;
    return write(cutWords('on the server', room), 16, middle, paint.faint);
  }
  const client = clients[row.client];
  if (row.type === 'band') {
    pen.font = BOLD;
    return write(cutWords(title(client), room - 8), 16, middle, paint.ink, BOLD);
  }
  pen.font = BOLD;
  write(cutWords(title(client), room), 8, y + 16, paint.ink, BOLD);
  pen.font = TEXT;
  write(cutWords(placeOf(client), room), 8, y + 33, paint.faint);
}

// What concerns everybody: clocks that are moved, servers that start, nodes that are promoted. Where there are many, they are
// ticks in the ruler.
function drawWide() {
  const [begin, end] = [firstFrom(wide, state.from), firstFrom(wide, state.to)];
  if ((end - begin) * 24 > plot()) return;
  for (let at = begin; at < wide.length; at += 1) {
    const x = Math.round(across(positionOf(wide[at]))) + 0.5;
    if (x > size.width) break;
    const isStart = ['started', 'promoted'].includes(moments[wide[at]].event);
    stroke([[x, RULER], [x, size.height]], paint.late, isStart ? 3 : 1.5, isStart ? [12, 3] : [5, 4]);
    hits.push({ x, y: RULER + 8, reach: 8, moment: wide[at] });
  }
}

function drawStays(row, y) {
  const middle = y + row.height / 2;
  let last = -Infinity;
  row.stays.forEach((stay) => {
    const from = across(position(stay.from));
    const until = stay.until ? across(position(stay.until)) : size.width + 5;
    if (until < size.gutter || from > size.width || until - last < 1) return;
    last = until;
    pen.fillStyle = paint.soft;
    pen.fillRect(from, y + 2, until - from, row.height - 4);
    pen.strokeStyle = paint.faint;
    pen.lineWidth = 1;
    pen.strokeRect(Math.round(from) + 0.5, y + 2.5, Math.round(until - from), row.height - 5);
    drawn.bars += 1;
    const start = Math.max(from, size.gutter) + 6;
    const owner = stay.client === null ? 'set' : `has ${title(clients[stay.client])}'s`;
    pen.font = TEXT;
    const text = cutWords(owner, Math.min(until, size.width) - start - 4);
    if (text) write(text, start, middle, paint.faint);
  });
}

function part(x, until, y, tall, fill, edge, dash, words, ink) {
  const [left, right] = [Math.max(x, size.gutter - 4), Math.min(until, size.width + 4)];
  if (right < left) return;
  const width = Math.max(right - left, 1.5);
  if (fill) {
    pen.fillStyle = fill;
    pen.fillRect(left, y, width, tall);
  }
  pen.strokeStyle = edge;
  pen.lineWidth = 1.5;
  pen.setLineDash(dash);
  pen.strokeRect(left + 0.75, y + 0.75, Math.max(width - 1.5, 0), tall - 1.5);
  pen.setLineDash([]);
  drawn.bars += 1;
  pen.font = BOLD;
  const start = Math.max(left, size.gutter) + 6;
  const text = cutWords(words, right - start - 4);
  if (!text) return;
  if (fill && ink === paint.ink) {
    pen.fillStyle = paint.paper;
    pen.fillRect(start - 3, y + 3, pen.measureText(text).width + 6, tall - 6);
  }
  write(text, start, y + tall / 2 + 0.5, ink, BOLD);
}

function drawBands(row, y) {
  const [top, tall] = [y + 2, row.height - 5];
  let last = -Infinity;
  row.stretches.forEach((stretch, number) => {
    const from = across(position(stretch.from));
    const until = stretch.until ? across(position(stretch.until)) : size.width + 8;
    const gone = stretch.unnoticed ? across(position(stretch.unnoticed)) : until;
    // What would all fall on one line of points is drawn once.
    if (gone < size.gutter || from > size.width || gone - last < 1) return;
    last = Math.max(last, gone);
    pen.globalAlpha = state.finding >= 0 && findings[state.finding].lock !== stretch.lock ? 0.45 : 1;
    if (stretch.kind === 'waiting') {
      const times = stretch.attempts > 1 ? `waits, refused ${stretch.attempts} times` : 'waits';
      part(from, until, top + 4, tall - 8, hatches.waiting, paint.wait, [2, 3], times, paint.ink);
    } else {
      const turn = stretch.lost ? Math.min(Math.max(across(position(stretch.lost[0])), from), until) : until;
      if (stretch.kind === 'may-hold') {
        part(from, turn, top, tall, hatches['may-hold'], paint.may, [6, 3], 'may hold: the reply was lost', paint.ink);
      } else {
        part(from, turn, top, tall, paint.held, paint.held, [], 'holds', paint['held-ink']);
      }
      if (turn < until) {
        part(turn, until, top, tall, hatches.lost, paint.lost, [], `thinks it holds: ${stretch.lost[1]}`, paint.ink);
      }
    }
    if (gone > until) part(until, gone, top, tall, null, paint.late, [4, 4], 'expired, goes on', paint.late);
    drawEnd(stretch, gone > until ? gone : until, row.stretches[number + 1], top, tall);
    hits.push({ box: [from, top, gone, top + tall], stretch });
    pen.globalAlpha = 1;
  });
}

function drawEnd(stretch, x, next, y, tall) {
  if (stretch.kind === 'waiting' || x > size.width) return;
  const word = { released: 'released', expired: 'expired', closed: 'connection ended', told: 'knows that it is lost', unknown: 'unknown from here' }[stretch.end];
  if (!word) return;
  const room = (next ? across(position(next.from)) : size.width) - x - 12;
  const colour = stretch.end === 'released' ? paint.faint : paint.late;
  if (stretch.end === 'expired') {
    stroke([[x - 4, y + tall / 2 - 4], [x + 4, y + tall / 2 + 4]], colour, 2);
    stroke([[x - 4, y + tall / 2 + 4], [x + 4, y + tall / 2 - 4]], colour, 2);
  } else if (stretch.end === 'closed') {
    pen.fillStyle = colour;
    pen.fillRect(x - 3, y + tall / 2 - 4, 7, 8);
  }
  pen.font = TEXT;
  const text = cutWords(stretch.unnoticed ? '' : word, room);
  if (text.length > 5) write(text, x + 8, y + tall / 2 + 0.5, colour);
}

// Where several hold at once.
function drawOverlaps(head, y) {
  let last = -Infinity;
  for (const overlap of head.overlaps) {
    const from = across(position(overlap.from));
    const until = overlap.until ? across(position(overlap.until)) : size.width + 5;
    if (until < size.gutter || from > size.width || until - last < 1) continue;
    last = until;
    const [top, tall] = [y + HEAD, head.until - head.y - HEAD];
    if (top + tall < RULER) continue;
    pen.globalAlpha = 0.3;
    pen.fillStyle = hatches.both;
    pen.fillRect(from, top, Math.max(until - from, 2), tall);
    pen.globalAlpha = 1;
    pen.strokeStyle = paint.error;
    pen.lineWidth = until - from > 8 ? 2 : 0.6;
    pen.strokeRect(from, top, Math.max(until - from, 1), tall);
  }
}

// The shape of a command: what it came to can be told without its colour.
function shape(kind, x, y, r) {
  pen.lineWidth = 1.8;
  pen.strokeStyle = kind === 'foreign' || kind === 'refused' ? paint.error : paint.mark;
  pen.fillStyle = pen.strokeStyle;
  pen.beginPath();
  if (kind === 'took' || kind === 'extended') {
    pen.moveTo(x, y - r); pen.lineTo(x + r, y + r * 0.8); pen.lineTo(x - r, y + r * 0.8); pen.closePath();
  } else if (kind === 'released' || kind === 'missed' || kind === 'foreign') {
    pen.moveTo(x, y + r); pen.lineTo(x + r, y - r * 0.8); pen.lineTo(x - r, y - r * 0.8); pen.closePath();
  } else if (kind === 'set') {
    pen.moveTo(x, y - r); pen.lineTo(x + r, y); pen.lineTo(x, y + r); pen.lineTo(x - r, y); pen.closePath();
  } else if (kind === 'refused') {
    const d = r * 0.75;
    pen.moveTo(x - d, y - d); pen.lineTo(x + d, y + d); pen.moveTo(x + d, y - d); pen.lineTo(x - d, y + d);
    pen.lineWidth = 2.4;
    return pen.stroke();
  } else if (kind === 'read') {
    pen.arc(x, y, r * 0.7, 0, 7);
  } else {
    pen.rect(x - 2.5, y - 2.5, 5, 5);
    return pen.fill();
  }
  if (kind === 'extended' || kind === 'missed' || kind === 'read') {
    pen.fillStyle = paint.paper;
    pen.fill();
    return pen.stroke();
  }
  pen.fill();
  if (kind === 'foreign') {
    pen.strokeStyle = paint.paper;
    pen.lineWidth = 3.4;
    pen.beginPath(); pen.moveTo(x - r - 1, y + r - 1); pen.lineTo(x + r + 1, y - r - 1); pen.stroke();
    pen.strokeStyle = paint.error;
    pen.lineWidth = 1.8;
    pen.stroke();
  }
}

function bolt(x, y, colour) {
  pen.fillStyle = colour;
  pen.beginPath();
  for (const [dx, dy] of [[1.5, -6], [-4, 1], [-0.5, 1], [-1.5, 6], [4, -1], [0.5, -1]]) pen.lineTo(x + dx, y + dy);
  pen.fill();
}

function drawLane(row, y) {
  const list = row.moments;
  const begin = Math.max(firstFrom(list, placeAt(size.gutter - 260)), 0);
  const visible = [];
  const taken = new Map();
  for (let at = begin; at < list.length; at += 1) {
    const number = list[at];
    const x = across(positionOf(number));
    if (x > size.width + 10) break;
    const moment = moments[number];
    const isWeighty = proofs[number] || number === state.moment || moment.fault || moment.event;
    const pixel = Math.round(x);
    const kind = moment.kind ?? 'other';
    // Marks of one kind that would fall on one another are one mark.
    if (!isWeighty && taken.get(kind) === pixel) continue;
    taken.set(kind, pixel);
    visible.push([number, x]);
  }
  const step = state.finding >= 0 ? new Map(findings[state.finding].evidence.map((one, at) => [one.moment, { at, what: one.what }]))
    : new Map();
  const middle = y + 15;
  visible.forEach(([number, x], at) => {
    const moment = moments[number];
    const proof = step.get(number);
    pen.globalAlpha = state.finding >= 0 && !proof && number !== state.moment ? 0.55 : 1;
    hits.push({ x, y: middle, reach: 9, moment: number });
    drawn.marks += 1;
    if (moment.event) {
      stroke([[x, middle - 8], [x, middle + 8]], paint.ink, 3);
    } else {
      if (state.axis === REAL && moment.took) {
        const begun = across(positionOf(number) - moment.took);
        if (x - begun > 1) stroke([[begun, middle], [x, middle]], paint.wait, 3);
      }
      shape(moment.kind ?? 'other', x, middle, 6.5);
      if (['lost', 'never-ran', 'unknown'].includes(moment.outcome)) {
        pen.strokeStyle = paint.late;
        pen.lineWidth = 1.5;
        pen.setLineDash(moment.outcome === 'lost' ? [3, 2] : [1, 3]);
        pen.beginPath(); pen.arc(x, middle, 10, 0, 7); pen.stroke();
        pen.setLineDash([]);
      }
      if (moment.fault) bolt(x - 11, middle - 5, paint.late);
      if (moment.gates) {
        stroke([[x - 10, middle - 7], [x - 10, middle + 7]], paint.may, 2);
        stroke([[x - 13.5, middle - 7], [x - 13.5, middle + 7]], paint.may, 2);
      }
    }
    if (number === state.moment) {
      pen.strokeStyle = paint.note;
      pen.lineWidth = 2;
      pen.strokeRect(x - 11, middle - 11, 22, 22);
    }
    drawWords(moment, proof, x, visible[at + 1]?.[1] ?? size.width + 60, y);
    pen.globalAlpha = 1;
  });
}

function drawWords(moment, proof, x, next, y) {
  const left = Math.max(x - 6, size.gutter + 3);
  const room = Math.min(next - 12, size.width + 40) - left;
  if (room < 5 * letter || x < size.gutter - 260) return;
  if (moment.event) {
    const text = cut('connection ended', room);
    if (text) write(text, left, y + 31, paint.faint, SMALL);
    return;
  }
  const text = cut(moment.line, room);
  if (!text) return;
  write(text, left, y + 31, paint.ink, SMALL);
  let [second, colour] = [`\u2192 ${answer(moment)}`, paint.faint];
  if (proof) [second, colour] = [proof.what, paint.ink];
  const marks = [moment.fault ? `fault ${moment.fault}` : '', moment.gates ? `gate ${moment.gates.join(', ')}` : ''];
  second += marks.filter(Boolean).map((mark) => ` [${mark}]`).join('');
  write(cut(second, room), left, y + 43, colour, SMALL);
}

function answer(moment) {
  if (moment.outcome === 'lost') return 'reply lost';
  if (moment.outcome === 'never-ran') return 'never ran';
  if (moment.outcome === 'unknown') return 'may have run';
  if (moment.outcome === 'silent') return 'no reply wanted';
  return (moment.reply ?? '').replace(/^\(integer\) /, '').replace(/^\(nil\)$/, 'nil') || 'no reply';
}

// A finding's moments: a stripe behind each, and a line from one to the next with their numbers.
function drawEvidenceGlow() {
  if (state.finding < 0) return;
  for (const step of findings[state.finding].evidence) {
    const x = across(position(step.spot));
    if (x < size.gutter - 20 || x > size.width + 20) continue;
    pen.fillStyle = paint.glow;
    pen.fillRect(x - 8, RULER, 16, size.height);
  }
}

function drawSteps(yOf) {
  if (state.finding < 0) return;
  const finding = findings[state.finding];
  const laneOf = new Map(rows.filter((row) => row.type === 'lane').map((row) => [row.client, row]));
  const bandOf = rows.find((row) => row.type === 'stay' && row.lock === finding.lock);
  const points = [];
  finding.evidence.forEach((step, at) => {
    const client = step.moment === null ? undefined : moments[step.moment].client;
    const lane = laneOf.get(client);
    const row = lane ?? (step.moment === null ? bandOf : undefined);
    if (!row) return;
    points.push({ x: across(position(step.spot)), y: yOf(row) + (lane ? 15 : row.height / 2), at });
  });
  const colour = paint[finding.severity];
  for (let at = 1; at < points.length; at += 1) {
    const [one, other] = [points[at - 1], points[at]];
    const [dx, dy] = [other.x - one.x, other.y - one.y];
    const length = Math.hypot(dx, dy);
    if (length < 30) continue;
    const [ux, uy] = [dx / length, dy / length];
    const [sx, sy, ex, ey] = [one.x + ux * 11, one.y + uy * 11, other.x - ux * 13, other.y - uy * 13];
    stroke([[sx, sy], [ex, ey]], colour, 2, [7, 3]);
    pen.fillStyle = colour;
    pen.beginPath();
    pen.moveTo(ex + ux * 4, ey + uy * 4);
    pen.lineTo(ex - ux * 6 - uy * 5, ey - uy * 6 + ux * 5);
    pen.lineTo(ex - ux * 6 + uy * 5, ey - uy * 6 - ux * 5);
    pen.fill();
  }
  for (const point of points) {
    pen.strokeStyle = colour;
    pen.lineWidth = 2;
    pen.beginPath(); pen.arc(point.x, point.y, 11, 0, 7); pen.stroke();
    pen.fillStyle = colour;
    pen.beginPath(); pen.arc(point.x + 13, point.y - 8, 7.5, 0, 7); pen.fill();
    pen.textAlign = 'center';
    write(`${point.at + 1}`, point.x + 13, point.y - 7.5, paint.paper, `700 10.5px ${TEXT.split('px ')[1]}`);
    pen.textAlign = 'start';
  }
}

// In a few words what was found; who it is about, where several hold at once.
function captionOf(finding) {
  const head = rows.find((row) => row.type === 'head' && row.lock === finding.lock);
  const overlap = finding.code === 'two-holders' && head
    && head.overlaps.find(({ from }) => from[ORDER] === finding.spot[ORDER]);
  if (!overlap) return finding.caption;
  const names = overlap.clients.map((client) => title(clients[client]));
  return `${names.join(' and ')} ${finding.caption}`;
}

function drawCaptions(row, y) {
  const lines = Math.round((row.height - 2) / CAPTION);
  const taken = Array.from({ length: lines }, () => []);
  const weight = ({ number }) => (number === state.finding ? 9 : 0) + (findings[number].code === 'two-holders' ? 4 : 0)
    + ['note', 'warning', 'error'].indexOf(findings[number].severity);
  const sorted = row.found.map((number) => ({ number, x: across(position(findings[number].spot)) }))
    .filter(({ x }) => x > size.gutter - 300 && x < size.width + 20)
    .sort((one, other) => weight(other) - weight(one) || one.x - other.x);
  pen.font = BOLD;
  for (const { number, x } of sorted) {
    const finding = findings[number];
    const text = `${SYMBOLS[finding.severity]} ${captionOf(finding)}${finding.times > 1 ? ` \u00d7${finding.times}` : ''}`;
    pen.font = BOLD;
    const width = pen.measureText(text).width + 14;
    const left = Math.min(x - 8, size.width - width - 4);
    const line = taken.findIndex((parts) => parts.every(([from, until]) => left > until + 3 || left + width < from - 3));
    if (line < 0) continue;
    taken[line].push([left, left + width]);
    const top = y + 1 + line * CAPTION;
    const isChosen = number === state.finding;
    stroke([[x, top + 8], [x, y + row.height]], paint[finding.severity], 1.5);
    pen.fillStyle = isChosen ? paint[finding.severity] : paint.paper;
    pen.strokeStyle = paint[finding.severity];
    pen.lineWidth = 1.5;
    pen.setLineDash(finding.severity === 'error' ? [] : finding.severity === 'warning' ? [4, 2] : [1.5, 2]);
    pen.beginPath(); pen.roundRect(left, top, width, CAPTION - 3, 8); pen.fill(); pen.stroke();
    pen.setLineDash([]);
    write(text, left + 7, top + (CAPTION - 3) / 2 + 0.5, isChosen ? paint.paper : paint[finding.severity], BOLD);
    drawn.captions += 1;
    hits.push({ box: [left, top, left + width, top + CAPTION - 3], finding: number });
  }
}

function drawRuler() {
  pen.fillStyle = paint.paper;
  pen.fillRect(0, 0, size.width, RULER);
  stroke([[0, RULER - 0.5], [size.width, RULER - 0.5]], paint.line);
  const names = ['order', "server's clock", 'real time'];
  write(names[state.axis], 8, RULER / 2, paint.faint);
  pen.save();
  pen.beginPath();
  pen.rect(size.gutter, 0, size.width, RULER);
  pen.clip();
  pen.textAlign = 'center';
  // Clocks that move say so in the ruler, and numbers make room for that.
  const free = [];
  pen.font = BOLD;
  let last = -Infinity;
  for (let at = firstFrom(wide, state.from); at < wide.length; at += 1) {
    const x = across(positionOf(wide[at]));
    if (x > size.width) break;
    if (x - last < 1.5) continue;
    last = x;
    stroke([[x, RULER - 5], [x, RULER]], paint.late, 1.5);
    const text = briefEvent(moments[wide[at]]);
    const half = pen.measureText(text).width / 2 + 5;
    if (x - half < size.gutter || free.some(([from, until]) => x + half > from && x - half < until)) continue;
    free.push([x - half, x + half]);
    write(text, x, RULER / 2, paint.late, BOLD);
  }
  for (const [x, text] of ticks()) {
    const half = (text.length * letter) / 2 + 4;
    if (free.some(([from, until]) => x + half > from && x - half < until)) continue;
    write(text, x, RULER / 2, paint.faint, SMALL);
    stroke([[x, RULER - 4], [x, RULER]], paint.faint);
  }
  pen.textAlign = 'start';
  pen.restore();
}

function ticks() {
  const span = state.to - state.from;
  const most = Math.max(plot() / 80, 1);
  let step = 10 ** Math.floor(Math.log10(span / most));
  while (span / step > most) step *= span / step / most > 4 ? 5 : 2;
  const found = [];
  if (state.axis !== ORDER) {
    for (let place = Math.ceil(state.from / step) * step; place <= state.to; place += step) {
      found.push([across(place), place ? `+${duration(Math.round(place))}`.replace('+\u2212', '\u2212') : '0']);
    }
    return found;
  }
  step = Math.max(Math.round(step), 1);
  for (let place = Math.max(Math.ceil(state.from / step) * step, 0); place <= state.to; place += step) {
    const at = keptAt(place);
    if (at >= 0) found.push([across(place), `#${seqOf(moments[at])}`]);
  }
  return found;
}

// The moment that is at a place in the order of those that are kept.
function keptAt(place) {
  let [low, high] = [0, moments.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (before[middle + 1] <= place) low = middle + 1; else high = middle;
  }
  return low < moments.length && kept[low] ? low : -1;
}
