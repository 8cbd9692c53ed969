//! The lines that MONITOR feeds: `1339518083.107412 [0 127.0.0.1:60866] "SET" "k" "v"`.
//!
//! Read as they come from a server (`+` in front, CRLF behind) or out of a file that `redis-cli MONITOR` wrote. A script's
//! commands name `lua` as their source, and follow the line of the script that ran them.

use crate::protocol::{OwnedWords, Words, quote, split_whole_words};

/// The source that MONITOR names for a command inside a script or a function.
pub const MONITOR_SCRIPT: &str = "lua";

/// The most bytes of a line that are kept, so that a stream without line ends does not fill the memory.
const MOST_LINE: usize = 4 << 20;
/// A larger buffer is freed after its line.
const BUFFER_KEPT: usize = 64 << 10;

/// Appends the line for a command, as a server sends it. `at` is in microseconds since 1970.
pub fn write_monitor_line(out: &mut Vec<u8>, at: i64, db: u32, source: &[u8], words: Words<'_>) {
    let (seconds, rest) = (at.div_euclid(MICROS), at.rem_euclid(MICROS));
    out.extend_from_slice(format!("+{seconds}.{rest:06} [{db} ").as_bytes());
    out.extend_from_slice(source);
    out.push(b']');
    for word in words.iter() {
        out.push(b' ');
        out.extend(quote(word));
    }
    out.extend_from_slice(b"\r\n");
}

const MICROS: i64 = 1_000_000;

/// A command that MONITOR has fed.
#[derive(Clone)]
pub struct MonitorLine<'a> {
    /// When it ran, in microseconds since 1970.
    pub at: i64,
    pub db: u32,
    pub source: MonitorSource<'a>,
    /// The command; there is at least one word.
    pub words: OwnedWords,
    /// The line has ended where it should. Otherwise it was cut off, and words are missing at its end.
    pub is_whole: bool,
}

/// Who ran a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MonitorSource<'a> {
    /// The script or function whose line came before.
    Script,
    /// A client, by its address: `127.0.0.1:60866`, `[::1]:60866`, or `unix:` and the path of the server's socket.
    Client(&'a [u8]),
}

impl<'a> MonitorLine<'a> {
    /// Reads one line, with or without its end. `None` if it is no line of MONITOR: its `OK`, an error, a reply.
    pub fn parse(line: &'a [u8]) -> Option<Self> {
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = line.strip_prefix(b"+").unwrap_or(line);
        let (seconds, line) = digits(line)?;
        let (fraction, line) = digits(line.strip_prefix(b".")?)?;
        let (db, line) = digits(line.strip_prefix(b" [")?)?;
        let line = line.strip_prefix(b" ")?;
        let end = memchr::memmem::find(line, b"] \"")?;
        let source = match &line[..end] {
            source if source == MONITOR_SCRIPT.as_bytes() => MonitorSource::Script,
            source => MonitorSource::Client(source),
        };
        let (words, is_whole) = split_whole_words(&line[end + 2..]);
        if words.as_words().is_empty() {
            return None;
        }
        let at = number::<i64>(seconds)?.checked_mul(MICROS)?.checked_add(micros(fraction)?)?;
        Some(Self { at, db: number(db)?, source, words, is_whole })
    }
}

/// The decimal digits in front, at least one, and what follows them.
fn digits(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let count = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count > 0).then(|| text.split_at(count))
}

fn number<N: std::str::FromStr>(digits: &[u8]) -> Option<N> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

/// Up to six digits behind the decimal point, in microseconds.
fn micros(fraction: &[u8]) -> Option<i64> {
    let missing = 6_usize.checked_sub(fraction.len())?;
    Some(number::<i64>(fraction)? * 10_i64.pow(missing as u32))
}

/// Divides what a MONITOR connection receives into lines. It keeps the beginning of one line at most.
#[derive(Default)]
pub struct MonitorReader {
    /// The line that has not ended.
    pending: Vec<u8>,
    /// The line has bytes that were not kept.
    is_cut: bool,
}

impl MonitorReader {
    /// Takes bytes, and gives each line that they end: a command, or `Err` with a line that is none.
    pub fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(Result<MonitorLine<'_>, &[u8]>)) {
        while let Some(end) = memchr::memchr(b'\n', bytes) {
            let (line, rest) = bytes.split_at(end + 1);
            bytes = rest;
            if self.pending.is_empty() && line.len() <= MOST_LINE {
                each(MonitorLine::parse(line).ok_or(line));
            } else {
                self.keep(line);
                self.end_line(&mut each);
            }
        }
        self.keep(bytes);
    }

