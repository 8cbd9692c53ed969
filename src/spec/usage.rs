//! The parser of usages, whose result COMMAND DOCS shows as a tree of arguments.
//!
//! Upper case is a word to type, lower case names an argument, `[ ]` is optional, `< | >` is a choice, and `[key value
//! ...]` repeats what precedes it. A word in upper case belongs to the arguments after it.

use super::command_spec::{CommandSpec, Group};
use super::key_spec::{BeginSearch, FindKeys, KeySpec};
use crate::base::profile::Profile;

/// An argument, or a group of arguments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    pub name: String,
    pub kind: ArgumentKind,
    /// The word before the argument, or the word that it is.
    pub token: Option<&'static str>,
    pub optional: bool,
    pub multiple: bool,
    /// Repeated together with its token.
    pub multiple_token: bool,
    /// For keys: the index of the key specification in the row.
    pub key_spec: Option<usize>,
    pub arguments: Vec<Argument>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    Key,
    String,
    Integer,
    Double,
    Pattern,
    UnixTime,
    PureToken,
    OneOf,
    Block,
}

impl ArgumentKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Key => "key",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Double => "double",
            Self::Pattern => "pattern",
            Self::UnixTime => "unix-time",
            Self::PureToken => "pure-token",
            Self::OneOf => "oneof",
            Self::Block => "block",
        }
    }

    /// Whether it consists of other arguments.
    pub fn is_group(self) -> bool {
        matches!(self, Self::OneOf | Self::Block)
    }
}

/// Parses the usage that a row has in a profile. The error describes a fault in the notation. `first` is the position
/// of the first argument in a request: 1, or 2 for a subcommand.
pub fn arguments(spec: &'static CommandSpec, first: usize, profile: &Profile) -> Result<Vec<Argument>, String> {
    let mut parser = Parser { text: spec.usage_in(profile), at: 0, spec };
    let alternatives = parser.alternatives(None)?;
    let mut arguments = match <[Vec<Argument>; 1]>::try_from(alternatives.choices) {
        Ok([arguments]) => arguments,
        Err(choices) => vec![one_of(choices)],
    };
    find_keys(&mut arguments, &mut Some(first), spec);
    Ok(arguments)
}

struct Parser {
    text: &'static str,
    at: usize,
    spec: &'static CommandSpec,
}

struct Alternatives {
    choices: Vec<Vec<Argument>>,
    /// The repetition `[... ...]` of the whole group follows it.
    repeated: bool,
}

/// An argument and its range in the text.
struct Item {
    argument: Argument,
    start: usize,
    end: usize,
}

impl Parser {
    /// Parses choices separated by bars, up to a closing bracket or the end.
    fn alternatives(&mut self, close: Option<char>) -> Result<Alternatives, String> {
        let start = self.at;
        let mut choices = Vec::new();
        let mut items: Vec<Item> = Vec::new();
        let mut repeated = false;
        loop {
            self.skip_blanks();
            let item_start = self.at;
            match self.rest().chars().next() {
                None if close.is_none() => break,
                None => return Err(format!("a bracket is not closed: {}", &self.text[start..])),
                Some(next) if Some(next) == close => {
                    self.at += 1;
                    break;
                }
                Some('|') => {
                    self.at += 1;
                    choices.push(bind(std::mem::take(&mut items)));
                    continue;
                }
                Some('[') => {
                    if let Some((again, end)) = self.repetition()? {
                        let whole = self.text[start..item_start].trim();
                        if !repeat(self.text, &mut items, again) {
                            if whole != again {
                                return Err(format!("nothing in front of [{again} ...] reads like it"));
                            }
                            repeated = true;
                        }
                        self.at = end;
                        continue;
                    }
                    self.at += 1;
                    let mut argument = group(self.alternatives(Some(']'))?)?;
                    argument.optional = true;
                    items.push(Item { argument, start: item_start, end: self.at });
                }
                Some('<') => {
                    self.at += 1;
                    let argument = group(self.alternatives(Some('>'))?)?;
                    items.push(Item { argument, start: item_start, end: self.at });
                }
                Some(']' | '>') => return Err(format!("a bracket too many: {}", self.rest())),
                Some(_) => {
                    let argument = word(self.take_word(), self.spec);
                    items.push(Item { argument, start: item_start, end: self.at });
                }
            }
        }
        choices.push(bind(items));
        Ok(Alternatives { choices, repeated })
    }

