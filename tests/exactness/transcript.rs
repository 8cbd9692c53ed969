//! Transcripts: what a client sends and what the server answers, in files that people can read.
//!
//! ```text
//! # A line that begins with "# " is a comment.
//! > SET k "a\r\nb"          sends a command, with redis-cli's quoting, and reads one reply
//! +OK                       the reply that is expected
//! > MGET k missing
//! *2
//!   $"a\r\nb"               elements are indented; a map's keys and values stand in turn
//!   nil
//! ```
//!
//! Replies: `+status`, `-error`, `:integer`, `$"bulk"`, `nil` (`$-1`), `nil-array` (`*-1`), `null` (`_`), `*array`,
//! `%map`, `~set`, `push N`, `|attribute`, `,double`, `#true`, `#false`, `(big number`, `="txt:verbatim"`.
//! A pattern stands for what differs from run to run: `:<any>`, `:<1..100>`, `$<any>`, `$~"glob *"`, `*<any>` (an
//! array with anything in it) and `<any>` (any reply at all).
//!
//! Words may contain `{now+5}` and `{nowms+5}` (unix time in seconds and milliseconds), `{id:b}` and `{addr:b}` (the id
//! and address of connection b) and `{32*ab}` (a word repeated).
//!
//! | line | meaning |
//! |---|---|
//! | `>> WORDS` | sends a command and reads nothing; goes on when the server has it, if it is one that blocks |
//! | `@raw "bytes"` | sends bytes; likewise |
//! | `@read` | reads one reply, which follows |
//! | `@messages` | reads all messages that have arrived: those before the reply to a PING |
//! | `@closed` | the server has closed this connection |
//! | `@client b` | continues on connection b; the first connection is a |
//! | `@new` | replaces this connection by a new one |
//! | `@resp3` | switches this connection to RESP3 |
//! | `@unordered` | the elements of the next reply may come in any order |
//! | `@pairs` | the pairs of the next reply, an array of names and values in turn, may come in any order |
//! | `@advance 1500` | moves the clock by milliseconds (only in `@clock` files) |
//! | `@start NAME VALUE` | at the top: the servers are started with this directive |
//! | `@compat PROFILE` | at the top: only redouble with this profile runs this file |
//! | `@clock` | at the top: only redouble, with a frozen clock, runs this file |

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use redouble::Server;

use crate::support::process::ServerProcess;
use crate::support::upstream::Front;
use crate::support::wire::{Frame, ReadError, Wire, request, split};
use crate::support::{CHECKED_PROFILE, address, profile, wait_until};

/// A transcript, parsed from its file.
pub struct Transcript {
    path: PathBuf,
    lines: Vec<Line>,
    /// The profile that the transcript needs, or none if the real server can run it.
    pub compat: Option<String>,
    pub clock: bool,
    start: Vec<(String, String)>,
}

enum Line {
    /// A comment, an empty line, or a setting at the top.
    Text(String),
    Step(Step),
}

struct Step {
    number: usize,
    text: String,
    action: Action,
    expected: Vec<String>,
    order: Order,
}

/// The order in which the elements of a reply may come.
#[derive(Clone, Copy)]
enum Order {
    AsWritten,
    Any,
    /// Pairs in any order.
    Pairs,
}

enum Action {
    Command(Vec<Vec<u8>>),
    Send(Vec<Vec<u8>>),
    Raw(Vec<u8>),
    Read,
    Messages,
    Closed,
    Client(String),
    New,
    Resp3,
    Order(Order),
    Advance(Duration),
}

pub fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/exactness/transcripts")
}

impl Transcript {
    pub fn load(name: &str) -> Self {
        let path = directory().join(format!("{name}.txt"));
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut transcript = Self { path, lines: Vec::new(), compat: None, clock: false, start: Vec::new() };
        let mut order = Order::AsWritten;
        for (index, line) in text.lines().enumerate() {
            let number = index + 1;
            if line.is_empty() || line.starts_with("# ") || line == "#" {
                transcript.lines.push(Line::Text(line.to_owned()));
            } else if let Some(action) = transcript.action(number, line) {
                let next = if let Action::Order(order) = action { order } else { Order::AsWritten };
                let step = Step { number, text: line.to_owned(), action, expected: Vec::new(), order };
                transcript.lines.push(Line::Step(step));
                order = next;
            } else if line.starts_with('@') {
                transcript.lines.push(Line::Text(line.to_owned()));
            } else {
                let Some(Line::Step(step)) = transcript.lines.last_mut() else {
                    panic!("{}:{number}: a reply to nothing", transcript.path.display());
                };
                step.expected.push(line.to_owned());
            }
        }
        transcript
    }

