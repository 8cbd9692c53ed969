// The picture on the canvas. Only what can be seen is drawn.

const canvas = document.getElementById('canvas');
let pen = canvas.getContext('2d');
const stage = document.getElementById('stage');
const RULER = 42;
const SMALL = '11.5px ui-monospace, "SF Mono", "DejaVu Sans Mono", Menlo, Consolas, monospace';
const TEXT = '12px system-ui, "Segoe UI", "DejaVu Sans", sans-serif';
const BOLD = `600 ${TEXT}`;
const drawn = { draws: 0, marks: 0, labels: 0, bars: 0, captions: 0, slowest: 0, total: 0 };
// Where labels are, for whoever asks whether they overlap or leave the picture.
let labels = [];
// Texts that are drawn above what leads from one step to the next.
let words = [];
let paint = {};
let hatches = {};
// In the units of the picture, which are larger than points of the window where that is very wide.
let size = { width: 0, height: 0, gutter: 0 };
let zoomed = 1;
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

// The first of some texts that there is room for: a label is whole, shorter, or not there, but never cut off.
function fitting(texts, room, font) {
  pen.font = font;
  return texts.find((text) => pen.measureText(text).width <= room) ?? '';
}

// The lines of a text in a column, broken between words, and where it must be within them.
function wrapped(text, font, room) {
  pen.font = font;
  const lines = [''];
  const isWide = (line) => pen.measureText(line).width > room;
  for (const word of text.split(' ')) {
    const longer = lines.at(-1) ? `${lines.at(-1)} ${word}` : word;
    if (!isWide(longer)) {
      lines[lines.length - 1] = longer;
      continue;
    }
    if (lines.at(-1)) lines.push('');
    for (const letter of word) {
      if (lines.at(-1) && isWide(lines.at(-1) + letter)) lines.push('');
      lines[lines.length - 1] += letter;
    }
  }
  return lines;
}

// Room for the longest name, as far as that leaves enough for the picture. In a narrow window names stand above their rows.
const NARROW = 560;
function measureGutter(width) {
  if (width < NARROW) return 10;
  pen.font = BOLD;
  const widest = Math.max(0, ...clients.slice(0, 2000).map((client) => pen.measureText(title(client)).width));
  return Math.round(Math.max(130, Math.min(widest + 30, width * 0.3, 300)));
}
const roomForNames = () => (size.width < NARROW ? size.width : size.gutter) - 24;

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
  pen.setTransform(scale * zoomed, 0, 0, scale * zoomed, 0, 0);
  pen.textBaseline = 'middle';
  pen.fillStyle = paint.paper;
  pen.fillRect(0, 0, size.width, size.height);
  pen.font = SMALL;
  letter = pen.measureText('mmmmmmmmmm').width / 10;
  hits = [];
  labels = [];
  const top = stage.scrollTop / zoomed;
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
    const y = yOf(row) + (row.above ?? 0);
    if (row.type === 'stay') drawStays(row, y);
    else if (row.type === 'value') drawValues(row, y);
    else if (row.type === 'band') drawBands(row, y);
    else if (row.type === 'lane') drawLane(row, y);
    else if (row.type === 'instance') drawInstance(row, y);
  }
  drawSteps(yOf);
  words.forEach((write) => write());
  words = [];
  for (const row of shown) if (row.type === 'captions') drawCaptions(row, yOf(row));
  pen.restore();
  stroke([[size.gutter + 0.5, 0], [size.gutter + 0.5, size.height]], paint.line);
  for (const row of shown) drawName(row, yOf(row));
  drawRuler();
  drawCutOff();
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
    const middle = y + row.above + 15.5;
    stroke([[across(positionOf(first)), middle], [end, middle]], paint.line);
  }
}

