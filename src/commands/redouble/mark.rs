//! REDOUBLE MARK: the name of a test, or another text, in the journal.

use super::{Action, Power, expected};
use crate::clients::instance::LONGEST_MARK;
use crate::commands::{Call, CommandResult};
use crate::protocol::Reply;
use crate::spec::{Args, Arity};

pub(super) const MARK: Power = Power {
    complexity: "O(1)",
    arity: Arity::AtLeast(3),
    ..Power::new("MARK", SUMMARY, &[Action { words: "text [text ...]", summary: SUMMARY, run: mark }])
};

const SUMMARY: &str =
    "Puts a text into the journal, such as a test's name; findings say after which mark they came. RESET keeps it.";

fn mark(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let text = args.rest().iter().collect::<Vec<_>>().join(&b' ');
    let text = String::from_utf8_lossy(&text).trim().to_owned();
    if !(1..=LONGEST_MARK).contains(&text.len()) {
        return Err(expected("a text of 1 to 1024 bytes was expected", Some(text.as_bytes())));
    }
    call.server.mark_journal(&text);
    Ok(Reply::OK)
}
