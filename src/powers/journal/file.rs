//! The journal as a file: lines of JSON. The output of MONITOR is read, too.

use std::collections::HashMap;
use std::io::{self, BufRead};
use std::path::Path;
use std::sync::Arc;

use foldhash::fast::FixedState;
use serde::{Deserialize, Serialize};

use super::entry::{Child, EffectOrder, Entry, Event, EventKind, Item, Outcome};
use super::monitor_file::{MonitorFile, given_name};
use super::render::rendered;
use crate::base::files;
use crate::base::process::Process;
use crate::base::text::{hex, utf8_or_escaped};

/// The longest line, in bytes. Whatever a journal keeps of a command is shorter, also in hexadecimal digits.
const LONGEST_LINE: u64 = 64 << 20;

/// A command as a line. Bytes that are not UTF-8 are escaped, and repeated in hexadecimal digits in a field of their own.
#[derive(Serialize)]
struct Line {
    seq: u64,
    time_us: i64,
    real_time_us: i64,
    #[serde(skip_serializing_if = "Option::is_none")]
    sent_us: Option<i64>,
    /// Absent for the total order.
    #[serde(skip_serializing_if = "Option::is_none")]
    order: Option<&'static str>,
    duration_us: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    held_after_us: Option<u64>,
    client: u64,
    name: String,
    address: String,
    #[serde(flatten)]
    process: ProcessFields,
    /// Absent without a deployment.
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    db: u32,
    #[serde(flatten)]
    ran: CommandFields,
    outcome: &'static str,
    gates: Vec<String>,
    children_missing: u64,
}

/// The process of a client. Absent if it is not known; `program` also if it is the one that the server is in.
#[derive(Default, Serialize)]
struct ProcessFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    program: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    process_started_us: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent_pid: Option<u32>,
}

/// The fields that a command and a nested one share.
#[derive(Serialize)]
struct CommandFields {
    command: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command_hex: Option<Vec<String>>,
    command_missing: u64,
    /// As people read it.
    reply: String,
    raw: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_hex: Option<String>,
    reply_length: u64,
    fault: Option<String>,
    /// Absent if they are unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    children: Option<Vec<NestedLine>>,
}

#[derive(Serialize)]
struct NestedLine {
    db: u32,
    #[serde(flatten)]
    ran: CommandFields,
}

/// An event as a line.
#[derive(Serialize)]
struct EventLine {
    seq: u64,
    time_us: i64,
    real_time_us: i64,
    event: &'static str,
    client: u64,
    name: String,
    address: String,
    #[serde(flatten)]
    process: ProcessFields,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<String>,
    detail: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    db: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    key_hex: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    had_by: Vec<String>,
}

/// A line as it is read: a command or an event. Few fields are required, so that journals of other tools can be read, too.
#[derive(Deserialize)]
struct AnyLine {
    seq: u64,
    time_us: i64,
    real_time_us: Option<i64>,
    sent_us: Option<i64>,
    order: Option<String>,
    #[serde(default)]
    duration_us: u64,
    held_after_us: Option<u64>,
    #[serde(default)]
    client: u64,
    name: Option<String>,
    #[serde(default)]
    address: String,
    pid: Option<u32>,
    program: Option<String>,
    process_started_us: Option<i64>,
    parent_pid: Option<u32>,
    node: Option<String>,
    db: Option<u32>,
    command: Option<Vec<String>>,
    command_hex: Option<Vec<String>>,
    #[serde(default)]
    command_missing: u64,
    #[serde(default)]
    raw: String,
    raw_hex: Option<String>,
    reply_length: Option<u64>,
    outcome: Option<String>,
    fault: Option<String>,
    #[serde(default)]
    gates: Vec<String>,
    children: Option<Vec<AnyNestedLine>>,
    #[serde(default)]
    children_missing: u64,
    event: Option<String>,
    #[serde(default)]
    detail: String,
    key: Option<String>,
    key_hex: Option<String>,
    #[serde(default)]
    had_by: Vec<String>,
}

