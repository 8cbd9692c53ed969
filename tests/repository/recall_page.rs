//! The page about recall and precision has the figures that `make programs` compares with.

use std::collections::BTreeMap;

const PAGE: &str = include_str!("../../docs/decisions/0027-recall-and-precision.md");
const FLOORS: &str = include_str!("../programs/floors.toml");
const MANIFEST: &str = include_str!("../programs/manifest.toml");

/// The groups of the recorded figures, and their names on the page.
const GROUPS: &[(&str, &str)] = &[
    ("a", "programs, set a"),
    ("b", "programs, set b"),
    ("c", "programs, set c"),
    ("d", "programs, set d"),
    ("e", "programs, set e"),
    ("even", "histories, even seeds"),
    ("odd", "histories, odd seeds"),
];

type Figures = BTreeMap<&'static str, u32>;

/// Returns the figures of each group.
fn floors() -> BTreeMap<&'static str, Figures> {
    let mut groups: BTreeMap<&str, Figures> = BTreeMap::new();
    let mut group = "";
    for line in FLOORS.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
            group = name;
        } else {
            let (name, figure) = line.split_once(" = ").expect("name = figure");
            groups.entry(group).or_default().insert(name, figure.parse().expect("a number"));
        }
    }
    groups
}

/// Returns how many programs of the manifest have all of these lines.
fn listed(lines: &[String]) -> u32 {
    let entries = MANIFEST.split("[[program]]\n").skip(1);
    let has_all = |entry: &&str| lines.iter().all(|line| entry.lines().any(|found| found == line));
    entries.filter(has_all).count().try_into().expect("a small number")
}

#[test]
fn the_page_has_the_figures_that_are_compared() {
    let floors = floors();
    assert_eq!(floors.keys().copied().collect::<Vec<_>>(), GROUPS.iter().map(|(group, _)| *group).collect::<Vec<_>>());
    for (group, name) in GROUPS {
        let figures = &floors[group];
        let of = |part: &str, whole: &str| format!("{} of {}", figures[part], figures[whole]);
        let row = format!(
            "| {name} | {} | {} | {} | {} | {} |",
            of("found", "wrong"),
            of("found_declared", "wrong"),
            of("accused", "right"),
            of("accused_declared", "right"),
            figures["warnings"]
        );
        assert!(PAGE.lines().any(|line| line == row), "the page has no line\n{row}");
    }
}

#[test]
fn the_figures_are_those_of_all_programs() {
    let floors = floors();
    for set in ["a", "b", "c", "d", "e"] {
        for (expected, whole) in [("error", "wrong"), ("none", "right")] {
            let lines = [format!("set = \"{set}\""), format!("expected = \"{expected}\"")];
            assert_eq!(floors[set][whole], listed(&lines), "{whole} programs of {set}");
        }
    }
}
