//! What somebody probably meant who mistyped a subcommand, a flag or a directive.

use super::flags::{FLAGS, flags_of};
use super::subcommand::{HELP, Subcommand};
use crate::clients::config::directive_names;
use crate::insight::audit::Code;

/// The word that is most like a mistyped one, if any is like it.
fn nearest<'a>(mistyped: &str, words: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let mistyped = mistyped.to_ascii_lowercase();
    let distances = words.into_iter().map(|word| (strsim::osa_distance(&mistyped, word), word));
    // One slip in a short word, two in a longer one, and none in `-o`.
    let is_near = |(distance, word): &(usize, &str)| *distance <= (mistyped.len().min(word.len()) / 3).min(2);
    distances.filter(is_near).min_by_key(|(distance, _)| *distance).map(|(_, word)| word)
}

/// The subcommand, or `help`, that a word resembles.
pub(super) fn subcommand_like(word: &str) -> Option<&'static str> {
    nearest(word, Subcommand::ALL.map(Subcommand::name).into_iter().chain([HELP]))
}

/// The name of the finding that a word resembles.
pub(super) fn code_like(word: &str) -> Option<&'static str> {
    nearest(word, Code::ALL.iter().map(|code| code.name()))
}

/// What to say of a flag, with its dashes, that a subcommand does not have.
pub(super) fn for_flag(subcommand: Subcommand, name: &str) -> String {
    let others = directive_flags().filter(|_| subcommand.runs_command());
    hint(Some(subcommand), name, others).unwrap_or_else(|| format!("see redouble {} --help", subcommand.name()))
}

/// What to say of a directive of a plain server's command line that does not exist.
pub(super) fn for_server_flag(name: &str) -> Option<String> {
    let own = ["--help", "--version", "--no-control"].map(str::to_owned);
    hint(None, name, directive_flags().chain(own))
}

/// What to say of a directive in a configuration file that does not exist.
pub(super) fn for_file(name: &str) -> Option<String> {
    nearest(name, directive_names()).map(|directive| format!("did you mean {directive}?"))
}

/// Whether the server has a directive of this name.
pub(super) fn is_directive(name: &str) -> bool {
    directive_names().any(|directive| directive.eq_ignore_ascii_case(name))
}

fn directive_flags() -> impl Iterator<Item = String> {
    directive_names().map(|name| format!("--{name}"))
}

fn hint(subcommand: Option<Subcommand>, name: &str, others: impl Iterator<Item = String>) -> Option<String> {
    if let Some(flag) = FLAGS.iter().find(|flag| flag.name == name) {
        let owner = flag.subcommands.first().map_or("run", |owner| owner.name());
        return Some(format!("{name} is a flag of redouble {owner}"));
    }
    let others: Vec<String> = others.collect();
    let own = subcommand.into_iter().flat_map(flags_of).map(|flag| flag.name).chain(["--help"]);
    nearest(name, own.chain(others.iter().map(String::as_str))).map(|meant| format!("did you mean {meant}?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_other_words_are_not() {
        for (word, meant) in [("runn", "run"), ("rnu", "run"), ("Audit", "audit"), ("exlpore", "explore")] {
            assert_eq!(subcommand_like(word), Some(meant), "{word}");
        }
        for word in ["redis.conf", "test", "rune.conf", "a", "", "./run"] {
            assert_eq!(subcommand_like(word), None, "{word}");
        }
    }

    #[test]
    fn a_flag_of_another_subcommand_is_told_as_such() {
        assert_eq!(for_flag(Subcommand::Report, "--junit"), "--junit is a flag of redouble run");
        assert_eq!(for_flag(Subcommand::Explore, "--ports"), "did you mean --port?");
        assert_eq!(for_flag(Subcommand::Audit, "--ports"), "see redouble audit --help");
    }
}
