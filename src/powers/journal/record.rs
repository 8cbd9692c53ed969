//! How the journal encodes one command.
//!
//! A head of fixed size; the positions of the words; the words as they stood on the wire; the reply; and, only if there is
//! any of that, the fault, the gates and the nested commands. Writing a record is a few copies, which is what a command
//! costs while the journal is on.

use smallvec::SmallVec;

use super::entry::{EffectOrder, EventKind, Outcome};
use crate::protocol::{OwnedWords, Span, Words};

/// The most words of a command that are kept, the most bytes of words, and the most bytes of the reply.
const MOST_WORDS: usize = 1024;
const MOST_BYTES: usize = 16 * 1024;
const MOST_REPLY: usize = 16 * 1024;
/// The most bytes of words, and of the reply, of a command inside EXEC or a script.
const MOST_BYTES_INSIDE: usize = 1024;
/// The most bytes of all of those together.
const MOST_INSIDE: usize = 64 * 1024;

const HEAD: usize = 72;
/// Stands for no holding time.
const NOT_HELD: u64 = u64::MAX;
/// Stands for no time of sending.
const NOT_SENT: i64 = i64::MIN;
/// The offset of the duration in the head.
const DURATION: usize = 40;
/// What follows the reply of a command that was passed to an upstream server, without fault, gates and nested commands.
const REST: usize = 28;
const HEAD_INSIDE: usize = 32;

/// A command or an event, before it is encoded.
pub struct Line<'a> {
    pub seq: u64,
    /// The kind of event, if it is one; its words are the detail then.
    pub event: Option<EventKind>,
    /// When it took effect: on the server's clock and in real time, in microseconds since 1970.
    pub at: i64,
    pub real: i64,
    /// When an upstream server was sent the command, in microseconds of real time; `at` and `real` are when its reply had
    /// arrived then.
    pub sent: Option<i64>,
    /// [`EffectOrder::Total`] for what ran here.
    pub order: EffectOrder,
    pub client: u64,
    pub db: u32,
    /// In microseconds of real time.
    pub duration: u64,
    pub outcome: Outcome,
    pub words: Words<'a>,
    pub reply: &'a [u8],
    /// From its effect to its reply, in microseconds of real time. Kept only with a fault, a gate or a nested command.
    pub held_after: Option<u64>,
    pub fault: Option<&'a str>,
    pub gates: &'a [Box<str>],
    /// `None` from an upstream server, which is any other order than the total one: it is unknown what EXEC or a script ran.
    pub children: Option<&'a Children>,
}

impl Line<'_> {
    fn are_children_unknown(&self) -> bool {
        self.order != EffectOrder::Total && self.children.is_none()
    }
}

/// A decoded record. Borrows from the ring.
pub struct Record<'a> {
    pub seq: u64,
    /// The kind of event, if it is one.
    pub event: Option<EventKind>,
    pub at: i64,
    pub real: i64,
    pub client: u64,
    pub db: u32,
    pub duration: u64,
    pub outcome: Outcome,
    pub order: EffectOrder,
    /// Whether it is unknown what EXEC or a script ran.
    pub are_children_unknown: bool,
    kept: Payload<'a>,
    rest: &'a [u8],
}

/// The head of a record and its first words, which tell whether the rest is worth decoding.
pub struct RecordHeader<'a> {
    pub seq: u64,
    pub at: i64,
    pub real: i64,
    pub client: u64,
    pub db: u32,
    pub is_event: bool,
    pub order: EffectOrder,
    /// The number of words.
    pub words: usize,
    /// The first two words.
    pub first: &'a [u8],
    pub second: &'a [u8],
    pub outcome: Outcome,
    /// Whether words were cut off.
    pub is_cut: bool,
    /// Whether there is more than words and reply: a fault, gates, commands inside, or when an upstream server was sent it.
    pub has_more: bool,
    pub reply: &'a [u8],
    spans: &'a [u8],
    stretch: &'a [u8],
    /// What `has_more` tells of.
    rest: &'a [u8],
}

/// What a command ran inside.
pub struct RanInside<'a> {
    /// From its effect to its reply, in microseconds of real time.
    pub held_after: Option<u64>,
    bytes: Bytes<'a>,
}

/// A command inside another one, of which nothing is copied.
pub struct InnerCommand<'a> {
    pub depth: u8,
    pub db: u32,
    pub reply: &'a [u8],
    /// Whether words were cut off, or are unknown.
    pub is_cut: bool,
    spans: &'a [u8],
    stretch: &'a [u8],
}

