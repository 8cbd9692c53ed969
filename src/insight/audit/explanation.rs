//! The page about findings, `docs/findings.md`, which the program carries with it: 58 KiB, as text. Compressed it would be 16
//! KiB, less than what a decompressor adds.

use super::code::Code;
use super::finding::Finding;
use super::key_family::key_glob;
use crate::base::markdown;
use crate::base::terminal::Ink;
use crate::base::text::{printable, utf8_or_escaped};

const PAGE: &str = include_str!("../../../docs/findings.md");

/// The heading of the part about the notation of examples, and what its rows begin with.
const NOTATION: &str = "\n## How to read this page\n";
const ROW: &str = "| `";

impl Code {
    /// What is wrong and why it matters, an example, when exactly it is reported, when not, when it may be wrong, and what
    /// to do instead: the section of the guide, in Markdown, without its heading. `redouble explain CODE` prints it.
    pub fn explanation(self) -> &'static str {
        let heading = format!("\n### {}\n", self.name());
        let section = PAGE.split_once(&heading).map_or("", |(_, section)| section);
        let end = section.find("\n### ").unwrap_or(section.len()).min(section.find("\n## ").unwrap_or(section.len()));
        section[..end].trim()
    }

    /// The command that prints the explanation.
    pub(crate) fn explain_command(self) -> String {
        format!("redouble explain {}", self.name())
    }

    /// Where the explanation stands on the web, if the package says where the sources are.
    pub(crate) fn explanation_url(self) -> Option<String> {
        page_url("findings.md").map(|page| format!("{page}#{}", self.name()))
    }

    /// The first paragraph of the explanation, as plain text on one line.
    pub(crate) fn what_is_wrong(self) -> String {
        let first = self.explanation().split("\n\n").next().unwrap_or_default();
        markdown::rendered(first, Ink(false), usize::MAX).trim_end().to_owned()
    }

    /// The explanation as plain text, each paragraph on one line.
    pub(crate) fn plain_explanation(self) -> String {
        markdown::rendered(self.explanation(), Ink(false), usize::MAX)
    }

    /// The explanation in Markdown for readers elsewhere: links lead to the web, or are text.
    pub(crate) fn portable_explanation(self) -> String {
        let mut parts = self.explanation().split("](");
        let mut text = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let Some((target, behind)) = part.split_once(')') else { continue };
            let page =
                target.strip_prefix('#').map_or_else(|| target.to_owned(), |section| format!("findings.md#{section}"));
            match (page_url(&page), text.rfind('[')) {
                (Some(url), _) => text.push_str(&format!("]({url})")),
                (None, Some(at)) => drop(text.remove(at)),
                (None, None) => {}
            }
            text.push_str(behind);
        }
        text
    }
}

/// What to type if a finding is not believed.
pub(crate) struct Doubts {
    /// What it is about.
    pub question: &'static str,
    /// What tells why the key is taken for a lock; `None` if the finding does not rest on that.
    pub ask: Option<String>,
    /// The flag that says that it is none, or that the finding is known.
    pub deny: String,
}

impl Finding {
    /// How to ask why the key is taken for a lock, and how to say that it is none.
    pub(crate) fn doubts(&self) -> Doubts {
        let key = word(&utf8_or_escaped(&self.key));
        let glob = word(&utf8_or_escaped(&key_glob(&self.key)));
        match self.code {
            Code::LostUpdate | Code::CrossSlot => {
                let known = format!("{} {} it is meant", self.code.name(), utf8_or_escaped(&key_glob(&self.key)));
                Doubts { question: "meant?", ask: None, deny: format!("--audit-allow {}", word(&known)) }
            }
            _ => Doubts {
                question: "no lock?",
                ask: Some(format!("redouble explain --key {key} journal.jsonl")),
                deny: format!("--not-locks {glob}"),
            },
        }
    }
}

impl Finding {
    /// The command that asks a running server why the key is taken for a lock, or not: `REDOUBLE LOCKS WHY lock:a`.
    pub fn why(&self) -> String {
        format!("REDOUBLE LOCKS WHY {}", word(&utf8_or_escaped(&self.key)))
    }
}

/// A word of a shell's command line.
fn word(text: &str) -> String {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_:./,@%+=".contains(letter);
    match !text.is_empty() && text.chars().all(is_plain) {
        true => text.to_owned(),
        false => format!("'{}'", printable(text).replace('\'', "'\\''")),
    }
}

/// Where a page of `docs` stands on the web: in the sources of this version, as GitHub and GitLab have them.
fn page_url(page: &str) -> Option<String> {
    let sources = env!("CARGO_PKG_REPOSITORY").trim_end_matches('/');
    (!sources.is_empty()).then(|| format!("{sources}/blob/v{}/docs/{page}", env!("CARGO_PKG_VERSION")))
}

/// All codes in groups, in the order of the page.
pub(crate) fn groups() -> Vec<(&'static str, Vec<Code>)> {
    let mut groups: Vec<(&'static str, Vec<Code>)> = Vec::new();
    for line in PAGE.lines() {
        if let Some(title) = line.strip_prefix("## ") {
            groups.push((title, Vec::new()));
        } else if let Some(code) = line.strip_prefix("### ").and_then(|name| Code::by_name(name.as_bytes()))
            && let Some((_, codes)) = groups.last_mut()
        {
            codes.push(code);
        }
    }
    groups.retain(|(_, codes)| !codes.is_empty());
    groups
}

/// How examples are written: what stands in one, and what it means.
pub(crate) fn notation() -> impl Iterator<Item = (&'static str, &'static str)> {
    let part = PAGE.split_once(NOTATION).map_or("", |(_, part)| part);
    let part = part.split("\n## ").next().unwrap_or_default();
    let rows = part.lines().filter(|line| line.starts_with(ROW));
    rows.filter_map(|row| row.strip_prefix("| ")?.strip_suffix(" |")?.split_once(" | "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_is_explained_and_listed_once() {
        let mut listed: Vec<Code> = groups().into_iter().flat_map(|(_, codes)| codes).collect();
        listed.sort();
        let mut all = Code::ALL.to_vec();
        all.sort();
        assert_eq!(listed, all);
        for code in Code::ALL {
            let text = code.explanation();
            assert!(text.contains("**Seen when**") && text.contains("**Instead**"), "{}", code.name());
            assert!(!text.contains("\n## ") && !text.contains("\n### "), "{}", code.name());
            assert!(!code.what_is_wrong().is_empty(), "{}", code.name());
        }
    }

    #[test]
    fn no_link_of_an_explanation_leads_into_a_folder_that_the_reader_may_not_have() {
        for code in Code::ALL {
            let text = code.portable_explanation();
            let targets = text.split("](").skip(1);
            assert!(targets.into_iter().all(|target| target.starts_with("https://")), "{text}");
            assert_eq!(text.matches("```").count() % 2, 0, "{text}");
        }
        assert!(notation().any(|(sign, _)| sign == "`close A`"));
    }
}
