//! Directives whose values have their own syntax.

use std::path::Path;

use super::directive::{Reason, choose, parse_memory, within};
use crate::base::duration::{parse_duration, spell_duration};
use crate::data::keyspace::{EventClass, KEYEVENT_CHANNEL, KEYSPACE_CHANNEL};
use crate::insight::audit::Allowance;
use crate::protocol::{parse_float, parse_integer, quote};

/// `CONFIG SET save ""` and `save ""` in a file mean an empty list.
fn without_empty<'a, 'w>(words: &'a [&'w [u8]]) -> &'a [&'w [u8]] {
    if words == [b"".as_slice()] { &[] } else { words }
}

pub(super) fn any(_: &[u8]) -> Result<(), &'static str> {
    Ok(())
}

/// One word of a list whose words may contain blanks.
pub(super) fn quoted(word: &[u8]) -> Result<Vec<u8>, Reason> {
    if word.is_empty() { Err("a path is missing".into()) } else { Ok(quote(word)) }
}

/// The same for a glob of keys.
pub(super) fn glob(word: &[u8]) -> Result<Vec<u8>, Reason> {
    if word.is_empty() { Err("a glob for keys is missing".into()) } else { Ok(quote(word)) }
}

/// A kind of finding that is allowed for some keys, with the reason: one word of a list.
pub(super) fn allowance(words: &[&[u8]], _: &[u8]) -> Result<Vec<u8>, Reason> {
    let line = joined(words);
    if line.is_empty() {
        return Ok(Vec::new());
    }
    Allowance::parse(&String::from_utf8_lossy(&line)).map_err(Reason::Owned)?;
    Ok(quote(&line))
}

fn joined(words: &[&[u8]]) -> Vec<u8> {
    words.join(&b' ')
}

/// Pairs of seconds and changes.
pub(super) fn save(words: &[&[u8]], _: &[u8]) -> Result<Vec<u8>, Reason> {
    let words = without_empty(words);
    let whole = |word: &[u8]| parse_integer(word).filter(|number| i32::try_from(*number).is_ok());
    let right = |pair: &[&[u8]]| match pair {
        [seconds, changes] => {
            whole(seconds).is_some_and(|seconds| seconds >= 1) && whole(changes).is_some_and(|changes| changes >= 0)
        }
        _ => false,
    };
    if words.chunks(2).all(right) { Ok(joined(words)) } else { Err("Invalid save parameters".into()) }
}

/// Addresses. Whether they can be bound is known only later.
pub(super) fn bind(words: &[&[u8]], _: &[u8]) -> Result<Vec<u8>, Reason> {
    let words = without_empty(words);
    if words.len() > 16 {
        return Err("Too many bind addresses specified.".into());
    }
    Ok(joined(words))
}

const CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

/// Class, hard limit, soft limit and seconds, for one or several classes of clients.
pub(super) fn buffer_limits(words: &[&[u8]], current: &[u8]) -> Result<Vec<u8>, Reason> {
    if !words.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".into());
    }
    let mut limits: Vec<Vec<u8>> = current.split(|&byte| byte == b' ').map(<[u8]>::to_vec).collect();
    for group in words.chunks(4) {
        let [class, hard, soft, seconds] = group else { continue };
        let class = if class.eq_ignore_ascii_case(b"replica") { b"slave" } else { *class };
        let class = CLASSES.iter().position(|name| name.as_bytes().eq_ignore_ascii_case(class));
        let class = class.ok_or("Invalid client class specified in buffer limit configuration.")?;
        let wrong = "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
        let hard = parse_memory(hard).ok_or(wrong)?;
        let soft = parse_memory(soft).ok_or(wrong)?;
        let seconds = std::str::from_utf8(seconds).ok().and_then(|text| text.parse::<i64>().ok());
        let seconds = seconds.filter(|seconds| *seconds >= 0).ok_or(wrong)?;
        // Seconds are an `int` in Redis, which keeps the low half of a larger number.
        for (offset, number) in
            [hard.to_string(), soft.to_string(), (seconds as i32).to_string()].into_iter().enumerate()
        {
            if let Some(place) = limits.get_mut(class * 4 + 1 + offset) {
                *place = number.into_bytes();
            }
        }
    }
    Ok(limits.join(&b' '))
}

