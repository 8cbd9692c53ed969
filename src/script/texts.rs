//! The error texts about scripts that Redis and Valkey word differently.

use super::compiled::ScriptKind;
use crate::base::error::CommandError;
use crate::base::profile::{Family, Profile, Since};

/// An unknown script.
pub fn no_script(profile: &Profile) -> CommandError {
    CommandError::fixed(match profile.family() {
        Family::Redis => "NOSCRIPT No matching script. Please use EVAL.",
        Family::Valkey => "NOSCRIPT No matching script.",
    })
}

/// The reply to other clients while a script of this kind is busy.
pub fn busy(profile: &Profile, kind: ScriptKind) -> CommandError {
    CommandError::fixed(match (profile.family(), kind) {
        (Family::Redis, ScriptKind::Eval) => {
            "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
        }
        (Family::Redis, ScriptKind::Function) => {
            "BUSY Redis is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
        }
        (Family::Valkey, ScriptKind::Eval) => {
            "BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
        }
        (Family::Valkey, ScriptKind::Function) => {
            "BUSY Valkey is busy running a script. You can only call FUNCTION KILL or SHUTDOWN NOSAVE."
        }
    })
}

/// A script calls a command that does not exist.
pub fn unknown_command(profile: &Profile) -> CommandError {
    CommandError::fixed(match profile.family() {
        Family::Redis => "ERR Unknown Redis command called from script",
        Family::Valkey => "ERR Unknown command called from script",
    })
}

/// A script calls a command with the wrong number of arguments.
pub fn wrong_arity(profile: &Profile) -> CommandError {
    CommandError::fixed(match profile.family() {
        Family::Redis => "ERR Wrong number of args calling Redis command from script",
        Family::Valkey => "ERR Wrong number of args calling command from script",
    })
}

/// A script calls a command that scripts may not call.
pub fn not_from_script(profile: &Profile) -> CommandError {
    CommandError::fixed(if profile.has(Since::valkey(9, 1, 0)) {
        "ERR This Valkey command is not allowed from script"
    } else {
        "ERR This Redis command is not allowed from script"
    })
}

/// `redis.call` without arguments.
pub(super) fn no_arguments(profile: &Profile) -> CommandError {
    CommandError::fixed(match profile.family() {
        Family::Redis => "ERR Please specify at least one argument for this redis lib call",
        Family::Valkey => "ERR Please specify at least one argument for this call",
    })
}

/// `redis.call` with an argument that is neither a string nor a number.
pub(super) fn bad_argument(profile: &Profile) -> CommandError {
    CommandError::fixed(match profile.family() {
        Family::Redis => "ERR Lua redis lib command arguments must be strings or integers",
        Family::Valkey => "ERR Command arguments must be strings or integers",
    })
}

/// An error of a function of the library, which Redis calls `redis` and Valkey `server`.
pub(super) fn of_library(profile: &Profile, text: &str) -> String {
    match profile.family() {
        Family::Redis => text.to_owned(),
        Family::Valkey => text.replace("redis.", "server."),
    }
}
