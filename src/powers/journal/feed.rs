//! Commands as lines of text, for somebody who watches while they come.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::entry::{Child, Entry, Event, EventKind, Item, Outcome};
use super::short_line;
use crate::base::sync::MutexExt;
use crate::base::text::{counted, printable, time_of_day, utf8_or_escaped};
use crate::powers::explore::summarize;

/// The most bytes of lines that wait to be read. What comes while there are more is counted, not kept.
const MAX_WAITING: usize = 1 << 20;
/// How many of the commands that a script or EXEC runs are shown, and how deep.
const MAX_CHILDREN: usize = 20;
const DEEPEST: usize = 4;

/// Lines that wait for their reader. The journals that write them never wait for it.
#[derive(Default)]
pub struct CommandFeed {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

#[derive(Default)]
struct Waiting {
    lines: VecDeque<String>,
    bytes: usize,
    /// How many commands were left out since the last line.
    left_out: u64,
    is_closed: bool,
}

impl CommandFeed {
    /// Adds a line, which is made only if there is room for it.
    fn add(&self, line: impl FnOnce() -> String) {
        let mut waiting = self.waiting.lock_ignoring_poison();
        if waiting.bytes >= MAX_WAITING {
            waiting.left_out += 1;
            return;
        }
        let line = line();
        waiting.bytes += line.len();
        waiting.lines.push_back(line);
        drop(waiting);
        self.changed.notify_one();
    }

    /// The lines that wait, in their order; blocks the thread until there are some. `None` once the feed is closed and all
    /// were read.
    pub fn next(&self) -> Option<Vec<String>> {
        let mut waiting = self.waiting.lock_ignoring_poison();
        while waiting.lines.is_empty() && waiting.left_out == 0 {
            if waiting.is_closed {
                return None;
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        }
        let mut lines: Vec<String> = waiting.lines.drain(..).collect();
        waiting.bytes = 0;
        match std::mem::take(&mut waiting.left_out) {
            0 => {}
            left_out => lines.push(format!("({} not shown: they came too fast)", counted(left_out, "command"))),
        }
        Some(lines)
    }

    /// No more lines come.
    pub fn close(&self) {
        self.waiting.lock_ignoring_poison().is_closed = true;
        self.changed.notify_one();
    }
}

/// The feed of one journal: lines say which server and which space they are from, if there can be several.
#[derive(Clone)]
pub struct JournalFeed {
    feed: Arc<CommandFeed>,
    server: String,
    space: String,
}

impl JournalFeed {
    /// `number` is that of the server, if there are several.
    pub fn new(feed: Arc<CommandFeed>, number: Option<u16>) -> Self {
        let server = number.map(|number| format!("server {number} ")).unwrap_or_default();
        Self { feed, server, space: String::new() }
    }

    /// The same for a space of the server.
    pub fn of_space(&self, name: &[u8]) -> Self {
        let space = format!("space {} ", printable(&utf8_or_escaped(name)));
        Self { space, ..self.clone() }
    }

    pub(super) fn add(&self, item: impl FnOnce() -> Item) {
        self.feed.add(|| match item() {
            Item::Command(entry) => self.command(&entry),
            Item::Event(event) => self.event(&event),
        });
    }

    fn command(&self, entry: &Entry) -> String {
        let client = match entry.name.as_slice() {
            [] => entry.address.as_str().into(),
            name => utf8_or_escaped(name),
        };
        let node = entry.node.as_ref().map(|node| format!(" to {node}")).unwrap_or_default();
        let place = format!("{}{}[{} {}{}]", self.server, self.space, entry.db, printable(&client), printable(&node));
        let fault = entry.fault.as_ref().map(|name| format!(" (fault {name})")).unwrap_or_default();
        let command = shown(&entry.words, entry.words_missing, &entry.reply);
        let outcome = match entry.outcome {
            Outcome::Answered | Outcome::Queued => "",
            Outcome::Lost => " (the reply was lost)",
            Outcome::NeverRan => " (never ran)",
            Outcome::Silent => " (without a reply)",
            Outcome::Evicted => " (evicted)",
            Outcome::Unknown => " (it is unknown whether it ran)",
            Outcome::Mark => " (mark)",
        };
        let mut line = format!("#{} {} {place} {command}{outcome}{fault}", entry.seq, time_of_day(entry.at));
        add_children(&mut line, &entry.children, 1);
        line
    }

    fn event(&self, event: &Event) -> String {
        let node = event.node.as_deref().unwrap_or_default();
        let what = match event.kind {
            EventKind::Closed => format!(
                "[{}] disconnected",
                if event.name.is_empty() { event.address.clone().into() } else { utf8_or_escaped(&event.name) }
            ),
            EventKind::Started => format!("the server serves again, {}", event.detail),
            EventKind::Clock => format!("the clock was moved: {}", event.detail),
            EventKind::Evicted => format!("evicted: {}", event.detail),
            EventKind::Missing => format!("missing: {}", event.detail),
            EventKind::Promoted if event.detail.is_empty() => format!("{node} is master now"),
            EventKind::Promoted => format!("{node} is master now, in place of {}", event.detail),
            EventKind::Lost => format!("lost, because {node} is master now without it: {}", event.detail),
            EventKind::Link => format!("the link to {node}: {}", event.detail),
            EventKind::Replaced => format!("{node} is master now in place of this server: {}", event.detail),
            EventKind::Topology => format!("{node}: {}", event.detail),
            EventKind::Mark => format!("mark: {}", event.detail),
        };
        let (server, space) = (&self.server, &self.space);
        format!("#{} {} {server}{space}({})", event.seq, time_of_day(event.at), printable(&what))
    }
}

/// A command with its reply, on one line.
fn shown(words: &[Vec<u8>], words_missing: u64, reply: &[u8]) -> String {
    let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
    let rest = if words_missing > 0 { " ..." } else { "" };
    let reply = if reply.is_empty() { String::new() } else { format!(" -> {}", summarize(reply)) };
    printable(&format!("{}{rest}{reply}", short_line(&words))).into_owned()
}

fn add_children(line: &mut String, children: &[Child], depth: usize) {
    for (number, child) in children.iter().enumerate() {
        let indent = "  ".repeat(depth);
        if number == MAX_CHILDREN || depth > DEEPEST {
            line.push_str(&format!("\n{indent}..."));
            return;
        }
        line.push_str(&format!("\n{indent}{}", shown(&child.words, child.words_missing, &child.reply)));
        add_children(line, &child.children, depth + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_reads_in_time_is_counted_and_takes_no_more_memory() {
        let feed = CommandFeed::default();
        let line = "x".repeat(1000);
        let fit = MAX_WAITING / 1000 + 1;
        for _ in 0..fit + 7 {
            feed.add(|| line.clone());
        }
        let lines = feed.next().unwrap();
        assert_eq!(lines.len(), fit + 1);
        assert_eq!(lines.last().unwrap(), "(7 commands not shown: they came too fast)");
        feed.add(|| "one more".to_owned());
        feed.close();
        assert_eq!(feed.next(), Some(vec!["one more".to_owned()]));
        assert_eq!(feed.next(), None);
    }
}