    /// The repeated text and the end of the bracket, if `[text ...]` follows.
    fn repetition(&self) -> Result<Option<(&'static str, usize)>, String> {
        let mut depth = 0;
        for (offset, next) in self.rest().char_indices() {
            match next {
                '[' => depth += 1,
                ']' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                let inside = self.rest()[1..offset].trim_end();
                return Ok(inside.strip_suffix("...").map(|again| (again.trim(), self.at + offset + 1)));
            }
        }
        Err(format!("a bracket is not closed: {}", self.rest()))
    }

    fn take_word(&mut self) -> &'static str {
        let rest = self.rest();
        let end = rest.find(|c: char| c.is_whitespace() || "[]<>|".contains(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }

    fn skip_blanks(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn rest(&self) -> &'static str {
        &self.text[self.at..]
    }
}

/// Marks the trailing items whose text is `again` as repeated. False if there are none.
fn repeat(text: &str, items: &mut Vec<Item>, again: &str) -> bool {
    let Some(end) = items.last().map(|item| item.end) else { return false };
    let Some(from) = (0..items.len()).rev().find(|&from| &text[items[from].start..end] == again) else { return false };
    let start = items[from].start;
    let mut argument = block(bind(items.split_off(from)));
    argument.multiple = true;
    argument.multiple_token = argument.token.is_some() && argument.kind != ArgumentKind::PureToken;
    items.push(Item { argument, start, end });
    true
}

fn group(alternatives: Alternatives) -> Result<Argument, String> {
    let Alternatives { mut choices, repeated } = alternatives;
    if choices.iter().any(Vec::is_empty) {
        return Err("a choice between something and nothing".to_owned());
    }
    let mut argument = match choices.len() {
        1 => block(choices.remove(0)),
        _ => one_of(choices),
    };
    argument.multiple |= repeated;
    Ok(argument)
}

fn one_of(choices: Vec<Vec<Argument>>) -> Argument {
    compound(ArgumentKind::OneOf, choices.into_iter().map(block).collect())
}

/// Groups several arguments into one.
fn block(mut arguments: Vec<Argument>) -> Argument {
    if arguments.len() == 1 { arguments.remove(0) } else { compound(ArgumentKind::Block, arguments) }
}

fn compound(kind: ArgumentKind, arguments: Vec<Argument>) -> Argument {
    let names: Vec<&str> = arguments.iter().map(|argument| argument.name.as_str()).collect();
    Argument { kind, arguments: arguments.clone(), ..plain(&names.join("_"), kind) }
}

fn plain(name: &str, kind: ArgumentKind) -> Argument {
    Argument {
        name: name.to_owned(),
        kind,
        token: None,
        optional: false,
        multiple: false,
        multiple_token: false,
        key_spec: None,
        arguments: Vec::new(),
    }
}

/// Attaches to each word in upper case the arguments after it, up to the next such word or optional part.
fn bind(items: Vec<Item>) -> Vec<Argument> {
    let mut bound: Vec<Argument> = Vec::new();
    let mut items = items.into_iter().map(|item| item.argument).peekable();
    while let Some(argument) = items.next() {
        let (ArgumentKind::PureToken, false) = (argument.kind, argument.optional) else {
            bound.push(argument);
            continue;
        };
        let mut own = Vec::new();
        while let Some(next) = items.next_if(|next| next.kind != ArgumentKind::PureToken && !next.optional) {
            own.push(next);
        }
        if own.is_empty() {
            bound.push(argument);
        } else {
            let mut owner = block(own);
            owner.token = argument.token;
            bound.push(owner);
        }
    }
    bound
}

fn word(word: &'static str, spec: &CommandSpec) -> Argument {
    if word.contains(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit()) {
        plain(word, kind_of(word, spec))
    } else {
        let name = match word {
            "=" => "equal".to_owned(),
            "~" => "approximately".to_owned(),
            "*" if spec.group == Group::Stream => "auto_id".to_owned(),
            "$" => "new_id".to_owned(),
            "CH" => "change".to_owned(),
            "INCR" => "increment".to_owned(),
            word => word.to_ascii_lowercase(),
        };
        Argument { token: Some(word), ..plain(&name, ArgumentKind::PureToken) }
    }
}

/// The type of an argument, by its name. All rows use the same names for the same types.
fn kind_of(name: &str, spec: &CommandSpec) -> ArgumentKind {
    match name {
        "pattern" | "glob" | "name-glob" | "client-name-glob" => ArgumentKind::Pattern,
        _ if name.starts_with("unix-time") => ArgumentKind::UnixTime,
        "increment" if spec.name.ends_with("FLOAT") => ArgumentKind::Double,
        "num-matches" | "rank" | "stop" if spec.group == Group::List => ArgumentKind::Integer,
        "timeout" if matches!(spec.group, Group::List | Group::SortedSet) => ArgumentKind::Double,
        "longitude" | "latitude" | "radius" | "width" | "height" | "factor" | "0..1" => ArgumentKind::Double,
        "score" if spec.group == Group::SortedSet => ArgumentKind::Double,
        "min" | "max" if spec.name == "ZCOUNT" || spec.name.ends_with("BYSCORE") => ArgumentKind::Double,
        // Ids of entries.
        "start" | "end" if spec.group == Group::Stream => ArgumentKind::String,
        // Ranks, scores or members.
        "start" | "stop" if spec.name == "ZRANGE" => ArgumentKind::String,
        "stop" if spec.group == Group::SortedSet => ArgumentKind::Integer,
        "min-idle-time" if spec.name == "XPENDING" => ArgumentKind::Integer,
        "value" if spec.group == Group::Bitmap => ArgumentKind::Integer,
        "bit" | "client-id" | "count" | "cursor" | "db" | "decrement" | "destination-db" | "end" | "entries_added"
        | "entries_read" | "frequency" | "increment" | "index" | "index1" | "index2" | "len" | "limit"
        | "milliseconds" | "min-match-len" | "ms" | "number" | "numids" | "numkeys" | "numlocal" | "numreplicas"
        | "offset" | "protover" | "seconds" | "seq" | "start" | "timeout" | "ttl" | "weight" => ArgumentKind::Integer,
        _ => ArgumentKind::String,
    }
}

/// Marks the arguments that are keys, as far as their positions are certain.
fn find_keys(arguments: &mut [Argument], position: &mut Option<usize>, spec: &CommandSpec) {
    let mut counted = false;
    for argument in arguments {
        let only_a_token = argument.kind == ArgumentKind::PureToken;
        // The keys after `numkeys` have a certain position, even if they are optional.
        let mut here = if argument.optional && !counted { None } else { *position };
        counted = argument.name == "numkeys";
        if argument.token.is_some() && !only_a_token {
            here = here.map(|here| here + 1);
        }
        let halves = |keys: &KeySpec| matches!((keys.begin_search, keys.find_keys), (BeginSearch::Keyword { word, .. }, FindKeys::LimitedRange { .. }) if Some(word) == argument.token);
        if let Some(keys) = spec.keys.iter().position(halves)
            && let Some(first) = argument.arguments.first_mut()
        {
            first.kind = ArgumentKind::Key;
            first.key_spec = Some(keys);
            continue;
        }
        match argument.kind {
            ArgumentKind::Block => find_keys(&mut argument.arguments, &mut here, spec),
            ArgumentKind::OneOf => {
                let word = argument.arguments.iter().all(|choice| choice.kind == ArgumentKind::PureToken);
                here = here.filter(|_| word).map(|here| here + 1);
            }
            _ => {
                let named = |keys: &KeySpec| match keys.begin_search {
                    BeginSearch::Keyword { word, .. } => argument.token == Some(word) && argument.name == "key",
                    BeginSearch::Index(_) => here.is_some_and(|here| keys.covers(here)),
                    BeginSearch::Unknown => false,
                };
                let keys = spec.keys.iter().position(|keys| keys.are_keys() && named(keys));
                let unplaced = |made: fn(&KeySpec) -> bool| spec.keys.iter().position(made);
                if argument.kind == ArgumentKind::Pattern {
                    argument.key_spec = unplaced(|keys| matches!(keys.find_keys, FindKeys::Computed(_)));
                } else if argument.token == Some("STORE")
                    && unplaced(|keys| matches!(keys.find_keys, FindKeys::Function(_))).is_some()
                {
                    argument.key_spec = unplaced(|keys| matches!(keys.find_keys, FindKeys::Function(_)));
                    argument.kind = ArgumentKind::Key;
                } else if let (Some(keys), false) = (keys, only_a_token) {
                    argument.kind = ArgumentKind::Key;
                    argument.key_spec = Some(keys);
                }
                here = here.map(|here| here + 1);
            }
        }
        *position = if argument.multiple { None } else { here };
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Arity, KeySpec};
    use super::*;

    const KEYED: CommandSpec =
        CommandSpec { arity: Arity::AtLeast(2), keys: &[KeySpec::one(1, &["RW"])], ..CommandSpec::new("TEST") };

    /// The tree in one line: names, types, tokens and flags.
    fn shown(arguments: &[Argument]) -> String {
        let show = |argument: &Argument| {
            let mut text = format!("{}:{}", argument.name, argument.kind.name());
            if let Some(token) = argument.token {
                text += &format!("={token}");
            }
            for (flag, sign) in [(argument.optional, "?"), (argument.multiple, "*"), (argument.multiple_token, "+")] {
                text += if flag { sign } else { "" };
            }
            if let Some(keys) = argument.key_spec {
                text += &format!("#{keys}");
            }
            if argument.kind.is_group() {
                text += &format!("({})", shown(&argument.arguments));
            }
            text
        };
        arguments.iter().map(show).collect::<Vec<_>>().join(" ")
    }

    fn parsed(spec: CommandSpec) -> String {
        let spec: &'static CommandSpec = Box::leak(Box::new(spec));
        arguments(spec, 1, &Profile::default()).map_or_else(|error| format!("error: {error}"), |tree| shown(&tree))
    }

    #[test]
    fn options_with_values_and_choices_between_them() {
        let usage = "key value [NX | XX] [GET] [EX seconds | PXAT unix-time-milliseconds | KEEPTTL]";
        assert_eq!(
            parsed(CommandSpec { usage, ..KEYED }),
            "key:key#0 value:string nx_xx:oneof?(nx:pure-token=NX xx:pure-token=XX) get:pure-token=GET? \
             seconds_unix-time-milliseconds_keepttl:oneof?(seconds:integer=EX unix-time-milliseconds:unix-time=PXAT \
             keepttl:pure-token=KEEPTTL)"
        );
    }

    #[test]
    fn repetitions_of_one_argument_of_several_and_of_a_whole_group() {
        const MANY: &[KeySpec] = &[KeySpec::range(1, -1, 2, &["OW"])];
        let spec = CommandSpec { keys: MANY, usage: "key value [key value ...]", ..KEYED };
        assert_eq!(parsed(spec), "key_value:block*(key:key#0 value:string)");
        let usage = "[PREFIX prefix [PREFIX prefix ...]] [ID client-id [client-id ...]]";
        assert_eq!(parsed(CommandSpec { usage, ..KEYED }), "prefix:string=PREFIX?*+ client-id:integer=ID?*");
        let usage = "key [GET encoding offset | [OVERFLOW <WRAP | SAT>] <SET offset value | INCRBY offset increment> \
                     [GET encoding offset | [OVERFLOW <WRAP | SAT>] <SET offset value | INCRBY offset increment> ...]]";
        assert_eq!(
            parsed(CommandSpec { usage, ..KEYED }),
            "key:key#0 encoding_offset_wrap_sat_offset_value_offset_increment:oneof?*(\
             encoding_offset:block=GET(encoding:string offset:integer) \
             wrap_sat_offset_value_offset_increment:block(wrap_sat:oneof=OVERFLOW?(wrap:pure-token=WRAP \
             sat:pure-token=SAT) offset_value_offset_increment:oneof(offset_value:block=SET(offset:integer value:string) \
             offset_increment:block=INCRBY(offset:integer increment:integer))))"
        );
    }

    #[test]
    fn keys_are_found_by_position_whatever_they_are_called() {
        const TWO: &[KeySpec] = &[KeySpec::one(2, &["OW"]), KeySpec::range(3, -1, 1, &["RO"])];
        let spec = CommandSpec { keys: TWO, usage: "<AND | NOT> destkey key [key ...]", ..KEYED };
        assert_eq!(parsed(spec), "and_not:oneof(and:pure-token=AND not:pure-token=NOT) destkey:key#0 key:key*#1");
        const COUNTED: &[KeySpec] = &[KeySpec::counted(1, 1, 2, &["OW"])];
        let spec = CommandSpec { keys: COUNTED, usage: "numkeys key value [key value ...] [NX]", ..KEYED };
        assert_eq!(parsed(spec), "numkeys:integer key_value:block*(key:key#0 value:string) nx:pure-token=NX?");
    }

    #[test]
    fn what_is_not_the_notation_is_refused() {
        for usage in ["key [NX", "key ]", "key [value ...]", "[ | NX]"] {
            assert!(parsed(CommandSpec { usage, ..KEYED }).starts_with("error: "), "{usage}");
        }
    }
}
