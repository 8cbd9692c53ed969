//! Sorted sets.

use std::borrow::Cow;

use super::reader::Reader;
use super::{
    Bytes, Content, SORTED_SET, SORTED_SET_LISTPACK, SORTED_SET_ZIPLIST, hash, write_length, write_string, ziplist,
};
use crate::base::profile::Profile;
use crate::data::listpack;
use crate::protocol::{parse_float, write_double, write_general, write_integer, write_shortest};

type Row<'a> = (Bytes<'a>, f64);

pub fn write(out: &mut Vec<u8>, rows: &[Row<'_>], packed: bool, profile: &Profile) {
    if !packed {
        out.push(SORTED_SET);
        write_length(out, rows.len());
        // Descending, as Redis writes them: a reader then inserts each member at the front.
        for (member, score) in rows.iter().rev() {
            write_string(out, member);
            out.extend_from_slice(&score.to_le_bytes());
        }
        return;
    }
    let scores: Vec<Vec<u8>> = rows.iter().map(|(_, score)| text_of(*score, profile)).collect();
    let flat = rows.iter().zip(&scores).flat_map(|((member, _), score)| [&**member, score.as_slice()]);
    if profile.since_redis(7, 0) {
        out.push(SORTED_SET_LISTPACK);
        write_string(out, &listpack::write(flat));
    } else {
        out.push(SORTED_SET_ZIPLIST);
        write_string(out, &ziplist::write(flat));
    }
}

/// A score as text, as it follows its member.
fn text_of(score: f64, profile: &Profile) -> Vec<u8> {
    /// Integers up to this are written with all their digits.
    const LARGEST_WHOLE: f64 = (1u64 << 62) as f64;
    const LARGEST_WHOLE_EARLIER: f64 = (1u64 << 52) as f64;

    let mut out = Vec::new();
    if profile.since_redis(7, 0) {
        if score.trunc() == score && score.abs() <= LARGEST_WHOLE {
            write_integer(&mut out, score as i64);
        } else if profile.since_redis(7, 2) {
            write_shortest(&mut out, score);
        } else {
            write_double(&mut out, score);
        }
    } else if score.is_finite() && score.abs() > LARGEST_WHOLE_EARLIER {
        write_general(&mut out, score, 17);
    } else {
        write_double(&mut out, score);
    }
    out
}

pub fn read<'r>(reader: &mut Reader<'r>, score: fn(&mut Reader<'r>) -> Option<f64>) -> Option<Content<'static>> {
    let rows = reader.several(|reader| {
        let member = Cow::Owned(reader.string()?);
        score(reader).filter(|score| !score.is_nan()).map(|score| (member, score))
    })?;
    Some(Content::SortedSet { rows, packed: false })
}

pub fn read_listpack(reader: &mut Reader<'_>) -> Option<Content<'static>> {
    in_rows(listpack::read(&reader.string()?)?)
}

pub fn read_ziplist(reader: &mut Reader<'_>) -> Option<Content<'static>> {
    in_rows(ziplist::read(&reader.string()?)?)
}

fn in_rows(parts: Vec<Bytes<'static>>) -> Option<Content<'static>> {
    let row = |(member, score): (Bytes<'static>, Bytes<'static>)| Some((member, parse_float(&score)?));
    let rows = hash::pairs(parts)?.into_iter().map(row).collect::<Option<_>>()?;
    Some(Content::SortedSet { rows, packed: true })
}
