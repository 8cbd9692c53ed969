//! One lock as text: a column for each client, a line for each event.

use std::collections::BTreeMap;

use super::caption::caption;
use super::readable::{clipped, readable, short_reply, visible};
use super::report_data::{AxisPoint, ClientSpan, MomentKind, ReportData, seq_of};
use super::terminal::{WIDTH, symbol};
use crate::base::terminal::Ink;
use crate::insight::audit::{HoldEnd, Severity, SpanKind};
use crate::powers::{Entry, Event, EventKind, Item, Outcome};

/// The width in front of the columns: the number of the entry and the time.
const FRONT: usize = 20;
/// The least width of a column with text.
const NARROWEST: usize = 19;
/// How many columns there are at most; later clients have none.
const MAX_COLUMNS: usize = 20;
/// The headings of columns that are too narrow for names.
const LETTERS: &str = "abcdefghijklmnopqrst";
/// With more lines than this, those far from any finding are left out.
const MAX_ROWS: usize = 150;
const NEAR: usize = 4;

/// One line.
struct Row {
    spot: AxisPoint,
    /// The number in the journal; empty for what has none.
    seq: String,
    /// The client's column; `None` for what concerns all.
    column: Option<usize>,
    mark: &'static str,
    text: String,
    /// The reply. It is never cut off.
    answer: String,
    /// The fault that the command met.
    fault: Option<String>,
    times: usize,
    /// The findings that end here, by number, and whether a finding rests on this line.
    found: Vec<usize>,
    is_proof: bool,
    /// It says what became of the lock with a failover, or what replicas get.
    is_of_replicas: bool,
}

/// Adds the lines of a lock.
pub fn story(data: &ReportData<'_>, lock: usize, ink: Ink, lines: &mut Vec<String>) {
    let id = &data.locks[lock].id;
    let mut title = format!("Lock {}", clipped(&data.locks[lock].name, 60));
    if data.servers > 1 {
        title.push_str(&format!(" on server {}", id.server));
    }
    if id.db > 0 {
        title.push_str(&format!(" in database {}", id.db));
    }
    lines.push(ink.bold(&title));
    let columns = columns_of(data, lock);
    let rows = rows_of(data, lock, &columns);
    let stretches = stretches_of(data, lock, &columns);
    let width = (WIDTH - FRONT) / columns.len().max(1);
    let width = (width >= NARROWEST).then(|| width.min(40));
    let step = width.unwrap_or(if columns.len() > 12 { 2 } else { 3 });
    let sheet = Sheet { data, stretches: &stretches, ink, width, step };
    sheet.heading(&columns, lines);
    let start = rows.first().map_or(0, |row| row.spot.at);
    let is_shown = shown(&rows);
    let mut left_out = 0;
    for (row, is_shown) in rows.iter().zip(is_shown) {
        if !is_shown {
            left_out += 1;
            continue;
        }
        if left_out > 0 {
            lines.push(format!("{:>8}  ({left_out} lines)", "\u{2026}"));
            left_out = 0;
        }
        sheet.row(row, start, lines);
    }
}

/// The clients of a lock, in the order in which they came to it.
fn columns_of(data: &ReportData<'_>, lock: usize) -> Vec<usize> {
    let mut columns: Vec<usize> = Vec::new();
    let about = data.moments.iter().filter(|moment| moment.lock == Some(lock)).filter_map(|moment| moment.client);
    let held = data.stretches.iter().filter(|stretch| stretch.lock == lock).map(|stretch| stretch.client);
    for client in about.chain(held) {
        if !columns.contains(&client) && columns.len() < MAX_COLUMNS {
            columns.push(client);
        }
    }
    columns
}

fn stretches_of<'f>(data: &'f ReportData<'_>, lock: usize, columns: &[usize]) -> Vec<Vec<&'f ClientSpan>> {
    let mut stretches = vec![Vec::new(); columns.len()];
    for stretch in data.stretches.iter().filter(|stretch| stretch.lock == lock) {
        if let Some(column) = columns.iter().position(|client| *client == stretch.client) {
            stretches[column].push(stretch);
        }
    }
    stretches
}

