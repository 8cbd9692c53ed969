//! The journal as a file: lines of JSON.

use std::io::{self, BufRead, Read};
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::entry::{Child, Entry, Event, EventKind, Item, Outcome};
use super::render::rendered;
use crate::files;

/// How long a line may be: whatever a journal keeps of a command is shorter, also in digits.
const LONGEST_LINE: u64 = 64 << 20;

/// One command. Bytes that are no UTF-8 are shown escaped, and stand in a field of their own in hexadecimal digits.
#[derive(Serialize, Deserialize)]
struct Line {
    seq: u64,
    time_us: i64,
    #[serde(default)]
    real_time_us: Option<i64>,
    #[serde(default)]
    duration_us: u64,
    client: u64,
    #[serde(default)]
    name: String,
    #[serde(default)]
    address: String,
    #[serde(default)]
    db: u32,
    #[serde(flatten)]
    ran: Ran,
    outcome: String,
    #[serde(default)]
    gates: Vec<String>,
    #[serde(default)]
    children_missing: u64,
}

/// What both a command and one inside it have.
#[derive(Serialize, Deserialize)]
struct Ran {
    command: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    command_hex: Option<Vec<String>>,
    #[serde(default)]
    command_missing: u64,
    /// As people read it; not read back.
    #[serde(default)]
    reply: String,
    #[serde(default)]
    raw: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    raw_hex: Option<String>,
    #[serde(default)]
    reply_length: u64,
    #[serde(default)]
    fault: Option<String>,
    #[serde(default)]
    children: Vec<LineInside>,
}

#[derive(Serialize, Deserialize)]
struct LineInside {
    #[serde(default)]
    db: u32,
    #[serde(flatten)]
    ran: Ran,
}

/// What happened beside commands.
#[derive(Serialize, Deserialize)]
struct EventLine {
    seq: u64,
    time_us: i64,
    #[serde(default)]
    real_time_us: Option<i64>,
    event: String,
    #[serde(default)]
    client: u64,
    #[serde(default)]
    name: String,
    #[serde(default)]
    address: String,
    #[serde(default)]
    detail: String,
}

/// Writes a journal to a file, one JSON object a line; it is there whole or not at all. Says how many commands there are.
pub fn write_journal(path: &Path, items: &[Item]) -> io::Result<u64> {
    files::replace(path, &exported(items))?;
    Ok(items.iter().filter(|item| matches!(item, Item::Command(_))).count() as u64)
}

/// Reads a journal, line by line; each is handed on as it comes. Empty lines are passed over. The error says which line
/// is none, and why; what came before it was handed on.
pub fn read_journal(lines: impl BufRead, mut take: impl FnMut(Item)) -> io::Result<()> {
    for item in RecordedLines::of(lines) {
        take(item?.1);
    }
    Ok(())
}

/// The lines of a journal with their numbers in the file, from 1. Empty lines are passed over; nothing comes after an error,
/// which says which line is none, and why.
pub struct RecordedLines<R> {
    input: R,
    line: Vec<u8>,
    number: u64,
    is_over: bool,
}

impl<R: BufRead> RecordedLines<R> {
    pub fn of(input: R) -> Self {
        Self { input, line: Vec::new(), number: 0, is_over: false }
    }