    /// The stream has ended: gives the line that has no end.
    #[cfg(any(test, feature = "internals"))]
    pub fn finish(&mut self, mut each: impl FnMut(Result<MonitorLine<'_>, &[u8]>)) {
        if !self.pending.is_empty() {
            self.end_line(&mut each);
        }
    }

    fn keep(&mut self, bytes: &[u8]) {
        let room = MOST_LINE - self.pending.len();
        self.is_cut |= bytes.len() > room;
        self.pending.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }

    fn end_line(&mut self, each: &mut impl FnMut(Result<MonitorLine<'_>, &[u8]>)) {
        let line = MonitorLine::parse(&self.pending).map(|mut line| {
            line.is_whole &= !self.is_cut;
            line
        });
        each(line.ok_or(&self.pending));
        self.is_cut = false;
        self.pending.clear();
        self.pending.shrink_to(BUFFER_KEPT);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    type Seen = (i64, u32, Option<Vec<u8>>, Vec<Vec<u8>>);

    fn seen(line: &MonitorLine<'_>) -> Seen {
        let source = match line.source {
            MonitorSource::Script => None,
            MonitorSource::Client(address) => Some(address.to_vec()),
        };
        (line.at, line.db, source, line.words.as_words().iter().map(<[u8]>::to_vec).collect())
    }

    fn any_line() -> impl Strategy<Value = Seen> {
        let address = prop_oneof![
            Just(None),
            Just(Some(b"127.0.0.1:60866".to_vec())),
            Just(Some(b"[::1]:60866".to_vec())),
            Just(Some(b"unix:/tmp/a b].sock".to_vec())),
        ];
        let words = prop::collection::vec(prop::collection::vec(any::<u8>(), 0..12), 1..5);
        (0..4_000_000_000_000_000_i64, 0..20_u32, address, words)
    }

    fn written(lines: &[Seen]) -> Vec<u8> {
        let mut out = Vec::new();
        for (at, db, source, words) in lines {
            let source = source.as_deref().unwrap_or(MONITOR_SCRIPT.as_bytes());
            write_monitor_line(&mut out, *at, *db, source, words.iter().collect::<OwnedWords>().as_words());
        }
        out
    }

    proptest! {
        #[test]
        fn lines_that_we_feed_are_read_back_however_they_are_divided(
            lines in prop::collection::vec(any_line(), 1..6),
            piece in 1_usize..40,
        ) {
            let (mut reader, mut read) = (MonitorReader::default(), Vec::new());
            for bytes in written(&lines).chunks(piece) {
                reader.feed(bytes, |line| read.push(seen(&line.expect("a command"))));
            }
            prop_assert_eq!(read, lines);
        }

        #[test]
        fn any_bytes_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut reader = MonitorReader::default();
            reader.feed(&bytes, |_| {});
            reader.finish(|_| {});
            let line = [b"1.5 [0 x] \"".as_slice(), &bytes].concat();
            reader.feed(&line, |_| {});
            reader.finish(|_| {});
        }

        #[test]
        fn of_a_line_that_was_cut_off_only_whole_words_are_read(line in any_line(), at in 0_usize..200) {
            let whole = written(std::slice::from_ref(&line));
            let cut = &whole[..at.min(whole.len())];
            if let Some(read) = MonitorLine::parse(cut) {
                let (.., words) = seen(&read);
                prop_assert!(line.3.starts_with(&words), "{:?} of {:?}", words, line);
                prop_assert!(read.is_whole || words.len() < line.3.len());
            }
        }
    }

    #[test]
    fn a_line_is_read_as_redis_cli_prints_it() {
        let line = br#"1795364199.453231 [3 127.0.0.1:53386] "EVAL" "a\nb" "v\x00\xc3\"\\\t\a\b""#;
        let words = vec![b"EVAL".to_vec(), b"a\nb".to_vec(), b"v\x00\xc3\"\\\t\x07\x08".to_vec()];
        let expected = (1_795_364_199_453_231, 3, Some(b"127.0.0.1:53386".to_vec()), words);
        assert_eq!(seen(&MonitorLine::parse(line).unwrap()), expected);
    }

    #[test]
    fn what_is_no_command_is_told_apart() {
        for line in
            ["OK", "+OK\r\n", "-NOAUTH Authentication required.", "", "$4", "1.5 [0 x]", "1.5 [0 x] y", "[0 x] \"y\""]
        {
            assert!(MonitorLine::parse(line.as_bytes()).is_none(), "{line}");
        }
    }

    #[test]
    fn a_line_without_an_end_is_not_kept_beyond_the_limit() {
        let mut reader = MonitorReader::default();
        reader.feed(b"1.000000 [0 x] \"SET\" \"k\" \"", |_| panic!("no line has ended"));
        for _ in 0..9 {
            reader.feed(&vec![b'v'; MOST_LINE / 4], |_| panic!("no line has ended"));
        }
        let mut read = Vec::new();
        reader.feed(b"\"\r\n2.000000 [0 x] \"GET\" \"k\"\r\n", |line| {
            let line = line.expect("a command");
            read.push((line.words.as_words().len(), line.is_whole));
        });
        assert_eq!(read, [(2, false), (2, true)]);
        assert!(reader.pending.capacity() <= BUFFER_KEPT);
    }
}
