//! REDOUBLE RESET: the server as it was when it started, for the next test.

use super::{Action, Power, begin, nothing_more};
use crate::clients::session::ControlJob;
use crate::commands::{Call, CommandResult};
use crate::powers::Hook;
use crate::protocol::Reply;
use crate::spec::{Args, Arity};

pub(super) const RESET: Power = Power {
    arity: Arity::Exactly(2),
    complexity: "O(N) where N is the number of keys, clients, rules and gates.",
    ..Power::new("RESET", SUMMARY, &[Action { words: "", summary: SUMMARY, run: reset }])
};

const SUMMARY: &str = "Puts everything back to what it was when the server started; clients stay connected.";

fn reset(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    if call.server.active_hooks.has(Hook::SlowScript) {
        return Err(call.server.scripts.busy_error());
    }
    begin(call, ControlJob::Reset, Reply::OK)
}
