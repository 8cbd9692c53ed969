//! Tests of rules, their effect, and their description.

use proptest::prelude::*;

use super::check::Denial;
use super::commands::Commands;
use super::databases::DatabaseContext;
use super::user::Rules;
use super::{RuleError, joined};
use crate::base::profile::Profile;
use crate::protocol::OwnedWords;
use crate::spec::{Arity, Category, Channels, CommandSpec, Flag, Group, KeySpec, Row, RowId, Table};

const fn row(name: &'static str, flags: &'static [Flag], categories: &'static [Category]) -> CommandSpec {
    CommandSpec { flags, categories, arity: Arity::AtLeast(1), ..CommandSpec::new(name) }
}

const FIRST_OF_SIXTEEN: DatabaseContext = DatabaseContext { selected: 0, count: 16 };

const READ: &[KeySpec] = &[KeySpec::one(1, &["RO", "access"])];
const WRITE: &[KeySpec] = &[KeySpec::one(1, &["OW", "update"])];
const ROWS: &[CommandSpec] = &[
    CommandSpec { keys: READ, ..row("GET", &[Flag::ReadOnly, Flag::Fast], &[Category::String]) },
    CommandSpec { keys: WRITE, ..row("SET", &[Flag::Write], &[Category::String]) },
    CommandSpec { keys: READ, ..row("STRLEN", &[Flag::ReadOnly, Flag::Fast], &[Category::String]) },
    CommandSpec { keys: READ, ..row("TYPE", &[Flag::ReadOnly, Flag::Fast], &[Category::Keyspace]) },
    row("KEYS", &[Flag::ReadOnly], &[Category::Keyspace, Category::Dangerous]),
    row("SELECT", &[Flag::Fast], &[Category::Connection]),
    row("AUTH", &[Flag::Fast, Flag::NoAuth], &[Category::Connection]),
    CommandSpec { group: Group::PubSub, channels: Channels::First, ..row("PUBLISH", &[Flag::PubSub, Flag::Fast], &[]) },
    CommandSpec { group: Group::PubSub, channels: Channels::Patterns, ..row("PSUBSCRIBE", &[Flag::PubSub], &[]) },
    CommandSpec { is_container: true, ..row("CONFIG", &[], &[]) },
];
const CONFIG: &[CommandSpec] =
    &[row("GET", &[Flag::Admin], &[]), row("SET", &[Flag::Admin], &[]), row("HELP", &[], &[])];

fn rows() -> Vec<Row> {
    let numbered = |specs: &'static [CommandSpec], first: usize| {
        let rows = specs.iter().enumerate();
        rows.map(|(place, spec)| Row::new(spec, RowId::new(first + place), Vec::new())).collect::<Vec<_>>()
    };
    let mut rows = numbered(ROWS, 0);
    rows[ROWS.len() - 1].subcommands = numbered(CONFIG, ROWS.len());
    rows
}

fn table(profile: &str) -> Table {
    let profile: Profile = profile.parse().unwrap();
    Table::new(rows(), profile)
}

fn made(commands: &Commands, words: &str) -> Result<Rules, RuleError> {
    let words: Vec<&[u8]> = words.split(' ').map(str::as_bytes).collect();
    let mut rules = Rules::new(commands, false);
    for rule in joined(&words).map_err(|_| RuleError::Syntax)? {
        rules.apply(commands, false, &rule)?;
    }
    Ok(rules)
}

fn described(profile: &str, words: &str) -> String {
    let commands = Commands::new(&table(profile));
    String::from_utf8(made(&commands, words).unwrap().describe(&commands)).unwrap()
}

/// Whether a user with these rules may run a request.
fn allows(rules: &str, request: &str) -> bool {
    let table = table("redis-7.0");
    let commands = Commands::new(&table);
    let words: OwnedWords = request.split(' ').collect();
    let spec = table.resolve(words.as_words()).unwrap().spec;
    made(&commands, rules).unwrap().check(&commands, spec, words.as_words(), FIRST_OF_SIXTEEN).is_ok()
}

