//! The walls of `docs/architecture.md`, kept by reading the source.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The floors from bottom to top: each may use those in front of it.
const FLOORS: &[&str] = &[
    "base", "protocol", "spec", "data", "script", "powers", "insight", "clients", "commands", "engine", "server",
    "cli", "main",
];

/// What the architecture page leaves out: it only calls the floor below it.
const UNMENTIONED: &str = "main";

/// What stands at the top, beside files and folders whose names begin with a dot, which belong to people's tools.
const TOP: &[&str] = &[
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "Makefile",
    "README.md",
    "benches",
    "clippy.toml",
    "docs",
    "examples",
    "packages",
    "rustfmt.toml",
    "src",
    "target",
    "tests",
];

fn sources() -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                found.insert(path.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().to_owned(), text);
            }
        }
    }
    found
}

/// The parts of a file's path behind `src`, without the ending and without `mod`: `data/keyspace/mod.rs` is
/// `["data", "keyspace"]`.
fn module(path: &Path) -> Vec<String> {
    let mut parts: Vec<String> = path
        .with_extension("")
        .components()
        .skip(1)
        .map(|part| part.as_os_str().to_string_lossy().into_owned())
        .collect();
    if parts.last().is_some_and(|last| last == "mod") {
        parts.pop();
    }
    parts
}

fn floor(name: &str) -> usize {
    FLOORS.iter().position(|floor| *floor == name).unwrap_or_else(|| panic!("{name} has no place in FLOORS"))
}

/// The modules that a text names behind `crate::`, as far as they are written in small letters.
fn named(text: &str) -> BTreeSet<Vec<String>> {
    let paths = text.split("crate::").skip(1).map(|rest| {
        let end = rest.find(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == ':'));
        rest[..end.unwrap_or(rest.len())].split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect()
    });
    paths.filter(|path: &Vec<String>| !path.is_empty()).collect()
}

#[test]
fn nothing_that_a_server_or_a_test_has_left_stands_at_the_top() {
    let entries = fs::read_dir(env!("CARGO_MANIFEST_DIR")).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let strays: Vec<_> = names.filter(|name| !name.starts_with('.') && !TOP.contains(&name.as_str())).collect();
    assert!(strays.is_empty(), "{strays:?}: remove it, or name it in TOP if people and Cargo expect it there");
}

#[test]
fn no_import_is_grouped_so_that_this_test_cannot_read_it() {
    let grouped: Vec<_> =
        sources().into_iter().filter(|(_, text)| text.contains("crate::{")).map(|(path, _)| path).collect();
    assert!(grouped.is_empty(), "{grouped:?}");
}

