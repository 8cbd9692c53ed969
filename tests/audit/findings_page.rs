//! The examples of `docs/findings.md` are played: each mistake is found, and of what is to be done instead nothing is said.

use redouble::Code;

use super::story::{found, nothing_is_found};

const PAGE: &str = include_str!("../../docs/findings.md");

/// The fenced stories of a section.
fn stories(section: &str) -> Vec<&str> {
    let blocks = section.split("\n```").skip(1).step_by(2);
    blocks.filter_map(|block| block.strip_prefix("text\n")).collect()
}

/// The stories in each section, by code.
fn sections() -> Vec<(Code, Vec<&'static str>)> {
    let sections = PAGE.split("\n### ").skip(1).map(|section| {
        let (name, rest) = section.split_once('\n').expect("a heading and what is below it");
        let rest = rest.split("\n## ").next().unwrap_or_default();
        (Code::by_name(name.as_bytes()).unwrap_or_else(|| panic!("there is no finding {name}")), stories(rest))
    });
    sections.collect()
}

#[test]
fn the_mistake_that_a_section_shows_is_found() {
    for (code, stories) in sections() {
        let wrong = stories.first().unwrap_or_else(|| panic!("{} shows no mistake", code.name()));
        assert!(found(code, wrong).is_some(), "no {} in\n{wrong}", code.name());
    }
}

#[test]
fn of_what_a_section_says_is_right_nothing_is_said() {
    for (code, stories) in sections() {
        assert!(stories.len() <= 2, "{} shows more than a mistake and what is right", code.name());
        stories.iter().skip(1).for_each(|right| nothing_is_found(right));
    }
}