#[test]
fn up_to_7_0_the_best_rules_are_found_for_a_set() {
    for (words, shown) in [
        ("on +@all", "on resetchannels +@all"),
        ("+get +set +strlen", "off resetchannels -@all +@string"),
        ("+get +set +strlen +type", "off resetchannels -@all +@string +type"),
        ("+@all -@dangerous", "off resetchannels +@all -@dangerous"),
        ("+@all -config|set", "off resetchannels +@all -config|set"),
        ("+config -config|get", "off resetchannels -@all +config -config|get"),
        ("+@all -@all +select|0 +select|1", "off resetchannels -@all +select|0 +select|1"),
        ("+select|0 +select", "off resetchannels -@all +select"),
        ("~a %R~b %W~b %w~c allchannels", "off ~a ~b %W~c &* -@all"),
        (
            "&a &b &a ( ~k +get ) (allkeys)",
            "off resetchannels &a &b -@all (~k resetchannels -@all +get) (~* resetchannels -@all)",
        ),
        ("nopass skip-sanitize-payload", "off nopass skip-sanitize-payload resetchannels -@all"),
    ] {
        assert_eq!(described("redis-7.0", words), shown, "{words}");
    }
}

#[test]
fn since_7_2_rules_are_kept_as_they_were_given() {
    for (words, shown) in [
        ("+get +set +strlen", "-@all +get +set +strlen"),
        ("+@read -get +get", "-@all +@read +get"),
        ("+config|get -CONFIG", "-@all -config"),
        ("+config -config|get", "-@all +config -config|get"),
        ("+get +@all -@DANGEROUS", "+@all -@dangerous"),
    ] {
        assert_eq!(described("redis-7.2", words), format!("off sanitize-payload resetchannels {shown}"), "{words}");
    }
}

#[test]
fn wrong_rules_are_refused() {
    let commands = Commands::new(&table("redis-7.0"));
    for (words, error) in [
        ("foo", RuleError::Syntax),
        ("+", RuleError::Unknown),
        ("+nope", RuleError::Unknown),
        ("-@nope", RuleError::Unknown),
        ("+get|", RuleError::Syntax),
        ("-get|x", RuleError::Unknown),
        ("+config|nope", RuleError::Unknown),
        ("+config|get|x", RuleError::PartOfSubcommand),
        ("%~x", RuleError::Syntax),
        ("%RR~x", RuleError::Syntax),
        ("~* ~x", RuleError::AfterAllKeys),
        ("&* &x", RuleError::AfterAllChannels),
        ("<x", RuleError::NoSuchPassword),
        ("#x", RuleError::Hash),
        ("(on)", RuleError::Syntax),
        ("(+get", RuleError::Syntax),
    ] {
        assert_eq!(made(&commands, words).unwrap_err(), error, "{words}");
    }
}

#[test]
fn what_any_selector_allows_is_allowed() {
    for (rules, request) in [
        ("+get ~a*", "GET abc"),
        ("-@all", "AUTH x"),
        ("+select|0", "SELECT 0"),
        ("+get %R~a", "GET a"),
        ("+@string %W~a", "SET a 1"),
        ("+publish &c*", "PUBLISH chat x"),
        ("+psubscribe &c*", "PSUBSCRIBE c*"),
        ("+config|get", "CONFIG GET x"),
        ("+get ~a (+set ~b)", "SET b 1"),
    ] {
        assert!(allows(rules, request), "{rules}: {request}");
    }
    for (rules, request) in [
        ("+get ~a*", "GET b"),
        ("-@all", "GET x"),
        ("+select|0", "SELECT 1"),
        ("+select|0", "SELECT"),
        ("+get %W~a", "GET a"),
        ("+@string %R~a", "SET a 1"),
        ("+publish &c*", "PUBLISH d x"),
        ("+psubscribe &c*", "PSUBSCRIBE ch"),
        ("+config|get", "CONFIG SET x"),
        ("+get ~a (+set ~b)", "SET a 1"),
    ] {
        assert!(!allows(rules, request), "{rules}: {request}");
    }
}

