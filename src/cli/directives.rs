//! The command line of `redis-server`: directives as flags.
//!
//! This grammar is no ordinary one. A flag is a line of a configuration file without the line's end, its value may stand
//! in the same argument as its name, and each of the server's directives is a flag. No parser for flags can read that. The
//! result is text in the form of a configuration file, which the same code reads.
//!
//! `--port=6400` is `--port 6400`. `redis-server` refuses every such argument, so nothing that it accepts changes its
//! meaning.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use crate::protocol::{quote, split_line};

/// Where a configuration comes from. Later sources override earlier ones: the file, standard input, the flags.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ConfigSources {
    pub file: Option<PathBuf>,
    pub standard_input: bool,
    /// The flags as lines of a configuration file.
    pub flag_lines: Vec<u8>,
}

/// So many Sentinels, if nothing else is said.
const SENTINELS: &[u8] = b"3";

impl ConfigSources {
    /// Reads the arguments of a server.
    pub fn parse(arguments: &[OsString]) -> Self {
        let mut sources = Self::default();
        let mut rest = arguments;
        if let [file, others @ ..] = rest
            && !file.as_bytes().starts_with(b"-")
        {
            sources.file = Some(PathBuf::from(file));
            rest = others;
        }
        let mut expects_value = false;
        for (index, argument) in rest.iter().enumerate() {
            let text = argument.as_bytes();
            let (is_first, next) = (index == 0 && sources.file.is_none(), rest.get(index + 1));
            if text == b"-" && (is_first || next.is_none()) {
                sources.standard_input = true;
            } else if let Some(directive) = text.strip_prefix(b"--")
                && !expects_value
            {
                sources.push_flag(directive);
                expects_value = takes_next_argument(argument, next);
                if is_save(text) && !expects_value {
                    // Programs that generate an empty list of snapshots leave the value out.
                    sources.flag_lines.extend_from_slice(b"\"\"");
                }
                if is_sentinel(text) && !expects_value {
                    sources.flag_lines.extend_from_slice(SENTINELS);
                }
                if is_persist(text) && !expects_value {
                    sources.flag_lines.extend_from_slice(b"yes");
                }
            } else {
                sources.push_value(text);
                expects_value = false;
            }
        }
        sources
    }

    /// Begins a line with a flag, which is given without its dashes.
    fn push_flag(&mut self, flag: &[u8]) {
        let lines = &mut self.flag_lines;
        if !lines.is_empty() {
            lines.push(b'\n');
        }
        if let Some((name, value)) = name_and_value(flag) {
            lines.extend_from_slice(if name.eq_ignore_ascii_case(b"sentinel") { b"sentinels" } else { name });
            lines.push(b' ');
            return self.push_value(value);
        }
        lines.extend_from_slice(match flag.to_ascii_lowercase().as_slice() {
            b"no-control" => b"control no",
            b"sentinel" => b"sentinels",
            _ => flag,
        });
        lines.push(b' ');
    }

    fn push_value(&mut self, value: &[u8]) {
        self.flag_lines.extend(quote(value));
        self.flag_lines.push(b' ');
    }
}

/// Whether a server's flag takes the next argument as its value. A name alone does, whatever that argument looks like.
pub(super) fn takes_next_argument(flag: &OsStr, next: Option<&OsString>) -> bool {
    let text = flag.as_bytes();
    let is_followed_by_flag = next.is_none_or(|next| next.as_bytes().starts_with(b"--"));
    let has_value = text.strip_prefix(b"--").is_some_and(|directive| name_and_value(directive).is_some())
        || text.eq_ignore_ascii_case(b"--no-control")
        || is_save(text) && is_followed_by_flag
        || is_sentinel(text) && !next.is_some_and(is_number)
        || is_persist(text) && next.is_none_or(|next| next != "yes" && next != "no");
    !has_value && split_line(text).is_some_and(|words| words.len() == 1)
}

/// The name that a server's flag begins with, without its dashes.
pub(super) fn name_of(flag: &OsStr) -> String {
    let text = flag.as_bytes();
    let text = text.strip_prefix(b"--").unwrap_or(text);
    let end = text.iter().position(|byte| b"= \t".contains(byte)).unwrap_or(text.len());
    text[..end].escape_ascii().to_string()
}

