//! What the front has to know of some commands, and what follows from their replies.

use std::collections::HashSet;

use super::PassedCommand;
use super::addresses::AddressKind;
use crate::clients::session::{Replies, Session};
use crate::engine::transaction;
use crate::protocol::{Protocol, Words, array_elements, parse_integer};
use crate::spec::{CommandSpec, ResolvedRow, RowId, Table};

/// What the front has to know of a command that it passes to a server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follows {
    /// Nothing: it has one reply.
    #[default]
    Nothing,
    /// The database of those behind it.
    Select,
    /// The protocol and the client's name.
    Hello,
    ClientName,
    /// Whether those behind it have replies.
    ClientReply,
    /// That everything is as at the beginning.
    Reset,
    /// That what is behind it does not run.
    Quit,
    Multi,
    Exec,
    Discard,
    /// As many replies as it names channels.
    Subscribe(Listened),
    /// As many replies as it names channels, or as there are.
    Unsubscribe(Listened),
    /// Lines come behind its reply.
    Monitor,
    /// A stream of another kind comes behind it.
    Replication,
    /// The texts of scripts.
    Script,
    /// The addresses of nodes in its reply.
    Addresses(AddressKind),
    /// That it can have its reply only when others do something.
    Blocking,
}

/// What a client listens to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listened {
    Channels,
    Patterns,
    ShardChannels,
}

impl Follows {
    /// What a command has to be followed for, by its full name.
    pub fn of(name: &str) -> Self {
        match name {
            "select" => Self::Select,
            "hello" => Self::Hello,
            "client|setname" => Self::ClientName,
            "client|reply" => Self::ClientReply,
            "reset" => Self::Reset,
            "quit" => Self::Quit,
            "multi" => Self::Multi,
            "exec" => Self::Exec,
            "discard" => Self::Discard,
            "subscribe" => Self::Subscribe(Listened::Channels),
            "psubscribe" => Self::Subscribe(Listened::Patterns),
            "ssubscribe" => Self::Subscribe(Listened::ShardChannels),
            "unsubscribe" => Self::Unsubscribe(Listened::Channels),
            "punsubscribe" => Self::Unsubscribe(Listened::Patterns),
            "sunsubscribe" => Self::Unsubscribe(Listened::ShardChannels),
            "monitor" => Self::Monitor,
            "sync" | "psync" => Self::Replication,
            "eval" | "eval_ro" | "evalsha" | "evalsha_ro" | "fcall" | "fcall_ro" | "script|load" | "function|load" => {
                Self::Script
            }
            _ => Self::Nothing,
        }
    }

    /// Whether a command can wait for others without end.
    pub fn may_block(self) -> bool {
        matches!(self, Self::Blocking | Self::Replication)
    }

    /// The number of replies of a command with so many words, if they are known when it is sent.
    pub fn replies(self, words: usize) -> Option<usize> {
        match self {
            Self::Unsubscribe(_) if words < 2 => None,
            Self::Subscribe(_) | Self::Unsubscribe(_) => Some(words.saturating_sub(1).max(1)),
            _ => Some(1),
        }
    }
}

/// What the replies have told about a connection to a server, beside what is in the session.
#[derive(Default)]
pub struct FollowedState {
    /// What it listens to.
    listening: Option<Box<Listening>>,
    is_monitor: bool,
}

#[derive(Default)]
struct Listening {
    channels: HashSet<Box<[u8]>>,
    patterns: HashSet<Box<[u8]>>,
    shard_channels: HashSet<Box<[u8]>>,
}

impl Listening {
    fn of(&mut self, kind: Listened) -> &mut HashSet<Box<[u8]>> {
        match kind {
            Listened::Channels => &mut self.channels,
            Listened::Patterns => &mut self.patterns,
            Listened::ShardChannels => &mut self.shard_channels,
        }
    }

    fn is_empty(&self) -> bool {
        self.channels.is_empty() && self.patterns.is_empty() && self.shard_channels.is_empty()
    }
}

/// What a reply from the server is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// A message that is no reply to a command.
    Message,
    /// The reply to the first command that has none, or one of its replies.
    Reply,
}

impl FollowedState {
    /// Whether each reply has to be looked at, because it may be a message.
    #[inline]
    pub fn hears_messages(&self) -> bool {
        self.is_monitor || self.listening.is_some()
    }

    /// What these bytes from the server are, of which at least the first line is there. `first` is the first command
    /// without a reply.
    pub fn hear(&self, bytes: &[u8], first: Option<&PassedCommand>) -> Heard {
        let is_reply = match bytes.first() {
            // RESP3: a confirmation is a message, too.
            Some(b'>') => confirms(bytes, first),
            Some(b'*') if self.listening.is_some() => {
                let is_message = matches!(kind_of(bytes), b"message" | b"pmessage" | b"smessage");
                !is_message && (first.is_none_or(|first| !is_confirmation(bytes) || confirms(bytes, Some(first))))
            }
            Some(b'+') if self.is_monitor => !is_monitor_line(bytes),
            _ => true,
        };
        if is_reply { Heard::Reply } else { Heard::Message }
    }

