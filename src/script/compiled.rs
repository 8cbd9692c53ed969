//! A compiled script or a registered function.

use std::sync::Arc;

use super::direct::DirectScript;
use super::lua::RegistryRef;
use super::shebang::ScriptFlags;

/// EVAL's scripts and functions run in different interpreters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ScriptKind {
    Eval = 1,
    Function = 2,
}

/// The name of a script: the SHA-1 of its text in hexadecimal.
pub type Sha = [u8; 40];

/// A script that EVAL has compiled, or a function that a library has registered.
#[derive(Clone, Debug)]
pub struct Script {
    pub(super) name: ScriptName,
    pub flags: ScriptFlags,
    pub(super) function: RegistryRef,
    /// Its place among the scripts of EVAL that can be evicted.
    pub(super) slot: Option<u16>,
    /// What it does, if it need not run in Lua.
    pub(super) direct: Option<Arc<DirectScript>>,
}

#[derive(Clone, Debug)]
pub(super) enum ScriptName {
    Script(Sha),
    Function(Arc<[u8]>),
}

impl Script {
    /// The name of the script in error messages.
    pub fn name(&self) -> &[u8] {
        match &self.name {
            ScriptName::Script(sha) => sha,
            ScriptName::Function(name) => name,
        }
    }

    /// The SHA-1 of its text, if EVAL runs it.
    pub(super) fn sha(&self) -> Option<Sha> {
        match self.name {
            ScriptName::Script(sha) => Some(sha),
            ScriptName::Function(_) => None,
        }
    }

    /// Whether it runs without Lua.
    pub fn is_direct(&self) -> bool {
        self.direct.is_some()
    }

    pub fn kind(&self) -> ScriptKind {
        match self.name {
            ScriptName::Script(_) => ScriptKind::Eval,
            ScriptName::Function(_) => ScriptKind::Function,
        }
    }
}