#[derive(Deserialize)]
struct AnyNestedLine {
    #[serde(default)]
    db: u32,
    command: Vec<String>,
    command_hex: Option<Vec<String>>,
    #[serde(default)]
    command_missing: u64,
    #[serde(default)]
    raw: String,
    raw_hex: Option<String>,
    reply_length: Option<u64>,
    fault: Option<String>,
    #[serde(default)]
    children: Vec<AnyNestedLine>,
}

/// A journal as the text of a file, one JSON object a line, and the number of commands in it.
pub fn exported_journal(items: &[Item]) -> (Vec<u8>, u64) {
    let commands = items.iter().filter(|item| matches!(item, Item::Command(_))).count();
    (exported(items), commands as u64)
}

/// Writes a journal to a file that the operator has named, whole or not at all. Returns the number of commands.
pub fn write_journal(path: &Path, items: &[Item]) -> io::Result<u64> {
    let (content, commands) = exported_journal(items);
    files::write_atomically(path, &content)?;
    Ok(commands)
}

/// Reads a journal and passes on each line. Empty lines are skipped. The error says which line is wrong, and why; the lines
/// before it were passed on.
pub fn read_journal(lines: impl BufRead, mut take: impl FnMut(Item)) -> io::Result<()> {
    for item in RecordedLines::of(lines) {
        take(item?.1);
    }
    Ok(())
}

/// The lines of a journal with their numbers, from 1. Empty lines are skipped. An error says which line is wrong and why,
/// and is the last item.
pub struct RecordedLines<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
    is_over: bool,
    has_begun: bool,
    /// If it is no journal but the output of MONITOR.
    monitor: Option<MonitorFile>,
    sessions: Sessions,
}

impl<R: BufRead> RecordedLines<R> {
    pub fn of(input: R) -> Self {
        let (line, sessions) = (Vec::new(), Sessions::default());
        Self { input, line, number: 0, is_over: false, has_begun: false, monitor: None, sessions }
    }

    fn read(&mut self) -> io::Result<Option<(u64, Item)>> {
        loop {
            self.line.clear();
            let room = io::Read::take(&mut self.input, LONGEST_LINE).read_until(b'\n', &mut self.line)?;
            if room == 0 {
                return Ok(self.monitor.as_mut().and_then(MonitorFile::finish));
            }
            self.number += 1;
            if self.line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            if !self.has_begun {
                self.has_begun = true;
                self.monitor = MonitorFile::begin_with(&self.line).then(MonitorFile::default);
            }
            let number = self.number;
            let item = match (self.line.len() as u64 == LONGEST_LINE, &mut self.monitor) {
                (true, _) => Err(format!("it is longer than {} MB", LONGEST_LINE >> 20)),
                // Whoever ends MONITOR may cut off its last line.
                (false, Some(monitor)) => match monitor.take(number, &self.line) {
                    Err(_) if !self.line.ends_with(b"\n") => Ok(None),
                    taken => taken,
                },
                (false, None) => read_line(&self.line, &mut self.sessions).map(|item| Some((number, item))),
            };
            match item {
                Ok(None) => {}
                Ok(item) => return Ok(item),
                Err(error) => {
                    let text = format!("line {number}: {error}");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, text));
                }
            }
        }
    }
}

impl<R: BufRead> Iterator for RecordedLines<R> {
    type Item = io::Result<(u64, Item)>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let next = self.read().transpose();
        self.is_over = !matches!(next, Some(Ok(_)));
        next
    }
}

/// The sessions of clients, for journals that do not say in which database a command ran, or how its client is called.
#[derive(Default)]
struct Sessions {
    of_clients: HashMap<u64, Session, FixedState>,
    /// The processes, by number.
    processes: HashMap<u32, Arc<Process>, FixedState>,
}

#[derive(Default)]
struct Session {
    db: u32,
    name: Vec<u8>,
}

/// How many sessions are followed.
const MAX_SESSIONS: usize = 100_000;

