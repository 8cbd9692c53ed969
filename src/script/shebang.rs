//! The first line of a script: `#!lua name=… flags=…`.

use crate::base::error::CommandError;
use crate::base::profile::{Family, Profile};
use crate::protocol::{split_line, until_nul};

/// The flags that a script declares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScriptFlags {
    pub no_writes: bool,
    pub allow_oom: bool,
    pub allow_stale: bool,
    pub no_cluster: bool,
    pub allow_cross_slot_keys: bool,
    /// The script has no shebang, so it declares nothing (Redis's compatibility mode of EVAL).
    pub no_shebang: bool,
}

impl ScriptFlags {
    pub const NO_SHEBANG: Self = Self {
        no_writes: false,
        allow_oom: false,
        allow_stale: false,
        no_cluster: false,
        allow_cross_slot_keys: false,
        no_shebang: true,
    };

    /// The flags of a script for EVAL; `None` if its shebang is invalid.
    pub fn of(source: &[u8], profile: &Profile) -> Option<Self> {
        split(source, profile).ok().map(|(flags, _)| flags)
    }

    /// Adds a flag by name. Returns whether the name is a flag.
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

    /// The names of the flags that are set, in Redis's order.
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

/// The flags of a script for EVAL, and its text without the shebang. The line end of the shebang stays, so that line
/// numbers are right.
pub fn split<'s>(source: &'s [u8], profile: &Profile) -> Result<(ScriptFlags, &'s [u8]), CommandError> {
    if !source.starts_with(b"#!") {
        return Ok((ScriptFlags::NO_SHEBANG, source));
    }
    let (line, text) = first_line(source).ok_or(CommandError::fixed("ERR Invalid script shebang"))?;
    let words = split_line(line).ok_or(CommandError::fixed("ERR Invalid engine in script shebang"))?;
    let (engine, options) = words.split_first().ok_or(CommandError::fixed("ERR Invalid engine in script shebang"))?;
    if profile.family() == Family::Redis && engine != b"#!lua" {
        return Err(CommandError::quoting("ERR Unexpected engine in script shebang: ", engine, ""));
    }
    let mut flags = ScriptFlags::default();
    for option in options {
        let Some(names) = option.strip_prefix(b"flags=") else {
            return Err(CommandError::quoting("ERR Unknown lua shebang option: ", option, ""));
        };
        // An empty list has no flags, but an empty name between commas is an unknown flag.
        for name in names.split(|&byte| byte == b',').filter(|_| !names.is_empty()) {
            if !flags.add(name) {
                return Err(CommandError::quoting("ERR Unexpected flag in script shebang: ", name, ""));
            }
        }
    }
    // Valkey looks for the engine after it has read the options, and its names ignore case.
    let engine = engine.get(2..).ok_or(CommandError::fixed("ERR Invalid engine in script shebang"))?;
    if !engine.eq_ignore_ascii_case(b"lua") {
        return Err(CommandError::quoting("ERR Could not find scripting engine '", engine, "'"));
    }
    Ok((flags, text))
}

/// The shebang of a library, and the code after it.
#[derive(Debug, PartialEq, Eq)]
pub struct LibraryHeader<'s> {
    pub engine: Vec<u8>,
    pub name: Vec<u8>,
    pub code: &'s [u8],
}

/// Parses the shebang of a library.
pub fn heading(source: &[u8]) -> Result<LibraryHeader<'_>, CommandError> {
    const INVALID: CommandError = CommandError::fixed("ERR Invalid library metadata");
    if !source.starts_with(b"#!") {
        return Err(CommandError::fixed("ERR Missing library metadata"));
    }
    let (line, code) = first_line(source).ok_or(INVALID)?;
    let words = split_line(line).ok_or(INVALID)?;
    let (engine, options) = words.split_first().ok_or(INVALID)?;
    let engine = engine.get(2..).unwrap_or_default().to_vec();
    let mut name = None;
    for option in options {
        match option.split_at_checked(5) {
            Some((key, _)) if key.eq_ignore_ascii_case(b"name=") && name.is_some() => {
                let text = "ERR Invalid metadata value, name argument was given multiple times";
                return Err(CommandError::fixed(text));
            }
            Some((key, value)) if key.eq_ignore_ascii_case(b"name=") => name = Some(value.to_vec()),
            _ => return Err(CommandError::quoting("ERR Invalid metadata value given: ", option, "")),
        }
    }
    let name = name.ok_or(CommandError::fixed("ERR Library name was not given"))?;
    Ok(LibraryHeader { engine, name, code })
}