impl<'a> InnerCommand<'a> {
    pub fn words(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        words_at(self.spans, self.stretch)
    }
}

impl<'a> Iterator for RanInside<'a> {
    type Item = InnerCommand<'a>;

    fn next(&mut self) -> Option<Self::Item> {
        let head = InnerHead::read(&mut self.bytes)?;
        let [words, stretch, reply, missing, _] = head.lengths;
        let spans = self.bytes.take(words as usize * 8)?;
        let (stretch, reply) = (self.bytes.take(stretch as usize)?, self.bytes.take(reply as usize)?);
        self.bytes.take(head.fault as usize)?;
        Some(InnerCommand { depth: head.depth, db: head.db, reply, is_cut: missing > 0, spans, stretch })
    }
}

impl<'a> RecordHeader<'a> {
    /// The words, as many as were kept.
    #[inline]
    pub fn all_words(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        words_at(self.spans, self.stretch)
    }

    /// A command inside this one, as if it stood alone.
    pub fn of_inner(&self, inner: &InnerCommand<'a>) -> Self {
        let InnerCommand { depth: _, db, reply, is_cut, spans, stretch } = *inner;
        let mut words = words_at(spans, stretch);
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (words, has_more, rest) = (spans.len() / 8, false, &[][..]);
        Self { db, words, first, second, is_cut, has_more, reply, spans, stretch, rest, ..*self }
    }

    /// What it ran inside; `None` unless that is all that is behind its reply, and all of it was kept.
    pub fn ran_inside(&self) -> Option<RanInside<'a>> {
        let mut bytes = Bytes(self.rest);
        let (fault, gates) = (bytes.u32()?, bytes.u32()?);
        if (fault, gates) != (0, 0) {
            return None;
        }
        let (held, sent, left_out) = (bytes.u64()?, bytes.u64()?.cast_signed(), bytes.u32()?);
        let held_after = Some(held).filter(|held| *held != NOT_HELD);
        (sent == NOT_SENT && left_out == 0).then_some(RanInside { held_after, bytes })
    }
}

/// The words that spans of two numbers each stand for.
#[inline]
fn words_at<'a>(spans: &'a [u8], stretch: &'a [u8]) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    spans.chunks_exact(8).map(move |span| word_at(span, stretch).unwrap_or_default())
}

/// The word that a span of two numbers stands for.
#[inline]
fn word_at<'a>(span: &[u8], stretch: &'a [u8]) -> Option<&'a [u8]> {
    let start = u32::from_le_bytes(span.get(..4)?.try_into().ok()?) as usize;
    let end = u32::from_le_bytes(span.get(4..8)?.try_into().ok()?) as usize;
    stretch.get(start..end)
}

/// The words and the reply of a command or of a nested one.
pub struct Payload<'a> {
    spans: SmallVec<[Span; 8]>,
    stretch: &'a [u8],
    pub reply: &'a [u8],
    /// How many bytes of words were not kept.
    pub words_missing: u64,
    /// The length of the whole reply.
    pub reply_length: u64,
}

impl<'a> Payload<'a> {
    pub fn words(&self) -> Words<'_> {
        Words::new(self.stretch, &self.spans)
    }

    /// The words, which live as long as the record's bytes.
    pub fn kept_words(&self) -> impl Iterator<Item = &'a [u8]> {
        let stretch = self.stretch;
        self.spans.iter().map(move |span| &stretch[span.start..span.end])
    }

    fn read(bytes: &mut Bytes<'a>, [words, stretch, reply, words_missing, reply_length]: [u32; 5]) -> Option<Self> {
        let spans = bytes.take(words as usize * 8)?;
        let spans = spans.chunks_exact(8).map(|span| {
            let mut span = Bytes(span);
            Some(Span { start: span.u32()? as usize, end: span.u32()? as usize })
        });
        let spans = spans.collect::<Option<SmallVec<[Span; 8]>>>()?;
        let (stretch, reply) = (bytes.take(stretch as usize)?, bytes.take(reply as usize)?);
        let (words_missing, reply_length) = (words_missing.into(), reply_length.into());
        Some(Self { spans, stretch, reply, words_missing, reply_length })
    }
}

/// A command inside EXEC or a script.
pub struct NestedCommand<'a> {
    /// 1: run by the command itself; 2: run by one of those.
    pub depth: u8,
    pub db: u32,
    pub kept: Payload<'a>,
    pub fault: Option<&'a [u8]>,
}

