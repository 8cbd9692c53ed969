//! What MONITOR clients see of a command.

use crate::instance::Instance;
use crate::resp::Words;
use crate::session::{Peer, Session};

/// Sends `+<time> [<db> <address>] "WORD" "WORD"` to every MONITOR client.
pub(super) fn feed(instance: &Instance, session: &Session, words: Words<'_>) {
    let micros = instance.clock.micros();
    let address = match session.client.peer() {
        Peer::Unix { path } => format!("unix:{}", path.display()),
        peer => peer.address(),
    };
    let (seconds, rest) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let mut line = format!("+{seconds}.{rest:06} [{} {address}]", session.db).into_bytes();
    for word in words.iter() {
        line.push(b' ');
        quote(word, &mut line);
    }
    line.extend_from_slice(b"\r\n");
    instance.feed_monitors(&line);
}

/// Redis's quoted representation of bytes.
fn quote(word: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for &byte in word {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            0x07 => out.extend(b"\\a"),
            0x08 => out.extend(b"\\b"),
            b' '..=b'~' => out.push(byte),
            _ => out.extend(format!("\\x{byte:02x}").into_bytes()),
        }
    }
    out.push(b'"');
}
