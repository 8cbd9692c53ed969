//! The journal as lines of JSON.

use serde::Serialize;

use crate::control::{Child, Entry, rendered};

/// One entry. Bytes that are no UTF-8 are shown escaped, and stand in a field of their own in hexadecimal digits.
#[derive(Serialize)]
struct Line {
    seq: u64,
    time_us: i64,
    real_time_us: i64,
    duration_us: u64,
    client: u64,
    name: String,
    address: String,
    db: u32,
    #[serde(flatten)]
    ran: Ran,
    outcome: &'static str,
    gates: Vec<String>,
    children_missing: u64,
}

/// What both a command and one inside it have.
#[derive(Serialize)]
struct Ran {
    command: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    command_hex: Option<Vec<String>>,
    command_missing: u64,
    reply: String,
    raw: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_hex: Option<String>,
    reply_length: u64,
    fault: Option<String>,
    children: Vec<LineInside>,
}

#[derive(Serialize)]
struct LineInside {
    db: u32,
    #[serde(flatten)]
    ran: Ran,
}

/// Entries as a file has them: one object a line.
pub(super) fn exported(entries: &[Entry]) -> Vec<u8> {
    let mut lines = Vec::new();
    for entry in entries {
        // Nothing in a line can fail to be written to memory; if it did, the line would be left out.
        if let Ok(mut line) = serde_json::to_vec(&line(entry)) {
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

fn line(entry: &Entry) -> Line {
    Line {
        seq: entry.seq,
        time_us: entry.at,
        real_time_us: entry.real,
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
        outcome: entry.outcome.name(),
        gates: entry.gates.clone(),
        children_missing: entry.children_missing,
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::control::Outcome;

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
        let text = String::from_utf8(exported(&[entry])).unwrap();
        assert_eq!(text.lines().count(), 1);
        assert!(text.contains(r#""command":["SET","k\n","\\xff"],"command_hex":["534554","6b0a","ff"]"#), "{text}");
        assert!(text.contains(r#""reply":"OK","raw":"+OK\r\n","reply_length":5,"fault":null"#), "{text}");
    }
}
