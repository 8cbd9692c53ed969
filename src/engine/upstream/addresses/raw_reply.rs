//! A reply as it came, and changes of its texts that leave all other bytes where they are.

use std::ops::Range;

/// Values nest at most so deep in replies with addresses. Those that servers send have a few levels.
const DEEPEST: usize = 32;
/// The three letters and the colon in front of the text of a verbatim string.
const VERBATIM_PREFIX: usize = 4;

/// The line of a value, and its text if it has one.
#[derive(Clone, Debug)]
pub(super) struct Head<'r> {
    pub kind: u8,
    /// Of a string, number or error; `None` for a null and for an aggregate.
    pub text: Option<&'r [u8]>,
    /// How many values follow in an aggregate.
    pub count: u64,
    /// Where the bytes of the head begin and end. Those of a simple value are all of its bytes.
    pub span: Range<usize>,
}

impl<'r> Head<'r> {
    /// The head that begins here; `None` if there is none that is complete.
    pub fn read(bytes: &'r [u8], at: usize) -> Option<Self> {
        let kind = *bytes.get(at)?;
        let rest = bytes.get(at + 1..)?;
        let line_end = memchr::memchr(b'\n', rest)?;
        let line = rest.get(..line_end)?.strip_suffix(b"\r")?;
        let end = at + 1 + line_end + 1;
        let head = |text, count, end| Some(Self { kind, text, count, span: at..end });
        match kind {
            b'+' | b'-' | b':' | b',' | b'#' | b'(' => head(Some(line), 0, end),
            b'_' => head(None, 0, end),
            b'$' | b'*' if line == b"-1" => head(None, 0, end),
            b'$' | b'=' | b'!' => {
                let length: usize = number(line)?;
                let text = bytes.get(end..end.checked_add(length)?)?;
                let end = end + length + 2;
                if bytes.get(end - 2..end)? != b"\r\n" {
                    return None;
                }
                let text = if kind == b'=' { text.get(VERBATIM_PREFIX..)? } else { text };
                head(Some(text), 0, end)
            }
            b'*' | b'~' | b'>' => head(None, number(line)?, end),
            b'%' | b'|' => head(None, number::<u64>(line)?.checked_mul(2)?, end),
            _ => None,
        }
    }

    /// Whether it stands in front of a value and is none: attributes, or a message in the middle of a reply.
    pub fn is_aside(&self) -> bool {
        self.kind == b'|' || self.kind == b'>' && self.span.start > 0
    }

    /// The bytes of this value with another text.
    pub fn with_text(&self, bytes: &[u8], text: &[u8]) -> Vec<u8> {
        let mut new = vec![self.kind];
        match self.kind {
            b'$' | b'!' => new.extend_from_slice(format!("{}\r\n", text.len()).as_bytes()),
            b'=' => {
                new.extend_from_slice(format!("{}\r\n", text.len() + VERBATIM_PREFIX).as_bytes());
                let old = self.text.map_or(0, <[u8]>::len) + 2;
                let prefix_end = self.span.end - old;
                new.extend_from_slice(&bytes[prefix_end - VERBATIM_PREFIX..prefix_end]);
            }
            _ => {}
        }
        new.extend_from_slice(text);
        new.extend_from_slice(b"\r\n");
        new
    }
}

/// The number in the line of a length or a count.
fn number<N: std::str::FromStr>(line: &[u8]) -> Option<N> {
    let is_number = line.first().is_some_and(u8::is_ascii_digit);
    if is_number { std::str::from_utf8(line).ok()?.parse().ok() } else { None }
}

/// The heads of all values of a reply, the outermost first, without a look at how they nest. Ends early if the reply is
/// malformed.
pub(super) struct Heads<'r> {
    bytes: &'r [u8],
    at: usize,
    /// How many values are left.
    left: u64,
}

impl<'r> Heads<'r> {
    pub fn new(bytes: &'r [u8]) -> Self {
        Self { bytes, at: 0, left: 1 }
    }

    /// Where the next head begins.
    pub fn at(&self) -> usize {
        self.at
    }

    /// Whether all values were there.
    pub fn is_complete(&self) -> bool {
        self.left == 0
    }

    /// Where the value ends that begins here, what stands aside in front of it included.
    pub fn end_of_value(bytes: &'r [u8], at: usize) -> Option<usize> {
        let mut heads = Self { bytes, at, left: 1 };
        while heads.next().is_some() {}
        heads.is_complete().then_some(heads.at)
    }
}

impl<'r> Iterator for Heads<'r> {
    type Item = Head<'r>;

    fn next(&mut self) -> Option<Head<'r>> {
        if self.left == 0 {
            return None;
        }
        let head = Head::read(self.bytes, self.at)?;
        self.left = (self.left - u64::from(!head.is_aside())).checked_add(head.count)?;
        self.at = head.span.end;
        Some(head)
    }
}

