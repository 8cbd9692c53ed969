//! What scripts did on servers that show only their replies: told from text, request and reply, and checked against what they
//! really did.

mod digests;
mod libraries;
mod random_scripts;
#[path = "../support/mod.rs"]
mod support;

use support::wire::Frame;

/// A reply as it was on the wire.
fn bytes(frame: &Frame) -> Vec<u8> {
    match frame {
        Frame::Status(text) => [b"+", text.as_slice(), b"\r\n"].concat(),
        Frame::Error(text) => [b"-", text.as_slice(), b"\r\n"].concat(),
        Frame::Integer(number) => format!(":{number}\r\n").into_bytes(),
        Frame::Bulk(text) => [format!("${}\r\n", text.len()).as_bytes(), text, b"\r\n"].concat(),
        Frame::NullBulk => b"$-1\r\n".to_vec(),
        Frame::NullArray => b"*-1\r\n".to_vec(),
        Frame::Null => b"_\r\n".to_vec(),
        Frame::Array(items) => {
            [format!("*{}\r\n", items.len()).into_bytes(), items.iter().flat_map(bytes).collect()].concat()
        }
        other => panic!("no script here replies {other:?}"),
    }
}
