//! The walls of `docs/architecture.md`, kept by reading the source.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Modules from top to bottom: each may use those above it.
const LAYERS: &[&str] = &[
    "error",
    "duration",
    "clock",
    "profile",
    "glob",
    "log",
    "files",
    "resp",
    "geo",
    "hyperloglog",
    "listpack",
    "rdb",
    "keyspace",
    "seed",
    "control",
    "audit",
    "report",
    "config",
    "identity",
    "stats",
    "acl",
    "session",
    "pubsub",
    "tracking",
    "script",
    "fleet",
    "instance",
    "spec",
    "commands",
    "engine",
    "server",
    "cli",
    "main",
];

/// What the architecture page leaves out: it only calls the layer above it.
const UNMENTIONED: &str = "main";

/// The arrows that point upwards, which the architecture page explains.
const EXCEPTIONS: &[(&str, &str)] = &[("session", "spec"), ("acl", "spec")];

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

/// The module of the crate that a file belongs to: the first name behind `src`.
fn module(path: &Path) -> String {
    let name = path.components().nth(1).unwrap().as_os_str().to_string_lossy().into_owned();
    name.trim_end_matches(".rs").to_owned()
}

fn layer(module: &str) -> usize {
    LAYERS.iter().position(|layer| *layer == module).unwrap_or_else(|| panic!("{module} has no place in LAYERS"))
}

#[test]
fn imports_run_downwards_only() {
    let mut wrong = Vec::new();
    for (path, text) in sources() {
        let own = module(&path);
        if own == "lib" {
            continue;
        }
        for used in text.split("crate::").skip(1) {
            let used: String = used.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect();
            if used.is_empty() || EXCEPTIONS.contains(&(&own, &used)) {
                continue;
            }
            if layer(&used) > layer(&own) {
                wrong.push(format!("{} uses {used}", path.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_page_has_the_layers_in_their_order() {
    let page = include_str!("../../docs/architecture.md");
    let rows = page.lines().skip_while(|line| *line != "## Layers").take_while(|line| *line != "## What never happens");
    let names = rows.filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    let names: Vec<&str> = names.flat_map(|cell| cell.split(", ")).map(|name| name.trim_matches('`')).collect();
    let layers: Vec<&str> = LAYERS.iter().copied().filter(|layer| *layer != UNMENTIONED).collect();
    assert_eq!(names, layers);
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
fn one_file_knows_dashmap() {
    only_in(&["keyspace/store.rs"], "dashmap::");
    only_in(&["keyspace/store.rs", "keyspace/indexed.rs"], "hashbrown::");
}

#[test]
fn one_module_knows_luas_c_interface() {
    only_in(&["script/lua/mod.rs", "script/lua/frame.rs"], "mlua_sys");
}

#[test]
fn the_store_and_the_interface_to_lua_alone_are_unsafe() {
    for word in ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern"] {
        only_in(&["keyspace/store.rs", "script/lua/mod.rs", "script/lua/frame.rs"], word);
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
            let is_scratch = path.ends_with("server/connection.rs") && line.starts_with("static SCRATCH");
            assert!(!is_static || is_scratch, "{}: {line}", path.display());
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
