// The ruler above the picture, and the signs that the picture goes on.

// Where the picture goes on beyond its edges.
function drawCutOff() {
  const chip = (text, x, y) => {
    pen.font = BOLD;
    const wide = pen.measureText(text).width + 10;
    const left = Math.min(x, size.width - wide - 2);
    pen.fillStyle = paint.late;
    pen.beginPath(); pen.roundRect(left, y, wide, 16, 4); pen.fill();
    write(text, left + 5, y + 8.5, paint.paper, BOLD);
  };
  const slack = (bounds[1] - bounds[0]) * 0.002;
  if (state.from > bounds[0] + slack) chip('\u25c0 earlier', size.gutter + 2, RULER - 18);
  if (state.to < bounds[1] - slack) chip('later \u25b6', size.width, RULER - 18);
  // Below the last row there is a gap.
  if ((stage.scrollTop / zoomed) + size.height < height + RULER - 14) chip('\u25bc more below', size.width, size.height - 19);
}

function drawRuler() {
  pen.fillStyle = paint.paper;
  pen.fillRect(0, 0, size.width, RULER);
  stroke([[0, RULER - 0.5], [size.width, RULER - 0.5]], paint.line);
  const names = [['order'], ['time since the start', 'time'], ['real time since the start', 'real time']][state.axis];
  const texts = even ? [...names.map((name) => `${name}, not to scale`), 'not to scale'] : names;
  write(fitting(texts, size.gutter - 12, TEXT), 8, 12, paint.faint);
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
    if (x - half < size.gutter || x + half > size.width || free.some(([from, until]) => x + half > from && x - half < until)) continue;
    free.push([x - half, x + half]);
    write(text, x, 12, paint.late, BOLD);
  }
  for (const { x, text, isStep } of ticks()) {
    const half = (text.length * letter) / 2 + 4;
    if (x - half < size.gutter || x + half > size.width) continue;
    if (free.some(([from, until]) => x + half > from && x - half < until)) continue;
    free.push([x - half, x + half]);
    write(text, x, 12, isStep ? paint.ink : paint.faint, SMALL);
    stroke([[x, 19], [x, 24]], paint.faint);
  }
  // Where a gap is drawn shorter than others, the ruler is broken, and says how long it was.
  if (even) {
    pen.font = SMALL;
    even.times.forEach((time, at) => {
      const [from, until] = [across(even.places[at]), across(even.places[at + 1])];
      if (!isCut(at) || until < size.gutter || from > size.width || until - from < 7) return;
      const middle = (from + until) / 2;
      const text = duration(even.times[at + 1] - time);
      pen.font = SMALL;
      const half = pen.measureText(text).width / 2 + 9;
      const isTold = 2 * half < until - from && middle - half > size.gutter && middle + half < size.width;
      const x = isTold ? middle - half + 5 : middle;
      for (const dx of [-2, 2]) stroke([[x + dx - 2, RULER - 3], [x + dx + 2, RULER - 12]], paint.late, 1.5);
      if (isTold) write(text, middle + 5, RULER - 8, paint.late, SMALL);
    });
  }
  pen.textAlign = 'start';
  pen.restore();
}

// The times that the ruler tells: those of the chosen finding's steps first, and no text twice.
function ticks() {
  const span = state.to - state.from;
  const most = Math.max(plot() / 68, 1);
  let step = 10 ** Math.floor(Math.log10(span / most));
  while (span / step > most) step *= span / step / most > 4 ? 5 : 2;
  const found = [];
  if (state.axis === ORDER) {
    step = Math.max(Math.round(step), 1);
    for (let place = Math.max(Math.ceil(state.from / step) * step, 0); place <= state.to; place += step) {
      const at = keptAt(place);
      if (at >= 0) found.push({ x: across(place), text: `#${seqOf(moments[at])}` });
    }
    return found;
  }
  const far = span / most;
  const add = (place, time, isStep) => {
    if (place < state.from || place > state.to || found.some((one) => Math.abs(one.place - place) < far)) return;
    found.push({ place, time, x: across(place), isStep });
  };
  const steps = state.finding < 0 ? [] : findings[state.finding].evidence;
  for (const { spot } of steps) add(position(spot), microsOf(spot), true);
  if (even) {
    let last = -Infinity;
    even.places.forEach((place, at) => {
      if (place < Math.max(state.from, last + far) || place > state.to) return;
      last = place;
      add(place, even.times[at], false);
    });
  } else {
    for (let place = Math.ceil(state.from / step) * step; place <= state.to; place += step) add(place, Math.round(place), false);
  }
  const texts = timesOf(found.map(({ time }) => time));
  return found.map((one, at) => ({ ...one, text: one.time ? texts[at] : '0' })).filter(({ text }, at, all) => all.findIndex((one) => one.text === text) === at);
}
