//! Function libraries, in the format of FUNCTION DUMP and FUNCTION RESTORE.

use super::reader::Reader;
use super::{Checksums, FOOTER, PayloadError, check, sign, write_string};
use crate::base::profile::Profile;

/// The opcode of a function library; the earlier one was written only by release candidates.
pub(super) const LIBRARY: u8 = 245;
const EARLY_LIBRARY: u8 = 246;

/// Serializes libraries, given as source code, with a footer.
pub fn dump_libraries<'l>(sources: impl Iterator<Item = &'l [u8]>, profile: &Profile) -> Vec<u8> {
    let mut out = Vec::new();
    for source in sources {
        out.push(LIBRARY);
        write_string(&mut out, source);
    }
    sign(&mut out, profile);
    out
}

/// Why a payload of libraries is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LibraryError {
    /// It contains a library in the format of the release candidates.
    Early,
    /// It contains something other than a library.
    Foreign,
    /// It is truncated, or a library's source code cannot be read.
    Broken,
}

/// The source code of each library in a payload.
pub fn load_libraries<'p>(
    payload: &'p [u8],
    profile: &Profile,
    checksums: Checksums,
) -> Result<impl Iterator<Item = Result<Vec<u8>, LibraryError>> + use<'p>, PayloadError> {
    check(payload, profile, checksums)?;
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
