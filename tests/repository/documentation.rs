//! The pages agree with the code, and their links lead to existing pages and sections.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use redouble::Code;
use redouble::internals::{all_commands, markdown};

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Returns the files directly in a folder with this extension, and their text.
fn files(folder: &str, extension: &str) -> BTreeMap<PathBuf, String> {
    let paths = fs::read_dir(root().join(folder)).unwrap().map(|entry| entry.unwrap().path());
    let paths = paths.filter(|path| path.extension().is_some_and(|found| found == extension));
    paths.map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

fn findings_page() -> String {
    fs::read_to_string(root().join("docs/findings.md")).unwrap()
}

#[test]
fn the_list_of_commands_is_current() {
    let path = root().join("docs/commands.md");
    let page = markdown(all_commands());
    if std::env::var_os("REDOUBLE_WRITE_DOCS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert!(written == page, "docs/commands.md is not what the command table says: run `make docs`");
}

#[test]
fn every_command_is_on_the_page() {
    let page = markdown(all_commands());
    for row in all_commands() {
        assert!(page.contains(&format!("\n### {}\n", row.spec.name)), "{}", row.spec.name);
        for subcommand in row.subcommands {
            assert!(
                page.contains(&format!("\n- `{} {}", row.spec.name, subcommand.spec.name)),
                "{}",
                subcommand.spec.name
            );
        }
    }
}

#[test]
fn every_finding_has_a_section_that_its_name_leads_to_and_no_section_is_of_another() {
    let page = findings_page();
    let sections: Vec<&str> = page.lines().filter_map(|line| line.strip_prefix("### ")).collect();
    for code in Code::ALL {
        let count = sections.iter().filter(|section| **section == code.name()).count();
        assert_eq!(count, 1, "sections of {} in docs/findings.md", code.name());
    }
    let unknown = sections.iter().find(|section| Code::by_name(section.as_bytes()).is_none());
    assert_eq!(unknown, None, "a section of docs/findings.md without a finding");
}

#[test]
fn the_table_of_findings_has_their_severities_and_titles_in_the_order_of_the_page() {
    let page = findings_page();
    let sections = page.lines().filter_map(|line| line.strip_prefix("### "));
    let rows = sections.map(|name| {
        let code = Code::by_name(name.as_bytes()).unwrap_or_else(|| panic!("there is no finding {name}"));
        format!("| [{name}](#{name}) | {} | {} |", code.severity().name(), code.title())
    });
    let shown: Vec<&str> = page.lines().filter(|line| line.starts_with("| [")).collect();
    let rows: Vec<String> = rows.collect();
    for (shown, row) in shown.iter().zip(&rows) {
        assert_eq!(shown, row);
    }
    assert_eq!(shown.len(), rows.len(), "rows of the table, and sections");
}

#[test]
fn every_section_about_a_finding_says_when_it_is_seen_when_it_is_not_and_what_to_do() {
    for section in findings_page().split("\n### ").skip(1) {
        let name = section.lines().next().unwrap();
        let mut rest = section.split("\n## ").next().unwrap();
        for part in
            ["```text", "**Seen when**", "**Silent when**", "**May be wrong when**", "**Instead**", "**Severity:**"]
        {
            let found = rest.find(part).unwrap_or_else(|| panic!("{name} has no {part} where it belongs"));
            rest = &rest[found + part.len()..];
        }
    }
}

#[test]
fn every_finding_has_a_story_with_the_mistake_and_the_same_done_right() {
    let stories: String = files("tests/audit", "rs").into_values().collect();
    for code in Code::ALL {
        assert!(stories.contains(&format!("code: Code::{code:?},")), "{} has no pair of stories", code.name());
    }
}

/// Returns the anchor of a heading, the part of a link after `#`.
fn anchor(heading: &str) -> String {
    let heading = heading.to_lowercase();
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.map(|c| if c == ' ' { '-' } else { c }).collect()
}

/// Returns the lines of a page outside code blocks.
fn prose(page: &str) -> impl Iterator<Item = &str> {
    let mut is_code = false;
    page.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        !is_code && !is_fence
    })
}

/// Returns the link targets of a page as written.
fn links(page: &str) -> Vec<String> {
    let text = prose(page).collect::<Vec<_>>().join("\n");
    // Text between backticks is code, so a link in it does not count.
    let shown: String = text.split('`').step_by(2).collect::<Vec<_>>().join("`");
    let targets = shown.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    targets.map(|(target, _)| target.to_owned()).collect()
}

#[test]
fn every_link_between_pages_leads_somewhere() {
    let mut wrong = Vec::new();
    let pages = [files(".", "md"), files("docs", "md"), files("docs/decisions", "md")];
    for (path, page) in pages.iter().flatten() {
        for link in links(page).iter().filter(|link| !link.contains("://")) {
            let (file, section) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap().join(file) };
            let is_there = target.exists()
                && (section.is_empty()
                    || prose(&fs::read_to_string(&target).unwrap_or_default())
                        .filter(|line| line.starts_with('#'))
                        .any(|line| anchor(line.trim_start_matches('#').trim()) == section));
            if !is_there {
                wrong.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_index_leads_to_every_page() {
    let index = root().join("docs/README.md");
    let linked: Vec<String> = links(&fs::read_to_string(&index).unwrap())
        .into_iter()
        .map(|link| link.split('#').next().unwrap_or_default().to_owned())
        .collect();
    for path in files("docs", "md").keys().filter(|path| **path != index) {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(linked.iter().any(|link| link == name), "docs/README.md does not lead to {name}");
    }
}

#[test]
fn the_quick_start_for_rust_shows_a_test_of_this_repository() {
    let read = |path: &str| fs::read_to_string(root().join(path)).unwrap();
    let (page, test) = (read("docs/quickstart-rust.md"), read("tests/powers/quickstart_tokio.rs"));
    assert!(
        page.contains(&format!("\n```rust\n{test}```\n")),
        "it shows another test than tests/powers/quickstart_tokio.rs"
    );
    for name in test.lines().filter_map(|line| line.strip_prefix("async fn ")?.split_once("() ->")) {
        assert!(page.contains(&format!("\ntest {} ... ok\n", name.0)), "{}", name.0);
    }
}

#[test]
fn every_page_is_led_to_by_another() {
    let pages: Vec<_> = [files(".", "md"), files("docs", "md")].into_iter().flatten().collect();
    for path in files("docs", "md").keys() {
        let name = path.file_name().unwrap().to_str().unwrap();
        let leads = |(other, page): &(PathBuf, String)| {
            other != path && links(page).iter().any(|link| link.split('#').next().unwrap().ends_with(name))
        };
        assert!(pages.iter().any(leads), "nothing leads to {}", path.display());
    }
}
