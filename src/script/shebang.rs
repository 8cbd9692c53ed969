//! The first line of a script: `#!lua name=… flags=…`.

use crate::error::CommandError;

/// What a script says about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flags {
    pub no_writes: bool,
    pub allow_oom: bool,
    pub allow_stale: bool,
    pub no_cluster: bool,
    pub allow_cross_slot_keys: bool,
    /// It has no shebang, and so does not say.
    pub unsaid: bool,
}

impl Flags {
    pub const UNSAID: Self = Self {
        no_writes: false,
        allow_oom: false,
        allow_stale: false,
        no_cluster: false,
        allow_cross_slot_keys: false,
        unsaid: true,
    };

    /// Adds a flag by name; whether there is one of that name.
    pub fn add(&mut self, name: &[u8]) -> bool {
        let flag = match name {
            b"no-writes" => &mut self.no_writes,
            b"allow-oom" => &mut self.allow_oom,
            b"allow-stale" => &mut self.allow_stale,
            b"no-cluster" => &mut self.no_cluster,
            b"allow-cross-slot-keys" => &mut self.allow_cross_slot_keys,
            _ => return false,
        };
        *flag = true;
        true
    }

    /// The names of the flags that are up, in Redis's order.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        [
            (self.no_writes, "no-writes"),
            (self.allow_oom, "allow-oom"),
            (self.allow_stale, "allow-stale"),
            (self.no_cluster, "no-cluster"),
            (self.allow_cross_slot_keys, "allow-cross-slot-keys"),
        ]
        .into_iter()
        .filter_map(|(up, name)| up.then_some(name))
    }
}

/// The flags of a script for EVAL, and its text without the shebang (the end of that line stays, so that line numbers
/// are right).
pub fn split(source: &[u8]) -> Result<(Flags, &[u8]), CommandError> {
    if !source.starts_with(b"#!") {
        return Ok((Flags::UNSAID, source));
    }
    let Some(end) = source.iter().position(|&byte| byte == b'\n') else {
        return Err(CommandError::fixed("ERR Invalid script shebang"));
    };
    let mut flags = Flags::default();
    let mut words = source[..end].split(|byte| byte.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let engine = words.next().unwrap_or_default();
    if engine != b"#!lua" {
        return Err(CommandError::quoting("ERR Unexpected engine in script shebang: ", engine, ""));
    }
    for word in words {
        let Some(names) = word.strip_prefix(b"flags=") else {
            return Err(CommandError::quoting("ERR Unknown lua shebang option: ", word, ""));
        };
        for name in names.split(|&byte| byte == b',').filter(|name| !name.is_empty()) {
            if !flags.add(name) {
                return Err(CommandError::quoting("ERR Unexpected flag in script shebang: ", name, ""));
            }
        }
    }
    Ok((flags, &source[end..]))
}