    /// A command has one more reply. Returns whether that was the last one.
    pub fn count_reply(&mut self, command: &mut PassedCommand, in_transaction: bool, reply: &[u8]) -> bool {
        let kind = match command.follows {
            _ if is_error(reply) || in_transaction => return true,
            Follows::Subscribe(kind) | Follows::Unsubscribe(kind) => kind,
            _ => return true,
        };
        let left = command.left.unwrap_or_else(|| self.count(kind).max(1));
        let name = array_elements(reply).and_then(|elements| Some(bulk(elements.get(1)?)?.to_vec()));
        if matches!(command.follows, Follows::Subscribe(_)) {
            if let Some(name) = name {
                self.listening.get_or_insert_default().of(kind).insert(name.into());
            }
        } else if let (Some(listening), Some(name)) = (&mut self.listening, name) {
            listening.of(kind).remove(&*name);
            if listening.is_empty() {
                self.listening = None;
            }
        }
        command.left = Some(left - 1);
        left == 1
    }

    /// How many replies come behind the array of an EXEC: confirmations of subscriptions, one for each channel but the first
    /// of a command, which is its element of the array.
    pub fn more_replies(&self, session: &Session, reply: &[u8]) -> usize {
        let queue = session.queued();
        let Some(elements) = array_elements(reply).filter(|_| session.protocol == Protocol::Resp2) else { return 0 };
        if elements.len() != queue.clone().count() {
            return 0;
        }
        let mut listened =
            [self.count(Listened::Channels), self.count(Listened::Patterns), self.count(Listened::ShardChannels)];
        queue
            .map(|queued| {
                let channels = queued.words.len().saturating_sub(1);
                let confirmations = match Follows::of(&queued.row.spec.name.to_ascii_lowercase()) {
                    Follows::Subscribe(kind) => {
                        listened[kind as usize] += channels;
                        channels
                    }
                    Follows::Unsubscribe(kind) => {
                        let listened = &mut listened[kind as usize];
                        let confirmations = if channels == 0 { (*listened).max(1) } else { channels };
                        *listened = listened.saturating_sub(confirmations);
                        confirmations
                    }
                    _ => return 0,
                };
                confirmations.saturating_sub(1)
            })
            .sum()
    }

    /// Follows a subscription in a transaction.
    fn subscribe(&mut self, follows: Follows, words: Words<'_>) {
        match follows {
            Follows::Subscribe(kind) => {
                let listened = self.listening.get_or_insert_default().of(kind);
                listened.extend(words.iter().skip(1).map(Box::from));
            }
            Follows::Unsubscribe(kind) => {
                let Some(listening) = &mut self.listening else { return };
                match words.len() {
                    1 => listening.of(kind).clear(),
                    _ => {
                        words.iter().skip(1).for_each(|name| {
                            listening.of(kind).remove(name);
                        });
                    }
                }
                if listening.is_empty() {
                    self.listening = None;
                }
            }
            _ => {}
        }
    }

    fn count(&self, kind: Listened) -> usize {
        self.listening.as_ref().map_or(0, |listening| match kind {
            Listened::Channels => listening.channels.len(),
            Listened::Patterns => listening.patterns.len(),
            Listened::ShardChannels => listening.shard_channels.len(),
        })
    }

    /// A command has its reply: the session is from now on as the server's is.
    pub fn follow(&mut self, session: &mut Session, table: &Table, command: &PassedCommand, reply: &[u8]) {
        let is_queued = command.row.is_none_or(|row| transaction::is_queued(row.spec));
        match (command.follows, &mut session.transaction) {
            (Follows::Exec, transaction) => {
                let queue = transaction.take().map(|transaction| transaction.queue).unwrap_or_default();
                let replies = array_elements(reply).unwrap_or_default();
                for (queued, _) in queue.iter().zip(replies).filter(|(_, reply)| !is_error(reply)) {
                    let (name, words) = (table.full_name(queued.row.spec), queued.words);
                    self.subscribe(Follows::of(&name), words);
                    self.apply(session, Follows::of(&name), words, true);
                }
            }
            (_, Some(transaction)) if is_queued => {
                transaction.broken |= is_error(reply);
                if reply.starts_with(b"+QUEUED") {
                    transaction.queue.push(command.row.unwrap_or(UNKNOWN), command.words.as_words());
                }
            }
            (follows, _) if !is_error(reply) => self.apply(session, follows, command.words.as_words(), false),
            _ => {}
        }
        session.subscriber = self.listening.is_some();
    }