    fn read(&mut self) -> io::Result<Option<(u64, Item)>> {
        loop {
            self.line.clear();
            let room = (&mut self.input).take(LONGEST_LINE).read_until(b'\n', &mut self.line)?;
            if room == 0 {
                return Ok(None);
            }
            self.number += 1;
            if self.line.iter().all(u8::is_ascii_whitespace) {
                continue;
            }
            let item = match self.line.len() as u64 == LONGEST_LINE {
                true => Err(format!("it is longer than {} MB", LONGEST_LINE >> 20)),
                false => read_line(&self.line),
            };
            return item.map(|item| Some((self.number, item))).map_err(|error| {
                let text = format!("line {}: {error}", self.number);
                io::Error::new(io::ErrorKind::InvalidData, text)
            });
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

fn read_line(line: &[u8]) -> Result<Item, String> {
    // Nearly every line is a command; to parse twice is for those that are none.
    match serde_json::from_slice::<Line>(line) {
        Ok(line) => line.entry().map(|entry| Item::Command(Box::new(entry))),
        Err(error) => match serde_json::from_slice::<EventLine>(line) {
            Ok(line) => line.event().map(Item::Event),
            Err(_) => Err(error.to_string()),
        },
    }
}

impl Line {
    fn entry(mut self) -> Result<Entry, String> {
        let outcome = Outcome::ALL.into_iter().find(|outcome| outcome.name() == self.outcome);
        let (words, reply) = self.ran.bytes()?;
        Ok(Entry {
            seq: self.seq,
            at: self.time_us,
            real: self.real_time_us.unwrap_or(self.time_us),
            duration: self.duration_us,
            client: self.client,
            name: self.name.into_bytes(),
            address: self.address,
            db: self.db,
            words,
            words_missing: self.ran.command_missing,
            reply,
            reply_length: self.ran.reply_length,
            outcome: outcome.ok_or_else(|| format!("there is no outcome '{}'", self.outcome))?,
            fault: self.ran.fault,
            gates: self.gates,
            children: self.ran.children.into_iter().map(LineInside::child).collect::<Result<_, _>>()?,
            children_missing: self.children_missing,
        })
    }
}

impl LineInside {
    fn child(mut self) -> Result<Child, String> {
        let (words, reply) = self.ran.bytes()?;
        Ok(Child {
            db: self.db,
            words,
            words_missing: self.ran.command_missing,
            reply,
            reply_length: self.ran.reply_length,
            fault: self.ran.fault,
            children: self.ran.children.into_iter().map(Self::child).collect::<Result<_, _>>()?,
        })
    }
}

impl EventLine {
    fn event(self) -> Result<Event, String> {
        let kind = EventKind::ALL.into_iter().find(|kind| kind.name() == self.event);
        Ok(Event {
            seq: self.seq,
            at: self.time_us,
            real: self.real_time_us.unwrap_or(self.time_us),
            kind: kind.ok_or_else(|| format!("there is no event '{}'", self.event))?,
            client: self.client,
            name: self.name.into_bytes(),
            address: self.address,
            detail: self.detail,
        })
    }
}

/// A journal as a file has it: one object a line.
fn exported(items: &[Item]) -> Vec<u8> {
    let mut lines = Vec::new();
    for item in items {
        let line = match item {
            Item::Command(entry) => serde_json::to_vec(&line(entry)),
            Item::Event(event) => serde_json::to_vec(&event_line(event)),
        };
        // Nothing in a line can fail to be written to memory; if it did, the line would be left out.
        if let Ok(mut line) = line {
            lines.append(&mut line);
            lines.push(b'\n');
        }
    }
    lines
}

impl Ran {
    /// What is kept of a command, whole.
    fn of(words: &[Vec<u8>], reply: &[u8], children: &[Child]) -> Self {
        Self {
            command: words.iter().map(|word| readable(word)).collect(),
            command_hex: hex_of_all(words),
            command_missing: 0,
            reply: rendered(reply),
            raw: readable(reply),
            raw_hex: hex_if_needed(reply),
            reply_length: reply.len() as u64,
            fault: None,
            children: children.iter().map(line_inside).collect(),
        }
    }
}

impl Ran {
    /// The words and the reply as they were.
    fn bytes(&mut self) -> Result<(Vec<Vec<u8>>, Vec<u8>), String> {
        let command = std::mem::take(&mut self.command);
        let words = match &self.command_hex {
            Some(words) => words.iter().map(|word| bytes_of(word)).collect::<Result<_, _>>()?,
            None => command.into_iter().map(String::into_bytes).collect(),
        };
        let reply = match &self.raw_hex {
            Some(raw) => bytes_of(raw)?,
            None => std::mem::take(&mut self.raw).into_bytes(),
        };
        Ok((words, reply))
    }
}

fn line(entry: &Entry) -> Line {
    Line {
        seq: entry.seq,
        time_us: entry.at,
        real_time_us: Some(entry.real),
        duration_us: entry.duration,
        client: entry.client,
        name: readable(&entry.name),
        address: entry.address.clone(),
        db: entry.db,
        ran: Ran {
            command_missing: entry.words_missing,
            reply_length: entry.reply_length,
            fault: entry.fault.clone(),
            ..Ran::of(&entry.words, &entry.reply, &entry.children)
        },
        outcome: entry.outcome.name().to_owned(),
        gates: entry.gates.clone(),
        children_missing: entry.children_missing,
    }
}

fn event_line(event: &Event) -> EventLine {
    EventLine {
        seq: event.seq,
        time_us: event.at,
        real_time_us: Some(event.real),
        event: event.kind.name().to_owned(),
        client: event.client,
        name: readable(&event.name),
        address: event.address.clone(),
        detail: event.detail.clone(),
    }
}

fn line_inside(child: &Child) -> LineInside {
    LineInside {
        db: child.db,
        ran: Ran {
            command_missing: child.words_missing,
            reply_length: child.reply_length,
            fault: child.fault.clone(),
            ..Ran::of(&child.words, &child.reply, &child.children)
        },
    }
}

fn readable(bytes: &[u8]) -> String {
    std::str::from_utf8(bytes).map_or_else(|_| bytes.escape_ascii().to_string(), str::to_owned)
}

fn hex_of_all(words: &[Vec<u8>]) -> Option<Vec<String>> {
    let is_needed = words.iter().any(|word| std::str::from_utf8(word).is_err());
    is_needed.then(|| words.iter().map(|word| hex(word)).collect())
}

fn hex_if_needed(bytes: &[u8]) -> Option<String> {
    std::str::from_utf8(bytes).is_err().then(|| hex(bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
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
        let entry = Entry {
            seq: 7,
            at: 1,
            real: 2,
            duration: 3,
            client: 4,
            name: b"worker".to_vec(),
            address: "127.0.0.1:5".into(),
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
        };
        let item = Item::Command(Box::new(entry));
        let text = String::from_utf8(exported(&[item.clone()])).unwrap();
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains(r#""command":["SET","k\n","\\xff"],"command_hex":["534554","6b0a","ff"]"#), "{text}");
        assert!(text.contains(r#""reply":"OK","raw":"+OK\r\n","reply_length":5,"fault":null"#), "{text}");
        let mut read = Vec::new();
        read_journal(text.as_bytes(), |item| read.push(item)).unwrap();
        assert_eq!(read, [item]);
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
