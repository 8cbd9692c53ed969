//! Whether what a run returned is the reply that was observed.

use super::hypotheses::{Answer, Call, Hypotheses, Run, Word};
use super::values::{UNKNOWN_ERROR, matches_unknown, unmarked};
use super::{ConsistentRun, ObservedRun, ResolvedValue, resolved};
use crate::protocol::parse_integer;

/// Whether a reply is an error or has one in it.
pub fn has_error(reply: &[u8]) -> bool {
    reply.first() == Some(&b'-') || memchr::memmem::find(reply, b"\r\n-").is_some()
}

/// The calls of a run, if it returned what was observed.
pub fn consistent_run(hypotheses: &Hypotheses<'_>, reply: &[u8], observed: &ObservedRun<'_>) -> Option<ConsistentRun> {
    let known = observed.calls.map(<[_]>::len);
    if known.is_some_and(|known| known != hypotheses.run.borrow().calls.len()) {
        return None;
    }
    let (left, rest) = matched(hypotheses, reply, observed.reply)?;
    if !left.is_empty() || !rest.is_empty() {
        return None;
    }
    let mut run = hypotheses.run.borrow_mut();
    let calls = std::mem::take(&mut run.calls);
    Some(calls.into_iter().map(|call| filled_in(&run, call)).collect())
}

/// Takes one value from both replies, if they agree, and returns what follows it.
fn matched<'r>(hypotheses: &Hypotheses<'_>, made: &'r [u8], seen: &'r [u8]) -> Option<(&'r [u8], &'r [u8])> {
    let (made_line, made_rest) = line(made)?;
    let (seen_line, seen_rest) = line(seen)?;
    let (&kind, text) = made_line.split_first()?;
    let (&seen_kind, seen_text) = seen_line.split_first()?;
    match kind {
        b'+' if unmarked(text).is_some() => {
            let (value, rest) = match seen_kind {
                b'$' => bulk(seen_text, seen_rest)?,
                _ => (seen_text, seen_rest),
            };
            matches_unknown(hypotheses, unmarked(text)?, seen_kind, value).then_some((made_rest, rest))
        }
        b'-' => (seen_kind == b'-' && is_same_error(text, seen_text)).then_some((made_rest, seen_rest)),
        b'*' | b'%' | b'~' => {
            if seen_line != made_line {
                return None;
            }
            let count = usize::try_from(parse_integer(text)?).unwrap_or(0);
            let count = if kind == b'%' { count.checked_mul(2)? } else { count };
            let (mut made, mut seen) = (made_rest, seen_rest);
            for _ in 0..count {
                (made, seen) = matched(hypotheses, made, seen)?;
            }
            Some((made, seen))
        }
        b'$' if text != b"-1" => {
            let (made_value, made_rest) = bulk(text, made_rest)?;
            let (seen_value, seen_rest) = if seen_kind == b'$' { bulk(seen_text, seen_rest)? } else { return None };
            (made_value == seen_value).then_some((made_rest, seen_rest))
        }
        _ => (made_line == seen_line).then_some((made_rest, seen_rest)),
    }
}

/// A line without its end, and what follows.
fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = memchr::memchr(b'\r', bytes)?;
    Some((&bytes[..end], bytes.get(end + 2..)?))
}

fn bulk<'r>(length: &[u8], rest: &'r [u8]) -> Option<(&'r [u8], &'r [u8])> {
    let length = usize::try_from(parse_integer(length)?).ok()?;
    Some((rest.get(..length)?, rest.get(length + 2..)?))
}

/// Whether two error texts are the same, but for the place in the script, which releases write differently.
fn is_same_error(made: &[u8], seen: &[u8]) -> bool {
    let bare = |text: &[u8]| {
        let end = memchr::memmem::find(text, b" script: ").unwrap_or(text.len());
        let text = &text[..end];
        text.strip_prefix(b"ERR ").unwrap_or(text).to_vec()
    };
    made.starts_with(UNKNOWN_ERROR) || bare(made) == bare(seen)
}

/// A call with what is known at the end of its run.
fn filled_in(run: &Run, call: Call) -> Call {
    let words = call.words.into_iter().map(|word| match word {
        Word::Unknown(id) => match resolved(run, id) {
            Some(ResolvedValue::Text(text)) => Word::Known(text),
            _ => word,
        },
        word => word,
    });
    Call { words: words.collect(), reply: known_answer(run, call.reply) }
}

fn known_answer(run: &Run, answer: Answer) -> Answer {
    match answer {
        Answer::Unknown(id) => match resolved(run, id) {
            Some(ResolvedValue::Text(text)) => Answer::Text(text),
            Some(ResolvedValue::Number(number)) => Answer::Integer(number as i64),
            None => answer,
        },
        Answer::List(answers) => Answer::List(answers.into_iter().map(|answer| known_answer(run, answer)).collect()),
        answer => answer,
    }
}