/// The letters of `notify-keyspace-events` in Redis's order, with their bits.
const EVENTS: [(u8, u32); 14] = [
    (b'g', EventClass::Generic as u32),
    (b'$', EventClass::String as u32),
    (b'l', EventClass::List as u32),
    (b's', EventClass::Set as u32),
    (b'h', EventClass::Hash as u32),
    (b'z', EventClass::SortedSet as u32),
    (b'x', EventClass::Expired as u32),
    (b'e', EventClass::Evicted as u32),
    (b't', EventClass::Stream as u32),
    (b'd', EventClass::Module as u32),
    (b'n', EventClass::New as u32),
    (b'K', KEYSPACE_CHANNEL),
    (b'E', KEYEVENT_CHANNEL),
    (b'm', EventClass::KeyMiss as u32),
];

/// The number of letters, from the first on, that `A` stands for.
const IN_ALL: usize = 10;

/// Classes of keyspace events as letters, in Redis's order.
pub(super) fn events(word: &[u8]) -> Result<Vec<u8>, Reason> {
    if word.iter().any(|byte| *byte != b'A' && EVENTS.iter().all(|(letter, _)| letter != byte)) {
        return Err("Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".into());
    }
    let (kinds, rest) = EVENTS.split_at(IN_ALL);
    let given = |(letter, _): &&(u8, u32)| word.contains(letter);
    let all = word.contains(&b'A') || kinds.iter().all(|kind| given(&kind));
    let mut value = if all { b"A".to_vec() } else { kinds.iter().filter(given).map(|(letter, _)| *letter).collect() };
    value.extend(rest.iter().filter(given).map(|(letter, _)| *letter));
    Ok(value)
}

/// As in Redis, `n` is not shown besides `A`.
pub(super) fn shown_events(value: &[u8]) -> Vec<u8> {
    let all = value.contains(&b'A');
    value.iter().copied().filter(|letter| !(all && *letter == b'n')).collect()
}

/// The notifications that views make: none if no channel is enabled.
pub(super) fn event_bits(value: &[u8]) -> u32 {
    let all = value.contains(&b'A');
    let asked = |place: usize, letter: u8| value.contains(&letter) || (all && place < IN_ALL);
    let bits = (0..)
        .zip(EVENTS)
        .filter(|(place, (letter, _))| asked(*place, *letter))
        .fold(0, |bits, (_, (_, bit))| bits | bit);
    if bits & (KEYSPACE_CHANNEL | KEYEVENT_CHANNEL) == 0 { 0 } else { bits }
}

pub(super) fn oom_score_adj(word: &[u8]) -> Result<Vec<u8>, Reason> {
    let name = choose(&["no", "yes", "relative", "absolute"], word)?;
    Ok(if name == "relative" { "yes" } else { name }.as_bytes().to_vec())
}

pub(super) fn oom_score_adj_values(words: &[&[u8]], _: &[u8]) -> Result<Vec<u8>, Reason> {
    if words.len() != 3 {
        return Err("wrong number of arguments".into());
    }
    let right = |word: &&[u8]| parse_integer(word).is_some_and(|number| (-2000..=2000).contains(&number));
    if words.iter().all(right) {
        Ok(joined(words))
    } else {
        Err("Invalid oom-score-adj-values, elements must be between -2000 and 2000.".into())
    }
}

pub(super) fn percentiles(words: &[&[u8]], _: &[u8]) -> Result<Vec<u8>, Reason> {
    let mut shown = Vec::new();
    for word in without_empty(words) {
        let value = parse_float(word).ok_or("Invalid latency-tracking-info-percentiles parameters")?;
        if !(0.0..=100.0).contains(&value) {
            return Err("latency-tracking-info-percentiles parameters should sit between [0.0,100.0]".into());
        }
        let text = format!("{value:.6}");
        shown.push(text.trim_end_matches('0').trim_end_matches('.').to_owned());
    }
    Ok(shown.join(" ").into_bytes())
}

/// The behaviour on a signal: any of several words, two of which exclude each other.
pub(super) fn on_signal(words: &[&[u8]], _: &[u8]) -> Result<Vec<u8>, Reason> {
    signal_options(&["default", "save", "nosave", "now", "force"], words)
}

/// The same with the words of Valkey.
pub(super) fn on_signal_of_valkey(words: &[&[u8]], _: &[u8]) -> Result<Vec<u8>, Reason> {
    signal_options(&["default", "save", "nosave", "now", "force", "safe", "failover"], words)
}