fn rule() -> impl Strategy<Value = String> {
    let part = prop::sample::select(vec![
        "on",
        "off",
        "nopass",
        "resetpass",
        ">x",
        ">y",
        "skip-sanitize-payload",
        "sanitize-payload",
        "~a",
        "%R~a",
        "%W~b*",
        "%RW~c",
        "resetkeys",
        "&a",
        "&b*",
        "resetchannels",
        "+get",
        "-get",
        "+set",
        "+type",
        "-type",
        "+keys",
        "+config",
        "-config",
        "+config|get",
        "-config|set",
        "+select|0",
        "+select|x",
        "+select",
        "-select",
        "+@string",
        "-@string",
        "+@keyspace",
        "-@dangerous",
        "+@admin",
        "-@fast",
        "+@slow",
        "+@all",
        "-@all",
        "+@connection",
        "(+get ~k)",
        "(%R~x +@read &c)",
        "(allkeys allchannels +@all -get)",
        "clearselectors",
        "reset",
    ]);
    prop::collection::vec(part, 1..12).prop_map(|parts| parts.join(" "))
}

proptest! {
    #[test]
    fn a_description_makes_the_same_rules_again(words in rule(), profile in prop::sample::select(vec!["redis-7.0", "redis-7.2"])) {
        let commands = Commands::new(&table(profile));
        let rules = made(&commands, &words).unwrap();
        let text = String::from_utf8(rules.describe(&commands)).unwrap();
        let again = made(&commands, &text).unwrap();
        prop_assert_eq!(&String::from_utf8(again.describe(&commands)).unwrap(), &text);
        for row in ROWS.iter().chain(CONFIG) {
            for key in ["a", "b1", "k", "x", "0"] {
                let request: OwnedWords = [row.name, key, key].iter().collect();
                let words = request.as_words();
                prop_assert_eq!(rules.check(&commands, row, words, FIRST_OF_SIXTEEN), again.check(&commands, row, words, FIRST_OF_SIXTEEN));
            }
        }
    }
}

#[test]
fn scripts_hear_of_denials_in_words_of_their_own() {
    let text = |profile: &str, denial: Denial| {
        let profile: Profile = profile.parse().unwrap();
        String::from_utf8(denial.in_script(&profile, b"svc", "get")).unwrap()
    };
    assert_eq!(
        text("redis-7.0", Denial::Command),
        "The user executing the script can't run this command or subcommand"
    );
    assert_eq!(
        text("redis-7.0", Denial::Key(1)),
        "The user executing the script can't access at least one of the keys mentioned in the command arguments"
    );
    assert_eq!(
        text("redis-7.0", Denial::Channel(1)),
        "The user executing the script can't publish to the channel mentioned in the command"
    );
    assert_eq!(text("redis-7.2", Denial::Key(1)), "ACL failure in script: No permissions to access a key");
    assert_eq!(
        text("redis-7.2", Denial::Command),
        "ACL failure in script: User svc has no permissions to run the 'get' command"
    );
}

#[test]
fn losing_a_channel_is_noticed_and_gaining_one_is_not() {
    let commands = Commands::new(&table("redis-7.0"));
    let rules = |words| made(&commands, words).unwrap();
    for (before, after) in [("&a", "&a &b"), ("&a", "allchannels"), ("on", "off"), ("&a", "on (&a)")] {
        assert!(rules(after).keep_channels_of(&rules(before)), "{before} to {after}");
    }
    for (before, after) in [("&a &b", "&a"), ("allchannels", "&a"), ("&a", "&a*"), ("on (&a)", "on")] {
        assert!(!rules(after).keep_channels_of(&rules(before)), "{before} to {after}");
    }
}
