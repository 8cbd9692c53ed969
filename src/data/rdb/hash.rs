//! Hashes.

use std::borrow::Cow;

use super::reader::Reader;
use super::{
    Bytes, Content, HASH, HASH_FIELDS_UNTIL, HASH_LISTPACK, HASH_LISTPACK_TIMES, HASH_TIMES, HASH_ZIPLIST,
    write_length, write_string, ziplist, zipmap,
};
use crate::base::clock::Millis;
use crate::base::profile::{Family, Profile};
use crate::data::listpack;
use crate::protocol::parse_integer;

/// Redis's expiry times of fields are below this.
const NO_TIME: Millis = (1 << 48) - 1;

/// Valkey's marker for a field without an expiry.
const FOR_EVER: Millis = -1;

/// A field with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field<'a> {
    pub name: Bytes<'a>,
    pub value: Bytes<'a>,
    /// The field's expiry time, if it has one.
    pub until: Option<Millis>,
}

impl<'a> Field<'a> {
    fn lasting((name, value): Pair<'a>) -> Self {
        Self { name, value, until: None }
    }
}

type Pair<'a> = (Bytes<'a>, Bytes<'a>);

pub fn write(out: &mut Vec<u8>, fields: &[Field<'_>], packed: bool, timed: bool, profile: &Profile) {
    let flat = || fields.iter().flat_map(|field| [&*field.name, &*field.value]);
    let earliest = fields.iter().filter_map(|field| field.until).min();
    if packed && timed {
        let times: Vec<_> = fields.iter().map(|field| field.until.unwrap_or(0).to_string()).collect();
        let flat = fields.iter().zip(&times).flat_map(|(field, time)| [&*field.name, &*field.value, time.as_bytes()]);
        out.push(HASH_LISTPACK_TIMES);
        out.extend_from_slice(&earliest.unwrap_or(0).to_le_bytes());
        write_string(out, &listpack::write(flat));
    } else if packed && profile.since_redis(7, 0) {
        out.push(HASH_LISTPACK);
        write_string(out, &listpack::write(flat()));
    } else if packed {
        out.push(HASH_ZIPLIST);
        write_string(out, &ziplist::write(flat()));
    } else if let Some(earliest) = earliest {
        write_times(out, fields, earliest, profile);
    } else {
        out.push(HASH);
        write_length(out, fields.len());
        flat().for_each(|part| write_string(out, part));
    }
}

fn write_times(out: &mut Vec<u8>, fields: &[Field<'_>], earliest: Millis, profile: &Profile) {
    let until = profile.family() == Family::Valkey;
    if until {
        out.push(HASH_FIELDS_UNTIL);
    } else {
        out.push(HASH_TIMES);
        out.extend_from_slice(&earliest.to_le_bytes());
    }
    write_length(out, fields.len());
    for field in fields {
        if !until {
            let left = field.until.map(|until| until.saturating_sub(earliest).saturating_add(1));
            write_length(out, left.map_or(0, |left| usize::try_from(left).unwrap_or(0)));
        }
        write_string(out, &field.name);
        write_string(out, &field.value);
        if until {
            out.extend_from_slice(&field.until.unwrap_or(FOR_EVER).to_le_bytes());
        }
    }
}

fn read_pair(reader: &mut Reader<'_>) -> Option<Pair<'static>> {
    Some((Cow::Owned(reader.string()?), Cow::Owned(reader.string()?)))
}

pub fn read(reader: &mut Reader<'_>) -> Option<Content<'static>> {
    let fields = reader.several(|reader| read_pair(reader).map(Field::lasting))?;
    Some(Content::Hash { fields, packed: false, timed: false })
}

pub fn read_listpack(reader: &mut Reader<'_>) -> Option<Content<'static>> {
    in_pairs(pairs(listpack::read(&reader.string()?)?)?, true)
}

pub fn read_ziplist(reader: &mut Reader<'_>) -> Option<Content<'static>> {
    in_pairs(pairs(ziplist::read(&reader.string()?)?)?, true)
}

/// Zipmaps are the one packed form for which the number of pairs is not read from the content.
pub fn read_zipmap(reader: &mut Reader<'_>) -> Option<Content<'static>> {
    in_pairs(zipmap::read(&reader.string()?)?, false)
}

fn in_pairs(pairs: Vec<Pair<'static>>, packed: bool) -> Option<Content<'static>> {
    Some(Content::Hash { fields: pairs.into_iter().map(Field::lasting).collect(), packed, timed: false })
}

/// Pairs of neighbours; `None` if the number is odd.
pub fn pairs(parts: Vec<Bytes<'static>>) -> Option<Vec<Pair<'static>>> {
    let mut pairs = Vec::with_capacity(parts.len() / 2);
    let mut parts = parts.into_iter();
    while let Some(first) = parts.next() {
        pairs.push((first, parts.next()?));
    }
    Some(pairs)
}

/// Redis's format since 7.4: the earliest expiry, and per field the difference to it plus one.
pub fn read_times(reader: &mut Reader<'_>) -> Option<Content<'static>> {
    let earliest = reader.integer_64()?;
    let fields = reader.several(|reader| {
        let later = Millis::try_from(reader.length()?).ok()?;
        let until = match later {
            0 => None,
            _ => Some(earliest.checked_add(later - 1).filter(is_time)?),
        };
        read_pair(reader).map(|(name, value)| Field { name, value, until })
    })?;
    Some(Content::Hash { fields, packed: false, timed: true })
}

pub fn read_listpack_times(reader: &mut Reader<'_>) -> Option<Content<'static>> {
    let _earliest = reader.integer_64()?;
    let mut parts = listpack::read(&reader.string()?)?.into_iter();
    let mut fields = Vec::with_capacity(parts.len() / 3);
    while let Some(name) = parts.next() {
        let (value, until) = (parts.next()?, parse_integer(&parts.next()?)?);
        let until = if until == 0 { None } else { Some(until).filter(is_time).map(Some)? };
        fields.push(Field { name, value, until });
    }
    Some(Content::Hash { fields, packed: true, timed: true })
}

/// Valkey's format since 9.0.
pub fn read_until(reader: &mut Reader<'_>) -> Option<Content<'static>> {
    let fields = reader.several(|reader| {
        let (name, value) = read_pair(reader)?;
        let until = match reader.integer_64()? {
            FOR_EVER => None,
            until => Some(until).filter(|until| *until >= 0).map(Some)?,
        };
        Some(Field { name, value, until })
    })?;
    Some(Content::Hash { fields, packed: false, timed: true })
}

fn is_time(until: &Millis) -> bool {
    (1..NO_TIME).contains(until)
}