fn signal_options(names: &[&'static str], words: &[&[u8]]) -> Result<Vec<u8>, Reason> {
    if words.is_empty() {
        choose(names, b"")?;
    }
    let chosen = words.iter().map(|word| choose(names, word)).collect::<Result<Vec<_>, _>>()?;
    if chosen.contains(&"save") && chosen.contains(&"nosave") {
        return Err("shutdown options SAVE and NOSAVE can't be used simultaneously".into());
    }
    let names: Vec<_> = names.iter().skip(1).copied().filter(|name| chosen.contains(name)).collect();
    Ok(if names.is_empty() { b"default".to_vec() } else { names.join(" ").into_bytes() })
}

/// Limited, because each database takes some memory even while it is unused.
pub(super) fn databases(word: &[u8]) -> Result<Vec<u8>, Reason> {
    const MOST: i64 = 65_536;
    let value = parse_integer(word).ok_or("argument couldn't be parsed into an integer")?;
    within(value, 1, i64::from(i32::MAX))?;
    if value > MOST {
        return Err(format!("this server has at most {MOST} databases").into());
    }
    Ok(value.to_string().into_bytes())
}

/// Redis's timer supports 1 to 500 ticks per second.
pub(super) fn hz(word: &[u8]) -> Result<Vec<u8>, Reason> {
    let value = parse_integer(word).ok_or("argument couldn't be parsed into an integer")?;
    within(value, 0, i64::from(i32::MAX))?;
    Ok(value.clamp(1, 500).to_string().into_bytes())
}

pub(super) fn backlog_size(word: &[u8]) -> Result<Vec<u8>, Reason> {
    let value = parse_memory(word).ok_or("argument must be a memory value")?;
    within(value, 1, i64::MAX.unsigned_abs())?;
    Ok(value.max(16 << 10).to_string().into_bytes())
}

/// An existing directory, as an absolute path.
pub(super) fn directory(word: &[u8]) -> Result<Vec<u8>, Reason> {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let path = Path::new(std::ffi::OsStr::from_bytes(word));
    let path = path.canonicalize().map_err(|error| Reason::Owned(crate::base::error::plain(&error)))?;
    if !path.is_dir() {
        return Err("Not a directory".into());
    }
    Ok(path.into_os_string().into_vec())
}

/// `no one`, or the server to follow.
pub(super) fn replica_of(words: &[&[u8]], _: &[u8]) -> Result<Vec<u8>, Reason> {
    match words {
        [no, one] if no.eq_ignore_ascii_case(b"no") && one.eq_ignore_ascii_case(b"one") => Ok(Vec::new()),
        [_, port] => match parse_integer(port) {
            Some(0..=65535) => Ok(joined(words)),
            _ => Err("Invalid master port".into()),
        },
        _ => Err("wrong number of arguments".into()),
    }
}

pub(super) fn host_name(word: &[u8]) -> Result<(), &'static str> {
    if word.len() >= 256 {
        return Err("Hostnames must be less than 256 characters");
    }
    let right = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    if word.iter().all(right) {
        Ok(())
    } else {
        Err("Hostnames may only contain alphanumeric characters, hyphens or dots")
    }
}

pub(super) fn ip_v4(word: &[u8]) -> Result<(), &'static str> {
    address::<std::net::Ipv4Addr>(word).ok_or("Invalid IPv4 address")
}

pub(super) fn ip_v6(word: &[u8]) -> Result<(), &'static str> {
    address::<std::net::Ipv6Addr>(word).ok_or("Invalid IPv6 address")
}

fn address<A: std::str::FromStr>(word: &[u8]) -> Option<()> {
    let is_right = word.is_empty() || std::str::from_utf8(word).is_ok_and(|text| text.parse::<A>().is_ok());
    is_right.then_some(())
}

pub(super) fn hash_seed(word: &[u8]) -> Result<(), &'static str> {
    const MOST: usize = 16;
    if word.len() <= MOST { Ok(()) } else { Err("hash-seed must be less than or equal to 16 characters") }
}

/// An amount of memory, or -1 for no limit.
pub(super) fn signed_memory(word: &[u8]) -> Result<Vec<u8>, Reason> {
    let amount = |word| parse_memory(word).ok_or("argument must be a memory value");
    let value = match word {
        [b'-', digits @ ..] => -i128::from(amount(digits)?),
        digits => i128::from(amount(digits)?),
    };
    within(value, -1, i128::from(i64::MAX))?;
    Ok(value.to_string().into_bytes())
}

pub(super) fn node_name(word: &[u8]) -> Result<(), &'static str> {
    let is_wrong = |byte: &u8| b"!#$%&()*+:;<>?@[]{|}~".contains(byte);
    if word.iter().any(is_wrong) { Err("Announced human node name contained invalid character") } else { Ok(()) }
}

pub(super) fn dump_file_name(word: &[u8]) -> Result<(), &'static str> {
    if is_path(word) { Err("dbfilename can't be a path, just a filename") } else { Ok(()) }
}

