//! Follows the journals of running servers, and writes them to files.

use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::journal_writer::JournalWriter;
use super::say;
use crate::base::clock::{Clock, Stopwatch, real_micros};
use crate::base::duration::spell_duration;
use crate::base::text::counted;
use crate::cli::flags::Options;
use crate::cli::outputs::prepare;
use crate::cli::run_audit::NumberedInstance;
use crate::cli::run_results::path_beside;
use crate::cli::shell_quoted;
use crate::cli::subcommand::Subcommand;
use crate::commands;
use crate::insight::recording::{KeyFilter, Redactor, ValueMode};
use crate::insight::scripts::ScriptKnowledge;
use crate::powers::{Event, EventKind, Follower, Item, Outcome};
use crate::protocol::OwnedWords;
use crate::spec::Table;

/// The most records that are taken from a journal at once, while its commands wait.
const BATCH: usize = 256;
/// The most records that wait for one with a smaller number, and the longest time that they do.
const MOST_HELD: usize = 4096;
const LONGEST_HELD: Duration = Duration::from_millis(500);
/// The most different clients and keys that are counted.
const MOST_COUNTED: usize = 1 << 20;

/// What the flags say.
pub(super) struct RecorderOptions {
    path: PathBuf,
    shown: PathBuf,
    overwrites: bool,
    max_size: Option<u64>,
    keys: Vec<Vec<u8>>,
    values: ValueMode,
}

impl RecorderOptions {
    /// `None` if no file is named. Creates the file's directory.
    pub fn new(options: &Options) -> Option<Result<Self, String>> {
        let shown = options.output.clone()?;
        let mut path = shown.clone();
        Some(prepare(&mut path).map(|()| Self {
            path,
            shown,
            overwrites: options.overwrites,
            max_size: options.max_size,
            keys: options.keys.clone(),
            values: options.values,
        }))
    }
}

/// Why a recording has ended that nobody ended.
#[derive(Debug)]
pub(super) enum RecordingEnd {
    Time,
    Size,
    Failed(String),
}

/// Follows the journals of servers, and writes each to a file as it comes.
pub(super) struct Recorder {
    sources: Vec<Source>,
    table: Table,
    redactor: Redactor,
    values: ValueMode,
    has_filter: bool,
    /// The bytes that may still be written.
    room: u64,
    size: u64,
    since: Stopwatch,
    counts: Counts,
    /// When records that wait are written all the same.
    tick: Pin<Box<dyn Future<Output = ()>>>,
}

/// One server.
struct Source {
    number: u16,
    follower: Follower,
    /// The index of the next record in the ring.
    next: u64,
    /// Where to stop, once nothing more is to be recorded.
    last: Option<u64>,
    /// Records by their numbers: those of other connections can come late.
    held: BTreeMap<u64, Item>,
    /// The number that the next record should have.
    expected: u64,
    /// What has a number up to this one has waited long enough.
    due: u64,
    scripts: ScriptKnowledge,
    filter: KeyFilter,
    writer: JournalWriter,
}

#[derive(Default)]
struct Counts {
    commands: u64,
    unknown: u64,
    filtered: u64,
    missing: u64,
    clients: DistinctCount<(u16, u64)>,
    keys: DistinctCount<(u16, u32, Vec<u8>)>,
}

/// How many different ones there were, in bounded memory.
#[derive(Default)]
struct DistinctCount<T> {
    seen: HashSet<T>,
    is_full: bool,
}

impl<T: std::hash::Hash + Eq> DistinctCount<T> {
    fn add(&mut self, item: T) {
        if self.seen.len() < MOST_COUNTED {
            self.seen.insert(item);
        } else {
            self.is_full |= !self.seen.contains(&item);
        }
    }

    fn text(&self, noun: &str) -> String {
        let more = if self.is_full { "more than " } else { "" };
        format!("{more}{}", counted(self.seen.len() as u64, noun))
    }
}

impl Recorder {
    /// Creates the files. The journals are on already, and empty.
    pub fn start(options: RecorderOptions, servers: &[NumberedInstance]) -> Result<Self, String> {
        let has_filter = !options.keys.is_empty();
        // The commands of every release, because it is unknown which one the server is.
        let table = commands::table_of_every_profile();
        let source = |(number, instance): &NumberedInstance| {
            let (path, shown) = (path_beside(&options.path, *number, ""), path_beside(&options.shown, *number, ""));
            let follower = instance.control.journal.follower();
            Ok(Source {
                number: *number,
                follower,
                next: 0,
                last: None,
                held: BTreeMap::new(),
                expected: 1,
                due: 0,
                scripts: ScriptKnowledge::new(&instance.profile, table.clone()),
                filter: KeyFilter::new(options.keys.clone()),
                writer: JournalWriter::create(&path, shown, options.overwrites)?,
            })
        };
        Ok(Self {
            sources: servers.iter().map(source).collect::<Result<_, String>>()?,
            table,
            redactor: Redactor::new(options.values)?,
            values: options.values,
            has_filter,
            room: options.max_size.unwrap_or(u64::MAX),
            size: 0,
            since: Stopwatch::start(),
            counts: Counts::default(),
            tick: Box::pin(Clock::sleep(LONGEST_HELD)),
        })
    }