/// The first line, and the text from its line end on. As in C, a NUL ends the text.
fn first_line(source: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = until_nul(source).iter().position(|&byte| byte == b'\n')?;
    Some(source.split_at(end))
}

/// Whether a name is valid for a library or a function.
pub fn is_name(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|&byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused<T: std::fmt::Debug>(result: Result<T, CommandError>) -> String {
        String::from_utf8(result.unwrap_err().line().to_vec()).unwrap()
    }

    fn split_as_redis(source: &[u8]) -> Result<(ScriptFlags, &[u8]), CommandError> {
        split(source, &"redis-7.0".parse().unwrap())
    }

    /// The expected errors are those of Valkey 9.1.2.
    #[test]
    fn valkey_looks_for_the_engine_in_any_case_and_after_the_options() {
        let valkey = "valkey-9.1".parse().unwrap();
        assert_eq!(split(b"#!LUA\nx", &valkey).unwrap(), (ScriptFlags::default(), &b"\nx"[..]));
        for (source, error) in [
            (&b"#!js\nx"[..], "ERR Could not find scripting engine 'js'"),
            (b"#!\nx", "ERR Could not find scripting engine ''"),
            (b"#!js x\n", "ERR Unknown lua shebang option: x"),
            (b"#!\"lua\n", "ERR Invalid engine in script shebang"),
        ] {
            assert_eq!(refused(split(source, &valkey)), error);
        }
    }

    /// The expected errors are those of Redis 7.0.15.
    #[test]
    fn the_first_line_of_a_script_is_read_as_redis_reads_it() {
        assert_eq!(split_as_redis(b"return 1").unwrap(), (ScriptFlags::NO_SHEBANG, &b"return 1"[..]));
        assert_eq!(split_as_redis(b"#!\"lua\" flags=\nx").unwrap(), (ScriptFlags::default(), &b"\nx"[..]));
        let flags = ScriptFlags { no_writes: true, allow_oom: true, ..ScriptFlags::default() };
        assert_eq!(split_as_redis(b"#!lua flags=no-writes 'flags=allow-oom'\r\nx").unwrap(), (flags, &b"\nx"[..]));
        for (source, error) in [
            (&b"#!lua"[..], "ERR Invalid script shebang"),
            (b"#!lua\0x\n", "ERR Invalid script shebang"),
            (b"#!lua 'flags\n", "ERR Invalid engine in script shebang"),
            (b"#!\n", "ERR Unexpected engine in script shebang: #!"),
            (b"#!lua flags=no-writes,\n", "ERR Unexpected flag in script shebang: "),
            (b"#!lua flags=NO-writes\n", "ERR Unexpected flag in script shebang: NO-writes"),
            (b"#!lua name=x\n", "ERR Unknown lua shebang option: name=x"),
        ] {
            assert_eq!(refused(split_as_redis(source)), error);
        }
    }

    #[test]
    fn the_heading_of_a_library_is_read_as_redis_reads_it() {
        let heading_of = |source| heading(source).map(|heading| (heading.engine, heading.name, heading.code.to_vec()));
        assert_eq!(heading_of(b"#!lua NAME=a\nx\0").unwrap(), (b"lua".into(), b"a".into(), b"\nx\0".into()));
        assert_eq!(heading_of(b"#!'' \"name=a b\"\n").unwrap(), (b"".into(), b"a b".into(), b"\n".into()));
        for (source, error) in [
            (&b""[..], "ERR Missing library metadata"),
            (b"#!lua name=a", "ERR Invalid library metadata"),
            (b"#!lua name=a\0\n", "ERR Invalid library metadata"),
            (b"#!lua 'name=a\n", "ERR Invalid library metadata"),
            (b"#!\n", "ERR Library name was not given"),
            (b"#!lua name=a name=b\n", "ERR Invalid metadata value, name argument was given multiple times"),
            (b"#!lua name=a x=1\n", "ERR Invalid metadata value given: x=1"),
        ] {
            assert_eq!(refused(heading_of(source)), error);
        }
    }
}
