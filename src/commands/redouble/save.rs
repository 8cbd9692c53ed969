//! REDOUBLE SAVE: the data as a file, to begin with another time.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::{Action, Power, beside, expected, nothing_more};
use crate::clients::instance::NamedBy;
use crate::commands::{Call, CommandResult};
use crate::protocol::Reply;
use crate::spec::{Args, Arity};

pub(super) const SAVE: Power = Power {
    complexity: "O(N) where N is the size of all data",
    arity: Arity::Exactly(3),
    for_clients: true,
    ..Power::new("SAVE", SUMMARY, &[Action { words: "path", summary: SUMMARY, run: save }])
};

const SUMMARY: &str =
    "Writes all databases and functions to a file for --load: a snapshot if it ends in .rdb, else commands.";

fn save(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let word = args.optional();
    let path = word.filter(|word| !word.is_empty() && !word.contains(&0));
    let path = path.ok_or_else(|| expected("the path of a file was expected", word))?;
    nothing_more(args)?;
    call.permit_at_root(args)?;
    let (is_long, write) = call.server.begin_save_to(Path::new(OsStr::from_bytes(path)), NamedBy::Client)?;
    beside(call, "redouble-save", is_long, move || write().map_or_else(Reply::Error, |()| Reply::OK))
}