    /// Writes what has come. Ready only if the recording ends by itself.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<RecordingEnd> {
        let is_due = self.tick.as_mut().poll(cx).is_ready();
        if is_due {
            self.tick = Box::pin(Clock::sleep(LONGEST_HELD));
            cx.waker().wake_by_ref();
        }
        let mut has_more = false;
        for at in 0..self.sources.len() {
            match self.advance(at, is_due) {
                Ok(more) => has_more |= more,
                Err(end) => return Poll::Ready(end),
            }
            let source = &mut self.sources[at];
            source.follower.pass_over();
            has_more |= source.follower.poll_more(cx).is_ready();
            // One can have come before it passed over them.
            has_more |= source.follower.journal().stats().written > source.next;
        }
        if has_more {
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// What comes from now on is not recorded.
    pub fn stop_following(&mut self) {
        for source in &mut self.sources {
            source.last = Some(source.follower.journal().stats().written);
        }
    }

    /// Writes what had come when following was stopped.
    pub fn poll_rest(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RecordingEnd>> {
        for at in 0..self.sources.len() {
            match self.advance(at, false) {
                Ok(true) => {
                    cx.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Ok(false) => {}
                Err(end) => return Poll::Ready(Err(end)),
            }
        }
        for at in 0..self.sources.len() {
            if let Err(end) = self.write_held(at, u64::MAX) {
                return Poll::Ready(Err(end));
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Takes some records of a server, and writes those whose turn it is. Returns whether there are more.
    fn advance(&mut self, at: usize, is_due: bool) -> Result<bool, RecordingEnd> {
        let source = &mut self.sources[at];
        let journal = source.follower.journal();
        if source.last.is_none() && !journal.is_on() {
            let reason = "a client has switched the journal off, by REDOUBLE JOURNAL STOP or REDOUBLE RESET";
            return Err(RecordingEnd::Failed(reason.to_owned()));
        }
        let locked = journal.lock();
        let missing = locked.oldest().saturating_sub(source.next);
        source.next += missing;
        let last = source.last.unwrap_or(u64::MAX).min(locked.written());
        let room = usize::try_from(last.saturating_sub(source.next)).unwrap_or(usize::MAX);
        let records = locked.raw_records_from(source.next).take(BATCH.min(room));
        let items: Vec<Item> = records.filter_map(|raw| Some(raw.read()?.item())).collect();
        drop(locked);
        source.next += items.len() as u64;
        let has_more = source.next < last && !items.is_empty();
        if missing > 0 {
            self.counts.missing += missing;
            self.write_held(at, u64::MAX)?;
            let first = items.iter().map(seq_of).min();
            let source = &mut self.sources[at];
            source.expected = first.unwrap_or(source.expected);
            let event = missing_event(missing, source.expected.saturating_sub(1));
            self.write_item(at, event)?;
        }
        let source = &mut self.sources[at];
        source.held.extend(items.into_iter().map(|item| (seq_of(&item), item)));
        let mut due = 0;
        if is_due {
            due = std::mem::replace(&mut source.due, newest(&source.held));
        }
        self.write_held(at, due)?;
        Ok(has_more)
    }

    /// Writes the records whose turn it is, and those up to a number.
    fn write_held(&mut self, at: usize, due: u64) -> Result<(), RecordingEnd> {
        loop {
            let source = &mut self.sources[at];
            let Some(first) = source.held.first_entry() else { break };
            let seq = *first.key();
            if seq > source.expected && seq > due && source.held.len() <= MOST_HELD {
                break;
            }
            let Some((_, item)) = source.held.pop_first() else { break };
            source.expected = source.expected.max(seq + 1);
            self.write_item(at, item)?;
        }
        self.sources[at].writer.write().map_err(RecordingEnd::Failed)
    }

    fn write_item(&mut self, at: usize, mut item: Item) -> Result<(), RecordingEnd> {
        let source = &mut self.sources[at];
        // As long as its arguments are there.
        if let Item::Command(entry) = &mut item {
            source.scripts.complete(entry);
        }
        if !source.filter.keeps(&self.table, &item) {
            self.counts.filtered += u64::from(matches!(item, Item::Command(_)));
            return Ok(());
        }
        self.redactor.redact(&self.table, &mut item);
        let Some(length) = source.writer.add(&item, self.room) else {
            source.writer.write().map_err(RecordingEnd::Failed)?;
            return Err(RecordingEnd::Size);
        };
        self.room -= length;
        self.size += length;
        if let Item::Command(entry) = &item {
            let words: OwnedWords = entry.words.iter().map(Vec::as_slice).collect();
            for key in self.table.name(words.as_words()).keys {
                self.counts.keys.add((source.number, entry.db, key.to_vec()));
            }
            self.counts.commands += 1;
            self.counts.unknown += u64::from(entry.outcome == Outcome::Unknown);
            self.counts.clients.add((source.number, entry.client));
        }
        Ok(())
    }

    /// Says what was recorded; returns the status.
    pub fn conclude(&self, end: Option<RecordingEnd>) -> u8 {
        let counts = &self.counts;
        let commands = counted(counts.commands, "command");
        let (clients, keys) = (counts.clients.text("client"), counts.keys.text("key"));
        let millis = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        let time = spell_duration(Duration::from_millis(millis));
        let files: Vec<String> = self.sources.iter().map(|source| quoted(&source.writer)).collect();
        say(&format!("{commands} of {clients} on {keys} in {time}: {} bytes in {}", self.size, files.join(" ")));
        match &end {
            Some(RecordingEnd::Time) => say("the time of --for is over"),
            Some(RecordingEnd::Size) => say("ended by --max-size: what came then is not in the file"),
            Some(RecordingEnd::Failed(reason)) => say(&format!("ended early: {reason}")),
            None => {}
        }
        if self.has_filter {
            say(&format!("left out: {} that --keys does not ask for", counted(counts.filtered, "command")));
        }
        if counts.missing > 0 {
            let records = counted(counts.missing, "record");
            say(&format!(
                "missing: {records} came too fast to be written; the file says where (\"event\":\"missing\")"
            ));
        }
        if counts.unknown > 0 {
            let commands = counted(counts.unknown, "command");
            say(&format!("unknown: {commands} had no reply, and may have run or not"));
        }
        say(match self.values {
            ValueMode::Hash => "values are hashed with a key that nobody has; names of keys and clients are readable",
            ValueMode::Redact => "values are left out; names of keys and clients are readable",
            ValueMode::Keep => "values are in the file as they were (--values keep)",
        });
        if counts.commands > 0 {
            say(&format!("next: redouble audit {}", files.join(" ")));
            say(&format!("      redouble report {} -o report.html", files.join(" ")));
        } else {
            say("nothing was recorded: no client sent a command through the address above");
        }
        if let Some(RecordingEnd::Failed(_)) = end { Subcommand::Record.failure_status() } else { 0 }
    }
}

fn quoted(writer: &JournalWriter) -> String {
    shell_quoted(writer.shown().as_os_str())
}

fn newest(held: &BTreeMap<u64, Item>) -> u64 {
    held.last_key_value().map_or(0, |(seq, _)| *seq)
}

fn seq_of(item: &Item) -> u64 {
    match item {
        Item::Command(entry) => entry.seq,
        Item::Event(event) => event.seq,
    }
}

/// Says that so many records up to this number are not in the file.
fn missing_event(records: u64, seq: u64) -> Item {
    let now = real_micros();
    Item::Event(Event {
        seq,
        at: now,
        real: now,
        kind: EventKind::Missing,
        client: 0,
        name: Vec::new(),
        address: String::new(),
        process: None,
        node: None,
        detail: counted(records, "record"),
        key: None,
        had_by: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::clients::instance::Instance;
    use crate::powers::{LEAST_SIZE, RecordedLines};

    #[tokio::test]
    async fn what_came_too_fast_is_told_in_the_file_and_counted() {
        let folder = std::env::temp_dir().join(format!("redouble-recorder-{}", std::process::id()));
        let path = folder.join("journal.jsonl");
        let instance = Arc::new(Instance::default());
        let journal = &instance.control.journal;
        journal.start(LEAST_SIZE);
        let shown = Some(path.clone());
        let options = RecorderOptions::new(&Options { output: shown, ..Options::default() }).unwrap().unwrap();
        let mut recorder = Recorder::start(options, &[(1, Arc::clone(&instance))]).unwrap();
        // Four times as much as there is room for, before anybody reads.
        let (key, all) = ([b'k'; 1000], 4 * LEAST_SIZE as u64 / 1000);
        (0..all).for_each(|_| journal.note_eviction(0, &key, (1, 1)));
        recorder.stop_following();
        while recorder.advance(0, false).unwrap() {}
        std::future::poll_fn(|cx| recorder.poll_rest(cx)).await.unwrap();
        let file = std::io::BufReader::new(std::fs::File::open(&path).unwrap());
        let lines: Vec<Item> = RecordedLines::of(file).map(|line| line.unwrap().1).collect();
        let Item::Event(first) = &lines[0] else { panic!("{:?}", lines[0]) };
        let missing = all + 1 - lines.len() as u64;
        assert_eq!((first.kind, first.detail.as_str()), (EventKind::Missing, counted(missing, "record").as_str()));
        assert_eq!(first.seq + 1, seq_of(&lines[1]));
        assert_eq!(recorder.counts.missing, missing);
        assert!(missing > all / 2);
        std::fs::remove_dir_all(folder).unwrap();
    }
}