    /// Parses a line as an action. Settings take effect at once and return `None`, as replies do.
    fn action(&mut self, number: usize, line: &str) -> Option<Action> {
        let place = format!("{}:{number}", self.path.display());
        let words = |text: &str| split(text.as_bytes()).unwrap_or_else(|| panic!("{place}: unbalanced quotes"));
        if let Some(rest) = line.strip_prefix(">> ") {
            return Some(Action::Send(words(rest)));
        }
        if let Some(rest) = line.strip_prefix("> ") {
            return Some(Action::Command(words(rest)));
        }
        let line = line.strip_prefix('@')?;
        let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
        Some(match name {
            "raw" => Action::Raw(words(rest).concat()),
            "read" => Action::Read,
            "messages" => Action::Messages,
            "closed" => Action::Closed,
            "client" => Action::Client(rest.to_owned()),
            "new" => Action::New,
            "resp3" => Action::Resp3,
            "unordered" => Action::Order(Order::Any),
            "pairs" => Action::Order(Order::Pairs),
            "advance" => Action::Advance(Duration::from_millis(rest.parse().expect("@advance MILLISECONDS"))),
            "clock" => {
                self.clock = true;
                return None;
            }
            "compat" => {
                self.compat = Some(rest.to_owned());
                return None;
            }
            "start" => {
                let (name, value) = rest.split_once(' ').expect("@start NAME VALUE");
                self.start.push((format!("--{name}"), value.to_owned()));
                return None;
            }
            _ => panic!("{place}: unknown directive @{name}"),
        })
    }

    /// Whether the real server can run the transcript.
    pub fn is_checked(&self) -> bool {
        self.compat.is_none() && !self.clock
    }

    /// Runs the transcript against redouble: in this process, or as the program if it needs directives.
    pub fn play_to_redouble(&self) {
        let compat = self.compat.as_deref().unwrap_or(CHECKED_PROFILE);
        let outcome = if self.start.is_empty() {
            let server = crate::support::start(Server::builder().compat(profile(compat)));
            if self.clock {
                server.freeze();
            }
            self.play(&Stage { server: Some(&server), ..Stage::at(address(&server)) })
        } else {
            let server = ServerProcess::redouble(&[&["--compat", compat][..], &self.directives()].concat());
            if self.clock {
                Wire::connect(server.address()).ask("REDOUBLE CLOCK FREEZE");
            }
            self.play(&Stage::at(server.address()))
        };
        self.judge(&outcome);
    }

    fn directives(&self) -> Vec<&str> {
        self.start.iter().flat_map(|(name, value)| [name.as_str(), value.as_str()]).collect()
    }

    /// Runs the transcript against the real server. With `REDOUBLE_RECORD=1` records its answers.
    pub fn play_to_redis(&self) {
        assert!(self.is_checked(), "the real server cannot play {}", self.path.display());
        let server = ServerProcess::redis(&self.directives());
        let outcome = self.play(&Stage::at(server.address()));
        if is_recording() { self.record(&outcome) } else { self.judge(&outcome) }
    }

    /// Runs the transcript against the real server through redouble in front of it.
    pub fn play_to_upstream(&self) {
        assert!(self.is_checked(), "the real server cannot play {}", self.path.display());
        let server = ServerProcess::redis(&self.directives());
        let front = Front::of(&server.url());
        let outcome = self.play(&Stage { address: front.address(), observed: server.address(), server: None });
        self.judge(&outcome);
    }

    /// Records the answers of a running server, for profiles that the tests cannot start.
    pub fn record_from(&self, address: SocketAddr) {
        Wire::connect(address).ask("FLUSHALL");
        self.record(&self.play(&Stage::at(address)));
    }

