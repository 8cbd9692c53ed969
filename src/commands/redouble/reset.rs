//! REDOUBLE RESET: the server as it was when it started, for the next test.

use super::{Action, begin, nothing_more, power};
use crate::clients::session::ControlJob;
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::powers::Hook;
use crate::protocol::Reply;
use crate::spec::{Args, Arity, CommandSpec};

pub(super) const RESET: Command = Command::new(
    Handler::Connection(reset),
    CommandSpec {
        arity: Arity::Exactly(2),
        complexity: "O(N) where N is the number of keys, clients, rules and gates.",
        ..power("RESET", "", SUMMARY)
    },
);

pub(super) const ACTIONS: &[Action] = &[Action { name: "", usage: "", summary: SUMMARY, run: reset }];

const SUMMARY: &str = "Puts everything back to what it was when the server started; clients stay connected.";

fn reset(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    if call.server.active_hooks.has(Hook::SlowScript) {
        return Err(call.server.scripts.busy_error());
    }
    begin(call, ControlJob::Reset, Reply::OK)
}
