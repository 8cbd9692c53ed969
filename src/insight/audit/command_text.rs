//! A command as evidence shows it. Of a script or a transaction that is what it ran: the digest of a script tells nobody anything.

use std::cmp::Ordering;
use std::sync::Arc;

use super::journal_line::JournalLine;
use crate::powers::{shared_line, short_line};

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
    let mut text = match rest.split_first() {
        Some((script, rest)) if script.len() > MAX_SCRIPT => {
            let shown = [&script[..MAX_SCRIPT], b"..."].concat();
            let words: Vec<&[u8]> = [*name, &shown].into_iter().chain(rest.iter().copied()).collect();
            short_line(&words)
        }
        _ => short_line(&line.words),
    };
    let mut number = 0;
    line.each_inside(|words| {
        let separator = if number == 0 { " (ran " } else { "; " };
        match number.cmp(&MAX_INSIDE) {
            Ordering::Less => text.extend([separator, &clipped(short_line(words))]),
            Ordering::Equal => text.push_str("; ..."),
            Ordering::Greater => {}
        }
        number += 1;
    });
    if number > 0 {
        text.push(')');
    }
    text.into()
}

/// Whether a command is a script or a transaction.
fn runs_others(name: &[u8]) -> bool {
    const NAMES: [&[u8]; 7] = [b"EVAL", b"EVALSHA", b"EVAL_RO", b"EVALSHA_RO", b"FCALL", b"FCALL_RO", b"EXEC"];
    name.first().is_some_and(|first| b"eEfF".contains(first))
        && NAMES.iter().any(|known| name.eq_ignore_ascii_case(known))
}

fn clipped(text: String) -> String {
    match text.char_indices().nth(MAX_INSIDE_LENGTH) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}
