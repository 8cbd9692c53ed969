//! Which words of a request are secret, and what a record may say instead.
//!
//! One function for everything that outlives a request: the journal, MONITOR, the slow log, gates and explorations that show
//! parked commands. A word is judged by what it is: malformed requests, misspelled names and requests inside others carry
//! passwords, too. In doubt a word is hidden.

use std::borrow::Cow;

use super::command_spec::{CommandSpec, Secrets};
use super::table::Table;
use crate::protocol::{OwnedWords, Words};

/// What stands in a record for a secret word.
pub const REDACTED: &[u8] = b"(redacted)";
/// What stands in a record for a reply with a secret.
pub const REDACTED_REPLY: &[u8] = b"+(redacted)\r\n";

/// Settings whose values are passwords.
const SECRET_SETTINGS: &[&str] =
    &["requirepass", "masterauth", "primaryauth", "tls-key-file-pass", "tls-client-key-file-pass"];
/// Commands that carry passwords, each with the number of typing errors up to which a name is taken for it.
const CARRIERS: &[(&str, usize)] =
    &[("auth", 2), ("hello", 2), ("acl", 1), ("config", 2), ("migrate", 2), ("requirepass", 3), ("masterauth", 3)];
/// Parts of a word that make an unknown command, or what follows the word in one, secret.
const HINTS: &[&str] = &["auth", "pass", "login", "secret"];
/// String literals in a script that uses passwords.
const IN_SCRIPTS: &[&str] = &["auth", "auth2", "setuser", "requirepass", "masterauth", "primaryauth"];
/// The longest word that is compared with names.
const LONGEST_NAME: usize = 32;
/// The shortest secret that is looked for in the text of a reply; shorter ones occur in any text.
const SHORTEST_IN_TEXT: usize = 3;
/// The most words among which a request is looked for. Of longer requests, all are hidden.
const MOST_WORDS: usize = 1024;
/// The most requests around one that is looked into. What stands deeper is hidden.
const DEEPEST: usize = 8;

/// A request and its reply without their secrets. Holds what is not as it was.
#[derive(Default)]
pub struct Redaction {
    words: OwnedWords,
    reply: Vec<u8>,
    /// Whether the last request or its reply had a secret.
    pub had_secret: bool,
}

impl Redaction {
    /// The words of a request as a record may show them.
    pub fn words<'w>(&'w mut self, table: &Table, words: Words<'w>) -> Words<'w> {
        let hidden = secret_words(table, words, 0);
        without(&mut self.words, &hidden, words)
    }

    /// The words of a request and the reply to it as a record may show them.
    pub fn request<'w>(&'w mut self, table: &Table, words: Words<'w>, reply: &'w [u8]) -> (Words<'w>, &'w [u8]) {
        let hidden = secret_words(table, words, 0);
        let secrets = table.row_of(words).map_or(Secrets::None, |row| row.spec.secrets);
        let reply = match secrets {
            Secrets::SettingsInReply
                if SECRET_SETTINGS.iter().any(|name| memchr::memmem::find(reply, name.as_bytes()).is_some()) =>
            {
                REDACTED_REPLY
            }
            Secrets::Reply if !reply.starts_with(b"-") => REDACTED_REPLY,
            _ if hidden.is_empty() => reply,
            _ => match redacted_text(table, words, &hidden, reply) {
                Cow::Borrowed(reply) => reply,
                Cow::Owned(text) => {
                    self.reply = text;
                    &self.reply
                }
            },
        };
        self.had_secret = !hidden.is_empty() || std::ptr::eq(reply, REDACTED_REPLY);
        (without(&mut self.words, &hidden, words), reply)
    }
}

fn without<'w>(owned: &'w mut OwnedWords, hidden: &[usize], words: Words<'w>) -> Words<'w> {
    if hidden.is_empty() {
        return words;
    }
    let mut is_hidden = vec![false; words.len()];
    hidden.iter().for_each(|at| is_hidden[*at] = true);
    owned.clear();
    for (word, is_hidden) in words.iter().zip(is_hidden) {
        owned.push(if is_hidden { REDACTED } else { word });
    }
    owned.as_words()
}

