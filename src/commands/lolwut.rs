//! LOLWUT. It says which release this is; most releases of Redis draw nothing else by themselves.

use crate::base::profile::{Family, Since};
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::protocol::Reply;
use crate::spec::{Args, Arity, CommandSpec, Flag, Group};

pub(super) const ROWS: &[Command] = &[LOLWUT];

const LOLWUT: Command = Command::new(
    Handler::Connection(lolwut),
    CommandSpec {
        usage: "[VERSION version]",
        summary: "Tells the server's release. The pictures of some releases are not there.",
        complexity: "O(1)",
        group: Group::Server,
        since: Since::redis(5, 0, 0),
        arity: Arity::AtLeast(1),
        flags: &[Flag::ReadOnly, Flag::Fast],
        ..CommandSpec::new("LOLWUT")
    },
);

fn lolwut(_: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let profile = *args.profile();
    if args.left() >= 2 && args.bytes()?.eq_ignore_ascii_case(b"version") {
        args.integer()?;
    }
    let server = match profile.family() {
        Family::Redis => "Redis",
        Family::Valkey => "Valkey",
    };
    Ok(Reply::Verbatim("txt", format!("{server} ver. {}\n", profile.version()).into_bytes().into()))
}