impl Sessions {
    /// A process, as one value for all its lines.
    fn shared(&mut self, process: Process) -> Arc<Process> {
        match self.processes.get(&process.pid) {
            Some(known) if **known == process => return Arc::clone(known),
            None if self.processes.len() >= MAX_SESSIONS => return Arc::new(process),
            _ => {}
        }
        let process = Arc::new(process);
        self.processes.insert(process.pid, Arc::clone(&process));
        process
    }

    /// Adds to an entry what the commands before it in its session say, and learns from it.
    fn complete(&mut self, entry: &mut Entry, has_db: bool, has_name: bool) {
        if has_db && has_name || self.of_clients.len() >= MAX_SESSIONS && !self.of_clients.contains_key(&entry.client) {
            return;
        }
        let session = self.of_clients.entry(entry.client).or_default();
        if !has_db {
            entry.db = session.db;
        }
        if !has_name {
            entry.name.clone_from(&session.name);
        }
        // A reply that is missing is no error.
        if entry.reply.starts_with(b"-") || entry.reply == b"+QUEUED\r\n" {
            return;
        }
        let is = |name: &str| entry.words.first().is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()));
        if is("SELECT") {
            let given = entry.words.get(1).and_then(|word| std::str::from_utf8(word).ok()?.parse().ok());
            session.db = given.unwrap_or(session.db);
        } else if is("RESET") {
            session.db = 0;
        }
        if let Some(name) = given_name(&entry.words) {
            session.name = name.to_vec();
        }
    }
}

fn read_line(line: &[u8], sessions: &mut Sessions) -> Result<Item, String> {
    let read: AnyLine = serde_json::from_slice(line).map_err(|error| {
        // The caller adds the number of the line.
        let text = error.to_string();
        text.replace(" at line 1 column ", ", at column ")
    })?;
    let process = read.process().map(|process| sessions.shared(process));
    match (read.command.is_some(), &read.event) {
        (true, _) => {
            let (has_db, has_name) = (read.db.is_some(), read.name.is_some());
            let mut entry = read.entry(process)?;
            sessions.complete(&mut entry, has_db, has_name);
            Ok(Item::Command(Box::new(entry)))
        }
        (false, Some(_)) => read.event(process).map(Item::Event),
        (false, None) => Err("there is neither a command nor an event".to_owned()),
    }
}

impl ProcessFields {
    fn of(process: Option<&Process>) -> Self {
        process.map_or_else(Self::default, |process| Self {
            pid: Some(process.pid),
            program: Some(process.program.to_string()).filter(|program| !program.is_empty()),
            process_started_us: Some(process.started).filter(|started| *started != 0),
            parent_pid: Some(process.parent).filter(|parent| *parent != 0),
        })
    }
}

impl AnyLine {
    fn process(&self) -> Option<Process> {
        Some(Process {
            pid: self.pid?,
            started: self.process_started_us.unwrap_or_default(),
            parent: self.parent_pid.unwrap_or_default(),
            program: self.program.as_deref().unwrap_or_default().into(),
        })
    }

    fn entry(self, process: Option<Arc<Process>>) -> Result<Entry, String> {
        let outcome = match &self.outcome {
            None => Outcome::Answered,
            Some(name) => Outcome::ALL
                .into_iter()
                .find(|outcome| outcome.name() == name)
                .ok_or_else(|| format!("there is no outcome '{name}'"))?,
        };
        let order = match &self.order {
            None => EffectOrder::Total,
            Some(name) => EffectOrder::ALL
                .into_iter()
                .find(|order| order.name() == name)
                .ok_or_else(|| format!("there is no order '{name}'"))?,
        };
        let reply = bytes(self.raw, self.raw_hex.as_deref())?;
        Ok(Entry {
            seq: self.seq,
            at: self.time_us,
            real: self.real_time_us.unwrap_or(self.time_us),
            sent: self.sent_us,
            order,
            duration: self.duration_us,
            held_after: self.held_after_us,
            client: self.client,
            name: self.name.unwrap_or_default().into_bytes(),
            address: self.address,
            process,
            node: self.node,
            db: self.db.unwrap_or_default(),
            words: words(self.command.unwrap_or_default(), self.command_hex.as_deref())?,
            words_missing: self.command_missing,
            reply_length: self.reply_length.unwrap_or(reply.len() as u64),
            reply,
            outcome,
            fault: self.fault,
            gates: self.gates,
            are_children_unknown: self.children.is_none(),
            children: self.children.into_iter().flatten().map(AnyNestedLine::child).collect::<Result<_, _>>()?,
            children_missing: self.children_missing,
        })
    }