pub(super) fn append_file_name(word: &[u8]) -> Result<(), &'static str> {
    match word {
        [] => Err("appendfilename can't be empty"),
        _ if is_path(word) => Err("appendfilename can't be a path, just a filename"),
        _ => Ok(()),
    }
}

pub(super) fn append_directory_name(word: &[u8]) -> Result<(), &'static str> {
    match word {
        [] => Err("appenddirname can't be empty"),
        _ if is_path(word) => Err("appenddirname can't be a path, just a dirname"),
        _ => Ok(()),
    }
}

fn is_path(word: &[u8]) -> bool {
    word.contains(&b'/') || word.contains(&b'\\')
}

/// A template must contain only known variables and produce some text.
pub(super) fn title_template(word: &[u8]) -> Result<(), &'static str> {
    const WRONG: &str = "template format is invalid or contains unknown variables";
    const EMPTY: [&[u8]; 4] = [b"title", b"server-mode", b"unixsocket", b"config-file"];
    const FILLED: [&[u8]; 3] = [b"listen-addr", b"port", b"tls-port"];
    let (mut rest, mut shows) = (word, false);
    while let [first, tail @ ..] = rest {
        match (first, tail) {
            (b'{', [b'{', tail @ ..]) => (rest, shows) = (tail, true),
            (b'{', _) => {
                let end = tail.iter().position(|&byte| byte == b'}').ok_or(WRONG)?;
                let name = &tail[..end];
                if !EMPTY.contains(&name) && !FILLED.contains(&name) {
                    return Err(WRONG);
                }
                (rest, shows) = (&tail[end + 1..], shows || FILLED.contains(&name));
            }
            _ => (rest, shows) = (tail, shows || !first.is_ascii_whitespace()),
        }
    }
    if shows { Ok(()) } else { Err(WRONG) }
}

/// `compat`: a profile by name.
pub(super) fn profile(word: &[u8]) -> Result<Vec<u8>, Reason> {
    let name = String::from_utf8_lossy(word);
    let profile: crate::base::profile::Profile = name.parse().map_err(Reason::Owned)?;
    Ok(profile.name().as_bytes().to_vec())
}

/// A duration: `1500` (milliseconds), `1.5s`, `2m`.
pub(super) fn duration(word: &[u8]) -> Result<Vec<u8>, Reason> {
    let duration = parse_duration(word).ok_or("argument must be a duration such as 1500 (milliseconds), 1.5s or 2m")?;
    Ok(spell_duration(duration).into_bytes())
}

/// A validated duration, in microseconds.
pub(super) fn micros(value: &[u8]) -> u64 {
    parse_duration(value).map_or(0, |duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_shown_in_redis_order() {
        for (given, shown) in [
            ("KEA", "AKE"),
            ("Kg", "gK"),
            ("KEg$lshzxet", "g$lshzxetKE"),
            ("KEg$lshzxetd", "AKE"),
            ("KEAmn", "AKEm"),
            ("KEn", "nKE"),
            ("", ""),
        ] {
            assert_eq!(shown_events(&events(given.as_bytes()).unwrap()), shown.as_bytes(), "{given}");
        }
        assert!(events(b"A n").is_err());
    }

    #[test]
    fn events_are_told_of_only_where_there_is_a_channel_for_them() {
        let bits = |given: &str| event_bits(&events(given.as_bytes()).unwrap());
        assert_eq!(bits("A"), 0);
        assert_eq!(bits("K$"), KEYSPACE_CHANNEL | EventClass::String as u32);
        assert_eq!(bits("KEAn"), bits("KEA") | EventClass::New as u32);
        assert_eq!(bits("KEA") & EventClass::KeyMiss as u32, 0);
    }

    #[test]
    fn buffer_limits_change_only_the_class_that_is_named() {
        let before = b"normal 0 0 0 slave 1 2 3 pubsub 4 5 6";
        let after = buffer_limits(&[b"REPLICA", b"1kb", b"2", b"7"], before).unwrap();
        assert_eq!(after, b"normal 0 0 0 slave 1024 2 7 pubsub 4 5 6");
        assert!(buffer_limits(&[b"master", b"1", b"2", b"3"], before).is_err());
        assert!(buffer_limits(&[b"normal", b"1", b"2"], before).is_err());
    }

    #[test]
    fn a_title_must_show_something() {
        for right in ["abc", "{title} {listen-addr} {server-mode}", "{{", "}"] {
            assert!(title_template(right.as_bytes()).is_ok(), "{right}");
        }
        for wrong in ["", "{title}", "{foo}", "{title} {", "{title"] {
            assert!(title_template(wrong.as_bytes()).is_err(), "{wrong}");
        }
    }
}
