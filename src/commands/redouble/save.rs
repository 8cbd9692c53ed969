//! REDOUBLE SAVE: the data as a file, to begin with another time.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::{expected, nothing_more, power};
use crate::error::{CommandError, plain};
use crate::files;
use crate::keyspace::{Busy, Scope};
use crate::resp::Reply;
use crate::seed;
use crate::spec::{Args, Arity, Call, CommandResult, CommandSpec};

pub(super) const SAVE: CommandSpec = CommandSpec {
    complexity: "O(N) where N is the size of all data",
    arity: Arity::Exactly(3),
    ..power("SAVE", "path", SUMMARY, save)
};

pub(super) const SUMMARY: &str =
    "Writes all databases and functions to a file for --load: a snapshot if it ends in .rdb, else commands.";

fn save(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let word = args.optional();
    let path = word.filter(|word| !word.is_empty() && !word.contains(&0));
    let path = Path::new(OsStr::from_bytes(path.ok_or_else(|| expected("the path of a file was expected", word))?));
    nothing_more(args)?;
    let content = content(call, path).map_err(|Busy| call.server.scripts.busy_error())?;
    let place = call.server.config.path("dir").map_or_else(|| PathBuf::from(path), |dir| dir.join(path));
    match files::replace(&place, &content) {
        Ok(()) => Ok(Reply::OK),
        Err(error) => {
            let reason = plain(&error);
            Err(CommandError::new(format!("ERR the file '{}' cannot be written: {reason}", place.display())))
        }
    }
}

/// Everything there is, at one instant.
fn content(call: &mut Call<'_>, path: &Path) -> Result<Vec<u8>, Busy> {
    let server = call.server;
    let interpreters = server.keyspace.patiently(|| server.scripts.try_lock())?;
    let mut view = server.keyspace.lock(Scope::Everything, call.session.db, &server.clock)?;
    let libraries = interpreters.libraries().into_iter().flat_map(|libraries| libraries.libraries());
    let sources = libraries.map(|library| library.source.as_slice());
    let content = seed::save(&mut view, sources, &server.profile, path);
    // To look at a key whose time is up deletes it.
    let tally = server.settle(view, Some(call.session));
    call.session.tally += tally;
    Ok(content)
}
