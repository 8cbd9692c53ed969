//! Finds where the replies of a server end, without decoding them.
//!
//! What stands in front of a server passes replies on as they came: it needs to know where each of them ends, and nothing
//! else of most. No byte is kept or looked at twice, so a reply may come in any pieces and have any size. `redis-protocol`
//! is the oracle of the tests; it decodes each reply into values of its own, which takes longer than all else that a proxy
//! does ([decision 24](../../docs/decisions/0024-replies-are-scanned.md)).

/// Values nest at most so deep. Redis itself nests a few levels.
const DEEPEST: usize = 1024;
/// The most digits of a length or a count.
const MOST_DIGITS: u8 = 18;

/// What a server sent is no reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoReply;

/// Scans the replies of one connection.
#[derive(Default)]
pub struct ReplyScanner {
    /// How many values are left in each aggregate around the next value, the outermost first.
    open: Vec<u64>,
    state: State,
    /// The reply has begun.
    has_begun: bool,
}

#[derive(Clone, Copy, Default)]
enum State {
    /// In front of a value.
    #[default]
    Value,
    /// In a line that says nothing about what follows. The last byte may have been the first of its end.
    Line { cr: bool },
    /// In the line of a length or a count, behind its type.
    Number { kind: u8, negative: bool, value: u64, digits: u8, cr: bool },
    /// In a string of which so many bytes are left, its line end included.
    Bulk(u64),
}

impl ReplyScanner {
    /// Continues with the next bytes. Returns where the reply ends in them that they begin, or go on with; `None` if it goes
    /// on behind them.
    #[inline]
    pub fn next(&mut self, input: &[u8]) -> Result<Option<usize>, NoReply> {
        if !self.has_begun
            && let Some(end) = short_reply(input)
        {
            return Ok(Some(end));
        }
        self.scan(input)
    }

    /// Whether a reply has begun and not ended.
    pub fn is_partial(&self) -> bool {
        self.has_begun
    }

    fn scan(&mut self, input: &[u8]) -> Result<Option<usize>, NoReply> {
        let mut at = 0;
        while let Some(&byte) = input.get(at) {
            match &mut self.state {
                State::Value => {
                    self.has_begun = true;
                    at += 1;
                    self.state = match byte {
                        b'+' | b'-' | b':' | b'_' | b',' | b'#' | b'(' => State::Line { cr: false },
                        b'$' | b'=' | b'!' | b'*' | b'~' | b'>' | b'%' | b'|' => {
                            State::Number { kind: byte, negative: false, value: 0, digits: 0, cr: false }
                        }
                        _ => return Err(NoReply),
                    };
                }
                State::Line { cr } => {
                    let rest = &input[at..];
                    let Some(end) = memchr::memchr(b'\n', rest) else {
                        *cr = rest.last() == Some(&b'\r');
                        return Ok(None);
                    };
                    let is_ended = if end == 0 { *cr } else { rest[end - 1] == b'\r' };
                    *cr = false;
                    at += end + 1;
                    if is_ended && self.end_value() {
                        return Ok(Some(at));
                    }
                }
                State::Number { kind, negative, value, digits, cr } => {
                    at += 1;
                    match byte {
                        b'0'..=b'9' if !*cr && *digits < MOST_DIGITS => {
                            *value = *value * 10 + u64::from(byte - b'0');
                            *digits += 1;
                        }
                        b'-' if !*cr && *digits == 0 && !*negative => *negative = true,
                        b'\r' if !*cr && *digits > 0 => *cr = true,
                        b'\n' if *cr => {
                            let (kind, value, negative) = (*kind, *value, *negative);
                            if self.begin_content(kind, value, negative)? && self.end_value() {
                                return Ok(Some(at));
                            }
                        }
                        _ => return Err(NoReply),
                    }
                }
                State::Bulk(left) => {
                    let there = (input.len() - at) as u64;
                    if there < *left {
                        *left -= there;
                        return Ok(None);
                    }
                    at += *left as usize;
                    if self.end_value() {
                        return Ok(Some(at));
                    }
                }
            }
        }
        Ok(None)
    }

    /// The line of a length or a count is complete. Returns whether that was the whole value.
    fn begin_content(&mut self, kind: u8, value: u64, negative: bool) -> Result<bool, NoReply> {
        // Only RESP2's two nulls are negative.
        if negative && (value != 1 || !matches!(kind, b'$' | b'*')) {
            return Err(NoReply);
        }
        match kind {
            b'$' | b'=' | b'!' if !negative => {
                self.state = State::Bulk(value + 2);
                return Ok(false);
            }
            b'*' | b'~' | b'>' | b'%' | b'|' if !negative => {
                let values = if matches!(kind, b'%' | b'|') { value * 2 } else { value };
                self.state = State::Value;
                if kind == b'|' || kind == b'>' && !self.open.is_empty() {
                    // Attributes stand in front of a value, and are none; a message inside a reply is none, either.
                    return if values == 0 { Ok(false) } else { self.open(values, true) };
                }
                if values > 0 {
                    return self.open(values, false);
                }
            }
            _ => {}
        }
        Ok(true)
    }

    fn open(&mut self, values: u64, is_attribute: bool) -> Result<bool, NoReply> {
        if self.open.len() >= DEEPEST {
            return Err(NoReply);
        }
        // The end of an attribute ends no value: one more is counted around it.
        if is_attribute {
            match self.open.last_mut() {
                Some(left) => *left += 1,
                None => self.open.push(2),
            }
        }
        self.open.push(values);
        Ok(false)
    }

    /// A value has ended, and every aggregate whose last one it is. Returns whether the reply has.
    fn end_value(&mut self) -> bool {
        self.state = State::Value;
        while let Some(left) = self.open.last_mut() {
            *left -= 1;
            if *left > 0 {
                return false;
            }
            self.open.pop();
        }
        self.has_begun = false;
        true
    }
}

/// The end of a reply of the most frequent kinds that is there as a whole: a status, a number, an error, a short string.
#[inline]
fn short_reply(input: &[u8]) -> Option<usize> {
    match *input.first()? {
        b'+' | b':' | b'-' | b'_' => {
            let end = memchr::memchr(b'\n', input)?;
            (input[end - 1] == b'\r').then_some(end + 1)
        }
        b'$' => {
            let mut length = 0;
            for (index, &byte) in input[1..].iter().take(8).enumerate() {
                match byte {
                    b'0'..=b'9' => length = length * 10 + usize::from(byte - b'0'),
                    b'\r' if index > 0 => {
                        let end = index + 3 + length + 2;
                        return (input.get(index + 2) == Some(&b'\n') && end <= input.len()).then_some(end);
                    }
                    _ => return None,
                }
            }
            None
        }
        _ => None,
    }
}

/// The elements of an array, each as the bytes of a reply; `None` if the reply is none.
pub fn array_elements(reply: &[u8]) -> Option<Vec<&[u8]>> {
    let line = memchr::memchr(b'\n', reply)?;
    let (b'*', count) = (*reply.first()?, reply.get(1..line.checked_sub(1)?)?) else { return None };
    let count: usize = std::str::from_utf8(count).ok()?.parse().ok()?;
    let mut rest = &reply[line + 1..];
    let mut elements = Vec::with_capacity(count.min(rest.len()));
    while elements.len() < count {
        let end = ReplyScanner::default().next(rest).ok()??;
        let (element, others) = rest.split_at(end);
        // A message inside is no element.
        if element.first() != Some(&b'>') {
            elements.push(element);
        }
        rest = others;
    }
    Some(elements)
}

#[cfg(test)]
mod tests;