/// The commands that a command has run, in the order in which they ended: one that runs others comes after them.
#[derive(Default)]
pub struct Children {
    bytes: Vec<u8>,
    left_out: u32,
    /// The depth of the command that runs now.
    pub depth: u8,
    /// One of them, or its reply, has a secret, which the reply of the whole may repeat.
    pub has_secret: bool,
}

impl Children {
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.left_out == 0
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.left_out = 0;
        self.depth = 0;
        self.has_secret = false;
    }

    /// Appends a command that has ended.
    pub fn push(&mut self, db: u32, words: Words<'_>, reply: &[u8], fault: Option<&str>) {
        self.push_partly_known(db, words, 0, reply, fault);
    }

    /// As [`push`](Self::push), for a command of which not all is known: a word that is not is empty, and counts as missing
    /// bytes; so is a reply.
    pub fn push_partly_known(&mut self, db: u32, words: Words<'_>, unknown: usize, reply: &[u8], fault: Option<&str>) {
        let mut short = OwnedWords::default();
        let (words, missing) = shortened(words, MOST_BYTES_INSIDE, &mut short);
        let missing = missing.saturating_add(unknown);
        let (stretch, spans) = words.stretch();
        let kept = &reply[..reply.len().min(MOST_BYTES_INSIDE)];
        let fault = fault.unwrap_or_default();
        let size = HEAD_INSIDE + spans.len() * 8 + stretch.len() + kept.len() + fault.len();
        if self.bytes.len() + size > MOST_INSIDE {
            self.left_out = self.left_out.saturating_add(1);
            return;
        }
        let numbers = [size, spans.len(), stretch.len(), kept.len(), missing, reply.len(), fault.len()].map(number);
        self.bytes.extend([self.depth.max(1), 0, 0, 0]);
        self.bytes.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        self.bytes.extend(db.to_le_bytes());
        write_spans(&mut self.bytes, spans);
        self.bytes.extend_from_slice(stretch);
        self.bytes.extend_from_slice(kept);
        self.bytes.extend_from_slice(fault.as_bytes());
    }
}

impl<'a> Record<'a> {
    /// Encodes a command or an event at the end of `out`.
    #[inline]
    pub fn write(line: &Line<'_>, out: &mut Vec<u8>) {
        let (stretch, spans) = line.words.stretch();
        if stretch.len() > MOST_BYTES || spans.len() > MOST_WORDS {
            let mut short = OwnedWords::default();
            let (words, missing) = shortened(line.words, MOST_BYTES, &mut short);
            return Self::write_kept(line, words, missing, out);
        }
        Self::write_kept(line, line.words, 0, out);
    }

    #[inline]
    fn write_kept(line: &Line<'_>, words: Words<'_>, missing: usize, out: &mut Vec<u8>) {
        let (stretch, spans) = words.stretch();
        let reply = &line.reply[..line.reply.len().min(MOST_REPLY)];
        let start = out.len();
        let mut head = [0; HEAD];
        let mut put = |at: usize, bytes: &[u8]| head[at..at + bytes.len()].copy_from_slice(bytes);
        let size = HEAD + spans.len() * 8 + stretch.len() + reply.len();
        put(0, &number(size).to_le_bytes());
        let flags = [line.order as u8, u8::from(line.are_children_unknown())];
        put(4, &[line.outcome as u8, line.event.map_or(0, |kind| kind as u8), flags[0], flags[1]]);
        put(8, &line.seq.to_le_bytes());
        put(16, &line.at.to_le_bytes());
        put(24, &line.real.to_le_bytes());
        put(32, &line.client.to_le_bytes());
        put(DURATION, &line.duration.to_le_bytes());
        put(48, &line.db.to_le_bytes());
        put(52, &number(spans.len()).to_le_bytes());
        put(56, &number(stretch.len()).to_le_bytes());
        put(60, &number(reply.len()).to_le_bytes());
        put(64, &number(missing).to_le_bytes());
        put(68, &number(line.reply.len()).to_le_bytes());
        out.extend_from_slice(&head);
        write_spans(out, spans);
        out.extend_from_slice(stretch);
        out.extend_from_slice(reply);
        let has_children = line.children.is_some_and(|inside| !inside.is_empty());
        if line.fault.is_some() || !line.gates.is_empty() || has_children {
            Self::write_rest(line, start, out);
        } else if let Some(sent) = line.sent {
            // What `write_rest` would write, in one go: each command that was passed to an upstream server has this.
            let mut rest = [0; REST];
            rest[8..16].copy_from_slice(&line.held_after.map_or(NOT_HELD, |held| held.min(NOT_HELD - 1)).to_le_bytes());
            rest[16..24].copy_from_slice(&sent.to_le_bytes());
            out.extend_from_slice(&rest);
            out[start..start + 4].copy_from_slice(&number(size + REST).to_le_bytes());
        }
    }