/// A value of a reply. What stands aside in front of it belongs to none.
#[derive(Debug)]
pub(super) struct Value<'r> {
    head: Head<'r>,
    /// Of an aggregate; the keys and values of a map in turn.
    pub children: Vec<Value<'r>>,
    end: usize,
}

impl<'r> Value<'r> {
    /// The only value of these bytes; `None` if they are malformed or nest too deep.
    pub fn parse(bytes: &'r [u8]) -> Option<Self> {
        let mut at = 0;
        let value = Self::read(bytes, &mut at, DEEPEST)?;
        (at == bytes.len()).then_some(value)
    }

    fn read(bytes: &'r [u8], at: &mut usize, depth: usize) -> Option<Self> {
        let head = loop {
            let head = Head::read(bytes, *at)?;
            if !head.is_aside() {
                break head;
            }
            *at = head.span.end;
            for _ in 0..head.count {
                *at = Heads::end_of_value(bytes, *at)?;
            }
        };
        *at = head.span.end;
        let mut children = Vec::new();
        if head.count > 0 {
            let depth = depth.checked_sub(1)?;
            for _ in 0..head.count {
                children.push(Self::read(bytes, at, depth)?);
            }
        }
        Some(Self { head, children, end: *at })
    }

    pub fn kind(&self) -> u8 {
        self.head.kind
    }

    /// The bytes of a string, number or error.
    pub fn bytes(&self) -> Option<&'r [u8]> {
        self.head.text
    }

    /// The text of a string, number or error; `None` if it is none.
    pub fn text(&self) -> Option<&'r str> {
        std::str::from_utf8(self.head.text?).ok()
    }

    /// Whether it is a list or a map.
    pub fn is_aggregate(&self) -> bool {
        matches!(self.kind(), b'*' | b'~' | b'>' | b'%')
    }

    /// The fields of a map, or of a list of names and values in turn.
    pub fn fields(&self) -> impl Iterator<Item = (&Value<'r>, &Value<'r>)> + Clone {
        self.children.chunks_exact(2).map(|pair| (&pair[0], &pair[1]))
    }

    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&Value<'r>> {
        self.fields().find(|(key, _)| key.bytes() == Some(name.as_bytes())).map(|(_, value)| value)
    }
}

/// Changes of a reply.
pub(super) struct Edits<'r> {
    bytes: &'r [u8],
    edits: Vec<(Range<usize>, Vec<u8>)>,
}

impl<'r> Edits<'r> {
    pub fn new(bytes: &'r [u8]) -> Self {
        Self { bytes, edits: Vec::new() }
    }

    /// Gives a string, number or error another text. A null stays.
    pub fn set(&mut self, value: &Value<'_>, text: impl AsRef<[u8]>) {
        self.set_head(&value.head, text.as_ref());
    }

    /// Gives it another text, unless it is empty.
    pub fn set_unless_empty(&mut self, value: &Value<'_>, text: &str) {
        if value.bytes().is_some_and(|bytes| !bytes.is_empty()) {
            self.set(value, text);
        }
    }

    pub fn set_head(&mut self, head: &Head<'_>, text: &[u8]) {
        if head.text.is_some_and(|old| old != text) {
            self.edits.push((head.span.clone(), head.with_text(self.bytes, text)));
        }
    }

    /// Removes fields of a map or a list of fields, and adds others behind `last`. `removed` and `last` are keys and values of
    /// it. What is added are complete values.
    pub fn change_fields<'v>(
        &mut self,
        map: &Value<'_>,
        removed: &[(&'v Value<'v>, &'v Value<'v>)],
        last: &Value<'_>,
        added: &[Vec<u8>],
    ) {
        let count = map.children.len() + added.len() - removed.len() * 2;
        if count != map.children.len() {
            let shown = if map.kind() == b'%' { count / 2 } else { count };
            let head = format!("{}{shown}\r\n", char::from(map.kind()));
            self.edits.push((map.head.span.clone(), head.into_bytes()));
        }
        for (key, value) in removed {
            self.edits.push((key.head.span.start..value.end, Vec::new()));
        }
        if !added.is_empty() {
            self.edits.push((last.end..last.end, added.concat()));
        }
    }

    /// The reply with all changes; `None` if there are none.
    pub fn apply(mut self) -> Option<Vec<u8>> {
        if self.edits.is_empty() {
            return None;
        }
        self.edits.sort_by_key(|(range, _)| (range.start, range.end));
        let mut new = Vec::with_capacity(self.bytes.len() + 64);
        let mut at = 0;
        for (range, text) in self.edits {
            // Changes do not overlap: of two that do, the second is none.
            if range.start < at {
                continue;
            }
            new.extend_from_slice(&self.bytes[at..range.start]);
            new.extend_from_slice(&text);
            at = range.end;
        }
        new.extend_from_slice(&self.bytes[at..]);
        Some(new)
    }
}
