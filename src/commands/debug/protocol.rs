//! DEBUG PROTOCOL: a value of each type of the protocol.

use super::Context;
use crate::base::error::CommandError;
use crate::commands::CommandResult;
use crate::protocol::{Protocol, Reply};
use crate::spec::Args;

const WRONG_PROTOCOL_TYPE: CommandError = CommandError::fixed(
    "ERR Wrong protocol type name. Please use one of the following: \
     string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
);
const NOT_IN_RESP2: CommandError = CommandError::fixed("ERR RESP2 is not supported by this command");

#[expect(clippy::approx_constant, reason = "Redis answers with a rough pi")]
pub(super) fn protocol(context: &mut Context<'_, '_, '_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let protocol = context.call.session.protocol;
    let three = || (0..3).map(Reply::Integer).collect();
    Ok(match args.bytes()?.to_ascii_lowercase().as_slice() {
        b"string" => Reply::text("Hello World"),
        b"integer" => Reply::Integer(12345),
        b"double" => Reply::Double(3.141),
        b"null" => Reply::Null,
        b"array" => Reply::Array(three()),
        b"set" => Reply::Set(three()),
        b"map" => Reply::Map((0..3).map(|number| (Reply::Integer(number), Reply::Boolean(number == 1))).collect()),
        b"attrib" => {
            let popularity = Reply::Array(vec![Reply::text("key:123"), Reply::Integer(90)]);
            let reply = Reply::text("Some real reply following the attribute");
            Reply::Attributed(vec![(Reply::text("key-popularity"), popularity)], Box::new(reply))
        }
        b"push" if protocol == Protocol::Resp2 => return Err(NOT_IN_RESP2),
        b"push" => Reply::Several(vec![
            Reply::Push(vec![Reply::text("server-cpu-usage"), Reply::Integer(42)]),
            Reply::text("Some real reply following the push reply"),
        ]),
        b"verbatim" => Reply::Verbatim("txt", b"This is a verbatim\nstring".into()),
        b"true" => Reply::Boolean(true),
        b"false" => Reply::Boolean(false),
        b"bignum" => Reply::BigNumber("1234567999999999999999999999999999999"),
        _ => return Err(WRONG_PROTOCOL_TYPE),
    })
}
