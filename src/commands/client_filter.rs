//! The filters of CLIENT LIST and CLIENT KILL, which differ between releases.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::client_list::flags;
use crate::base::clock::Millis;
use crate::base::error::CommandError;
use crate::base::profile::{Profile, Since, Version};
use crate::clients::acl::User;
use crate::clients::session::{Client, Peer};
use crate::commands::Call;
use crate::protocol::parse_integer;
use crate::spec::Args;

const MAX_AGE: Since = Since::each(Version(7, 4, 0), Version(8, 0, 0));
/// CLIENT LIST takes the filters of CLIENT KILL, and both take several numbers behind `ID`.
pub(super) const SHARED_FILTERS: Since = Since::valkey(8, 1, 0);
pub(super) const MORE_FILTERS: Since = Since::valkey(9, 0, 0);

const ID_TOO_SMALL: CommandError = CommandError::fixed("ERR client-id should be greater than 0");

/// The letters that `FLAGS` takes; some of them no client has here.
const FLAG_LETTERS: &[u8] = b"OSMPxbtRBdcuAUreTIiEN";

/// The conditions that a connection must meet, each as it is (`true`) or negated (`NOT-...`).
#[derive(Default)]
pub(super) struct ClientFilter<'a> {
    conditions: Vec<(Condition<'a>, bool)>,
    /// Leaves out the caller.
    pub skip_me: bool,
}

