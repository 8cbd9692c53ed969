//! Hashes.

use std::borrow::Cow;

use super::reader::Reader;
use super::{Bytes, Content, HASH, HASH_LISTPACK, HASH_ZIPLIST, write_length, write_string, ziplist, zipmap};
use crate::listpack;
use crate::profile::Profile;

type Pair<'a> = (Bytes<'a>, Bytes<'a>);

pub fn write(out: &mut Vec<u8>, pairs: &[Pair<'_>], packed: bool, profile: &Profile) {
    let flat = || pairs.iter().flat_map(|(field, value)| [&**field, &**value]);
    if !packed {
        out.push(HASH);
        write_length(out, pairs.len());
        flat().for_each(|part| write_string(out, part));
    } else if profile.since_redis(7, 0) {
        out.push(HASH_LISTPACK);
        write_string(out, &listpack::write(flat()));
    } else {
        out.push(HASH_ZIPLIST);
        write_string(out, &ziplist::write(flat()));
    }
}

pub fn read(reader: &mut Reader<'_>) -> Option<Content<'static>> {
    let pairs = reader.several(|reader| Some((Cow::Owned(reader.string()?), Cow::Owned(reader.string()?))))?;
    Some(Content::Hash { pairs, packed: false })
}

pub fn read_listpack(reader: &mut Reader<'_>) -> Option<Content<'static>> {
    in_pairs(listpack::read(&reader.string()?)?)
}

pub fn read_ziplist(reader: &mut Reader<'_>) -> Option<Content<'static>> {
    in_pairs(ziplist::read(&reader.string()?)?)
}

fn in_pairs(parts: Vec<Bytes<'static>>) -> Option<Content<'static>> {
    Some(Content::Hash { pairs: pairs(parts)?, packed: true })
}

/// A zipmap is the one packed form in which the length of what is in it has ever counted when it is read.
pub fn read_zipmap(reader: &mut Reader<'_>) -> Option<Content<'static>> {
    Some(Content::Hash { pairs: zipmap::read(&reader.string()?)?, packed: false })
}

/// Two and two; nothing if one is left over.
pub fn pairs(parts: Vec<Bytes<'static>>) -> Option<Vec<Pair<'static>>> {
    let mut pairs = Vec::with_capacity(parts.len() / 2);
    let mut parts = parts.into_iter();
    while let Some(first) = parts.next() {
        pairs.push((first, parts.next()?));
    }
    Some(pairs)
}