#[test]
fn imports_run_downwards_only() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let own = module(&path).remove(0);
        if own == "lib" {
            continue;
        }
        for used in named(&text) {
            let used = used[0].as_str();
            if floor(used) > floor(&own) {
                wrong.push(format!("{} uses {used}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Floors that are only a roof over modules, between which there is no circle either.
const ROOFS: &[&str] = &["base", "data", "insight", "clients"];

#[test]
fn the_modules_of_a_floor_make_no_circle() {
    for roof in ROOFS {
        let mut arrows: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (path, text) in sources() {
            let own = module(&path);
            if own.len() < 2 || own[0] != *roof {
                continue;
            }
            let used = named(&text).into_iter().filter(|used| used.len() > 1 && used[0] == *roof && used[1] != own[1]);
            arrows.entry(own[1].clone()).or_default().extend(used.map(|mut used| used.remove(1)));
        }
        assert_eq!(circle(&arrows), None, "in {roof}");
    }
}

/// The modules that stay when those are taken away, again and again, that use none of the others.
fn circle(arrows: &BTreeMap<String, BTreeSet<String>>) -> Option<BTreeSet<String>> {
    let mut left: BTreeSet<String> = arrows.keys().cloned().collect();
    loop {
        let free: Vec<String> = left.iter().filter(|module| arrows[*module].is_disjoint(&left)).cloned().collect();
        if free.is_empty() {
            return (!left.is_empty()).then_some(left);
        }
        left.retain(|module| !free.contains(module));
    }
}

/// The files of the auditor, each with those that it uses by `super::` or `crate::insight::audit::`, or re-exports.
fn arrows_of_the_auditor() -> BTreeMap<String, BTreeSet<String>> {
    let home = ["insight", "audit"];
    let files: BTreeMap<Vec<String>, (bool, String)> = sources()
        .into_iter()
        .filter_map(|(path, text)| {
            let own = module(&path).strip_prefix(&home.map(str::to_owned))?.to_vec();
            Some((own, (path.ends_with("mod.rs"), text)))
        })
        .collect();
    let mut arrows = BTreeMap::new();
    for (own, (is_folder, text)) in &files {
        let mut used: Vec<Vec<String>> = Vec::new();
        let above = own[..own.len().saturating_sub(1)].to_vec();
        used.extend(paths_behind("super::", text).into_iter().map(|path| [above.clone(), path].concat()));
        used.extend(paths_behind("crate::insight::audit::", text));
        if *is_folder {
            used.extend(paths_behind(" use ", text).into_iter().map(|path| [own.clone(), path].concat()));
        }
        // The file that a path leads into: the longest part of it that is one.
        let file = |path: Vec<String>| {
            (0..=path.len()).rev().map(|end| path[..end].to_vec()).find(|part| files.contains_key(part))
        };
        let used = used.into_iter().filter_map(file).filter(|used| used != own).map(|used| used.join("::")).collect();
        arrows.insert(own.join("::"), used);
    }
    arrows
}

/// The paths in small letters that follow a word in a text.
fn paths_behind(word: &str, text: &str) -> Vec<Vec<String>> {
    let paths = text.split(word).skip(1).map(|rest| {
        let end = rest.find(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_' || c == ':'));
        let path = &rest[..end.unwrap_or(rest.len())];
        path.split("::").filter(|part| !part.is_empty()).map(str::to_owned).collect::<Vec<_>>()
    });
    // `super::*` stands in the tests of a file.
    paths.filter(|path| !path.is_empty() && path[0] != "crate" && path[0] != "std").collect()
}

#[test]
fn the_auditor_has_no_circle_at_all() {
    let arrows = arrows_of_the_auditor();
    assert!(arrows["lock_tracker"].contains("rules") && arrows["rules::tokens"].contains("lock"), "{arrows:?}");
    assert_eq!(circle(&arrows), None);
}

#[test]
fn the_page_has_the_floors_in_their_order() {
    let page = include_str!("../../docs/architecture.md");
    let rows = page.lines().skip_while(|line| *line != "## Floors").take_while(|line| *line != "## What never happens");
    let names: Vec<&str> = rows.filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let floors: Vec<&str> = FLOORS.iter().copied().filter(|floor| *floor != UNMENTIONED).collect();
    assert_eq!(names, floors);
}

#[test]
fn each_floor_says_what_it_knows_what_it_may_use_and_where_to_begin() {
    let sources = sources();
    for floor in FLOORS.iter().filter(|floor| **floor != UNMENTIONED) {
        let head = &sources[&Path::new("src").join(floor).join("mod.rs")];
        let head: String = head.lines().take_while(|line| line.starts_with("//!")).collect::<Vec<_>>().join("\n");
        for word in ["Knows ", "May use: ", "Begin with "] {
            assert!(head.contains(word), "the head of {floor} has no line that begins with {word:?}");
        }
    }
}

/// Fails for every file but those in `homes` in which `word` stands.
fn only_in(homes: &[&str], word: &str) {
    let elsewhere: Vec<_> = sources()
        .into_iter()
        .filter(|(path, text)| !homes.iter().any(|home| path.ends_with(home)) && text.contains(word))
        .map(|(path, _)| path.display().to_string())
        .collect();
    assert!(
        elsewhere.is_empty(),
        "`{word}` belongs into {} alone, and stands in {}",
        homes.join(", "),
        elsewhere.join(", ")
    );
}

#[test]
fn two_files_know_hashbrown() {
    only_in(&["keyspace/indexed/places.rs", "keyspace/watch.rs"], "hashbrown::");
}

#[test]
fn one_module_knows_luas_c_interface() {
    only_in(&["script/lua/mod.rs", "script/lua/frame.rs"], "mlua_sys");
}

#[test]
fn blocks_prefetching_and_the_interface_to_lua_alone_are_unsafe() {
    for word in ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"] {
        only_in(&["keyspace/block.rs", "keyspace/store.rs", "script/lua/mod.rs", "script/lua/frame.rs"], word);
    }
}

#[test]
fn time_has_one_source() {
    for word in ["SystemTime::now", "Instant::now", "clock_gettime", "thread::sleep", "time::sleep", "time::interval"] {
        only_in(&["clock.rs"], word);
    }
}

#[test]
fn no_state_is_global() {
    for (path, text) in sources() {
        for line in text.lines().map(str::trim_start) {
            let is_static = line.starts_with("static ") || line.starts_with("pub static ");
            let has_scratch =
                path.ends_with("server/connection/mod.rs") || path.ends_with("server/upstream/connection.rs");
            let is_scratch = has_scratch && line.starts_with("static SCRATCH");
            // What the event loop of a thread does, which tokio asks for without a context.
            let is_of_loop = path.ends_with("server/turn.rs");
            assert!(!is_static || is_scratch || is_of_loop, "{}: {line}", path.display());
        }
    }
}

#[test]
fn files_stay_small_enough_to_read_in_one_sitting() {
    for (path, text) in sources() {
        let lines = text.lines().count();
        assert!(lines <= 800, "{} has {lines} lines", path.display());
    }
}

/// A file that no `mod` names is compiled by nobody, and its tests never run.
#[test]
fn every_file_of_tests_is_named_in_the_main_file_of_its_binary() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    for folder in
        fs::read_dir(tests).unwrap().map(|entry| entry.unwrap().path()).filter(|path| path.join("main.rs").is_file())
    {
        let main = fs::read_to_string(folder.join("main.rs")).unwrap();
        for path in fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()) {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            if path.extension().is_some_and(|extension| extension == "rs") && name != "main" {
                let named = main.lines().any(|line| line.trim_start_matches("pub ") == format!("mod {name};"));
                assert!(named, "{} is named nowhere in main.rs", path.display());
            }
        }
    }
}

/// The last part of a function's name in the form of the linker, if it stands in a module of this crate as it is.
fn plain_name(symbol: &str) -> Option<&str> {
    let (mut rest, mut last) = (symbol.strip_prefix("_ZN8redouble")?, "");
    while !rest.starts_with("17h") {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let length: usize = rest[..digits].parse().ok()?;
        (last, rest) = (rest.get(digits..digits + length)?, &rest[digits + length..]);
    }
    last.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_').then_some(last)
}

/// The linker ignores what it does not find, so nothing else would tell that the list is old.
#[test]
fn the_functions_that_the_linker_puts_together_are_still_there() {
    let order = include_str!("../../packages/link_order.ld");
    let names = order.lines().filter_map(|line| plain_name(line.trim().strip_prefix("*(.text.*")?));
    let names: BTreeSet<&str> = names.collect();
    let text: String = sources().into_values().collect();
    let gone: Vec<_> = names.iter().filter(|name| !text.contains(&format!("fn {name}"))).collect();
    assert!(names.len() > 100, "{} names of functions in packages/link_order.ld", names.len());
    assert!(gone.len() * 10 <= names.len(), "run `make link-order`: there are no functions any more called {gone:?}");
}
