//! The page: one file that loads nothing else.
//!
//! The contents of journals stand in it as JSON, and the page's script shows them as text. The content security policy
//! permits that script alone, by its hash.

use std::collections::BTreeMap;

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::caption::caption;
use super::data_values::{Act, ValueUse, culprit_of};
use super::readable::{clipped, line, readable, reply, visible};
use super::replicas::ReplicatingInstance;
use super::report_data::{AxisPoint, ClientSpan, KeyPresence, Moment, PlacedFinding, ReportData, seq_of, times_of};
use crate::insight::audit::{Doubts, HoldEnd, Severity, SpanKind, key_glob};
use crate::powers::{Child, Entry, Item, Outcome};

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/style.css");
const MODEL: &str = include_str!("page/model.js");
const STORY: &str = include_str!("page/story.js");
const DRAWING: &str = include_str!("page/drawing.js");
const RULER: &str = include_str!("page/ruler.js");
const SCRIPT: &str = include_str!("page/script.js");

/// How many of the commands that EXEC or a script ran are shown.
const MAX_INSIDE: usize = 40;

#[derive(Serialize)]
struct Data<'a> {
    servers: usize,
    commands: usize,
    moments_left_out: usize,
    locks_left_out: usize,
    findings_left_out: u64,
    clients: Vec<ClientData<'a>>,
    locks: Vec<LockData<'a>>,
    moments: Vec<MomentData>,
    stretches: Vec<StretchData<'a>>,
    stays: Vec<StayData>,
    findings: Vec<FindingData<'a>>,
    values: Vec<ValueData<'a>>,
    uses: Vec<UseData<'a>>,
    instances: Vec<InstanceData<'a>>,
    /// What each code means, in Markdown.
    codes: BTreeMap<&'static str, &'static str>,
}

#[derive(Serialize)]
struct ClientData<'a> {
    server: u16,
    id: u64,
    name: &'a str,
    address: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<&'a str>,
}

#[derive(Serialize)]
struct LockData<'a> {
    server: u16,
    db: u32,
    name: &'a str,
    worst: Option<&'static str>,
}

/// An instance of a process with replicas.
#[derive(Serialize)]
struct InstanceData<'a> {
    name: &'a str,
    server: Option<u16>,
    spans: Vec<PartData<'a>>,
    losses: Vec<LossData<'a>>,
}

/// What an instance was from a moment on.
#[derive(Serialize)]
struct PartData<'a> {
    since: Option<usize>,
    part: &'static str,
    #[serde(skip_serializing_if = "str::is_empty")]
    lag: &'a str,
}

#[derive(Serialize)]
struct LossData<'a> {
    written: usize,
    told: usize,
    key: &'a str,
}

/// A key with data of which something is lost.
#[derive(Serialize)]
struct ValueData<'a> {
    server: u16,
    db: u32,
    name: &'a str,
}

#[derive(Serialize)]
struct UseData<'a> {
    data: usize,
    moment: usize,
    #[serde(skip_serializing_if = "str::is_empty")]
    part: &'a str,
    act: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<&'a str>,
}

/// One line of a journal. Default values are left out.
#[derive(Default, Serialize)]
struct MomentData {
    server: u16,
    seq: u64,
    at: i64,
    real: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    client: Option<usize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    event: Option<&'static str>,
    /// The node that an event is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    /// What it did to a key that is no lock.
    #[serde(skip_serializing_if = "Option::is_none")]
    act: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lock: Option<usize>,
    line: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    reply: String,
    #[serde(skip_serializing_if = "is_nothing")]
    took: u64,
    #[serde(skip_serializing_if = "is_nothing")]
    db: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    gates: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    inside: Vec<String>,
}

/// A point on the three axes.
type Three = (f64, i64, i64);

#[derive(Serialize)]
struct StretchData<'a> {
    lock: usize,
    client: usize,
    kind: &'static str,
    from: Three,
    until: Option<Three>,
    end: Option<&'static str>,
    lost: Option<(Three, &'a str)>,
    unnoticed: Option<Three>,
    attempts: usize,
}

#[derive(Serialize)]
struct StayData {
    lock: usize,
    client: Option<usize>,
    from: Three,
    until: Option<Three>,
    #[serde(skip_serializing_if = "str::is_empty")]
    end: &'static str,
}

#[derive(Serialize)]
struct FindingData<'a> {
    code: &'static str,
    severity: &'static str,
    title: &'static str,
    caption: &'static str,
    instead: &'static str,
    more: String,
    first: usize,
    keys: String,
    question: &'static str,
    ask: Option<String>,
    deny: String,
    sentence: String,
    times: u64,
    server: u16,
    db: u32,
    key: String,
    lock: Option<usize>,
    culprit: Option<usize>,
    spot: Three,
    mark: Option<String>,
    allowed: Option<&'a str>,
    evidence: Vec<EvidenceData>,
}

