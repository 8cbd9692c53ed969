//! Libraries of functions, as FUNCTION DUMP gives and FUNCTION RESTORE takes them.

use super::reader::Reader;
use super::{FOOTER, PayloadError, check, sign, write_string};
use crate::base::profile::Profile;

/// What stands in front of a library of functions, and stood there before the first release that had them.
pub(super) const LIBRARY: u8 = 245;
const EARLY_LIBRARY: u8 = 246;

/// Libraries, given as their texts, with a footer.
pub fn dump_libraries<'l>(sources: impl Iterator<Item = &'l [u8]>, profile: &Profile) -> Vec<u8> {
    let mut out = Vec::new();
    for source in sources {
        out.push(LIBRARY);
        write_string(&mut out, source);
    }
    sign(&mut out, profile);
    out
}

/// What stands in a payload of libraries where one should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LibraryError {
    /// One of the format that no release has written.
    Early,
    /// Something else altogether.
    Foreign,
    /// One that breaks off, or whose text cannot be read.
    Broken,
}

/// The texts of the libraries in a payload, one after the other.
pub fn load_libraries<'p>(
    payload: &'p [u8],
    profile: &Profile,
) -> Result<impl Iterator<Item = Result<Vec<u8>, LibraryError>> + use<'p>, PayloadError> {
    check(payload, profile)?;
    let mut reader = Reader::new(payload);
    Ok(std::iter::from_fn(move || {
        if reader.left() <= FOOTER {
            return None;
        }
        Some(match reader.byte()? {
            LIBRARY => reader.string().ok_or(LibraryError::Broken),
            EARLY_LIBRARY => Err(LibraryError::Early),
            _ => Err(LibraryError::Foreign),
        })
    }))
}