enum Condition<'a> {
    Ids(Vec<u64>),
    Type(ClientType),
    Address(Address<'a>),
    LocalAddress(Address<'a>),
    User(Arc<User>),
    CreatedUntil(Millis),
    IdleSince(Millis),
    Name(&'a [u8]),
    LibraryName(&'a [u8]),
    LibraryVersion(&'a [u8]),
    Database(u32),
    Flags(&'a [u8]),
    Capabilities(&'a [u8]),
    Ip(&'a [u8]),
}

/// An address as CLIENT LIST shows it. It is read once, so that those of all connections need not be written.
#[derive(Clone, Copy)]
struct Address<'a> {
    text: &'a [u8],
    socket: Option<SocketAddr>,
}

impl<'a> Address<'a> {
    fn new(text: &'a [u8]) -> Self {
        let socket = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
        // The same address can be written in other ways.
        let is_shown_so = |socket: &SocketAddr| socket.to_string().as_bytes() == text;
        Self { text, socket: socket.filter(is_shown_so) }
    }

    /// Whether it is this end of a connection.
    fn is(&self, peer: &Peer, end: fn(&Peer) -> Option<SocketAddr>) -> bool {
        match end(peer) {
            Some(socket) => self.socket == Some(socket),
            None => self.text == peer.address().as_bytes(),
        }
    }
}

/// Redis's client types.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ClientType {
    Normal,
    Subscriber,
    Replica,
    Master,
}

impl ClientType {
    pub fn parse(name: &[u8], profile: &Profile) -> Result<Self, CommandError> {
        let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
        match () {
            () if is(b"normal") => Ok(Self::Normal),
            () if is(b"pubsub") => Ok(Self::Subscriber),
            () if is(b"replica") || is(b"slave") => Ok(Self::Replica),
            () if is(b"master") || (profile.has(Since::valkey(8, 0, 0)) && is(b"primary")) => Ok(Self::Master),
            () => Err(CommandError::quoting("ERR Unknown client type '", name, "'")),
        }
    }

    /// A client that runs MONITOR counts as normal.
    pub fn of(client: &Client) -> Self {
        match client.seen() {
            seen if seen.replica.load(Relaxed) => Self::Replica,
            seen if seen.master.load(Relaxed) => Self::Master,
            seen if seen.is_subscriber() => Self::Subscriber,
            _ => Self::Normal,
        }
    }
}

impl<'a> ClientFilter<'a> {
    /// The filter of the old form, `CLIENT KILL ip:port`.
    pub fn with_address(address: &'a [u8]) -> Self {
        Self { conditions: vec![(Condition::Address(Address::new(address)), true)], skip_me: false }
    }

    /// Reads the options up to the end of the request.
    pub fn parse(call: &Call<'_>, args: &mut Args<'a>, skip_me: bool) -> Result<Self, CommandError> {
        let profile = call.server.profile;
        let mut filter = Self { conditions: Vec::new(), skip_me };
        while let Some(option) = args.optional() {
            let negated = option.get(..4).filter(|start| start.eq_ignore_ascii_case(b"NOT-")).is_some();
            let (negated, name) =
                if negated && profile.has(MORE_FILTERS) { (true, &option[4..]) } else { (false, option) };
            let is = |other: &[u8]| name.eq_ignore_ascii_case(other);
            if is(b"ID") && profile.has(SHARED_FILTERS) {
                filter.add(Condition::Ids(parse_ids(args)?), negated);
                continue;
            }
            let value = args.bytes()?;
            let condition = match () {
                () if is(b"ID") => {
                    let id = parse_integer(value).and_then(|id| u64::try_from(id).ok()).filter(|id| *id > 0);
                    Condition::Ids(vec![id.ok_or(ID_TOO_SMALL)?])
                }
                () if is(b"TYPE") => Condition::Type(ClientType::parse(value, &profile)?),
                () if is(b"ADDR") => Condition::Address(Address::new(value)),
                () if is(b"LADDR") => Condition::LocalAddress(Address::new(value)),
                () if is(b"USER") => {
                    let user = call.server.acl.user(value);
                    Condition::User(user.ok_or_else(|| CommandError::quoting("ERR No such user '", value, "'"))?)
                }
                () if is(b"SKIPME") && !negated => {
                    filter.skip_me = match () {
                        () if value.eq_ignore_ascii_case(b"yes") => true,
                        () if value.eq_ignore_ascii_case(b"no") => false,
                        () => return Err(CommandError::SYNTAX),
                    };
                    continue;
                }
                () if is(b"MAXAGE") && !negated && profile.has(MAX_AGE) => {
                    Condition::CreatedUntil(call.now().saturating_sub(parse_seconds(value, "maxage")?))
                }
                () if !profile.has(MORE_FILTERS) => return Err(CommandError::SYNTAX),
                () if is(b"IDLE") && !negated => {
                    Condition::IdleSince(call.now().saturating_sub(parse_seconds(value, "idle")?))
                }
                () if is(b"NAME") => Condition::Name(value),
                () if is(b"LIB-NAME") => Condition::LibraryName(value),
                () if is(b"LIB-VER") => Condition::LibraryVersion(value),
                () if is(b"DB") => Condition::Database(parse_database(call, value, negated)?),
                () if is(b"FLAGS") => {
                    Condition::Flags(parse_letters(value, FLAG_LETTERS, ["flags", "FLAGS"], negated)?)
                }
                () if is(b"CAPA") => Condition::Capabilities(parse_letters(value, b"r", ["capa", "CAPA"], negated)?),
                () if is(b"IP") => Condition::Ip(value),
                () => return Err(CommandError::SYNTAX),
            };
            filter.add(condition, negated);
        }
        Ok(filter)
    }

    /// Adds a condition. The last one of a kind holds.
    fn add(&mut self, condition: Condition<'a>, negated: bool) {
        let kind = std::mem::discriminant(&condition);
        let same = self.conditions.iter().position(|(other, wanted)| {
            *wanted != negated && std::mem::discriminant(other) == kind && !matches!(other, Condition::Ids(_))
        });
        match same {
            Some(place) => self.conditions[place].0 = condition,
            None => self.conditions.push((condition, !negated)),
        }
    }

    /// The connections that the filter admits, oldest first. Ids are looked up: among ten thousand connections, somebody may ask
    /// for one after the other.
    pub fn admitted(&self, call: &Call<'_>) -> Vec<Arc<Client>> {
        let clients = &call.server.clients;
        let ids = self.conditions.iter().find_map(|condition| match condition {
            (Condition::Ids(ids), true) => Some(ids),
            _ => None,
        });
        // Addresses are compared first, where nothing else is locked: most often they leave one connection, or none.
        let has_address = |client: &Client| {
            self.conditions
                .iter()
                .all(|(condition, wanted)| condition.has_address(client).is_none_or(|is| is == *wanted))
        };
        let mut admitted = ids.map_or_else(|| clients.find(has_address), |ids| clients.with_ids(ids));
        admitted.retain(|client| self.admits(call, client));
        admitted
    }

    /// Whether the filter admits a connection.
    fn admits(&self, call: &Call<'_>, client: &Client) -> bool {
        let is_caller = client.id() == call.session.client.id();
        !(self.skip_me && is_caller)
            && self.conditions.iter().all(|(condition, wanted)| {
                // The caller is busy right now, so it has not been idle.
                let idle = matches!(condition, Condition::IdleSince(_)) && is_caller;
                (!idle && condition.is_met(call, client)) == *wanted
            })
    }
}

impl Condition<'_> {
    /// Whether a connection has the address, if that is the condition.
    fn has_address(&self, client: &Client) -> Option<bool> {
        match self {
            Self::Address(address) => Some(address.is(client.peer(), Peer::socket_address)),
            Self::LocalAddress(address) => Some(address.is(client.peer(), Peer::local_socket_address)),
            _ => None,
        }
    }

    fn is_met(&self, call: &Call<'_>, client: &Client) -> bool {
        let seen = client.seen();
        match self {
            Self::Ids(ids) => ids.contains(&client.id()),
            Self::Type(kind) => *kind == ClientType::of(client),
            Self::Address(_) | Self::LocalAddress(_) => self.has_address(client) == Some(true),
            Self::User(user) => client.labels().user.as_ref().is_some_and(|own| Arc::ptr_eq(own, user)),
            Self::CreatedUntil(until) => client.created() <= *until,
            Self::IdleSince(until) => seen.last_used.load(Relaxed) <= *until,
            Self::Name(name) => is_label(name, &client.labels().name),
            Self::LibraryName(name) => is_label(name, &client.labels().library),
            Self::LibraryVersion(version) => is_label(version, &client.labels().library_version),
            Self::Database(db) => *db == seen.db.load(Relaxed),
            Self::Flags(wanted) => {
                let own = flags(client, call.server.tracking.info(client.id()).as_ref());
                wanted.iter().all(|letter| own.as_bytes().contains(letter))
            }
            // There is one capability.
            Self::Capabilities(wanted) => wanted.is_empty() || seen.can_redirect.load(Relaxed),
            Self::Ip(ip) => match client.peer() {
                Peer::Tcp { peer, .. } => peer.ip().to_string().as_bytes() == *ip,
                Peer::Unix { .. } => false,
            },
        }
    }
}

/// Whether a client has this label. One without any has none, not an empty one.
fn is_label(wanted: &[u8], label: &[u8]) -> bool {
    !label.is_empty() && wanted == label
}

/// Reads numbers up to the first word that is none.
fn parse_ids(args: &mut Args<'_>) -> Result<Vec<u64>, CommandError> {
    let mut ids = Vec::new();
    while let Some(id) = args.peek().and_then(parse_integer) {
        args.bytes()?;
        ids.push(u64::try_from(id).ok().filter(|id| *id > 0).ok_or(ID_TOO_SMALL)?);
    }
    Ok(ids)
}

/// Reads a number of seconds, and returns milliseconds.
fn parse_seconds(value: &[u8], option: &str) -> Result<Millis, CommandError> {
    match parse_integer(value) {
        None => Err(CommandError::new(format!("ERR {option} is not an integer or out of range"))),
        Some(seconds) if seconds <= 0 => Err(CommandError::new(format!("ERR {option} should be greater than 0"))),
        Some(seconds) => Ok(seconds.saturating_mul(1000)),
    }
}

fn parse_database(call: &Call<'_>, value: &[u8], negated: bool) -> Result<u32, CommandError> {
    let option = if negated { "NOT-DB" } else { "DB" };
    let db = parse_integer(value).and_then(|db| i32::try_from(db).ok());
    let db = db.ok_or_else(|| CommandError::new(format!("ERR {option} is not an integer or out of range")))?;
    let databases = call.server.keyspace.databases();
    u32::try_from(db).ok().filter(|db| *db < databases).ok_or_else(|| {
        CommandError::new(format!("ERR {option} number should be between 0 and {}", databases.saturating_sub(1)))
    })
}

fn parse_letters<'a>(
    value: &'a [u8],
    known: &[u8],
    [option, upper]: [&str; 2],
    negated: bool,
) -> Result<&'a [u8], CommandError> {
    if value.iter().all(|letter| known.contains(letter)) {
        return Ok(value);
    }
    let place = if negated { format!("NOT-{upper}") } else { "provided".to_owned() };
    Err(CommandError::quoting(&format!("ERR Unknown {option} found in the {place} filter: "), value, ""))
}
