//! The digests of DEBUG DIGEST and DEBUG DIGEST-VALUE, equal for equal values.
//!
//! The algorithm is Redis's: ordered parts are hashed in sequence, unordered parts are combined by XOR.

use sha1_smol::Sha1;

use super::Context;
use crate::base::profile::Profile;
use crate::base::text::hex;
use crate::commands::CommandResult;
use crate::data::keyspace::{Entry, Stream, StreamId, ValueKind, View};
use crate::data::rdb::{Content, Field};
use crate::protocol::{Reply, write_double, write_shortest};
use crate::spec::Args;

#[derive(Clone, Copy, Default)]
struct Digest([u8; 20]);

impl Digest {
    fn xor(&mut self, other: [u8; 20]) {
        self.0.iter_mut().zip(other).for_each(|(byte, other)| *byte ^= other);
    }

    fn add(&mut self, bytes: &[u8]) {
        self.xor(Sha1::from(bytes).digest().bytes());
    }

    fn mix(&mut self, bytes: &[u8]) {
        self.add(bytes);
        self.0 = Sha1::from(self.0).digest().bytes();
    }

    fn add_pair(&mut self, one: &[u8], other: &[u8]) {
        let mut pair = Self::default();
        pair.mix(one);
        pair.mix(other);
        self.add_digest(pair);
    }

    fn add_field(&mut self, field: &Field<'_>) {
        let mut digest = Self::default();
        digest.mix(&field.name);
        digest.mix(&field.value);
        if field.until.is_some() {
            digest.add(b"!!hexpire!!");
        }
        self.add_digest(digest);
    }

    /// Adds a digest as an unordered part: hashed once more, then combined by XOR.
    fn add_digest(&mut self, Self(other): Self) {
        self.add(&other);
    }

    fn to_hex(self) -> String {
        hex(&self.0)
    }
}

pub(super) fn all(context: &mut Context<'_, '_, '_>, args: &mut Args<'_>) -> CommandResult<'static> {
    Ok(Reply::StatusText(dataset_digest(context.view, args.profile()).to_hex()))
}

/// A key that does not exist has the digest 0.
pub(super) fn of_keys(context: &mut Context<'_, '_, '_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let mut digests = Vec::new();
    while let Some(key) = args.optional() {
        let digest = context.view.peek(key).map(|entry| value_digest(entry, args.profile())).unwrap_or_default();
        digests.push(Reply::StatusText(digest.to_hex()));
    }
    Ok(Reply::Array(digests))
}

/// The digest of a value and of whether it has a deadline.
fn value_digest(entry: &Entry, profile: &Profile) -> Digest {
    let mut digest = Digest::default();
    add_value(&mut digest, entry, profile);
    digest
}

fn add_value(digest: &mut Digest, entry: &Entry, profile: &Profile) {
    digest.mix(&type_number(entry.kind()).to_be_bytes());
    match entry.collection() {
        Some(stream) => add_stream(digest, stream),
        None => add_content(digest, &entry.content(), profile),
    }
    if entry.deadline().is_some() {
        digest.add(b"!!expire!!");
    }
}

/// Only the entries count, not deleted ones, and no groups.
fn add_stream(digest: &mut Digest, stream: &Stream) {
    for entry in stream.log().range(StreamId::LEAST, StreamId::GREATEST) {
        digest.mix(format!("{}.{}", entry.id.ms, entry.id.seq).as_bytes());
        for (name, value) in entry.fields {
            digest.mix(&name.to_bytes());
            digest.mix(&value.to_bytes());
        }
    }
}

fn add_content(digest: &mut Digest, content: &Content<'_>, profile: &Profile) {
    match content {
        Content::String(bytes) => digest.mix(bytes),
        Content::Integers { values, .. } => {
            values.iter().for_each(|value| digest.add(itoa::Buffer::new().format(*value).as_bytes()));
        }
        Content::Set { members, .. } => members.iter().for_each(|member| digest.add(member)),
        Content::List(nodes) => {
            nodes.iter().for_each(|node| node.elements().iter().for_each(|element| digest.mix(element)));
        }
        Content::Elements(elements) => elements.iter().for_each(|element| digest.mix(element)),
        Content::Hash { fields, .. } => fields.iter().for_each(|field| digest.add_field(field)),
        Content::SortedSet { rows, .. } => {
            for (member, score) in rows {
                let mut text = Vec::new();
                let write = if profile.since_redis(7, 2) { write_shortest } else { write_double };
                write(&mut text, *score);
                digest.add_pair(member, &text);
            }
        }
        // Handled by `add_stream`.
        Content::Stream(_) => {}
    }
}

/// The digest of all databases in a view.
fn dataset_digest(view: &mut View<'_>, profile: &Profile) -> Digest {
    let home = view.db();
    let mut all = Digest::default();
    for db in view.held_databases() {
        view.select(db);
        if view.len() == 0 {
            continue;
        }
        all.mix(&db.to_be_bytes());
        view.for_each(|entry| {
            let mut digest = Digest::default();
            digest.mix(entry.key());
            add_value(&mut digest, entry, profile);
            all.add_digest(digest);
        });
    }
    view.select(home);
    all
}

/// Redis's number for a type.
fn type_number(kind: ValueKind) -> u32 {
    match kind {
        ValueKind::String => 0,
        ValueKind::List => 1,
        ValueKind::Set => 2,
        ValueKind::SortedSet => 3,
        ValueKind::Hash => 4,
        ValueKind::Stream => 6,
    }
}
