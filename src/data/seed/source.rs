//! Commands in a file: inline lines as for `redis-cli`, or RESP requests as in append-only files.

use std::io::{self, BufRead, Read};

use crate::protocol::{Framed, Framer, Limits, OwnedWords, ProtocolError, split_line};

/// No limit: a file is trusted with its size.
const LIMITS: Limits = Limits { bulk: i64::MAX / 4, authenticated: true };
/// The longest line, in bytes: that of the longest string, quoted.
const LONGEST_LINE: u64 = 2 << 30;
/// How many more bytes of a request are read at a time.
const STEP: u64 = 64 * 1024;

/// Reads commands one by one, and no more of the file than the next one needs.
pub struct Source<R> {
    file: R,
    framer: Framer,
    /// The request that is being framed.
    request: Vec<u8>,
    words: OwnedWords,
    /// The line on which the last command began, and the line on which the next one begins.
    line: u64,
    next_line: u64,
}

/// Why the next command cannot be read.
#[derive(Debug)]
pub enum SourceError {
    /// A quote is not closed, or text follows the closing quote.
    Quotes,
    /// A line does not end.
    TooLong,
    /// The file ends inside a request.
    Cut,
    Protocol(ProtocolError),
    Io(io::Error),
}

impl From<io::Error> for SourceError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl<R: BufRead> Source<R> {
    /// `line` is the number of the first line.
    pub fn new(file: R, line: u64) -> Self {
        Self {
            file,
            framer: Framer::default(),
            request: Vec::new(),
            words: OwnedWords::default(),
            line,
            next_line: line,
        }
    }

    /// The next command; `None` at the end of the file.
    pub fn next(&mut self) -> Result<Option<&OwnedWords>, SourceError> {
        loop {
            let Some(&first) = self.file.fill_buf()?.first() else { return Ok(None) };
            let before = std::mem::replace(&mut self.line, self.next_line);
            let found = if first == b'*' { self.request()? } else { self.text()? };
            if found {
                return Ok(Some(&self.words));
            }
            self.line = before;
        }
    }

    /// The line on which the last command began.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Reads an inline line. Returns `false` if it is empty or a comment.
    fn text(&mut self) -> Result<bool, SourceError> {
        self.request.clear();
        if self.file.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut self.request)? as u64 == LONGEST_LINE {
            return Err(SourceError::TooLong);
        }
        self.next_line += 1;
        let line = self.request.trim_ascii();
        if line.is_empty() || line.starts_with(b"#") {
            return Ok(false);
        }
        self.words = split_line(line).ok_or(SourceError::Quotes)?.into_iter().collect();
        Ok(true)
    }

    /// Reads a RESP request. Returns `false` if it has no words.
    fn request(&mut self) -> Result<bool, SourceError> {
        self.request.clear();
        self.framer.reset();
        let framed: Framed = loop {
            // Up to the end of the line, and as many more bytes as the framer needs.
            let needed = (self.framer.needed() as u64).saturating_sub(self.request.len() as u64);
            let read = match needed {
                0 => self.file.read_until(b'\n', &mut self.request)?,
                _ => self.file.by_ref().take(needed.min(STEP)).read_to_end(&mut self.request)?,
            };
            if read == 0 {
                return Err(SourceError::Cut);
            }
            if let Some(framed) = self.framer.next(&self.request, LIMITS).map_err(SourceError::Protocol)? {
                break framed;
            }
        };
        self.next_line += memchr::memchr_iter(b'\n', &self.request).count() as u64;
        self.words.fill(self.framer.words(framed, &self.request));
        self.framer.forget();
        Ok(!framed.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commands(text: &str) -> Result<Vec<(u64, String)>, String> {
        let mut source = Source::new(text.as_bytes(), 1);
        let mut found = Vec::new();
        loop {
            match source.next() {
                Ok(Some(words)) => {
                    let words: Vec<_> = words.as_words().iter().map(String::from_utf8_lossy).collect();
                    let words = words.join("|");
                    found.push((source.line(), words));
                }
                Ok(None) => return Ok(found),
                Err(damage) => return Err(format!("{}: {damage:?}", source.line())),
            }
        }
    }

    fn at(line: u64, words: &str) -> (u64, String) {
        (line, words.to_owned())
    }

    #[test]
    fn lines_are_read_as_redis_cli_reads_them() {
        let text = "# comment\n\nSET a 'b c'\r\n  GET \"\\x61\\n\"  \n  # another\nPING";
        assert_eq!(commands(text).unwrap(), [at(3, "SET|a|b c"), at(4, "GET|a\n"), at(6, "PING")]);
    }

    #[test]
    fn requests_are_read_as_a_server_reads_them_between_the_notes_of_an_append_only_file() {
        let text = "#TS:1\r\n*2\r\n$3\r\nGET\r\n$3\r\na\nb\r\n*0\r\n#TS:2\r\n*1\r\n$4\r\nPING\r\nECHO x\n";
        assert_eq!(commands(text).unwrap(), [at(2, "GET|a\nb"), at(10, "PING"), at(13, "ECHO|x")]);
    }

    #[test]
    fn what_is_cut_off_or_garbled_is_told_with_its_line() {
        assert_eq!(commands("PING\nSET a \"b\n").unwrap_err(), "2: Quotes");
        assert_eq!(commands("PING\n*1\r\n$4\r\nPI").unwrap_err(), "2: Cut");
        assert_eq!(commands("*1\r\n$4\r\n").unwrap_err(), "1: Cut");
        assert_eq!(commands("*1\r\nPING\r\n").unwrap_err(), "1: Protocol(NotABulk(80))");
    }

    #[test]
    fn a_long_word_is_read_whole() {
        let long = "x".repeat(3 << 20);
        let text = format!("*2\r\n$4\r\nECHO\r\n${}\r\n{long}\r\nECHO {long}\n", long.len());
        assert_eq!(commands(&text).unwrap(), [at(1, &format!("ECHO|{long}")), at(6, &format!("ECHO|{long}"))]);
    }
}
