//! A command as evidence shows it. Of a script or a transaction that is what it ran: the digest of a script tells nobody anything.

use std::cmp::Ordering;
use std::sync::Arc;

use smallvec::SmallVec;

use super::journal_line::{JournalLine, LineWords};
use crate::powers::{ShownLine, shared_line};

/// How many of the commands inside are shown, and how long each may be.
const MAX_INSIDE: usize = 4;
const MAX_INSIDE_LENGTH: usize = 60;
/// How much of a script's text or digest is shown.
const MAX_SCRIPT: usize = 24;

/// A command on one line, cut off if it is long: `EVALSHA 2c1a... 1 lock:a token (ran GET lock:a; DEL lock:a)`.
pub fn command_text(line: &JournalLine<'_>) -> Arc<str> {
    let Some((name, rest)) = line.words.split_first() else { return Arc::from("") };
    if !runs_others(name) {
        return shared_line(&line.words);
    }
    let mut text = ShownLine::default();
    match rest.split_first() {
        Some((script, rest)) if script.len() > MAX_SCRIPT => {
            let mut shown = SmallVec::<[u8; 32]>::from_slice(&script[..MAX_SCRIPT]);
            shown.extend_from_slice(b"...");
            let words: LineWords<'_> = [*name, &shown].into_iter().chain(rest.iter().copied()).collect();
            text.push_command(&words);
        }
        _ => text.push_command(&line.words),
    }
    let mut number = 0;
    line.each_inside(|words| {
        match number.cmp(&MAX_INSIDE) {
            Ordering::Less => {
                text.push(if number == 0 { " (ran " } else { "; " });
                text.push_clipped(words, MAX_INSIDE_LENGTH);
            }
            Ordering::Equal => text.push("; ..."),
            Ordering::Greater => {}
        }
        number += 1;
    });
    if number > 0 {
        text.push(")");
    }
    text.shared()
}

/// Whether a command is a script or a transaction.
fn runs_others(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 7] = [b"EVAL", b"EVALSHA", b"EVAL_RO", b"EVALSHA_RO", b"FCALL", b"FCALL_RO", b"EXEC"];
    name.first().is_some_and(|first| b"eEfF".contains(first))
        && NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}