    #[cold]
    fn write_rest(line: &Line<'_>, start: usize, out: &mut Vec<u8>) {
        write_name(line.fault.unwrap_or_default(), out);
        out.extend(number(line.gates.len()).to_le_bytes());
        line.gates.iter().for_each(|gate| write_name(gate, out));
        out.extend(line.held_after.map_or(NOT_HELD, |held| held.min(NOT_HELD - 1)).to_le_bytes());
        out.extend(line.sent.unwrap_or(NOT_SENT).to_le_bytes());
        let children = line.children.map_or((&[][..], 0), |children| (children.bytes.as_slice(), children.left_out));
        out.extend(children.1.to_le_bytes());
        out.extend_from_slice(children.0);
        let size = number(out.len() - start);
        out[start..start + 4].copy_from_slice(&size.to_le_bytes());
    }

    /// Decodes the first of some records; returns also its size in bytes.
    pub fn read(bytes: &'a [u8]) -> Option<(Self, usize)> {
        let mut head = Bytes(bytes);
        let size = head.u32()? as usize;
        let mut rest = Bytes(bytes.get(4..size)?);
        let &[outcome, event, order, are_children_unknown] = rest.take(4)? else { return None };
        let (outcome, event) = (Outcome::from_number(outcome), EventKind::from_number(event));
        let (order, are_children_unknown) = (EffectOrder::from_number(order), are_children_unknown != 0);
        let (seq, at, real) = (rest.u64()?, rest.u64()?.cast_signed(), rest.u64()?.cast_signed());
        let (client, duration, db) = (rest.u64()?, rest.u64()?, rest.u32()?);
        let lengths = [rest.u32()?, rest.u32()?, rest.u32()?, rest.u32()?, rest.u32()?];
        let kept = Payload::read(&mut rest, lengths)?;
        let rest = rest.0;
        Some((
            Self { seq, event, at, real, client, db, duration, outcome, order, are_children_unknown, kept, rest },
            size,
        ))
    }

    /// The size in bytes of the first of some records, its sequence number and its real time.
    #[inline]
    pub fn measure(bytes: &[u8]) -> Option<(usize, u64, i64)> {
        let size = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
        let seq = u64::from_le_bytes(bytes.get(8..16)?.try_into().ok()?);
        let real = i64::from_le_bytes(bytes.get(24..32)?.try_into().ok()?);
        Some((size, seq, real))
    }

    /// The header of the first of some records.
    #[inline]
    pub fn header(bytes: &'a [u8]) -> Option<RecordHeader<'a>> {
        let head = bytes.first_chunk::<HEAD>()?;
        let long = |at: usize| Some(u64::from_le_bytes(head.get(at..at + 8)?.try_into().ok()?));
        let short = |at: usize| Some(u32::from_le_bytes(head.get(at..at + 4)?.try_into().ok()?));
        let words = short(52)? as usize;
        let plain = HEAD + words * 8 + short(56)? as usize + short(60)? as usize;
        let size = short(0)? as usize;
        let spans = bytes.get(HEAD..HEAD + words * 8)?;
        let stretch = bytes.get(HEAD + words * 8..)?;
        let reply = stretch.get(short(56)? as usize..)?.get(..short(60)? as usize)?;
        let word = |index: usize| word_at(spans.get(index * 8..index * 8 + 8)?, stretch);
        Some(RecordHeader {
            seq: long(8)?,
            at: long(16)?.cast_signed(),
            real: long(24)?.cast_signed(),
            client: long(32)?,
            db: short(48)?,
            is_event: head[5] != 0,
            order: EffectOrder::from_number(head[6]),
            words,
            first: word(0).unwrap_or_default(),
            second: word(1).unwrap_or_default(),
            outcome: Outcome::from_number(head[4]),
            is_cut: short(64)? > 0,
            has_more: size > plain,
            reply,
            spans,
            stretch,
            rest: bytes.get(plain..size)?,
        })
    }

    /// Sets the duration of the first of some records, which is known only after it was written.
    #[inline]
    pub fn set_duration(bytes: &mut [u8], duration: u64) {
        if let Some(place) = bytes.get_mut(DURATION..DURATION + 8) {
            place.copy_from_slice(&duration.to_le_bytes());
        }
    }

    /// Marks the reply of the first of some records as lost.
    pub fn mark_lost(bytes: &mut [u8]) {
        if let Some(outcome) = bytes.get_mut(4)
            && *outcome == Outcome::Answered as u8
        {
            *outcome = Outcome::Lost as u8;
        }
    }

    pub fn words(&self) -> Words<'_> {
        self.kept.words()
    }

