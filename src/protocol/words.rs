//! The words of one request, borrowed from its buffer.

/// The range of one word in its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub start: usize,
    pub end: usize,
}

/// The words of a request: a cheap copyable view of a buffer.
#[derive(Clone, Copy)]
pub struct Words<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Words<'a> {
    pub fn new(bytes: &'a [u8], spans: &'a [Span]) -> Self {
        Self { bytes, spans }
    }

    pub fn len(&self) -> usize {
        self.spans.len()
    }

    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    pub fn get(&self, index: usize) -> Option<&'a [u8]> {
        self.spans.get(index).map(|span| &self.bytes[span.start..span.end])
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &'a [u8]> + ExactSizeIterator + Clone + use<'a> {
        let bytes = self.bytes;
        self.spans.iter().map(move |span| &bytes[span.start..span.end])
    }

    /// The words from `index` on.
    pub fn from(&self, index: usize) -> Words<'a> {
        Words { bytes: self.bytes, spans: self.spans.get(index..).unwrap_or_default() }
    }

    /// The first `count` words.
    pub fn first(&self, count: usize) -> Words<'a> {
        Words { bytes: self.bytes, spans: self.spans.get(..count).unwrap_or(self.spans) }
    }

    pub fn into_owned(self) -> OwnedWords {
        let mut owned = OwnedWords::default();
        owned.append(self);
        owned
    }

    /// The bytes from the first word to the last, including those between, and the ranges of the words in them. Words
    /// are ascending in their buffer.
    #[inline]
    pub fn stretch(&self) -> (&'a [u8], impl ExactSizeIterator<Item = Span> + use<'a>) {
        let (start, end) = match (self.spans.first(), self.spans.last()) {
            (Some(first), Some(last)) => (first.start, last.end),
            _ => (0, 0),
        };
        let spans = self.spans.iter().map(move |span| Span { start: span.start - start, end: span.end - start });
        (&self.bytes[start..end], spans)
    }
}

/// A word as C sees it: up to its first NUL.
pub fn until_nul(word: &[u8]) -> &[u8] {
    &word[..memchr::memchr(0, word).unwrap_or(word.len())]
}

/// Words that outlive their buffer: a queued command, a command of the server itself.
#[derive(Clone, Default)]
pub struct OwnedWords {
    bytes: Vec<u8>,
    spans: Vec<Span>,
}

impl OwnedWords {
    /// Words by their ranges, which are ascending and lie within the bytes.
    pub const fn new(bytes: Vec<u8>, spans: Vec<Span>) -> Self {
        Self { bytes, spans }
    }

    pub fn as_words(&self) -> Words<'_> {
        Words { bytes: &self.bytes, spans: &self.spans }
    }

    /// Replaces the content by these words.
    pub fn fill(&mut self, words: Words<'_>) {
        self.clear();
        // The words of a request are mostly ascending in one buffer: they are copied with the bytes between them.
        let (Some(first), Some(last)) = (words.spans.first(), words.spans.last()) else { return };
        self.bytes.extend_from_slice(&words.bytes[first.start..last.end]);
        let spans = words.spans.iter();
        self.spans.extend(spans.map(|span| Span { start: span.start - first.start, end: span.end - first.start }));
    }

    /// Adds the words of a request behind those that are there.
    pub fn append(&mut self, words: Words<'_>) {
        self.spans.reserve(words.len());
        self.bytes.reserve(words.spans.iter().map(|span| span.end - span.start).sum());
        words.iter().for_each(|word| self.push(word));
    }

    /// Removes the words, and releases memory beyond `kept` bytes.
    pub fn empty(&mut self, kept: usize) {
        self.clear();
        self.bytes.shrink_to(kept);
        self.spans.shrink_to(kept);
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.spans.clear();
    }

    pub fn push(&mut self, word: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(word);
        self.spans.push(Span { start, end: self.bytes.len() });
    }

    /// The size in bytes, for limits and CLIENT LIST.
    pub fn size(&self) -> usize {
        self.bytes.len() + size_of_val(self.spans.as_slice())
    }
}

impl<W: AsRef<[u8]>> FromIterator<W> for OwnedWords {
    fn from_iter<I: IntoIterator<Item = W>>(words: I) -> Self {
        let mut owned = Self::default();
        for word in words {
            owned.push(word.as_ref());
        }
        owned
    }
}
