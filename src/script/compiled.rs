//! A compiled script or a registered function.

use std::sync::Arc;

use super::lua::RegistryRef;
use super::shebang::ScriptFlags;

/// What kind of script runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ScriptKind {
    Eval = 1,
    Function = 2,
}

/// The SHA-1 of a script's text, in hexadecimal: its name.
pub type Sha = [u8; 40];

/// A script that was compiled, or a function that was registered.
#[derive(Clone, Debug)]
pub struct Script {
    pub(super) name: ScriptName,
    pub flags: ScriptFlags,
    pub(super) function: RegistryRef,
}

#[derive(Clone, Debug)]
pub(super) enum ScriptName {
    Script(Sha),
    Function(Arc<[u8]>),
}

impl Script {
    /// What errors call it.
    pub fn name(&self) -> &[u8] {
        match &self.name {
            ScriptName::Script(sha) => sha,
            ScriptName::Function(name) => name,
        }
    }

    pub fn kind(&self) -> ScriptKind {
        match self.name {
            ScriptName::Script(_) => ScriptKind::Eval,
            ScriptName::Function(_) => ScriptKind::Function,
        }
    }
}