    fn steps(&self) -> impl Iterator<Item = &Step> {
        self.lines.iter().filter_map(|line| match line {
            Line::Step(step) => Some(step),
            Line::Text(_) => None,
        })
    }

    /// Runs all steps and returns the reply lines of each.
    fn play(&self, stage: &Stage) -> Vec<Vec<String>> {
        let Stage { address, server, .. } = *stage;
        let mut connections = Connections::from([("a".to_owned(), KnownConnection::connect(address))]);
        let mut current = "a".to_owned();
        let mut answers = Vec::new();
        for step in self.steps() {
            let answer = match &step.action {
                Action::Command(words) => {
                    let words = fill_in(words, stage, &mut connections);
                    let wire = connection(&mut connections, &current);
                    wire.send(&request(&words));
                    reply(wire, step.order)
                }
                Action::Send(words) => {
                    let words = fill_in(words, stage, &mut connections);
                    let bytes = request(&words);
                    send(connection(&mut connections, &current), &bytes, blocks(&words).then_some(stage.observed));
                    Vec::new()
                }
                Action::Raw(bytes) => {
                    let bytes = fill_in(std::slice::from_ref(bytes), stage, &mut connections).concat();
                    let may_block = blocks(&raw_words(&bytes));
                    send(connection(&mut connections, &current), &bytes, may_block.then_some(stage.observed));
                    Vec::new()
                }
                Action::Read => reply(connection(&mut connections, &current), step.order),
                Action::Messages => messages(connection(&mut connections, &current)),
                Action::Closed => match connection(&mut connections, &current).read() {
                    Err(ReadError::Closed) => Vec::new(),
                    Err(silence) => vec![format!("!! {silence}")],
                    Ok(frame) => rendered(frame, step.order),
                },
                Action::Client(name) => {
                    connections.entry(name.clone()).or_insert_with(|| KnownConnection::connect(address));
                    current.clone_from(name);
                    Vec::new()
                }
                Action::New => {
                    connections.insert(current.clone(), KnownConnection::connect(address));
                    Vec::new()
                }
                Action::Resp3 => {
                    let hello = connection(&mut connections, &current).ask("HELLO 3");
                    assert!(matches!(hello, Frame::Map(_)), "HELLO 3: {hello:?}");
                    Vec::new()
                }
                Action::Advance(duration) => {
                    match server {
                        Some(server) => server.advance(*duration),
                        None => {
                            let millis = duration.as_millis();
                            let moved = Wire::connect(address).ask(&format!("REDOUBLE CLOCK ADVANCE {millis}"));
                            assert!(!matches!(moved, Frame::Error(_)), "only redouble's clock can be moved: {moved:?}");
                        }
                    }
                    Vec::new()
                }
                Action::Order(_) => Vec::new(),
            };
            answers.push(answer);
        }
        answers
    }

    /// Fails the test if the answers differ from the transcript.
    fn judge(&self, answers: &[Vec<String>]) {
        let mut report = String::new();
        let mut failures = 0;
        for (step, answer) in self.steps().zip(answers) {
            if !agree(&step.expected, answer) {
                failures += 1;
                if failures <= 20 {
                    let _ = writeln!(report, "line {}: {}", step.number, step.text);
                    for line in &step.expected {
                        let _ = writeln!(report, "    expected  {line}");
                    }
                    for line in answer {
                        let _ = writeln!(report, "    answered  {line}");
                    }
                }
            }
        }
        assert!(failures == 0, "{}: {failures} answers are not as written\n{report}", self.path.display());
    }

    /// Rewrites the answers in the file that differ.
    fn record(&self, answers: &[Vec<String>]) {
        let mut text = String::new();
        let mut answers = answers.iter();
        for line in &self.lines {
            match line {
                Line::Text(line) => text.extend([line, "\n"]),
                Line::Step(step) => {
                    let answer = answers.next().expect("an answer for every step");
                    let kept = if agree(&step.expected, answer) { &step.expected } else { answer };
                    text.extend([&step.text, "\n"]);
                    for line in kept {
                        text.extend([line, "\n"]);
                    }
                }
            }
        }
        std::fs::write(&self.path, text).unwrap_or_else(|error| panic!("{}: {error}", self.path.display()));
    }