    fn apply(&mut self, session: &mut Session, follows: Follows, words: Words<'_>, in_exec: bool) {
        match follows {
            Follows::Select => {
                let index = words.get(1).and_then(parse_integer).and_then(|index| u32::try_from(index).ok());
                session.db = index.unwrap_or(session.db);
            }
            Follows::Hello => {
                match words.get(1) {
                    Some(b"2") => session.set_protocol(Protocol::Resp2),
                    Some(b"3") => session.set_protocol(Protocol::Resp3),
                    _ => {}
                }
                if let Some(name) = hello_name(words) {
                    session.client.labels().name = name.to_vec();
                }
            }
            Follows::ClientName => {
                session.client.labels().name = words.get(2).unwrap_or_default().to_vec();
            }
            Follows::Reset => {
                session.db = 0;
                session.set_protocol(Protocol::Resp2);
                session.client.labels().name.clear();
                session.transaction = None;
                session.replies = Replies::On;
                *self = Self::default();
            }
            Follows::Multi => session.open_transaction(),
            Follows::Discard => session.transaction = None,
            Follows::Monitor => self.is_monitor = true,
            Follows::ClientReply if in_exec => {
                session.replies = replies_after(words).unwrap_or(session.replies);
            }
            Follows::ClientReply
            | Follows::Nothing
            | Follows::Exec
            | Follows::Subscribe(_)
            | Follows::Unsubscribe(_)
            | Follows::Replication
            | Follows::Quit
            | Follows::Blocking
            | Follows::Addresses(_)
            | Follows::Script => {}
        }
    }
}

/// The row of a command that only the server knows.
const UNKNOWN: ResolvedRow = ResolvedRow { spec: &CommandSpec::new(""), id: RowId::NONE, at: 1 };

/// What CLIENT REPLY sets, if it is no error.
pub fn replies_after(words: Words<'_>) -> Option<Replies> {
    match words.get(2)?.to_ascii_lowercase().as_slice() {
        b"on" => Some(Replies::On),
        b"off" => Some(Replies::Off),
        b"skip" => Some(Replies::SkipNext),
        _ => None,
    }
}

/// The name that a HELLO gives its client.
fn hello_name(words: Words<'_>) -> Option<&[u8]> {
    let mut at = 2;
    while let Some(option) = words.get(at) {
        if option.eq_ignore_ascii_case(b"setname") {
            return words.get(at + 1);
        }
        at += if option.eq_ignore_ascii_case(b"auth") { 3 } else { 1 };
    }
    None
}

pub fn is_error(reply: &[u8]) -> bool {
    matches!(reply.first(), Some(b'-' | b'!'))
}

/// The first element of an array or a message, if it is a string.
fn kind_of(bytes: &[u8]) -> &[u8] {
    let content = memchr::memchr(b'\n', bytes).map_or(&[][..], |end| &bytes[end + 1..]);
    bulk(content).unwrap_or_default()
}

fn is_confirmation(bytes: &[u8]) -> bool {
    matches!(
        kind_of(bytes),
        b"subscribe" | b"psubscribe" | b"ssubscribe" | b"unsubscribe" | b"punsubscribe" | b"sunsubscribe"
    )
}

/// Whether a message is a reply to this command.
fn confirms(bytes: &[u8], command: Option<&PassedCommand>) -> bool {
    let kind: &[u8] = match command.map(|command| command.follows) {
        Some(Follows::Subscribe(Listened::Channels)) => b"subscribe",
        Some(Follows::Subscribe(Listened::Patterns)) => b"psubscribe",
        Some(Follows::Subscribe(Listened::ShardChannels)) => b"ssubscribe",
        Some(Follows::Unsubscribe(Listened::Channels)) => b"unsubscribe",
        Some(Follows::Unsubscribe(Listened::Patterns)) => b"punsubscribe",
        Some(Follows::Unsubscribe(Listened::ShardChannels)) => b"sunsubscribe",
        _ => return false,
    };
    kind_of(bytes) == kind
}

/// Whether a status is a line of MONITOR: `+1339518083.107412 [0 127.0.0.1:60866] "ping"`.
fn is_monitor_line(bytes: &[u8]) -> bool {
    let text = bytes.get(1..).unwrap_or_default();
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let seconds = digits(text);
    let micros = text.get(seconds + 1..).map_or(0, digits);
    seconds > 0
        && text.get(seconds) == Some(&b'.')
        && text.get(seconds + 1 + micros..).is_some_and(|rest| rest.starts_with(b" ["))
}

/// The content of a bulk string at the beginning of these bytes.
fn bulk(bytes: &[u8]) -> Option<&[u8]> {
    let end = memchr::memchr(b'\n', bytes)?;
    let length = bytes.strip_prefix(b"$").and_then(|rest| parse_integer(rest.get(..end.checked_sub(2)?)?))?;
    bytes.get(end + 1..end + 1 + usize::try_from(length).ok()?)
}
