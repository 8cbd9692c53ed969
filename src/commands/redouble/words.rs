//! The notation in which the words of an action are declared, and what is read out of it.
//!
//! It is the notation of all rows (`spec/usage.rs`): capitals are keywords, other words name arguments, `[ ]` may be left
//! out, `< | >` is a choice. HELP and error texts spell keywords in small letters and put arguments in angle brackets.

/// The words as HELP and error texts spell them: `[key <glob>]` for `[KEY glob]`.
pub(super) fn spelled(words: &str) -> String {
    let mut line = String::new();
    let mut rest = words;
    while let Some(next) = rest.chars().next() {
        let end = match next {
            '[' | '<' => {
                let end = closing(rest);
                let inside = &rest[1..end];
                line.push(next);
                line.push_str(&if is_plain_choice(inside) { compact(inside) } else { spelled(inside) });
                end
            }
            ' ' | '|' | ']' | '>' => {
                line.push(next);
                1
            }
            _ => {
                let end = rest.find([' ', '|', '[', ']', '<', '>']).unwrap_or(rest.len());
                line.push_str(&match &rest[..end] {
                    "..." => "...".to_owned(),
                    word if is_keyword(word) => word.to_ascii_lowercase(),
                    word => format!("<{word}>"),
                });
                end
            }
        };
        rest = &rest[end..];
    }
    line
}

/// The keywords of an action's words, wherever they stand.
pub(super) fn keywords(words: &str) -> impl Iterator<Item = &str> {
    words.split([' ', '|', '[', ']', '<', '>']).filter(|word| is_keyword(word))
}

/// The options of an action, each without its brackets: `KEY glob`. Those between which there is a choice are told apart;
/// an argument that may be left out is no option.
pub(super) fn options(words: &str) -> Vec<&str> {
    let mut options = Vec::new();
    let mut rest = words;
    while let Some(start) = rest.find(['[', '<']) {
        let end = start + closing(&rest[start..]);
        if rest[start..].starts_with('[') {
            let choices = alternatives(&rest[start + 1..end]);
            options.extend(choices.into_iter().filter(|option| option.split(' ').next().is_some_and(is_keyword)));
        }
        rest = &rest[end..];
    }
    options
}

/// The keywords with which the options of an action begin, in small letters.
pub(super) fn option_names(words: &str) -> Vec<String> {
    options(words).into_iter().filter_map(|option| Some(option.split(' ').next()?.to_ascii_lowercase())).collect()
}

/// `a, b or c`.
pub(super) fn either(names: &[String]) -> String {
    match names {
        [] => String::new(),
        [name] => name.clone(),
        [names @ .., last] => format!("{} or {last}", names.join(", ")),
    }
}

/// Whether a word stands for itself. `0..1` names an argument by its range.
pub(super) fn is_keyword(word: &str) -> bool {
    !word.is_empty() && word != "..." && !word.contains(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
}

/// Where the bracket closes with which a text begins.
fn closing(text: &str) -> usize {
    let mut depth = 0;
    for (at, next) in text.char_indices() {
        match next {
            '[' | '<' => depth += 1,
            ']' | '>' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// What stands between the bars of a text that are in no bracket.
fn alternatives(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let (mut depth, mut start) = (0, 0);
    for (at, next) in text.char_indices() {
        match next {
            '[' | '<' => depth += 1,
            ']' | '>' => depth -= 1,
            '|' if depth == 0 => {
                found.push(text[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
    }
    found.push(text[start..].trim());
    found
}

/// Whether a text is a choice between single words.
fn is_plain_choice(text: &str) -> bool {
    let choices = alternatives(text);
    choices.len() > 1 && choices.iter().all(|choice| !choice.contains([' ', '[', '<']))
}

fn compact(choice: &str) -> String {
    alternatives(choice).join("|").to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORDS: &str = "ADD name [ON command [command ...]] [CLIENT <name-glob | id>] [BEFORE | AFTER] [CHANCE 0..1] \
                         [count] <ERROR text | CLOSE-BEFORE>";

    #[test]
    fn keywords_are_spelled_small_and_arguments_in_brackets() {
        assert_eq!(
            spelled(WORDS),
            "add <name> [on <command> [<command> ...]] [client <name-glob|id>] [before|after] [chance <0..1>] [<count>] \
             <error <text> | close-before>"
        );
        assert_eq!(spelled("<code | *> reason"), "<code|*> <reason>");
    }

    #[test]
    fn options_are_what_may_be_left_out_and_begins_with_a_keyword() {
        assert_eq!(
            options(WORDS),
            ["ON command [command ...]", "CLIENT <name-glob | id>", "BEFORE", "AFTER", "CHANCE 0..1"]
        );
        assert_eq!(either(&option_names(WORDS)), "on, client, before, after or chance");
        let all: Vec<&str> = keywords(WORDS).collect();
        assert_eq!(all, ["ADD", "ON", "CLIENT", "BEFORE", "AFTER", "CHANCE", "ERROR", "CLOSE-BEFORE"]);
    }
}