    /// Returns the commands that the transcript sends, as COMMAND LIST names them; also with their first argument,
    /// which may be a subcommand.
    pub fn commands(&self) -> Vec<String> {
        let lower = |word: &[u8]| String::from_utf8_lossy(word).to_lowercase();
        self.steps()
            .filter_map(|step| match &step.action {
                Action::Command(words) | Action::Send(words) => Some(words),
                _ => None,
            })
            .flat_map(|words| match words.as_slice() {
                [] => Vec::new(),
                [name] => vec![lower(name)],
                [name, first, ..] => vec![lower(name), format!("{}|{}", lower(name), lower(first))],
            })
            .collect()
    }
}

pub fn is_recording() -> bool {
    std::env::var_os("REDOUBLE_RECORD").is_some_and(|value| value == "1")
}

/// The servers of one run.
struct Stage<'a> {
    /// Where the transcript's clients connect to.
    address: SocketAddr,
    /// The server that executes their commands.
    observed: SocketAddr,
    /// That server, if it is in this process.
    server: Option<&'a Server>,
}

impl Stage<'_> {
    fn at(address: SocketAddr) -> Self {
        Self { address, observed: address, server: None }
    }
}

/// A connection, and its client id once it is known.
struct KnownConnection {
    wire: Wire,
    id: Option<i64>,
}

impl KnownConnection {
    fn connect(address: SocketAddr) -> Self {
        Self { wire: Wire::connect(address), id: None }
    }

    /// Asks the server only once, because a blocked client cannot answer.
    fn id(&mut self) -> i64 {
        *self.id.get_or_insert_with(|| self.wire.ask("CLIENT ID").integer())
    }
}

type Connections = BTreeMap<String, KnownConnection>;

fn known<'a>(connections: &'a mut Connections, name: &str) -> &'a mut KnownConnection {
    connections.get_mut(name).unwrap_or_else(|| panic!("no connection is called {name}"))
}

fn connection<'a>(connections: &'a mut Connections, name: &str) -> &'a mut Wire {
    &mut known(connections, name).wire
}

/// Sends bytes. If they may block, the server to ask is given, and this returns when the client is blocked there or has
/// been answered: what another connection sends next must not overtake them.
fn send(wire: &mut Wire, bytes: &[u8], blocking_at: Option<SocketAddr>) {
    let Some(server) = blocking_at else {
        wire.send(bytes);
        return;
    };
    let mut observer = Wire::connect(server);
    let before = blocked_clients(&mut observer);
    wire.send(bytes);
    wait_until("a blocked client or its reply", || {
        wire.is_readable() || !blocked_clients(&mut observer).is_subset(&before)
    });
    // The server has forgotten the observer when it closes the connection, so that no command counts or kills it.
    observer.ask("QUIT");
    assert!(observer.is_closed(), "QUIT leaves a connection open");
}

/// The ids of the clients that a server has blocked.
fn blocked_clients(observer: &mut Wire) -> BTreeSet<String> {
    let list = observer.ask("CLIENT LIST").text();
    let rows = list.lines().filter_map(|row| {
        let field = |name: &str| row.split(' ').find_map(|field| field.strip_prefix(name));
        field("flags=")?.contains('b').then_some(field("id=")?.to_owned())
    });
    rows.collect()
}

/// Whether a command can block its client.
fn blocks(words: &[Vec<u8>]) -> bool {
    let Some((name, rest)) = words.split_first() else { return false };
    match name.to_ascii_uppercase().as_slice() {
        b"BLPOP" | b"BRPOP" | b"BLMPOP" | b"BLMOVE" | b"BRPOPLPUSH" | b"BZPOPMIN" | b"BZPOPMAX" | b"BZMPOP"
        | b"WAIT" | b"WAITAOF" => true,
        b"XREAD" | b"XREADGROUP" => rest.iter().any(|word| word.eq_ignore_ascii_case(b"BLOCK")),
        _ => false,
    }
}

/// The words of requests, without their lengths.
fn raw_words(bytes: &[u8]) -> Vec<Vec<u8>> {
    let lines = bytes.split(|&byte| byte == b'\n').map(<[u8]>::trim_ascii_end);
    lines.filter(|line| !matches!(line.first(), None | Some(b'*' | b'$'))).map(<[u8]>::to_vec).collect()
}

