//! Text for a terminal: emphasis, and lines that fit.

/// Emphasis by control sequences; none if this is false.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ink(pub bool);

impl Ink {
    pub fn bold(self, text: &str) -> String {
        self.with("1", text)
    }

    pub fn faint(self, text: &str) -> String {
        self.with("2", text)
    }

    pub fn red(self, text: &str) -> String {
        self.with("1;31", text)
    }

    pub fn yellow(self, text: &str) -> String {
        self.with("1;33", text)
    }

    pub fn cyan(self, text: &str) -> String {
        self.with("1;36", text)
    }

    /// What can be typed: commands, keys.
    pub fn code(self, text: &str) -> String {
        self.with("36", text)
    }

    fn with(self, code: &str, text: &str) -> String {
        if self.0 && !text.is_empty() { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}

/// Breaks a text at its spaces into lines of at most so many columns, as far as its words permit. The first line begins
/// with `first`, the others with `rest`. Control sequences have no width.
pub fn wrap(text: &str, first: &str, rest: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let (mut line, mut columns) = (first.to_owned(), columns_of(first));
    let mut is_begun = false;
    for word in text.split(' ') {
        let needed = columns_of(word);
        if is_begun && columns + 1 + needed > width {
            lines.push(std::mem::replace(&mut line, rest.to_owned()));
            columns = columns_of(rest);
            is_begun = false;
        }
        if is_begun {
            line.push(' ');
            columns += 1;
        }
        line.push_str(word);
        columns += needed;
        is_begun = true;
    }
    lines.push(line);
    lines
}

/// How many columns a text takes: its characters without control sequences.
pub fn columns_of(text: &str) -> usize {
    let mut parts = text.split("\x1b[");
    let first = parts.next().map_or(0, |part| part.chars().count());
    first + parts.map(|part| part.split_once('m').map_or(0, |(_, shown)| shown.chars().count())).sum::<usize>()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_at_spaces_and_control_sequences_have_no_width() {
        assert_eq!(wrap("one two three", "- ", "  ", 9), ["- one two", "  three"]);
        let bold = Ink(true).bold("two three");
        assert_eq!(wrap(&format!("one {bold}"), "", "", 7), ["one \x1b[1mtwo", "three\x1b[0m"]);
        assert_eq!(wrap("unbreakable it is", "", "", 4), ["unbreakable", "it", "is"]);
        assert_eq!(wrap("", "  ", "  ", 4), ["  "]);
    }

    #[test]
    fn without_ink_text_stays_as_it_is() {
        assert_eq!(Ink(false).red("a"), "a");
        assert_eq!(Ink(true).red("a"), "\x1b[1;31ma\x1b[0m");
    }
}