#[derive(Serialize)]
struct EvidenceData {
    spot: Three,
    moment: Option<usize>,
    who: String,
    line: String,
    what: String,
}

pub fn html(data: &ReportData<'_>) -> String {
    // Escaped characters mean the same in JSON, and cannot end the element.
    let data = serde_json::to_string(&page_data(data)).unwrap_or_default();
    let data = data
        .replace('<', "\\u003c")
        .replace('>', "\\u003e")
        .replace('&', "\\u0026")
        .replace('\u{2028}', "\\u2028")
        .replace('\u{2029}', "\\u2029");
    let script = format!("'use strict';\n{MODEL}{STORY}{DRAWING}{RULER}{SCRIPT}");
    let policy = format!(
        "default-src 'none'; script-src '{}'; style-src '{}'; base-uri 'none'; form-action 'none'",
        hash_of(&script),
        hash_of(STYLE)
    );
    let mut page = String::with_capacity(PAGE.len() + STYLE.len() + script.len() + data.len());
    let mut rest = PAGE;
    let parts = [("{{policy}}", policy.as_str()), ("{{style}}", STYLE), ("{{data}}", &data), ("{{script}}", &script)];
    for (name, part) in parts {
        let (before, behind) = rest.split_once(name).unwrap_or((rest, ""));
        page.push_str(before);
        page.push_str(part);
        rest = behind;
    }
    page.push_str(rest);
    page
}

fn page_data<'a>(data: &'a ReportData<'a>) -> Data<'a> {
    Data {
        servers: data.servers,
        commands: data.commands,
        moments_left_out: data.moments_left_out,
        locks_left_out: data.locks_left_out,
        findings_left_out: data.unlisted,
        clients: data
            .clients
            .iter()
            .map(|client| ClientData {
                server: client.server,
                id: client.id,
                name: &client.name,
                address: &client.address,
                process: client.process.as_deref(),
                node: client.node.as_deref(),
            })
            .collect(),
        locks: data
            .locks
            .iter()
            .map(|lock| LockData {
                server: lock.id.server,
                db: lock.id.db,
                name: &lock.name,
                worst: lock.worst.map(Severity::name),
            })
            .collect(),
        moments: data.moments.iter().zip(&data.values.acts).map(|(line, act)| moment(line, *act)).collect(),
        stretches: data.stretches.iter().map(stretch).collect(),
        stays: data.stays.iter().map(stay).collect(),
        findings: data.found.iter().map(|found| finding(found, culprit_of(found, &data.clients))).collect(),
        values: data
            .values
            .data
            .iter()
            .map(|data| ValueData { server: data.server, db: data.db, name: &data.name })
            .collect(),
        uses: data.values.uses.iter().map(value_use).collect(),
        instances: data.instances.iter().map(instance).collect(),
        codes: data
            .found
            .iter()
            .map(|found| found.finding.code)
            .map(|code| (code.name(), code.explanation()))
            .collect(),
    }
}

fn instance(instance: &ReplicatingInstance) -> InstanceData<'_> {
    InstanceData {
        name: &instance.name,
        server: instance.server,
        spans: instance
            .spans
            .iter()
            .map(|span| PartData { since: span.since, part: span.part.name(), lag: &span.lag })
            .collect(),
        losses: instance
            .losses
            .iter()
            .map(|loss| LossData { written: loss.written, told: loss.told, key: &loss.key })
            .collect(),
    }
}

fn value_use(used: &ValueUse) -> UseData<'_> {
    UseData {
        data: used.data,
        moment: used.moment,
        part: &used.part,
        act: used.act.name(),
        value: used.value.as_deref(),
    }
}

fn moment(moment: &Moment<'_>, act: Option<Act>) -> MomentData {
    let (at, real) = times_of(moment.item);
    let common = MomentData {
        server: moment.server,
        seq: seq_of(moment.item),
        at,
        real,
        client: moment.client,
        act: act.filter(|_| moment.lock.is_none()).map(Act::name),
        ..MomentData::default()
    };
    match moment.item {
        Item::Command(entry) => command(entry, moment, common),
        Item::Event(event) => MomentData {
            event: Some(event.kind.name()),
            node: event.node.as_deref().filter(|_| event.kind.is_about_node()).map(visible),
            line: clipped(&visible(&event.detail), 200),
            ..common
        },
    }
}