fn reply(wire: &mut Wire, order: Order) -> Vec<String> {
    match wire.read() {
        Ok(frame) => rendered(frame, order),
        Err(silence) => vec![format!("!! {silence}")],
    }
}

/// Reads all messages before the reply to a PING. For a RESP2 subscriber that reply looks like a message, too.
fn messages(wire: &mut Wire) -> Vec<String> {
    let mark = Frame::bulk("no more messages");
    wire.send(&request(&["PING", "no more messages"]));
    let mut lines = Vec::new();
    loop {
        match wire.read() {
            Ok(frame) if frame == mark => return lines,
            Ok(Frame::Array(items)) if items.as_slice() == [Frame::bulk("pong"), mark.clone()] => return lines,
            Ok(frame) => lines.extend(rendered(frame, Order::AsWritten)),
            Err(silence) => {
                lines.push(format!("!! {silence}"));
                return lines;
            }
        }
    }
}

// ---- requests

/// Replaces the `{…}` placeholders in words.
fn fill_in(words: &[Vec<u8>], stage: &Stage, connections: &mut Connections) -> Vec<Vec<u8>> {
    words.iter().map(|word| fill_in_word(word, stage, connections)).collect()
}

fn fill_in_word(word: &[u8], stage: &Stage, connections: &mut Connections) -> Vec<u8> {
    let (Some(open), Some(close)) = (word.iter().position(|&b| b == b'{'), word.iter().position(|&b| b == b'}')) else {
        return word.to_vec();
    };
    if close < open {
        return word.to_vec();
    }
    let Ok(name) = std::str::from_utf8(&word[open + 1..close]) else { return word.to_vec() };
    let Some(value) = value_of(name, stage, connections) else { return word.to_vec() };
    let rest = fill_in_word(&word[close + 1..], stage, connections);
    [&word[..open], &value, &rest].concat()
}

fn value_of(name: &str, stage: &Stage, connections: &mut Connections) -> Option<Vec<u8>> {
    // Both servers start with the machine's time.
    #[allow(clippy::disallowed_methods)]
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let offset = |rest: &str| if rest.is_empty() { Some(0) } else { rest.parse::<i64>().ok() };
    if let Some(client) = name.strip_prefix("id:") {
        return Some(known(connections, client).id().to_string().into_bytes());
    }
    if let Some(client) = name.strip_prefix("addr:") {
        if stage.observed == stage.address {
            return Some(connection(connections, client).tcp().local_addr().ok()?.to_string().into_bytes());
        }
        // The server knows the address of the connection that redouble has opened for the client.
        let id = known(connections, client).id();
        let row = Wire::connect(stage.observed).ask(&format!("CLIENT LIST ID {id}")).text();
        return row.split(' ').find_map(|field| field.strip_prefix("addr=")).map(|addr| addr.as_bytes().to_vec());
    }
    if let Some(rest) = name.strip_prefix("nowms") {
        return Some((now().as_millis() as i64 + offset(rest)?).to_string().into_bytes());
    }
    if let Some(rest) = name.strip_prefix("now") {
        return Some((now().as_secs() as i64 + offset(rest)?).to_string().into_bytes());
    }
    let (times, text) = name.split_once('*')?;
    Some(text.repeat(times.parse().ok()?).into_bytes())
}

// ---- replies

fn rendered(mut frame: Frame, order: Order) -> Vec<String> {
    match (&mut frame, order) {
        (_, Order::AsWritten) => {}
        (Frame::Array(items), Order::Any) | (Frame::Set(items) | Frame::Push(items), _) => {
            items.sort_by_cached_key(|item| rendered(item.clone(), Order::AsWritten));
        }
        (Frame::Map(items), _) | (Frame::Array(items), Order::Pairs) => {
            let mut pairs: Vec<Vec<Frame>> = items.chunks(2).map(<[Frame]>::to_vec).collect();
            pairs.sort_by_cached_key(|pair| rendered(pair[0].clone(), Order::AsWritten));
            *items = pairs.concat();
        }
        _ => {}
    }
    let mut lines = Vec::new();
    render(&frame, 0, &mut lines);
    lines
}