fn rows_of(data: &ReportData<'_>, lock: usize, columns: &[usize]) -> Vec<Row> {
    let column_of = |client: Option<usize>| client.and_then(|client| columns.iter().position(|other| *other == client));
    // The findings about this lock by their moment, and the moments that they rest on.
    let mut found: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    let mut proofs: BTreeMap<usize, ()> = BTreeMap::new();
    for (number, one) in data.found.iter().enumerate().filter(|(_, found)| found.lock == Some(lock)) {
        proofs.extend(one.proofs.iter().filter_map(|proof| proof.moment).map(|moment| (moment, ())));
        found.entry(order(one.spot.order)).or_default().push(number);
    }
    let server = data.locks[lock].id.server;
    let mut rows: Vec<Row> = Vec::new();
    for (at, moment) in data.moments.iter().enumerate() {
        let column = column_of(moment.client);
        let is_proof = proofs.contains_key(&at);
        let mut fault = None;
        let (mark, text, answer) = match moment.item {
            Item::Command(entry) if moment.lock == Some(lock) || is_proof => {
                fault = entry.fault.as_deref().map(visible);
                let mark = if moment.lock == Some(lock) { mark_of(moment.kind) } else { "\u{b7}" };
                (mark, command(entry, &data.locks[lock].id.key), answer(entry))
            }
            Item::Event(event) if event.kind == EventKind::Closed && column.is_some() => {
                ("\u{25a0}", "connection ends".to_owned(), String::new())
            }
            Item::Event(event) if event.kind == EventKind::Evicted => {
                if moment.server != server || !is_of_key(data, lock, event) {
                    continue;
                }
                ("", "the server evicts the key".to_owned(), String::new())
            }
            Item::Event(event) if event.kind == EventKind::Lost && !is_of_key(data, lock, event) => continue,
            Item::Event(event) if event.kind != EventKind::Closed && moment.server == server => {
                // Of several moves of the clock in a row only the last is shown.
                if event.kind == EventKind::Topology {
                    continue;
                }
                let is_clock = event.kind == EventKind::Clock;
                if rows.last().is_some_and(|last| is_clock && last.mark.is_empty() && last.text.contains("clock")) {
                    rows.pop();
                }
                let what = match event.kind {
                    EventKind::Clock => "the clock moves",
                    EventKind::Missing => "missing:",
                    EventKind::Promoted => "is master now instead of",
                    EventKind::Lost => "has not got the last change of",
                    EventKind::Link => "the link to",
                    EventKind::Replaced => "is master now in place of this server:",
                    EventKind::Mark => "mark:",
                    _ => "the server starts again,",
                };
                let node = event.node.as_deref().filter(|_| event.kind.is_about_node());
                let node = node.map(|node| clipped(&visible(node), 40) + " ").unwrap_or_default();
                let detail = clipped(&visible(&event.detail), 40);
                let told = match event.kind {
                    EventKind::Link => format!("{what} {}: {detail}", node.trim_end()),
                    _ => format!("{node}{what} {detail}"),
                };
                ("", told, String::new())
            }
            _ => continue,
        };
        let (at_clock, real) = super::report_data::times_of(moment.item);
        let spot = AxisPoint { order: at as f64, at: at_clock, real };
        let seq = seq_of(moment.item);
        let seq = if data.servers > 1 { format!("{}.{seq}", moment.server) } else { seq.to_string() };
        let found = found.remove(&at).unwrap_or_default();
        let is_again = mark == mark_of(MomentKind::Refused) && found.is_empty() && !is_proof;
        if is_again && count_again(&mut rows, column, mark, &answer) {
            continue;
        }
        let is_of_replicas = matches!(
            moment.item,
            Item::Event(Event { kind: EventKind::Link | EventKind::Replaced | EventKind::Lost, .. })
        );
        rows.push(Row { spot, seq, column, mark, text, answer, fault, times: 1, found, is_proof, is_of_replicas });
    }
    for stretch in data.stretches.iter().filter(|stretch| stretch.lock == lock && stretch.end == Some(HoldEnd::Expired))
    {
        let Some(spot) = stretch.until else { continue };
        let (seq, column, text) = (String::new(), column_of(Some(stretch.client)), "it expires".to_owned());
        let row = Row {
            spot,
            seq,
            column,
            mark: "\u{2573}",
            text,
            answer: String::new(),
            fault: None,
            times: 1,
            found: Vec::new(),
            is_proof: false,
            is_of_replicas: false,
        };
        rows.push(row);
    }
    rows.sort_by(|one, other| one.spot.order.total_cmp(&other.spot.order));
    // A finding between two lines stands at the one before.
    for (at, numbers) in found {
        let before = rows.partition_point(|row| row.spot.order <= at as f64);
        if let Some(row) = rows.get_mut(before.saturating_sub(1)) {
            row.found.extend(numbers);
        }
    }
    // Lines before the first client and behind the last are left out.
    let is_own = |row: &Row| row.column.is_some() || row.is_of_replicas;
    let first = rows.iter().position(is_own).unwrap_or(0);
    let last = rows.iter().rposition(is_own).map_or(0, |last| last + 1);
    rows.truncate(last);
    rows.drain(..first.min(last));
    rows
}