/// The positions of the words that are secret, or may be, in a request that stands in so many others.
fn secret_words(table: &Table, words: Words<'_>, depth: usize) -> Vec<usize> {
    let Some(name) = words.get(0) else { return Vec::new() };
    let all = words.len();
    if depth > DEEPEST {
        return (0..all).collect();
    }
    let row = table.row_of(words);
    let has_fixed_place =
        row.is_some_and(|row| !matches!(row.spec.secrets, Secrets::Request { .. } | Secrets::Requests));
    if !has_fixed_place && all > MOST_WORDS {
        return (1..all).collect();
    }
    match row {
        Some(row) => match row.spec.secrets {
            Secrets::None | Secrets::Reply | Secrets::SettingsInReply => Vec::new(),
            Secrets::Credentials => (1..all).collect(),
            Secrets::Handshake => of_handshake(words),
            Secrets::UserRules => (2..all).collect(),
            Secrets::Settings => of_settings(words, 2),
            Secrets::Script => of_script(words, row.at),
            Secrets::Request { at } => {
                // A word may be missing in front of it.
                let mut secret = shifted(secret_words(table, words.from(at), depth + 1), at);
                secret.extend(of_requests(table, words, row.at, is_like_carrier, depth));
                secret
            }
            // Patterns have words that are like names: AUTO.
            Secrets::Requests => of_requests(table, words, 1, |_| false, depth),
        },
        None => of_unknown(table, name, words, depth),
    }
}

fn shifted(positions: Vec<usize>, by: usize) -> Vec<usize> {
    positions.into_iter().map(|at| at + by).collect()
}

/// HELLO: everything but the protocol's number, the names of options, and the name of the client.
fn of_handshake(words: Words<'_>) -> Vec<usize> {
    let mut secret = Vec::new();
    let mut at = 1;
    while let Some(word) = words.get(at) {
        if word.eq_ignore_ascii_case(b"AUTH") {
            secret.extend((at + 1..words.len()).take(2));
            at += 3;
        } else if word.eq_ignore_ascii_case(b"SETNAME") {
            at += 2;
        } else {
            if at > 1 || word.is_empty() || !word.iter().all(u8::is_ascii_digit) {
                secret.push(at);
            }
            at += 1;
        }
    }
    secret
}

/// CONFIG SET, with names and values from a position on. If they make no pairs, a value may have been torn apart.
fn of_settings(words: Words<'_>, from: usize) -> Vec<usize> {
    let all = words.len();
    let are_pairs = all.saturating_sub(from).is_multiple_of(2);
    if are_pairs {
        return (from + 1..all).step_by(2).filter(|at| words.get(at - 1).is_some_and(is_secret_setting)).collect();
    }
    let first = (from..all).find(|at| words.get(*at).is_some_and(is_secret_setting));
    first.map_or_else(Vec::new, |first| (first + 1..all).collect())
}

fn is_secret_setting(name: &[u8]) -> bool {
    let Some(name) = lower(name) else { return false };
    name.contains("pass")
        || name.ends_with("auth")
        || SECRET_SETTINGS.iter().any(|secret| strsim::osa_distance(&name, secret) <= 2)
}

/// A script that names a command with a password: all of it, and what it is given.
fn of_script(words: Words<'_>, from: usize) -> Vec<usize> {
    if words.from(from).iter().any(is_script_with_secret) { (from..words.len()).collect() } else { Vec::new() }
}

fn is_script_with_secret(source: &[u8]) -> bool {
    memchr::memchr3_iter(b'\'', b'"', b'[', source).any(|at| {
        let literal = &source[at + 1..];
        let end = literal.iter().take(LONGEST_NAME).position(|byte| matches!(byte, b'\'' | b'"' | b']' | b'\\'));
        let literal = end.map_or(&b""[..], |end| literal[..end].trim_ascii());
        IN_SCRIPTS.iter().any(|name| is_almost(literal, name))
    })
}

/// Whether a word is a name with one typing error at most, not in its first letter.
fn is_almost(word: &[u8], name: &str) -> bool {
    word.first().is_some_and(|first| first.eq_ignore_ascii_case(&name.as_bytes()[0]))
        && word.len().abs_diff(name.len()) <= 1
        && lower(word).is_some_and(|word| strsim::osa_distance(&word, name) <= 1)
}

/// A request inside others, at no fixed place: patterns and examples of the test powers.
fn of_requests(
    table: &Table,
    words: Words<'_>,
    from: usize,
    is_like_carrier: fn(&[u8]) -> bool,
    depth: usize,
) -> Vec<usize> {
    let is_carrier = |word: &[u8]| {
        let name = word.split(|&byte| byte == b'|').next().unwrap_or_default();
        table.find(name).is_some_and(|spec| carries(spec, table)) || is_hint(word) || is_like_carrier(word)
    };
    for at in from..words.len() {
        let Some(word) = words.get(at).filter(|word| is_carrier(word)) else { continue };
        let inside = words.from(at);
        // `ACL|SETUSER` is how patterns name a subcommand.
        let found = match table.row_of(inside) {
            Some(_) if !word.contains(&b'|') => secret_words(table, inside, depth + 1),
            _ => (1..inside.len()).collect(),
        };
        if !found.is_empty() {
            return shifted(found, at);
        }
    }
    scripts(words, from)
}