fn render(frame: &Frame, depth: usize, lines: &mut Vec<String>) {
    let (line, items): (String, &[Frame]) = match frame {
        Frame::Status(text) => (format!("+{}", escaped(text)), &[]),
        Frame::Error(text) => (format!("-{}", escaped(text)), &[]),
        Frame::BulkError(text) => (format!("!\"{}\"", quoted(text)), &[]),
        Frame::Integer(value) => (format!(":{value}"), &[]),
        Frame::Bulk(bytes) => (format!("$\"{}\"", quoted(bytes)), &[]),
        Frame::Verbatim(bytes) => (format!("=\"{}\"", quoted(bytes)), &[]),
        Frame::NullBulk => ("nil".to_owned(), &[]),
        Frame::NullArray => ("nil-array".to_owned(), &[]),
        Frame::Null => ("null".to_owned(), &[]),
        Frame::Double(digits) => (format!(",{}", escaped(digits)), &[]),
        Frame::BigNumber(digits) => (format!("({}", escaped(digits)), &[]),
        Frame::Boolean(value) => (format!("#{value}"), &[]),
        Frame::Array(items) => (format!("*{}", items.len()), items),
        Frame::Set(items) => (format!("~{}", items.len()), items),
        Frame::Push(items) => (format!("push {}", items.len()), items),
        Frame::Map(items) => (format!("%{}", items.len() / 2), items),
        Frame::Attribute(items) => (format!("|{}", items.len() / 2), items),
    };
    lines.push("  ".repeat(depth) + &line);
    for item in items {
        render(item, depth + 1, lines);
    }
}

/// Returns a line as text, with unprintable bytes as `\xNN`.
fn escaped(bytes: &[u8]) -> String {
    let mut text = String::new();
    for &byte in bytes {
        match byte {
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(byte as char),
            _ => {
                let _ = write!(text, "\\x{byte:02x}");
            }
        }
    }
    text
}

fn quoted(bytes: &[u8]) -> String {
    escaped(bytes).replace('"', "\\\"").replace("\\x0d", "\\r").replace("\\x0a", "\\n")
}

/// Whether an answer matches the expected lines and their patterns.
fn agree(expected: &[String], answer: &[String]) -> bool {
    let mut answer = answer.iter().peekable();
    for pattern in expected {
        let Some(line) = answer.next() else { return false };
        let (depth, pattern) = indented(pattern);
        let (line_depth, line) = indented(line);
        if depth != line_depth || !matches(pattern, line) {
            return false;
        }
        if pattern == "<any>" || pattern.ends_with("<any>") && "*%~".contains(&pattern[..1]) {
            while answer.next_if(|line| indented(line).0 > depth).is_some() {}
        }
    }
    answer.next().is_none()
}

fn indented(line: &str) -> (usize, &str) {
    let text = line.trim_start_matches(' ');
    (line.len() - text.len(), text)
}

fn matches(pattern: &str, line: &str) -> bool {
    if pattern == line || pattern == "<any>" && !line.starts_with("!!") {
        return true;
    }
    if let Some(kind) = pattern.strip_suffix("<any>") {
        return kind.len() == 1 && line.starts_with(kind);
    }
    if let Some(range) = pattern.strip_prefix(":<").and_then(|rest| rest.strip_suffix('>')) {
        let Some((low, high)) = range.split_once("..") else { return false };
        let number = |text: &str| text.parse::<i64>().ok();
        return match (number(low), number(high), line.strip_prefix(':').and_then(number)) {
            (Some(low), Some(high), Some(value)) => (low..=high).contains(&value),
            _ => false,
        };
    }
    if let Some((kind, glob)) = pattern.split_once('~')
        && kind.len() == 1
        && kind != "~"
    {
        return line.strip_prefix(kind).is_some_and(|line| glob_matches(glob, line));
    }
    false
}

/// Matches a glob in which only `*` is special.
fn glob_matches(glob: &str, text: &str) -> bool {
    let mut pieces = glob.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let pieces: Vec<&str> = pieces.collect();
    let Some((last, middle)) = pieces.split_last() else { return rest.is_empty() };
    for piece in middle {
        let Some(at) = rest.find(piece) else { return false };
        rest = &rest[at + piece.len()..];
    }
    rest.ends_with(last)
}