/// Divides `name=value`. The `=` of `requirepass a=b` is a part of the value.
fn name_and_value(directive: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = directive.iter().position(|byte| *byte == b'=')?;
    let (name, value) = (&directive[..at], &directive[at + 1..]);
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_".contains(byte);
    (!name.is_empty() && name.iter().all(is_name)).then_some((name, value))
}

fn is_save(flag: &[u8]) -> bool {
    flag.eq_ignore_ascii_case(b"--save")
}

fn is_sentinel(flag: &[u8]) -> bool {
    flag.eq_ignore_ascii_case(b"--sentinel")
}

fn is_number(argument: &OsString) -> bool {
    argument.as_bytes().iter().all(u8::is_ascii_digit)
}

fn is_persist(flag: &[u8]) -> bool {
    flag.eq_ignore_ascii_case(b"--persist")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> ConfigSources {
        ConfigSources::parse(&arguments.iter().map(OsString::from).collect::<Vec<_>>())
    }

    fn lines(arguments: &[&str]) -> String {
        String::from_utf8(parse(arguments).flag_lines).unwrap()
    }

    #[test]
    fn flags_become_lines() {
        assert_eq!(lines(&["--port", "1", "--save", "900", "1"]), "port \"1\" \nsave \"900\" \"1\" ");
    }

    #[test]
    fn the_test_powers_are_switched_off_by_one_word() {
        assert_eq!(lines(&["--no-control", "--port", "1"]), "control no \nport \"1\" ");
    }

    #[test]
    fn sentinels_are_three_unless_a_number_is_said() {
        assert_eq!(lines(&["--sentinel", "--port", "1"]), "sentinels 3\nport \"1\" ");
        assert_eq!(lines(&["--port", "1", "--sentinel"]), "port \"1\" \nsentinels 3");
        assert_eq!(lines(&["--sentinel", "5"]), "sentinels \"5\" ");
        assert_eq!(lines(&["--sentinel=1"]), "sentinels \"1\" ");
    }

    #[test]
    fn a_value_may_stand_in_the_same_argument() {
        assert_eq!(lines(&["--save 900 1", "--requirepass secret"]), "save 900 1 \nrequirepass secret ");
        assert_eq!(lines(&["--port=1", "--save=900 1", "--logfile="]), "port \"1\" \nsave \"900 1\" \nlogfile \"\" ");
        assert_eq!(lines(&["--requirepass a=b", "--requirepass=a=b"]), "requirepass a=b \nrequirepass \"a=b\" ");
        assert_eq!(lines(&["--bind=127.0.0.1", "::1", "--port=1"]), "bind \"127.0.0.1\" \"::1\" \nport \"1\" ");
    }

    #[test]
    fn a_save_without_a_value_is_an_empty_one() {
        assert_eq!(lines(&["--save", "--port", "1"]), "save \"\"\nport \"1\" ");
        assert_eq!(lines(&["--save", ""]), "save \"\" ");
        assert_eq!(lines(&["--save"]), "save \"\"");
        assert_eq!(lines(&["--save=", "--port", "1"]), "save \"\" \nport \"1\" ");
    }

    #[test]
    fn persist_needs_no_value() {
        assert_eq!(lines(&["--persist", "--port", "1"]), "persist yes\nport \"1\" ");
        assert_eq!(lines(&["--port", "1", "--persist"]), "port \"1\" \npersist yes");
        assert_eq!(lines(&["--persist", "no", "--persist=yes"]), "persist \"no\" \npersist \"yes\" ");
    }

    #[test]
    fn the_value_of_a_flag_may_look_like_a_flag() {
        assert_eq!(lines(&["--requirepass", "--secret"]), "requirepass \"--secret\" ");
        assert_eq!(lines(&["--requirepass", "--port=1"]), "requirepass \"--port=1\" ");
    }

    #[test]
    fn a_file_comes_first_and_standard_input_first_or_last() {
        let file = Some(PathBuf::from("x.conf"));
        let (standard_input, flag_lines) = (true, Vec::new());
        assert_eq!(parse(&["x.conf"]), ConfigSources { file: file.clone(), ..ConfigSources::default() });
        assert_eq!(parse(&["-"]), ConfigSources { standard_input, ..ConfigSources::default() });
        assert_eq!(parse(&["x.conf", "-"]), ConfigSources { file, standard_input, flag_lines });
    }
}