    fn event(self, process: Option<Arc<Process>>) -> Result<Event, String> {
        let name = self.event.unwrap_or_default();
        let kind = EventKind::ALL.into_iter().find(|kind| kind.name() == name);
        let key = match (self.key, &self.key_hex) {
            (None, None) => None,
            (key, hex) => Some((self.db.unwrap_or_default(), bytes(key.unwrap_or_default(), hex.as_deref())?)),
        };
        Ok(Event {
            seq: self.seq,
            at: self.time_us,
            real: self.real_time_us.unwrap_or(self.time_us),
            kind: kind.ok_or_else(|| format!("there is no event '{name}'"))?,
            client: self.client,
            name: self.name.unwrap_or_default().into_bytes(),
            address: self.address,
            process,
            node: self.node,
            detail: self.detail,
            key,
            had_by: self.had_by,
        })
    }
}

impl AnyNestedLine {
    fn child(self) -> Result<Child, String> {
        let reply = bytes(self.raw, self.raw_hex.as_deref())?;
        Ok(Child {
            db: self.db,
            words: words(self.command, self.command_hex.as_deref())?,
            words_missing: self.command_missing,
            reply_length: self.reply_length.unwrap_or(reply.len() as u64),
            reply,
            fault: self.fault,
            children: self.children.into_iter().map(Self::child).collect::<Result<_, _>>()?,
        })
    }
}

/// The words of a command, from digits if there are any.
fn words(text: Vec<String>, hex: Option<&[String]>) -> Result<Vec<Vec<u8>>, String> {
    match hex {
        Some(words) => words.iter().map(|word| bytes_of(word)).collect(),
        None => Ok(text.into_iter().map(String::into_bytes).collect()),
    }
}

/// A reply, from digits if there are any.
fn bytes(text: String, hex: Option<&str>) -> Result<Vec<u8>, String> {
    hex.map_or_else(|| Ok(text.into_bytes()), bytes_of)
}

/// A journal as the text of a file.
fn exported(items: &[Item]) -> Vec<u8> {
    let mut lines = Vec::new();
    items.iter().for_each(|item| push_line(item, &mut lines));
    lines
}

/// Adds an entry or an event as a line of a file.
pub fn push_line(item: &Item, lines: &mut Vec<u8>) {
    let line = match item {
        Item::Command(entry) => serde_json::to_vec(&line(entry)),
        Item::Event(event) => serde_json::to_vec(&event_line(event)),
    };
    // Serializing these fields to memory cannot fail.
    if let Ok(mut line) = line {
        lines.append(&mut line);
        lines.push(b'\n');
    }
}

impl CommandFields {
    /// The fields of a command that was kept whole.
    fn of(words: &[Vec<u8>], reply: &[u8], children: &[Child], are_children_unknown: bool) -> Self {
        Self {
            command: words.iter().map(|word| readable(word)).collect(),
            command_hex: hex_of_all(words),
            command_missing: 0,
            reply: rendered(reply),
            raw: readable(reply),
            raw_hex: hex_if_needed(reply),
            reply_length: reply.len() as u64,
            fault: None,
            children: (!are_children_unknown).then(|| children.iter().map(line_inside).collect()),
        }
    }
}

fn line(entry: &Entry) -> Line {
    Line {
        seq: entry.seq,
        time_us: entry.at,
        real_time_us: entry.real,
        sent_us: entry.sent,
        order: (entry.order != EffectOrder::Total).then(|| entry.order.name()),
        duration_us: entry.duration,
        held_after_us: entry.held_after,
        client: entry.client,
        name: readable(&entry.name),
        address: entry.address.clone(),
        process: ProcessFields::of(entry.process.as_deref()),
        node: entry.node.clone(),
        db: entry.db,
        ran: CommandFields {
            command_missing: entry.words_missing,
            reply_length: entry.reply_length,
            fault: entry.fault.clone(),
            ..CommandFields::of(&entry.words, &entry.reply, &entry.children, entry.are_children_unknown)
        },
        outcome: entry.outcome.name(),
        gates: entry.gates.clone(),
        children_missing: entry.children_missing,
    }
}

