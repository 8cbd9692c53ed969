//! Requests as bytes: what a server sends to its replicas.

use super::number::write_integer;

/// Appends a request.
pub fn write_request<'w>(out: &mut Vec<u8>, words: impl ExactSizeIterator<Item = &'w [u8]>) {
    let line = |out: &mut Vec<u8>, kind: u8, count: usize| {
        out.push(kind);
        write_integer(out, count as i64);
        out.extend_from_slice(b"\r\n");
    };
    line(out, b'*', words.len());
    for word in words {
        line(out, b'$', word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}
