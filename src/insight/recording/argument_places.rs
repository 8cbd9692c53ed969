//! Which words of a request are values: read from the usages of commands.

use std::collections::HashMap;

use crate::protocol::{Words, parse_integer};
use crate::spec::{Argument, ArgumentKind, LockEffect, ResolvedRow, Table, arguments};

/// What a word of a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A name of a command, an option, a key, a channel, a script.
    Name,
    /// A duration, an index, a count: kept if it is a number.
    Number,
    Value,
}

/// The places of a command's arguments, as its usage says.
struct Places {
    /// Those of the arguments in front of all optional and repeated ones.
    leading: Vec<Place>,
    /// The words to type, each with the places of the arguments that belong to it.
    options: Vec<(&'static str, Vec<Place>)>,
    /// What all others are: names if they can be nothing else.
    others: Place,
}

/// The places of all commands that were seen.
#[derive(Default)]
pub struct ArgumentPlaces {
    known: HashMap<usize, Places>,
}

impl ArgumentPlaces {
    /// What each word of a request is. All arguments of an unknown command are values.
    pub fn of(&mut self, table: &Table, words: Words<'_>) -> Vec<Place> {
        let mut places = vec![Place::Value; words.len()];
        let Some(row) = table.row_of(words) else {
            let is_name = |word: &[u8]| word.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(byte));
            if words.get(0).is_some_and(|name| name.len() <= 32 && is_name(name)) {
                places[0] = Place::Name;
            }
            return places;
        };
        let known = self.known.entry(row.id.index()).or_insert_with(|| Places::of(row, table));
        places[..row.at.min(words.len())].fill(Place::Name);
        known.fill(words, row.at, &mut places);
        let keys = row.spec.keys.iter().filter_map(|keys| keys.positions_to_lock(words)).flatten();
        for at in keys {
            if let Some(place) = places.get_mut(at) {
                *place = Place::Name;
            }
        }
        let counts_member = row.spec.lock_effect == LockEffect::CountMember;
        for (at, word) in words.iter().enumerate() {
            let place = &mut places[at];
            let is_number =
                || word.len() <= 20 && std::str::from_utf8(word).is_ok_and(|text| text.parse::<f64>().is_ok());
            if *place == Place::Number && !is_number() {
                *place = Place::Value;
            }
            // How often a lock is entered or left.
            if counts_member && at == 3 && parse_integer(word).is_some_and(|by| by.unsigned_abs() < 1000) {
                *place = Place::Number;
            }
        }
        places
    }
}

impl Places {
    fn of(row: ResolvedRow, table: &Table) -> Self {
        let parsed = arguments(row.spec, row.at, table.profile()).unwrap_or_default();
        let is_single =
            |argument: &&Argument| !argument.multiple && argument.token.is_none() && !argument.kind.is_group();
        let is_fixed = |argument: &&Argument| is_single(argument) && !argument.optional;
        let mut leading: Vec<Place> = parsed.iter().take_while(is_fixed).map(place_of).collect();
        let mut rest = parsed[leading.len()..].iter().filter(|argument| argument.token.is_none()).peekable();
        let has_rest = rest.peek().is_some();
        let others =
            if has_rest && rest.all(|other| place_of(other) == Place::Name) { Place::Name } else { Place::Value };
        // All arguments of HELLO are optional together.
        if let [all] = parsed.as_slice()
            && all.kind == ArgumentKind::Block
            && all.token.is_none()
            && !all.multiple
        {
            leading = all.arguments.iter().take_while(is_fixed).map(place_of).collect();
        }
        let mut options = Vec::new();
        parsed.iter().for_each(|argument| add_options(argument, &mut options));
        Self { leading, options, others }
    }

    fn fill(&self, words: Words<'_>, from: usize, places: &mut [Place]) {
        let mut at = from;
        for place in &self.leading {
            if let Some(known) = places.get_mut(at) {
                *known = *place;
            }
            at += 1;
        }
        while let Some(word) = words.get(at) {
            places[at] = self.others;
            let option = self.options.iter().find(|(name, _)| word.eq_ignore_ascii_case(name.as_bytes()));
            if let Some((_, own)) = option {
                places[at] = Place::Name;
                for place in own {
                    at += 1;
                    if let Some(known) = places.get_mut(at) {
                        *known = *place;
                    }
                }
            }
            at += 1;
        }
    }
}

fn add_options(argument: &Argument, options: &mut Vec<(&'static str, Vec<Place>)>) {
    if let Some(token) = argument.token {
        let own = match argument.kind {
            ArgumentKind::PureToken | ArgumentKind::OneOf => Vec::new(),
            ArgumentKind::Block => {
                argument.arguments.iter().take_while(|own| own.token.is_none()).map(place_of).collect()
            }
            _ => vec![place_of(argument)],
        };
        options.push((token, own));
    }
    argument.arguments.iter().for_each(|inside| add_options(inside, options));
}

fn place_of(argument: &Argument) -> Place {
    match argument.kind {
        ArgumentKind::Key | ArgumentKind::Pattern | ArgumentKind::PureToken => Place::Name,
        ArgumentKind::UnixTime => Place::Number,
        // These are what is stored.
        ArgumentKind::Integer => match argument.name.as_str() {
            "increment" | "decrement" | "value" | "bit" | "weight" | "seq" => Place::Value,
            _ => Place::Number,
        },
        ArgumentKind::Double if argument.name == "timeout" => Place::Number,
        ArgumentKind::String => match argument.name.as_str() {
            "channel" | "shardchannel" | "sha1" | "script" | "function" | "function-code" | "connection-name"
            | "clientname" | "newkey" => Place::Name,
            _ => Place::Value,
        },
        ArgumentKind::Double | ArgumentKind::OneOf | ArgumentKind::Block => Place::Value,
    }
}