/// Whether an event is about the key of a lock.
fn is_of_key(data: &ReportData<'_>, lock: usize, event: &Event) -> bool {
    let id = &data.locks[lock].id;
    event.key.as_ref().is_some_and(|(db, key)| *db == id.db && **key == *id.key)
}

/// Counts a refusal like the one before, instead of showing it. Moves of the clock in between do not matter.
fn count_again(rows: &mut Vec<Row>, column: Option<usize>, mark: &str, answer: &str) -> bool {
    let Some(last) = rows.iter().rposition(|row| !row.mark.is_empty()) else { return false };
    let row = &mut rows[last];
    let is_same = (row.column, row.mark, row.answer.as_str()) == (column, mark, answer);
    if is_same && row.found.is_empty() && !row.is_proof {
        row.times += 1;
        rows.truncate(last + 1);
        return true;
    }
    false
}

fn order(order: f64) -> usize {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "places are small and not negative")]
    let order = order.max(0.0) as usize;
    order
}

fn mark_of(kind: MomentKind) -> &'static str {
    match kind {
        MomentKind::Other => "\u{b7}",
        MomentKind::Read => "\u{25cb}",
        MomentKind::Missed => "\u{25bd}",
        MomentKind::Extended => "\u{25b3}",
        MomentKind::Set => "\u{25c6}",
        MomentKind::Refused => "\u{2715}",
        MomentKind::Released => "\u{25bc}",
        MomentKind::Took => "\u{25b2}",
        MomentKind::Foreign => "\u{25bc}!",
    }
}

/// A command without the lock's key and without the text of a script.
fn command(entry: &Entry, key: &[u8]) -> String {
    let mut text = entry.words.first().map(|name| readable(name).to_uppercase()).unwrap_or_default();
    let is_script = matches!(text.as_str(), "EVAL" | "EVALSHA");
    let others = entry.words.iter().skip(if is_script { 3 } else { 1 }).filter(|word| **word != *key);
    for word in others.take(6) {
        text.push(' ');
        text.push_str(&clipped(&readable(word), 14));
    }
    text
}