    pub fn kept(&self) -> &Payload<'a> {
        &self.kept
    }

    /// The rule that fired at it.
    pub fn fault(&self) -> Option<&'a [u8]> {
        Bytes(self.rest).name().filter(|name| !name.is_empty())
    }

    /// The gates that it reached, in that order.
    pub fn gates(&self) -> Vec<&'a [u8]> {
        self.after_fault().and_then(|mut rest| rest.names()).unwrap_or_default()
    }

    /// From its effect to its reply, if that was kept.
    pub fn held_after(&self) -> Option<u64> {
        self.after_gates()?.u64().filter(|held| *held != NOT_HELD)
    }

    /// When an upstream server was sent the command, in microseconds of real time.
    pub fn sent(&self) -> Option<i64> {
        let mut rest = self.after_gates()?;
        rest.u64()?;
        Some(rest.u64()?.cast_signed()).filter(|sent| *sent != NOT_SENT)
    }

    /// The commands that it ran, in the order in which they ended, and how many of those were not kept.
    pub fn nested(&self) -> (Vec<NestedCommand<'a>>, u32) {
        self.read_nested().unwrap_or_default()
    }

    fn after_fault(&self) -> Option<Bytes<'a>> {
        let mut rest = Bytes(self.rest);
        rest.name()?;
        Some(rest)
    }

    fn after_gates(&self) -> Option<Bytes<'a>> {
        let mut rest = self.after_fault()?;
        rest.names()?;
        Some(rest)
    }

    fn read_nested(&self) -> Option<(Vec<NestedCommand<'a>>, u32)> {
        let mut rest = self.after_gates()?;
        rest.u64()?;
        rest.u64()?;
        let left_out = rest.u32()?;
        let mut inside = Vec::new();
        while let Some(InnerHead { depth, lengths, fault, db }) = InnerHead::read(&mut rest) {
            let kept = Payload::read(&mut rest, lengths)?;
            let fault = Some(rest.take(fault as usize)?).filter(|fault| !fault.is_empty());
            inside.push(NestedCommand { depth, db, kept, fault });
        }
        Some((inside, left_out))
    }
}

/// The head of a command inside another one.
struct InnerHead {
    depth: u8,
    /// As [`Payload::read`] takes them.
    lengths: [u32; 5],
    fault: u32,
    db: u32,
}

impl InnerHead {
    fn read(bytes: &mut Bytes<'_>) -> Option<Self> {
        let depth = *bytes.take(4)?.first()?;
        let _size = bytes.u32()?;
        let lengths = [bytes.u32()?, bytes.u32()?, bytes.u32()?, bytes.u32()?, bytes.u32()?];
        Some(Self { depth, lengths, fault: bytes.u32()?, db: bytes.u32()? })
    }
}

/// The words that fit, cut off if need be, and how many bytes that leaves out.
#[cold]
fn shortened<'w>(words: Words<'w>, most: usize, short: &'w mut OwnedWords) -> (Words<'w>, usize) {
    let (stretch, spans) = words.stretch();
    if stretch.len() <= most && spans.len() <= MOST_WORDS {
        return (words, 0);
    }
    let mut room = most;
    let mut missing = 0;
    for (index, word) in words.iter().enumerate() {
        let kept = if index < MOST_WORDS { word.len().min(room) } else { 0 };
        if index < MOST_WORDS && (kept > 0 || word.is_empty()) {
            short.push(&word[..kept]);
        }
        room -= kept;
        missing += word.len() - kept;
    }
    (short.as_words(), missing)
}

/// A length as 32 bits; a longer one counts as the largest.
fn number(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

#[inline]
fn write_spans(out: &mut Vec<u8>, spans: impl Iterator<Item = Span>) {
    for span in spans {
        let both = (span.start as u64 & 0xffff_ffff) | (span.end as u64) << 32;
        out.extend_from_slice(&both.to_le_bytes());
    }
}

fn write_name(name: &str, out: &mut Vec<u8>) {
    out.extend(number(name.len()).to_le_bytes());
    out.extend_from_slice(name.as_bytes());
}

/// The bytes that are left to decode.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_le_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn name(&mut self) -> Option<&'a [u8]> {
        let length = self.u32()?;
        self.take(length as usize)
    }

    fn names(&mut self) -> Option<Vec<&'a [u8]>> {
        let count = self.u32()?;
        (0..count).map(|_| self.name()).collect()
    }
}