/// The first script with secrets from a position on, and what it is given.
fn scripts(words: Words<'_>, from: usize) -> Vec<usize> {
    let first = (from..words.len()).find(|at| words.get(*at).is_some_and(is_script_with_secret));
    first.map_or_else(Vec::new, |first| (first..words.len()).collect())
}

/// Whether a command, or a subcommand of it, takes secret words.
fn carries(spec: &'static CommandSpec, table: &Table) -> bool {
    let takes = |spec: &CommandSpec| {
        matches!(spec.secrets, Secrets::Credentials | Secrets::Handshake | Secrets::UserRules | Secrets::Settings)
    };
    takes(spec) || table.subs(spec).any(takes)
}

/// A command or subcommand that does not exist: perhaps a mistyped one that takes a password.
fn of_unknown(table: &Table, name: &[u8], words: Words<'_>, depth: usize) -> Vec<usize> {
    let all = words.len();
    if table.find(name).is_some_and(|spec| carries(spec, table)) {
        return (2..all).collect();
    }
    if name.eq_ignore_ascii_case(b"MIGRATE") {
        let option = (1..all).find(|at| {
            words.get(*at).is_some_and(|word| word.eq_ignore_ascii_case(b"AUTH") || word.eq_ignore_ascii_case(b"AUTH2"))
        });
        return option.map_or_else(Vec::new, |option| (option + 1..all).collect());
    }
    if is_hint(name) || is_like_carrier(name) {
        return (1..all).collect();
    }
    let first = (1..all).find(|at| words.get(*at).is_some_and(|word| is_hint(word) || is_secret_setting(word)));
    let mut secret = of_requests(table, words, 1, is_like_carrier, depth);
    secret.extend(first.into_iter().flat_map(|first| first + 1..all));
    secret
}

fn is_hint(word: &[u8]) -> bool {
    lower(word).is_some_and(|word| HINTS.iter().any(|hint| word.contains(hint)))
}

fn is_like_carrier(word: &[u8]) -> bool {
    lower(word).is_some_and(|word| CARRIERS.iter().any(|(name, most)| strsim::osa_distance(&word, name) <= *most))
}

/// A word in lower case, unless it is too long to be a name.
fn lower(word: &[u8]) -> Option<String> {
    let is_name = word.len() <= LONGEST_NAME && word.is_ascii();
    is_name.then(|| String::from_utf8_lossy(word).to_ascii_lowercase())
}

/// A reply whose text may quote the secret words of its request.
fn redacted_text<'r>(table: &Table, words: Words<'_>, hidden: &[usize], reply: &'r [u8]) -> Cow<'r, [u8]> {
    if !matches!(reply.first(), Some(b'-' | b'+' | b'$' | b'=' | b'!')) {
        return Cow::Borrowed(reply);
    }
    let is_error = matches!(reply.first(), Some(b'-' | b'!'));
    let quotes = |byte: &u8| matches!(byte, b'\'' | b'`' | b'"');
    let mut text = Cow::Borrowed(reply);
    if is_error
        && let (Some(first), Some(last)) = (reply.iter().position(quotes), reply.iter().rposition(quotes))
        && first < last
        && !is_name_of(table, words, &reply[first + 1..last])
    {
        text = Cow::Owned([&reply[..=first], REDACTED, &reply[last..]].concat());
    }
    let is_told = |at: &usize| {
        let word = words.get(*at).unwrap_or_default();
        word.len() >= SHORTEST_IN_TEXT && memchr::memmem::find(&text, word).is_some()
    };
    if !hidden.iter().any(is_told) {
        return text;
    }
    if !is_error {
        return Cow::Borrowed(REDACTED_REPLY);
    }
    let code = reply.split(|byte| matches!(byte, b' ' | b'\r')).next().unwrap_or_default();
    Cow::Owned([if code.starts_with(b"!") { b"-ERR" } else { code }, b" ", REDACTED, b"\r\n"].concat())
}

/// Whether a quoted text is the name of the request's own command.
fn is_name_of(table: &Table, words: Words<'_>, quoted: &[u8]) -> bool {
    table.row_of(words).is_some_and(|row| quoted.eq_ignore_ascii_case(table.full_name(row.spec).as_bytes()))
}
