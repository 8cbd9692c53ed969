//! The powers in other languages: each example is a separate program that uses only a client library and `REDIS_URL`.

mod failover;
mod guide;
#[path = "../../locks/packages.rs"]
mod packages;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use packages::{COMMON, COMMON_NODE, NodePackages, node_modules, python};

/// The largest number of lines of an example, because short examples are the point.
const LONGEST: usize = 40;

static PYTHON: OnceLock<Result<PathBuf, String>> = OnceLock::new();
static NODE: OnceLock<Result<PathBuf, String>> = OnceLock::new();

fn story(name: &str) -> PathBuf {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/repository/languages").join(name);
    let lines = std::fs::read_to_string(&path).expect("the story").lines().count();
    assert!(lines < LONGEST, "{name} takes {lines} lines");
    path
}

/// Runs the program with a new server. It also fails if a fault never fires or a gate is never reached.
fn tell(interpreter: &Path, name: &str, modules: &Path) {
    let mut run = Command::new(env!("CARGO_BIN_EXE_redouble"));
    run.args(["run", "--strict", "--"]).arg(interpreter).arg(story(name)).env("NODE_PATH", modules);
    let output = run.output().expect("redouble run");
    let said = [output.stdout, output.stderr].concat();
    assert!(output.status.success(), "{name}: {}\n{}", output.status, String::from_utf8_lossy(&said));
}

fn tell_in_python(name: &str) {
    let interpreter = PYTHON.get_or_init(|| python(COMMON)).as_ref().expect("redis-py");
    tell(interpreter, &format!("python/{name}.py"), Path::new(""));
}

fn tell_in_node(name: &str) {
    let modules = NODE.get_or_init(|| node_modules(COMMON_NODE)).as_ref().expect("ioredis");
    tell(Path::new("node"), &format!("node/{name}.js"), modules);
}

#[test]
fn redis_py_tells_a_lost_reply_from_a_command_that_never_ran() {
    tell_in_python("lost_reply");
}

#[test]
fn redis_py_holds_a_lock_for_its_last_millisecond() {
    tell_in_python("expired_lease");
}

#[test]
fn redis_py_plays_the_documented_race_always_the_same_way() {
    tell_in_python("deadlock_race");
}

#[test]
fn ioredis_tells_a_lost_reply_from_a_command_that_never_ran() {
    tell_in_node("lost_reply");
}

#[test]
fn ioredis_holds_a_lock_for_its_last_millisecond() {
    tell_in_node("expired_lease");
}

#[test]
fn ioredis_plays_the_documented_race_always_the_same_way() {
    tell_in_node("deadlock_race");
}

/// The packages of the quick start for vitest.
const VITEST: NodePackages = NodePackages {
    name: "vitest",
    package: include_str!("vitest/package.json"),
    lock: include_str!("vitest/package-lock.json"),
};

/// Returns an empty folder.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("redouble-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// Returns the search path for programs: the folder of `interpreter`, this project's, and the usual ones.
fn path(interpreter: Option<&Path>) -> String {
    let folder = |path: &Path| path.parent().expect("it is in a folder").display().to_string();
    let redouble = folder(Path::new(env!("CARGO_BIN_EXE_redouble")));
    let others = std::env::var("PATH").unwrap_or_default();
    interpreter.map(folder).into_iter().chain([redouble, others]).collect::<Vec<_>>().join(":")
}

#[test]
fn the_guide_to_lock_bugs_does_what_it_says() {
    let folder = folder("guide");
    for name in ["shop.py", "test_shop.py"] {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/lock_bugs").join(name);
        std::fs::copy(from, folder.join(name)).expect("the example");
    }
    let interpreter = PYTHON.get_or_init(|| python(COMMON)).as_ref().expect("redis-py");
    // The page mends four mistakes, in five runs and five changes.
    assert_eq!(guide::follow("find-lock-bugs.md", &folder, "shop.py", &path(Some(interpreter))), 10);
    std::fs::remove_dir_all(folder).expect("the folder goes");
}

#[test]
fn the_guide_to_recordings_does_what_it_says() {
    let folder = folder("staging");
    let interpreter = PYTHON.get_or_init(|| python(COMMON)).as_ref().expect("redis-py");
    // A server, a program, two recordings with an audit each, a report, three changes, and the end of the server.
    assert_eq!(guide::follow("staging.md", &folder, "invoices.py", &path(Some(interpreter))), 10);
    std::fs::remove_dir_all(folder).expect("the folder goes");
}

#[test]
fn the_quick_start_for_pytest_does_what_it_says() {
    let folder = folder("pytest");
    let interpreter = PYTHON.get_or_init(|| python(COMMON)).as_ref().expect("pytest and redis-py");
    // A file and a run.
    assert_eq!(guide::follow("quickstart-pytest.md", &folder, "test_lock.py", &path(Some(interpreter))), 2);
    std::fs::remove_dir_all(folder).expect("the folder goes");
}

#[test]
fn the_page_for_python_does_what_it_says() {
    let folder = folder("python-page");
    let interpreter = PYTHON.get_or_init(|| python(COMMON)).as_ref().expect("pytest and redis-py");
    // Three files, each with a run.
    assert_eq!(guide::follow("python.md", &folder, "test_order.py", &path(Some(interpreter))), 6);
    std::fs::remove_dir_all(folder).expect("the folder goes");
}

#[test]
fn the_quick_start_for_vitest_does_what_it_says() {
    let folder = folder("vitest");
    let installed = node_modules(VITEST).expect("vitest and ioredis");
    let modules = folder.join("node_modules");
    std::fs::create_dir(&modules).expect("a folder");
    for entry in std::fs::read_dir(installed).expect("the installed packages") {
        let entry = entry.expect("a package");
        std::os::unix::fs::symlink(entry.path(), modules.join(entry.file_name())).expect("a link");
    }
    // A copy and not a link, because it imports vitest from where it really is.
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("packages/node/redouble");
    let copied = Command::new("cp").arg("-r").arg(package).arg(modules).status().expect("cp");
    assert!(copied.success(), "{copied}");
    // Two files and a run.
    assert_eq!(guide::follow("quickstart-vitest.md", &folder, "lock.test.mjs", &path(None)), 3);
    std::fs::remove_dir_all(folder).expect("the folder goes");
}

#[test]
fn the_quick_start_for_any_language_does_what_it_says() {
    let folder = folder("any");
    // Two files, for the shell and for Go, and a run of the first.
    assert_eq!(guide::follow("quickstart-any.md", &folder, "lock_test.sh", &path(None)), 3);
    std::fs::remove_dir_all(folder).expect("the folder goes");
}