fn answer(entry: &Entry) -> String {
    let answer = match entry.outcome {
        Outcome::Answered => clipped(&short_reply(entry), 14),
        Outcome::Lost => "(lost)".to_owned(),
        Outcome::NeverRan => "(never ran)".to_owned(),
        Outcome::Silent => "(no reply)".to_owned(),
        Outcome::Queued => "(queued)".to_owned(),
        Outcome::Evicted => "(evicted)".to_owned(),
        Outcome::Unknown => "(unknown)".to_owned(),
        Outcome::Mark => "(mark)".to_owned(),
    };
    format!(" \u{2192} {answer}")
}

/// Which rows are shown: all, or those near a finding.
fn shown(rows: &[Row]) -> Vec<bool> {
    let is_short = rows.len() <= MAX_ROWS;
    let mut is_shown = vec![is_short; rows.len()];
    let ends = [0, rows.len().saturating_sub(1)].into_iter();
    let weighty = rows.iter().enumerate().filter(|(_, row)| row.is_proof || !row.found.is_empty()).map(|(at, _)| at);
    for at in ends.chain(weighty) {
        let until = (at + NEAR + 1).min(rows.len());
        is_shown[at.saturating_sub(NEAR)..until].fill(true);
    }
    is_shown
}

/// The layout of the rows.
struct Sheet<'s> {
    data: &'s ReportData<'s>,
    stretches: &'s [Vec<&'s ClientSpan>],
    ink: Ink,
    /// The width of a column with text. `None` if there are too many: the text stands behind all columns.
    width: Option<usize>,
    /// The width of a column in either case.
    step: usize,
}

impl Sheet<'_> {
    fn heading(&self, columns: &[usize], lines: &mut Vec<String>) {
        let titles = columns.iter().map(|client| &self.data.clients[*client]);
        if let Some(width) = self.width {
            let mut names = format!("{:>6} {:>11}  ", "#", "clock");
            let mut numbers = " ".repeat(FRONT);
            let mut nodes = " ".repeat(FRONT);
            for client in titles {
                names.push_str(&padded(&client.title(), width));
                let number = if client.is_numbered() { String::new() } else { format!("client {}", client.id) };
                numbers.push_str(&padded(&number, width));
                nodes.push_str(&padded(client.node.as_deref().unwrap_or_default(), width));
            }
            lines.push(names.trim_end().to_owned());
            let more = [numbers, nodes].into_iter().filter(|line| !line.trim().is_empty());
            lines.extend(more.map(|line| line.trim_end().to_owned()));
            return;
        }
        let mut names = format!("{:>6} {:>11}  ", "#", "clock");
        for (at, client) in titles.enumerate() {
            let letter = LETTERS.get(at..=at).unwrap_or_default();
            let node = client.node.as_ref().map(|node| format!(", {}", clipped(node, 40))).unwrap_or_default();
            lines.push(format!("  {letter}: {} (client {}{node})", clipped(&client.title(), 40), client.id));
            names.push_str(&padded(letter, self.step));
        }
        lines.push(names.trim_end().to_owned());
    }

    fn row(&self, row: &Row, start: i64, lines: &mut Vec<String>) {
        let mut line = format!("{:>6} {:>11}  ", row.seq, since(start, row.spot.at));
        if row.mark.is_empty() {
            line.push_str(&format!("\u{2500}\u{2500} {} \u{2500}\u{2500}", row.text));
            return lines.push(line);
        }
        for (column, stretches) in self.stretches.iter().enumerate() {
            let cell = if row.column == Some(column) { self.text(row) } else { state(stretches, row.spot.order) };
            match self.width {
                Some(width) => line.push_str(&padded(&cell, width)),
                None if row.column == Some(column) => line.push_str(&exactly(row.mark, self.step)),
                None => line.push_str(&exactly(&cell.chars().take(1).collect::<String>(), self.step)),
            }
        }
        if self.width.is_none() || row.column.is_none() {
            let room = WIDTH.saturating_sub(line.chars().count());
            line.push_str(&self.words(row, room));
        }
        lines.push(clipped(line.trim_end(), WIDTH));
        if let Some(fault) = &row.fault {
            self.below(row, &format!("\u{26a1} fault {}", clipped(fault, 30)), None, lines);
        }
        for number in &row.found {
            let finding = self.data.found[*number].finding;
            let told = format!("{}{} {}", symbol(finding.severity), number + 1, caption(finding.code));
            let severity = if finding.allowed.is_some() { Severity::Note } else { finding.severity };
            self.below(row, &told, Some(severity), lines);
        }
    }

    fn text(&self, row: &Row) -> String {
        let room = self.step.saturating_sub(row.mark.chars().count() + 2);
        format!("{} {}", row.mark, self.words(row, room))
    }

    /// The text of a row in this many characters. The reply is not cut off.
    fn words(&self, row: &Row, room: usize) -> String {
        let times = if row.times > 1 { format!(" \u{d7}{}", row.times) } else { String::new() };
        let behind = format!("{}{times}", row.answer);
        format!("{}{behind}", clipped(&row.text, room.saturating_sub(behind.chars().count()).max(5)))
    }

    /// Adds a line below a row, in its column.
    fn below(&self, row: &Row, told: &str, severity: Option<Severity>, lines: &mut Vec<String>) {
        let mut line = " ".repeat(FRONT);
        let own = row.column.unwrap_or(0);
        // Between two lines the lock is as after the first.
        let order = row.spot.order + 0.25;
        for stretches in self.stretches.iter().take(own) {
            let glyph: String = state(stretches, order).chars().take(1).collect();
            line.push_str(&exactly(&glyph, self.step));
        }
        let taken = line.chars().count();
        let told = clipped(told, WIDTH.saturating_sub(taken));
        line.push_str(&severity.map_or_else(|| told.clone(), |severity| severity.inked(self.ink, &told)));
        let mut reached = taken + told.chars().count();
        for (column, stretches) in self.stretches.iter().enumerate().skip(own + 1) {
            let at = FRONT + column * self.step;
            if at > reached {
                line.push_str(&" ".repeat(at - reached));
                line.extend(state(stretches, order).chars().take(1));
                reached = at + 1;
            }
        }
        lines.push(line);
    }
}