function drawName(row, y) {
  if (row.type === 'gap' || row.type === 'captions') return;
  const middle = y + row.height / 2;
  if (row.type === 'head' || row.type === 'title') {
    pen.fillStyle = paint.soft;
    pen.fillRect(0, y, size.gutter, row.height);
    pen.font = BOLD;
    return write(row.text, 8, middle, paint.ink, BOLD);
  }
  const isAbove = row.above > 0;
  if (row.type === 'stay') return write('key on the server', 16, isAbove ? y + 9 : middle, paint.faint);
  if (row.type === 'value') return write(row.name[0], 16, isAbove ? y + 9 : y + STAY / 2, paint.faint);
  if (row.type === 'band') {
    const top = isAbove ? y + 9 : middle - ((row.names.length - 1) * LINE) / 2;
    return row.names.forEach((name, at) => write(name, 16, top + at * LINE, paint.ink, BOLD));
  }
  row.names.forEach((name, at) => write(name, 8, y + 14 + at * LINE, paint.ink, BOLD));
  row.places.forEach((place, at) => write(place, 8, y + 14 + (row.names.length + at) * LINE, paint.faint));
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

// How an instance is drawn, and what is said in its bar: as much as there is room for.
const lookOf = (part) => ({
  master: [paint.held, paint.held, [], paint['held-ink']], unaware: [hatches.lost, paint.lost, [], paint.ink],
  replica: [null, paint.faint, [], paint.faint], held: [hatches.waiting, paint.wait, [2, 3], paint.ink],
  late: [hatches.waiting, paint.wait, [6, 3], paint.ink], cut: [null, paint.late, [4, 4], paint.ink],
}[part]);
const tellPart = ({ part, lag }) => ({
  master: ['master'], unaware: ['cut off: goes on as master, and does not know', 'does not know, goes on', 'goes on'],
  replica: ['replica: gets each write at once', 'replica'], held: ['replica: link held, gets nothing', 'link held'],
  late: [`replica: gets writes ${lag} late`, `${lag} late`, 'late'], cut: ['replica: cut off, gets nothing', 'cut off'],
}[part]);

// What an instance was: master, or a replica that got everything, late, or nothing; and the writes that never reached it.
function drawInstance(row, y) {
  const { spans, losses } = row.instance;
  const middle = y + STAY / 2;
  const crosses = losses.map(({ written }) => across(positionOf(written)));
  spans.forEach((span, at) => {
    const from = span.since === null ? -5 : across(positionOf(span.since));
    const until = at + 1 < spans.length ? across(positionOf(spans[at + 1].since)) : size.width + 8;
    if (until < size.gutter || from > size.width) return;
    const [fill, edge, dash, ink] = lookOf(span.part);
    part(from, until, y + 2, STAY - 3, fill, edge, dash, [], ink);
    // The words stand beside the crosses.
    const [left, right] = [Math.max(from, size.gutter), Math.min(until, size.width)];
    const edges = [left, ...crosses.filter((x) => x > left && x < right).flatMap((x) => [x - 9, x + 9]), right];
    pen.font = BOLD;
    const spots = tellPart(span).flatMap((text) => edges.flatMap((edge, number) => (number % 2 === 0
      && pen.measureText(text).width + 10 <= edges[number + 1] - edge ? [[text, edge + 6]] : [])));
    if (spots.length) {
      const [text, x] = spots[0];
      if (fill && ink === paint.ink) {
        pen.fillStyle = paint.paper;
        pen.fillRect(x - 3, y + 5, pen.measureText(text).width + 6, STAY - 9);
      }
      label(text, x, middle + 0.5, ink, BOLD);
    }
    if (span.since !== null) hits.push({ x: from, y: middle, reach: 9, moment: span.since });
  });
  let free = -Infinity;
  for (const { written, told, key } of losses) {
    const x = Math.round(across(positionOf(written))) + 0.5;
    if (x < size.gutter || x > size.width) continue;
    const master = rows.find(({ type, instance }) => type === 'instance' && instance.server === moments[written].server);
    const start = master ? y + master.y + (master.above ?? 0) - row.y - (row.above ?? 0) + STAY / 2 : middle;
    stroke([[x, start], [x, middle]], paint.error, 1.5, [3, 3]);
    pen.fillStyle = paint.paper;
    pen.fillRect(x - 7, middle - 7, 14, 14);
    for (const way of [-1, 1]) stroke([[x - 5, middle - 5 * way], [x + 5, middle + 5 * way]], paint.error, 2.5);
    drawn.marks += 1;
    hits.push({ x, y: middle, reach: 9, moment: told });
    const left = Math.max(x - 5, free, size.gutter + 3);
    const words = withoutTokens(moments[written].line.split(' '));
    const text = fitting([`never got ${words}`, `never got ${key}`, 'lost'], size.width - left - 4, SMALL);
    if (!text || left > x + 60) continue;
    label(text, left, y + STAY + 7, paint.error, SMALL);
    free = labels.at(-1).right + 8;
  }
}

function drawStays(row, y) {
  const middle = y + STAY / 2;
  let last = -Infinity;
  row.stays.forEach((stay) => {
    const from = across(position(stay.from));
    const until = stay.until ? across(position(stay.until)) : size.width + 5;
    if (until < size.gutter || from > size.width || until - last < 1) return;
    last = until;
    pen.fillStyle = paint.soft;
    pen.fillRect(from, y + 2, until - from, STAY - 4);
    pen.strokeStyle = paint.faint;
    pen.lineWidth = 1;
    pen.strokeRect(Math.round(from) + 0.5, y + 2.5, Math.round(until - from), STAY - 5);
    if (stay.end) drawStayEnd(stay.end, Math.round(until) + 0.5, y + 1, STAY - 2);
    drawn.bars += 1;
    const start = Math.max(from, size.gutter) + 6;
    const owner = stay.client === null ? null : clients[stay.client];
    const texts = owner ? [`held by ${title(owner)}`, title(owner), lastWord(title(owner))] : ['set'];
    const text = fitting(texts, Math.min(until, size.width) - start - 5, TEXT);
    if (text) label(text, start, middle, paint.ink, TEXT);
  });
}

// What the value was from one write to the next, and by whom.
function drawValues(row, y) {
  const taken = size.width < NARROW ? [[], [], []] : [[]];
  for (const { from, until, value, count, client, isLost } of row.spans) {
    const begin = from ? across(position(from)) : -5;
    const end = until ? across(position(until)) : size.width + 5;
    if (end < size.gutter || begin > size.width) continue;
    const [left, right] = [Math.max(begin, size.gutter - 4), Math.min(end, size.width + 4)];
    const edge = isLost ? paint.lost : paint.ink;
    pen.fillStyle = isLost ? hatches.lost : paint.soft;
    pen.fillRect(left, y + 2, right - left, STAY - 4);
    pen.strokeStyle = edge;
    pen.lineWidth = 1.2;
    pen.strokeRect(left + 0.5, y + 2.5, Math.max(right - left - 1, 0), STAY - 5);
    drawn.bars += 1;
    const by = client === null || client === undefined ? '' : ` by ${nameOf(client)}`;
    const short = by && ` by ${lastWord(nameOf(client))}`;
    const told = value === undefined ? 'changed' : value;
    const state = isLost ? ', lost' : '';
    const texts = [`${told}${by}${state}`, `${told}${short}${state}`, `${told}${state}`, ...(value === undefined ? [] : [told])];
    const start = Math.max(left, size.gutter) + 6;
    const room = Math.min(right, size.width) - start - 6;
    const text = fitting(texts.slice(0, 2), room, BOLD);
    if (text) {
      if (isLost) {
        pen.fillStyle = paint.paper;
        pen.fillRect(start - 3, y + 4, pen.measureText(text).width + 6, STAY - 8);
      }
      label(text, start, y + STAY / 2 + 0.5, edge, BOLD);
      continue;
    }
    // Beside it, where there is no room inside.
    pen.font = SMALL;
    const spot = texts.flatMap((text) => taken.map((parts, line) => {
      const wide = pen.measureText(text).width;
      const x = Math.max(Math.min(Math.max(begin, size.gutter), size.width - wide - 4), size.gutter + 3);
      return { text, line, x, wide, isFree: x + wide <= size.width - 3 && parts.every(([a, b]) => x > b + 6 || x + wide < a - 6) };
    })).find(({ isFree }) => isFree);
    if (!spot) {
      const told = fitting([...texts.slice(2), ...(count ? [count] : [])], room, BOLD);
      if (told && !isLost) label(told, start, y + STAY / 2 + 0.5, edge, BOLD);
      continue;
    }
    taken[spot.line].push([spot.x, spot.x + spot.wide]);
    label(spot.text, spot.x, y + STAY + 6 + spot.line * WORDS, edge, SMALL);
  }
}

// How a key went: it expired, or a command deleted it.
function drawStayEnd(end, x, y, tall) {
  if (end === 'replaced') return;
  if (end === 'expired') stroke([[x, y], [x, y + tall]], paint.late, 2.5, [3, 2]);
  else stroke([[x, y], [x, y + tall]], paint.ink, 4);
}

// A text whose place is remembered.
function label(text, x, y, colour, font) {
  pen.font = font;
  if (font === SMALL) {
    pen.lineJoin = 'round';
    pen.strokeStyle = paint.paper;
    pen.lineWidth = 3;
    pen.strokeText(text, x, y);
  }
  write(text, x, y, colour, font);
  labels.push({ text, left: x, right: x + pen.measureText(text).width, y });
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
  const text = fitting(words, Math.min(right, size.width) - start - 4, BOLD);
  if (!text) return;
  if (fill && ink === paint.ink) {
    pen.fillStyle = paint.paper;
    pen.fillRect(start - 3, y + 3, pen.measureText(text).width + 6, tall - 6);
  }
  label(text, start, y + tall / 2 + 0.5, ink, BOLD);
}

function drawBands(row, y) {
  const tall = BAND - 5;
  const top = y + (row.height - row.above - tall) / 2;
  let last = -Infinity;
  row.stretches.forEach((stretch, number) => {
    const from = across(position(stretch.from));
    const until = stretch.until ? across(position(stretch.until)) : size.width + 8;
    const gone = stretch.unnoticed ? across(position(stretch.unnoticed)) : until;
    // What would all fall on one line of points is drawn once.
    if (gone < size.gutter || from > size.width || gone - last < 1) return;
    last = Math.max(last, gone);
    if (stretch.kind === 'waiting') {
      const times = stretch.attempts > 1 ? [`waits, refused ${stretch.attempts} times`, 'waits'] : ['waits'];
      part(from, until, top + 4, tall - 8, hatches.waiting, paint.wait, [2, 3], times, paint.ink);
    } else {
      const turn = stretch.lost ? Math.min(Math.max(across(position(stretch.lost[0])), from), until) : until;
      if (stretch.kind === 'may-hold') {
        part(from, turn, top, tall, hatches['may-hold'], paint.may, [6, 3], ['may hold: the reply was lost', 'may hold'], paint.ink);
      } else {
        part(from, turn, top, tall, paint.held, paint.held, [], ['holds'], paint['held-ink']);
      }
      if (turn < until) {
        part(turn, until, top, tall, hatches.lost, paint.lost, [], [`believes it holds: ${shortened(stretch.lost[1])}`, 'believes it holds'], paint.ink);
      }
    }
    if (gone > until) part(until, gone, top, tall, null, paint.late, [4, 4], ['expired, and its client goes on as if it held it', 'expired, client goes on', 'goes on'], paint.late);
    drawEnd(stretch, gone > until ? gone : until, row.stretches[number + 1], top, tall);
    hits.push({ box: [from, top, gone, top + tall], stretch });
  });
}

function drawEnd(stretch, x, next, y, tall) {
  if (stretch.kind === 'waiting' || x > size.width) return;
  const word = { released: 'released', expired: 'expired', closed: 'connection ended', told: 'knows that it is lost', unknown: 'unknown from here' }[stretch.end];
  if (!word) return;
  // Whoever has lost it gives back what it has not.
  const told = stretch.lost && stretch.end === 'released' ? 'gave back what was lost' : word;
  const room = Math.min(next ? across(position(next.from)) : size.width, size.width) - x - 12;
  const colour = stretch.end === 'released' ? paint.faint : paint.late;
  if (stretch.end === 'expired') {
    stroke([[x - 4, y + tall / 2 - 4], [x + 4, y + tall / 2 + 4]], colour, 2);
    stroke([[x - 4, y + tall / 2 + 4], [x + 4, y + tall / 2 - 4]], colour, 2);
  } else if (stretch.end === 'closed') {
    pen.fillStyle = colour;
    pen.fillRect(x - 3, y + tall / 2 - 4, 7, 8);
  }
  const text = stretch.unnoticed ? '' : fitting([told], room, TEXT);
  if (text) label(text, x + 8, y + tall / 2 + 0.5, colour, TEXT);
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
  } else if (kind === 'watched') {
    pen.ellipse(x, y, r * 1.15, r * 0.7, 0, 0, 7);
    pen.fillStyle = paint.paper;
    pen.fill();
    pen.stroke();
    pen.fillStyle = pen.strokeStyle;
    pen.beginPath();
    pen.arc(x, y, r * 0.35, 0, 7);
    return pen.fill();
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
  const steps = new Map(state.finding < 0 ? [] : findings[state.finding].evidence.map(({ moment }, at) => [moment, at]));
  const middle = y + 15;
  visible.forEach(([number, x]) => {
    const moment = moments[number];
    pen.globalAlpha = state.finding >= 0 && !steps.has(number) && number !== state.moment ? 0.6 : 1;
    hits.push({ x, y: middle, reach: 9, moment: number });
    drawn.marks += 1;
    if (moment.event) {
      stroke([[x, middle - 8], [x, middle + 8]], paint.ink, 3);
    } else {
      if (state.axis === REAL && moment.took) {
        const begun = across(placeOfTime(moment.real - base[REAL] - moment.took));
        if (x - begun > 1) stroke([[begun, middle], [x, middle]], paint.wait, 3);
      }
      shape(kindOf(number), x, middle, 6.5);
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
    pen.globalAlpha = 1;
  });
  drawWords(visible, steps, row, y);
}

const SIGNS = { read: 'read', missed: 'read', wrote: 'set', changed: 'set', deleted: 'set', watched: 'watched' };
const kindOf = (number) => moments[number].kind ?? SIGNS[moments[number].act] ?? 'other';

// What stands below the marks of a lane: each step of the chosen finding on a line of its own, and of the rest what there is room for.
function drawWords(visible, steps, row, y) {
  const isStep = ([number]) => steps.has(number);
  const own = visible.filter(isStep).reverse();
  const rest = visible.length > 300 ? visible.filter(([number]) => number === state.moment) : visible.filter((one) => !isStep(one));
  const taken = Array.from({ length: row.lines }, () => []);
  const leaders = [];
  pen.font = SMALL;
  const isAlone = (line, left, right) => taken[line].every((part) => left > part.right + 8 || right < part.left - 8);
  const isFree = (line, left, right, x) => isAlone(line, left, right)
    && leaders.every(([other, depth]) => depth <= line || other < left - 2 || other > right + 2 || Math.abs(other - x) < 1);
  const crosses = (x, line) => taken.slice(0, line).some((parts) => parts.some(({ left, right }) => x > left - 2 && x < right + 2));
  const placeOne = (number, x, texts, isOwn) => {
    if (x < size.gutter - 1 || x > size.width) return;
    pen.font = SMALL;
    for (const text of texts) {
      const wide = pen.measureText(text).width;
      // To the right of its mark, ending there, or as near as there is room.
      const starts = isOwn ? [x - 5, x + 5 - wide, Math.max(Math.min(x - 5, size.width - wide - 4), size.gutter + 4)] : [x - 5];
      const lines = [...taken.keys()].filter((line) => isOwn || line < 2);
      const spots = starts.filter((left) => left >= size.gutter + 2 && left + wide <= size.width - 3)
        .flatMap((left) => lines.map((line) => [left, line]));
      const spot = spots.find(([left, line]) => !crosses(x, line) && isFree(line, left, left + wide, x))
        ?? spots.find(([left, line]) => isOwn && isAlone(line, left, left + wide));
      if (spot) {
        const [left, line] = spot;
        taken[line].push({ left, right: left + wide });
        if (line > 0) leaders.push([x, line]);
        words.push(() => {
          pen.globalAlpha = state.finding >= 0 && !isOwn && number !== state.moment ? 0.7 : 1;
          const middle = y + 31 + line * WORDS;
          if (line > 0) stroke([[x, y + 25], [x, middle - 6]], paint.faint, 1);
          label(text, left, middle, moments[number].event ? paint.faint : paint.ink, SMALL);
          pen.globalAlpha = 1;
        });
        return;
      }
    }
  };
  for (const [number, x] of own) {
    const at = steps.get(number);
    placeOne(number, x, textsOf(moments[number]).map((text) => `${at + 1} ${text}`), true);
  }
  rest.sort(([one], [other]) => (other === state.moment) - (one === state.moment));
  for (const [number, x] of rest) placeOne(number, x, textsOf(moments[number]), number === state.moment);
}

// A command in a few words: without the tokens of locks, and for EXEC and scripts with what they ran.
function compact(moment) {
  const words = moment.line.split(' ');
  const name = words[0].toUpperCase();
  if (moment.inside && ['EXEC', 'EVAL', 'EVALSHA', 'EVAL_RO', 'EVALSHA_RO', 'FCALL'].includes(name)) {
    const ran = moment.inside.map((line) => line.split(' \u2192 ')[0].trim());
    const writes = ran.filter((line) => !/^(get|exists|hget|time|ttl|pttl)\b/i.test(line));
    const told = (writes.length ? writes : ran).slice(0, 2).map((line) => withoutTokens(line.split(' ')));
    const verbs = (writes.length ? writes : ran).map((line) => line.split(' ', 1)[0].toUpperCase());
    return told.length ? [`${name}: ${told.join('; ')}`, `${name}: ${told.at(-1)}`, `${name}: ${verbs.slice(0, 3).join(', ')}`, name] : [name];
  }
  const isScript = /^(EVAL|FCALL)/.test(name);
  if (isScript) return [name];
  const whole = withoutNumbers([name, ...words.slice(1)]);
  const less = [name, ...words.slice(1, 2)].join(' ');
  const isQuoted = /^["(]/.test(words[1] ?? '');
  return [moment.lock === undefined ? whole : withoutTokens([name, ...words.slice(1)]), ...(isQuoted ? [] : [less]), name];
}
const withoutTokens = (words) => words.filter((word, at) => at < 2 || word.length < 16).join(' ');
const withoutNumbers = (words) => words.filter((word, at) => at < 2 || !/^[0-9a-f.-]{16,}$/i.test(word)).join(' ');

// What can be said of a moment, the longest first.
function textsOf(moment) {
  if (moment.event) return ['connection ended'];
  const noted = [moment.fault ? `fault ${moment.fault}` : '', moment.gates ? `gate ${moment.gates.join(', ')}` : ''].filter(Boolean)
    .map((mark) => ` [${mark}]`).join('');
  const came = ` \u2192 ${answer(moment)}`;
  const lines = compact(moment);
  return [...(came.length < 60 ? lines.map((line) => line + came + noted) : []), ...lines.map((line) => line + noted), lines.at(-1)];
}

// A text in quotes without what is escaped in it, if quotes are all that is.
const plain = (reply) => (/^".*\\".*"$/.test(reply) && !/\\[^"]/.test(reply) ? reply.slice(1, -1).replaceAll('\\"', '"') : reply);

function answer(moment) {
  if (moment.outcome === 'lost') return 'reply lost';
  if (moment.outcome === 'never-ran') return 'never ran';
  if (moment.outcome === 'unknown') return 'may have run';
  if (moment.outcome === 'silent') return 'no reply wanted';
  return plain(moment.reply ?? '').replace(/^\(integer\) /, '').replace(/^\(nil\)$/, 'nil') || 'no reply';
}

// A finding's moments: a stripe behind each, and a line from one to the next with their numbers.
function drawEvidenceGlow() {
  if (state.finding < 0) return;
  for (const step of findings[state.finding].evidence) {
    const x = across(position(step.spot));
    if (x < size.gutter - 20 || x > size.width + 20) continue;
    pen.fillStyle = paint.glow;
    const wide = Math.min(Math.max(plot() / 90, 3), 12);
    pen.fillRect(x - wide / 2, RULER, wide, size.height);
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
    points.push({ x: across(position(step.spot)), y: yOf(row) + row.above + (lane ? 15 : STAY / 2), at });
  });
  const colour = paint[finding.severity];
  for (let at = 1; at < points.length; at += 1) {
    const [one, other] = [points[at - 1], points[at]];
    const [dx, dy] = [other.x - one.x, other.y - one.y];
    const length = Math.hypot(dx, dy);
    if (length < 30) continue;
    const [ux, uy] = [dx / length, dy / length];
    const [sx, sy, ex, ey] = [one.x + ux * 11, one.y + uy * 11, other.x - ux * 13, other.y - uy * 13];
    pen.globalAlpha = 0.5;
    stroke([[sx, sy], [ex, ey]], colour, 1.5, [7, 3]);
    pen.fillStyle = colour;
    pen.beginPath();
    pen.moveTo(ex + ux * 4, ey + uy * 4);
    pen.lineTo(ex - ux * 6 - uy * 5, ey - uy * 6 + ux * 5);
    pen.lineTo(ex - ux * 6 + uy * 5, ey - uy * 6 - ux * 5);
    pen.fill();
    pen.globalAlpha = 1;
  }
  const numbers = [];
  for (const point of points) {
    pen.strokeStyle = colour;
    pen.lineWidth = 2;
    pen.beginPath(); pen.arc(point.x, point.y, size.width < NARROW ? 9 : 11, 0, 7); pen.stroke();
  }
  for (const point of points) {
    const isFree = ([x, y]) => numbers.every(([left, top]) => Math.hypot(left - x, top - y) > 15);
    const places = [[13, -8], [-13, -8], [13, 9], [-13, 9]].map(([dx, dy]) => [point.x + dx, point.y + dy]);
    // Where there is no room for it, the step's text has its number.
    const free = places.find(isFree);
    if (!free) continue;
    const [x, y] = free;
    numbers.push([x, y]);
    pen.fillStyle = colour;
    pen.beginPath(); pen.arc(x, y, 7.5, 0, 7); pen.fill();
    pen.textAlign = 'center';
    write(`${point.at + 1}`, x, y + 0.5, paint.paper, `700 10.5px ${TEXT.split('px ')[1]}`);
    pen.textAlign = 'start';
  }
}

// Puts flags into lines, so that none is cut off and none lies on another one: in full, in fewer words, or as a number. What there is
// no room for is counted, in flags of their own on the last line.
function placeFlags(flags, lines, [left, right], widthOf) {
  const place = (list, most) => {
    const taken = Array.from({ length: most }, () => []);
    const [placed, rest] = [[], []];
    for (const flag of list) {
      const spot = flag.texts.map((text) => ({ text, wide: widthOf(text) })).filter(({ wide }) => wide <= right - left)
        .flatMap(({ text, wide }) => taken.map((parts, line) => {
          const from = Math.max(Math.min(flag.x - 8, right - wide), left);
          return { ...flag, text, from, until: from + wide, line, isFree: parts.every((part) => from > part.until + 3 || from + wide < part.from - 3) };
        })).find(({ isFree }) => isFree);
      if (!spot) { rest.push(flag); continue; }
      taken[spot.line].push(spot);
      placed.push(spot);
    }
    return { placed, rest };
  };
  const few = flags.length <= 200 ? place(flags, lines) : { placed: [], rest: flags };
  if (!few.rest.length) return few.placed;
  const { placed, rest } = place(flags.slice(0, 200), lines - 1);
  rest.push(...flags.slice(200));
  rest.sort((one, other) => one.x - other.x);
  const sums = [];
  for (const flag of rest) {
    const last = sums.at(-1);
    if (last && flag.x - 8 < last.from + widthOf('9999 more') + 3) last.numbers.push(...flag.numbers);
    else sums.push({ ...flag, numbers: [...flag.numbers], line: lines - 1, from: Math.min(Math.max(flag.x - 8, left), right - widthOf('9999 more')) });
  }
  for (let at = 1; at < sums.length; at += 1) {
    if (sums[at].from >= sums[at - 1].from + widthOf('9999 more') + 3) continue;
    sums[at - 1].numbers.push(...sums[at].numbers);
    sums.splice(at, 1);
    at -= 1;
  }
  for (const sum of sums) Object.assign(sum, { text: `${sum.numbers.length} more`, until: sum.from + widthOf(`${sum.numbers.length} more`) });
  return [...placed, ...sums];
}

function drawCaptions(row, y) {
  const lines = Math.round((row.height - 4) / CAPTION);
  const weight = (number) => (number === state.finding ? 9 : 0) + ['note', 'warning', 'error'].indexOf(findings[number].severity);
  // Findings about one command share a flag, the chosen one or the worst in front.
  const spots = grouped(row.found, (number) => findings[number].spot[ORDER]);
  const flags = [...spots.values()].map((numbers) => [...numbers].sort((one, other) => weight(other) - weight(one)))
    .map((numbers) => ({ number: numbers[0], numbers, x: across(position(findings[numbers[0]].spot)) }))
    .filter(({ x }) => x >= size.gutter - 1 && x <= size.width + 1)
    .sort((one, other) => weight(other.number) - weight(one.number) || one.x - other.x);
  for (const flag of flags) {
    const finding = findings[flag.number];
    const times = finding.times > 1 ? ` \u00d7${finding.times}` : '';
    const more = flag.numbers.length > 1 ? `, and ${flag.numbers.length - 1} more` : '';
    flag.texts = flagTexts(finding).map((text) => `${SYMBOLS[finding.severity]} ${text}${times}${more}`)
      .concat(`${SYMBOLS[finding.severity]}${flag.number + 1}${more ? '+' : ''}`);
  }
  const widthOf = (text) => {
    pen.font = BOLD;
    return pen.measureText(text).width + 14;
  };
  const placed = placeFlags(flags, lines, [size.gutter + 2, size.width - 4], widthOf);
  const tops = placed.map(({ line }) => y + 1 + line * CAPTION);
  // What leads to the moments lies behind all flags.
  placed.forEach(({ x, number }, at) => stroke([[x, tops[at] + 8], [x, y + row.height]], paint[findings[number].severity], 1.5));
  placed.forEach(({ number, numbers, text, from, until }, at) => {
    const { severity } = findings[number];
    const isChosen = numbers.includes(state.finding);
    pen.fillStyle = isChosen ? paint[severity] : paint.paper;
    pen.strokeStyle = paint[severity];
    pen.lineWidth = 1.5;
    pen.setLineDash(severity === 'error' ? [] : severity === 'warning' ? [4, 2] : [1.5, 2]);
    pen.beginPath(); pen.roundRect(from, tops[at], until - from, CAPTION - 3, 8); pen.fill(); pen.stroke();
    pen.setLineDash([]);
    write(text, from + 7, tops[at] + (CAPTION - 3) / 2 + 0.5, isChosen ? paint.paper : paint[severity], BOLD);
    drawn.captions += 1;
    hits.push({ box: [from, tops[at], until, tops[at] + CAPTION - 3], finding: number, numbers });
  });
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
