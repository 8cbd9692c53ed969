//! Markdown as text for a terminal: what this repository's pages use of it in running text.

use super::terminal::{Ink, wrap};

/// What stands in front of the lines of a block of code.
const CODE_INDENT: &str = "    ";

/// Headings, paragraphs, lists and blocks of code, in lines of at most so many columns, each with its end. Blocks of code
/// are not broken. A link is shown as its text, because its target is a page that the reader may not have.
pub fn rendered(markdown: &str, ink: Ink, width: usize) -> String {
    let mut text = Rendering { ink, width, lines: Vec::new(), paragraph: Vec::new() };
    let mut is_code = false;
    for line in markdown.lines() {
        if line.starts_with("```") {
            text.end_paragraph();
            is_code = !is_code;
        } else if is_code {
            text.lines.push(format!("{CODE_INDENT}{}", ink.code(line)));
        } else if line.is_empty() {
            text.end_paragraph();
            text.lines.push(String::new());
        } else if let Some(heading) = line.strip_prefix('#') {
            text.end_paragraph();
            text.lines.push(ink.bold(heading.trim_start_matches('#').trim_start()));
        } else {
            if line.starts_with("- ") {
                text.end_paragraph();
            }
            text.paragraph.push(line);
        }
    }
    text.end_paragraph();
    let lines = text.lines.join("\n");
    format!("{}\n", lines.trim_matches('\n'))
}

struct Rendering<'a> {
    ink: Ink,
    width: usize,
    lines: Vec<String>,
    /// The lines of the paragraph or of the item of a list that is not over yet.
    paragraph: Vec<&'a str>,
}

impl Rendering<'_> {
    fn end_paragraph(&mut self) {
        if self.paragraph.is_empty() {
            return;
        }
        let words: Vec<&str> = self.paragraph.drain(..).flat_map(|line| line.split_whitespace()).collect();
        let rest = if words.first() == Some(&"-") { "  " } else { "" };
        self.lines.extend(wrap(&spans(&words.join(" "), self.ink), "", rest, self.width));
    }
}

/// Running text with its links, code and emphasis.
fn spans(text: &str, ink: Ink) -> String {
    let mut shown = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', '[', '*', '<']) {
        let (before, marked) = rest.split_at(at);
        shown.push_str(before);
        let Some((span, behind)) = span(marked, ink) else {
            // The mark is a character like any other.
            shown.push_str(&marked[..1]);
            rest = &marked[1..];
            continue;
        };
        shown.push_str(&span);
        rest = behind;
    }
    shown.push_str(rest);
    shown
}

/// The marked text that this begins with, and what is behind it.
fn span<'a>(text: &'a str, ink: Ink) -> Option<(String, &'a str)> {
    let between = |open: &str, close: &str| text.strip_prefix(open)?.split_once(close);
    match text.as_bytes().first()? {
        b'`' => {
            let (code, behind) = between("`", "`")?;
            Some((if ink.0 { ink.code(code) } else { format!("`{code}`") }, behind))
        }
        b'[' => {
            let (label, behind) = between("[", "](")?;
            let (_, behind) = behind.split_once(')')?;
            Some((spans(label, ink), behind))
        }
        b'<' => {
            let (address, behind) = between("<", ">").filter(|(address, _)| address.contains("://"))?;
            Some((address.to_owned(), behind))
        }
        _ => match between("**", "**") {
            Some((strong, behind)) => Some((ink.bold(strong), behind)),
            None => between("*", "*").map(|(word, behind)| (word.to_owned(), behind)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "### a-code\n\nWrong [here](#there), and `a *b*`\nnot **at all**.\n\n```text\nSET lock {a}\n```\n\n\
                        - one item, which\n  is long\n- two";

    #[test]
    fn a_page_reads_without_its_marks() {
        let shown = "a-code\n\nWrong here, and `a *b*`\nnot at all.\n\n    SET lock {a}\n\n- one item, which is\n  long\n- two\n";
        assert_eq!(rendered(PAGE, Ink(false), 24), shown);
    }

    #[test]
    fn on_a_terminal_marks_become_emphasis() {
        let shown = rendered(PAGE, Ink(true), 80);
        assert!(shown.starts_with("\x1b[1ma-code\x1b[0m\n\nWrong here, and \x1b[36ma *b*\x1b[0m not \x1b[1mat all"));
        assert!(!shown.contains('`') && !shown.contains("]("), "{shown}");
    }

    #[test]
    fn a_mark_without_its_counterpart_is_text() {
        assert_eq!(rendered("2 * 3 < 7 [x] `", Ink(false), 80), "2 * 3 < 7 [x] `\n");
    }
}