/// What a client believes at a moment, with a few words where that becomes wrong.
fn state(stretches: &[&ClientSpan], order: f64) -> String {
    let started = stretches.partition_point(|stretch| stretch.from.order <= order);
    let Some(stretch) = started.checked_sub(1).and_then(|last| stretches.get(last)) else {
        return "\u{2502}".to_owned();
    };
    let is_over = |spot: Option<AxisPoint>| spot.is_some_and(|spot| spot.order <= order);
    if is_over(stretch.until) {
        let goes_on = stretch.unnoticed.is_some() && !is_over(stretch.unnoticed);
        return if goes_on { "\u{254e}" } else { "\u{2502}" }.to_owned();
    }
    match (stretch.kind, &stretch.lost) {
        (SpanKind::Waiting, _) => "\u{2506}".to_owned(),
        (_, Some((spot, what))) if spot.order == order => format!("\u{254e} {what}"),
        (_, Some((spot, _))) if spot.order < order => "\u{254e}".to_owned(),
        (SpanKind::MayHold, _) => "\u{250b}".to_owned(),
        (SpanKind::Held, _) => "\u{2551}".to_owned(),
    }
}

/// A duration in seconds.
fn since(start: i64, at: i64) -> String {
    let micros = at.saturating_sub(start);
    let sign = if micros < 0 { "-" } else { "+" };
    let micros = micros.unsigned_abs();
    format!("{sign}{}.{:03}s", micros / 1_000_000, micros / 1000 % 1000)
}

/// A text padded with spaces.
fn exactly(text: &str, width: usize) -> String {
    let room = width.saturating_sub(text.chars().count());
    text.to_owned() + &" ".repeat(room)
}

fn padded(text: &str, width: usize) -> String {
    exactly(&clipped(text, width.saturating_sub(1)), width)
}
