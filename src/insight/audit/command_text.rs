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
    text_of(&line.words, |look| line.each_inside(look))
}

/// The same of a command with these words. `each_inside` lends the words of each command that it ran itself.
pub fn text_of(words: &[&[u8]], each_inside: impl FnOnce(&mut dyn FnMut(&[&[u8]]))) -> Arc<str> {
    match words.first() {
        None => return Arc::from(""),
        Some(name) if !runs_others(name) => return shared_line(words),
        Some(_) => {}
    }
    let mut text = ShownLine::default();
    match words {
        [name, script, rest @ ..] if script.len() > MAX_SCRIPT => {
            let mut shown = SmallVec::<[u8; 32]>::from_slice(&script[..MAX_SCRIPT]);
            shown.extend_from_slice(b"...");
            let words: LineWords<'_> = [*name, &shown].into_iter().chain(rest.iter().copied()).collect();
            text.push_command(&words);
        }
        _ => text.push_command(words),
    }
    let mut number = 0;
    each_inside(&mut |words| {
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
