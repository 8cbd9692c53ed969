//! Markdown as text for a terminal: what this repository's pages use of it in running text.

use super::terminal::{Ink, columns_of, wrap};

/// What stands in front of the lines of a block of code.
const CODE_INDENT: &str = "    ";

/// What stands between the columns of a table.
const GAP: &str = "  ";

/// Headings, paragraphs, lists, tables and blocks of code, in lines of at most so many columns, each with its end. Blocks of code
/// are not broken. A link is shown as its text, because its target is a page that the reader may not have.
pub fn rendered(markdown: &str, ink: Ink, width: usize) -> String {
    let mut text = Rendering { ink, width, lines: Vec::new(), paragraph: Vec::new(), table: Vec::new() };
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
        } else if line.starts_with('|') {
            text.table.push(line);
        } else {
            if line.starts_with("- ") {
                text.end_paragraph();
            }
            text.paragraph.push(line);
        }
    }
    text.end_paragraph();
    let lines: Vec<&str> = text.lines.iter().map(|line| line.trim_end()).collect();
    let lines = lines.join("\n");
    format!("{}\n", lines.trim_matches('\n'))
}

struct Rendering<'a> {
    ink: Ink,
    width: usize,
    lines: Vec<String>,
    /// The lines of the paragraph or of the item of a list that is not over yet.
    paragraph: Vec<&'a str>,
    /// The rows of the table that is not over yet.
    table: Vec<&'a str>,
}

impl Rendering<'_> {
    fn end_paragraph(&mut self) {
        self.end_table();
        if self.paragraph.is_empty() {
            return;
        }
        let words: Vec<&str> = self.paragraph.drain(..).flat_map(|line| line.split_whitespace()).collect();
        let rest = if words.first() == Some(&"-") { "  " } else { "" };
        self.lines.extend(wrap(&spans(&words.join(" "), self.ink), "", rest, self.width));
    }
}

impl Rendering<'_> {
    /// Adds the rows, each column but the last as wide as its widest cell. If these leave too little room, the cells of a row
    /// stand in one paragraph.
    fn end_table(&mut self) {
        let rows: Vec<Vec<String>> = self.table.drain(..).filter_map(|row| cells(row, self.ink)).collect();
        let count = rows.first().map_or(0, Vec::len).saturating_sub(1);
        let widest = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| columns_of(cell)).max();
        let widths: Vec<usize> = (0..count).map(|column| widest(column).unwrap_or(0) + GAP.len()).collect();
        let fixed: usize = widths.iter().sum();
        for row in &rows {
            if fixed > self.width / 2 {
                self.lines.extend(wrap(&row.join("; "), GAP, "      ", self.width));
                continue;
            }
            let Some((last, others)) = row.split_last() else { continue };
            let mut first = GAP.to_owned();
            for (cell, width) in others.iter().zip(&widths) {
                first.push_str(&format!("{cell}{}", " ".repeat(width.saturating_sub(columns_of(cell)))));
            }
            let rest = " ".repeat(GAP.len() + fixed);
            self.lines.extend(wrap(last, &first, &rest, self.width));
        }
    }
}

/// The cells of a row; `None` for a line between rows, and for a head without titles.
fn cells(row: &str, ink: Ink) -> Option<Vec<String>> {
    let inside = row.trim_matches('|');
    let is_empty = inside.bytes().all(|byte| b"|-: ".contains(&byte));
    (!is_empty).then(|| inside.split('|').map(|cell| spans(cell.trim(), ink)).collect())
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
fn span(text: &str, ink: Ink) -> Option<(String, &str)> {
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
    fn a_table_has_columns_if_there_is_room_for_them() {
        let table = "| status | |\n|---|---|\n| 0 | all is [well](a.md) |\n| 128 + n | signal n has ended it |\n";
        let shown = "  status   \n  0        all is well\n  128 + n  signal n has\n           ended it\n";
        assert_eq!(rendered(table, Ink(false), 24), shown.replace("status   ", "status"));
        let narrow = "  status; \n  0; all is well\n  128 + n; signal\n      n has ended\n      it\n";
        assert_eq!(rendered(table, Ink(false), 17), narrow.replace("; \n", ";\n"));
    }

    #[test]
    fn a_mark_without_its_counterpart_is_text() {
        assert_eq!(rendered("2 * 3 < 7 [x] `", Ink(false), 80), "2 * 3 < 7 [x] `\n");
    }
}