fn event_line(event: &Event) -> EventLine {
    EventLine {
        seq: event.seq,
        time_us: event.at,
        real_time_us: event.real,
        event: event.kind.name(),
        client: event.client,
        name: readable(&event.name),
        address: event.address.clone(),
        process: ProcessFields::of(event.process.as_deref()),
        node: event.node.clone(),
        detail: event.detail.clone(),
        db: event.key.as_ref().map(|(db, _)| *db),
        key: event.key.as_ref().map(|(_, key)| readable(key)),
        key_hex: event.key.as_ref().and_then(|(_, key)| hex_if_needed(key)),
        had_by: event.had_by.clone(),
    }
}

fn line_inside(child: &Child) -> NestedLine {
    NestedLine {
        db: child.db,
        ran: CommandFields {
            command_missing: child.words_missing,
            reply_length: child.reply_length,
            fault: child.fault.clone(),
            ..CommandFields::of(&child.words, &child.reply, &child.children, false)
        },
    }
}

fn readable(bytes: &[u8]) -> String {
    utf8_or_escaped(bytes).into_owned()
}

fn hex_of_all(words: &[Vec<u8>]) -> Option<Vec<String>> {
    let is_needed = words.iter().any(|word| std::str::from_utf8(word).is_err());
    is_needed.then(|| words.iter().map(|word| hex(word)).collect())
}

fn hex_if_needed(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).is_err().then(|| hex(bytes))
}