fn command(entry: &Entry, moment: &Moment<'_>, common: MomentData) -> MomentData {
    let mut inside = Vec::new();
    list_inside(&entry.children, 0, &mut inside);
    if entry.children_missing > 0 {
        inside.push(format!("({} more that the journal has not kept)", entry.children_missing));
    }
    MomentData {
        kind: moment.lock.map(|_| moment.kind.name()),
        lock: moment.lock,
        line: line(&entry.words, entry.words_missing),
        reply: reply(entry),
        took: entry.duration,
        db: u64::from(entry.db),
        outcome: (entry.outcome != Outcome::Answered).then(|| entry.outcome.name()),
        fault: entry.fault.as_deref().map(visible),
        gates: entry.gates.iter().map(|gate| visible(gate)).collect(),
        inside,
        ..common
    }
}

fn list_inside(children: &[Child], depth: usize, lines: &mut Vec<String>) {
    for child in children {
        if lines.len() > MAX_INSIDE {
            return;
        }
        if lines.len() == MAX_INSIDE {
            return lines.push("\u{2026}".to_owned());
        }
        let shown = clipped(&line(&child.words, child.words_missing), 200);
        let answer = clipped(&visible(&crate::powers::rendered(&child.reply)), 100);
        lines.push(format!("{}{shown} \u{2192} {answer}", "  ".repeat(depth.min(8))));
        list_inside(&child.children, depth + 1, lines);
    }
}

fn stretch(stretch: &ClientSpan) -> StretchData<'_> {
    StretchData {
        lock: stretch.lock,
        client: stretch.client,
        kind: match stretch.kind {
            SpanKind::Held => "held",
            SpanKind::MayHold => "may-hold",
            SpanKind::Waiting => "waiting",
        },
        from: three(stretch.from),
        until: stretch.until.map(three),
        end: stretch.end.as_ref().map(|end| match end {
            HoldEnd::Released => "released",
            HoldEnd::Expired => "expired",
            HoldEnd::Closed => "closed",
            HoldEnd::Noticed => "told",
            HoldEnd::Unknown => "unknown",
        }),
        lost: stretch.lost.as_ref().map(|(spot, what)| (three(*spot), what.as_str())),
        unnoticed: stretch.unnoticed.map(three),
        attempts: stretch.attempts,
    }
}

fn stay(stay: &KeyPresence) -> StayData {
    StayData {
        lock: stay.lock,
        client: stay.client,
        from: three(stay.from),
        until: stay.until.map(three),
        end: stay.end,
    }
}

fn finding<'a>(found: &'a PlacedFinding<'a>, culprit: Option<usize>) -> FindingData<'a> {
    let finding = found.finding;
    let Doubts { question, ask, deny } = finding.doubts();
    FindingData {
        code: finding.code.name(),
        severity: finding.severity.name(),
        title: finding.code.title(),
        caption: caption(finding.code),
        instead: finding.instead(),
        more: finding.docs(),
        first: found.first,
        keys: readable(&key_glob(&finding.key)),
        question,
        ask: ask.map(|ask| visible(&ask)),
        deny: visible(&deny),
        sentence: visible(&finding.sentence),
        times: finding.times,
        server: finding.server,
        db: finding.db,
        key: readable(&finding.key),
        lock: found.lock,
        culprit,
        spot: three(found.spot),
        mark: finding.mark.as_deref().map(visible),
        allowed: finding.allowed.as_deref(),
        evidence: found
            .proofs
            .iter()
            .map(|proof| EvidenceData {
                spot: three(proof.spot),
                moment: proof.moment,
                who: if proof.shown.source.client == 0 {
                    String::new()
                } else {
                    visible(&proof.shown.source.placed_name())
                },
                line: visible(&proof.shown.source.line),
                what: visible(&proof.shown.what),
            })
            .collect(),
    }
}

fn three(spot: AxisPoint) -> Three {
    (spot.order, spot.at, spot.real)
}

fn is_nothing(number: &u64) -> bool {
    *number == 0
}

/// A hash as a content security policy has it.
fn hash_of(text: &str) -> String {
    format!("sha256-{}", base64(&Sha256::digest(text.as_bytes())))
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for part in bytes.chunks(3) {
        let bits = part.iter().chain(&[0, 0]).take(3).fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte));
        for (id, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let letter = if id <= part.len() { LETTERS[bits >> shift & 63] } else { b'=' };
            text.push(char::from(letter));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_are_written_as_browsers_read_them() {
        for (bytes, text) in
            [(&b""[..], ""), (b"f", "Zg=="), (b"fo", "Zm8="), (b"foo", "Zm9v"), (b"foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes), text);
        }
    }

    #[test]
    fn the_page_has_a_place_for_each_part() {
        for name in ["{{policy}}", "{{style}}", "{{data}}", "{{script}}"] {
            assert_eq!(PAGE.matches(name).count(), 1, "{name}");
        }
        assert!(
            ![MODEL, STORY, DRAWING, RULER, SCRIPT].concat().contains("innerHTML"),
            "nothing of a journal is taken for HTML"
        );
    }
}
