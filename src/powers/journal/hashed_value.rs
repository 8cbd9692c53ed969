//! The text that stands for a value in a recording: `h:` and 16 hexadecimal digits. Equal values have equal texts.

/// What can be told of a value that is hidden: how programs use such values, not what it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueClass {
    /// Most probably unique.
    Token,
    /// Anything else that nobody guesses.
    Text,
    /// Two to eleven digits.
    Number,
    /// One digit.
    Digit,
    /// Others can guess it, or make it, too.
    Guessable,
    /// A single byte, or a word such as `locked`.
    Trivial,
}

const PREFIX: &[u8] = b"h:";
const DIGITS: usize = 16;

impl ValueClass {
    const ALL: [Self; 6] = [Self::Token, Self::Text, Self::Number, Self::Digit, Self::Guessable, Self::Trivial];

    /// What stands behind the digits. Most values of locks are tokens, and have no mark.
    fn mark(self) -> &'static str {
        match self {
            Self::Token => "",
            Self::Text => "text",
            Self::Number => "number",
            Self::Digit => "digit",
            Self::Guessable => "guessable",
            Self::Trivial => "trivial",
        }
    }

    /// The class of the value that a text stands for; `None` if the text stands for no other value.
    pub fn of_hashed(text: &[u8]) -> Option<Self> {
        let (digits, rest) = text.strip_prefix(PREFIX)?.split_at_checked(DIGITS)?;
        if !digits.iter().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
            return None;
        }
        let Some(rest) = rest.strip_prefix(b":") else { return rest.is_empty().then_some(Self::Token) };
        let mark = rest.split(|byte| *byte == b':').next().unwrap_or_default();
        // Without a mark, a time follows.
        Self::ALL.into_iter().find(|class| class.mark().as_bytes() == mark).or(Some(Self::Token))
    }
}

/// The text for a value with this hash. `time` is one that the value ends with.
pub fn hashed_value(hash: u64, class: ValueClass, time: Option<&str>) -> String {
    let mark = Some(class.mark()).filter(|mark| !mark.is_empty());
    let further = mark.into_iter().chain(time).map(|part| format!(":{part}"));
    format!("h:{hash:016x}{}", further.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_class_of_a_hidden_value_can_be_read_again() {
        for class in ValueClass::ALL {
            for time in [None, Some("1700000010")] {
                let text = hashed_value(0xab, class, time);
                assert_eq!(ValueClass::of_hashed(text.as_bytes()), Some(class), "{text}");
            }
        }
        for other in ["", "h:", "h:00000000000000zz", "h:00000000000000ab-", "token", "h:00ab"] {
            assert_eq!(ValueClass::of_hashed(other.as_bytes()), None, "{other}");
        }
    }
}