fn bytes_of(digits: &str) -> Result<Vec<u8>, String> {
    let bytes = digits.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair).ok().filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    });
    bytes.collect::<Option<_>>().ok_or_else(|| format!("'{digits}' is no bytes in hexadecimal digits"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_escaped_and_given_in_digits() {
        let process = Process { pid: 4711, started: 5, parent: 9, program: "python worker.py".into() };
        let entry = Entry {
            seq: 7,
            at: 1,
            real: 2,
            sent: Some(1),
            order: EffectOrder::Interval,
            duration: 3,
            held_after: None,
            client: 4,
            name: b"worker".to_vec(),
            address: "127.0.0.1:5".into(),
            process: Some(Arc::new(process)),
            node: Some("127.0.0.1:7001".into()),
            db: 0,
            words: vec![b"SET".to_vec(), b"k\n".to_vec(), vec![0xff]],
            words_missing: 0,
            reply: b"+OK\r\n".to_vec(),
            reply_length: 5,
            outcome: Outcome::Answered,
            fault: None,
            gates: Vec::new(),
            children: Vec::new(),
            children_missing: 0,
            are_children_unknown: false,
        };
        let item = Item::Command(Box::new(entry));
        let text = String::from_utf8(exported(std::slice::from_ref(&item))).unwrap();
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains(r#""command":["SET","k\n","\\xff"],"command_hex":["534554","6b0a","ff"]"#), "{text}");
        assert!(text.contains(r#""address":"127.0.0.1:5","pid":4711,"program":"python worker.py","process_started_us":5,"parent_pid":9,"node":"127.0.0.1:7001","db":0"#), "{text}");
        assert!(text.contains(r#""reply":"OK","raw":"+OK\r\n","reply_length":5,"fault":null"#), "{text}");
        let mut read = Vec::new();
        read_journal(text.as_bytes(), |item| read.push(item)).unwrap();
        assert_eq!(read, [item]);
    }

    #[test]
    fn what_an_upstream_server_did_is_read_as_it_was_written() {
        let line =
            r#"{"seq":3,"time_us":9,"sent_us":5,"order":"exact","client":4,"command":["EVALSHA"],"outcome":"unknown"}"#;
        let read = |text: &str| {
            let mut items = Vec::new();
            read_journal(text.as_bytes(), |item| items.push(item)).map(|()| items).map_err(|error| error.to_string())
        };
        let items = read(line).unwrap();
        let Item::Command(entry) = &items[0] else { panic!("{items:?}") };
        assert_eq!((entry.sent, entry.order, entry.outcome), (Some(5), EffectOrder::Exact, Outcome::Unknown));
        assert!(entry.are_children_unknown);
        let text = String::from_utf8(exported(&items)).unwrap();
        assert!(text.contains(r#""sent_us":5,"order":"exact","#) && !text.contains("children\""), "{text}");
        assert_eq!(read(&text), Ok(items));
        // A script that ran nothing is another matter.
        let known = read(&line.replace("}", r#","children":[]}"#)).unwrap();
        assert!(matches!(&known[0], Item::Command(entry) if !entry.are_children_unknown));
        assert!(read(&line.replace("exact", "any")).unwrap_err().contains("there is no order 'any'"));
    }

    #[test]
    fn an_evicted_key_is_given_with_its_database_and_its_bytes() {
        let of_key = |key: &[u8]| {
            let (name, address) = (Vec::new(), String::new());
            let detail = String::from_utf8_lossy(key).into_owned();
            let (kind, key) = (EventKind::Evicted, Some((3, key.to_vec())));
            Item::Event(Event {
                seq: 7,
                at: 1,
                real: 2,
                kind,
                client: 0,
                name,
                address,
                process: None,
                node: None,
                detail,
                key,
                had_by: Vec::new(),
            })
        };
        let items = [of_key(b"lock:a"), of_key(b""), of_key(&[0xff])];
        let text = String::from_utf8(exported(&items)).unwrap();
        assert!(
            text.contains(r#""event":"evicted","client":0,"#) && text.contains(r#""db":3,"key":"lock:a"}"#),
            "{text}"
        );
        let mut read = Vec::new();
        read_journal(text.as_bytes(), |item| read.push(item)).unwrap();
        assert_eq!(read, items);
    }

    #[test]
    fn a_promotion_names_the_new_master_and_the_one_before() {
        let line = r#"{"seq":7,"time_us":1,"event":"promoted","node":"10.0.0.2:7002","detail":"10.0.0.1:7001"}"#;
        let mut items = Vec::new();
        read_journal(line.as_bytes(), |item| items.push(item)).unwrap();
        let Item::Event(event) = &items[0] else { panic!("{items:?}") };
        assert_eq!((event.kind, event.detail.as_str()), (EventKind::Promoted, "10.0.0.1:7001"));
        assert_eq!(event.node.as_deref(), Some("10.0.0.2:7002"));
        let text = String::from_utf8(exported(&items)).unwrap();
        assert!(text.contains(r#""node":"10.0.0.2:7002","detail":"10.0.0.1:7001"}"#), "{text}");
        let mut read = Vec::new();
        read_journal(text.as_bytes(), |item| read.push(item)).unwrap();
        assert_eq!(read, items);
    }

    #[test]
    fn a_line_that_is_none_is_named() {
        let event = r#"{"seq":1,"time_us":2,"event":"closed","client":3}"#;
        let command = r#"{"seq":2,"time_us":2,"client":3,"command":["PING"],"outcome":"answered"}"#;
        let read = |text: &str| {
            let mut count = 0;
            read_journal(text.as_bytes(), |_| count += 1).map(|()| count).map_err(|error| error.to_string())
        };
        assert_eq!(read(&format!("{event}\n\n{command}\n")), Ok(2));
        for (wrong, why) in [
            ("{", "line 2: EOF while parsing"),
            (r#"{"seq":1,"time_us":2,"client":3,"command":["PING"],"outcome":"told"}"#, "there is no outcome 'told'"),
            (r#"{"seq":1,"time_us":2,"event":"broke"}"#, "there is no event 'broke'"),
        ] {
            let error = read(&format!("{event}\n{wrong}\n")).unwrap_err();
            assert!(error.contains(why), "{error}");
        }
    }
}
