//! The tests of a binary once more, in front of a real server: their texts stay as they are, and `support::start` gives
//! them redouble in front of a redis-server instead of the embedded server.

use std::process::{Command, Stdio};

use super::is_upstream;

/// Runs all tests of this binary in front of redis-server, but for those that are named with a reason. A name that ends
/// with `::` is a module.
#[track_caller]
pub fn run_in_front_of_redis(exceptions: &[(&str, &str)]) {
    if is_upstream() {
        return;
    }
    let binary = std::env::current_exe().expect("a path");
    let list = Command::new(&binary).args(["--list", "--format", "terse"]).output().expect("this binary runs");
    let list = String::from_utf8(list.stdout).expect("text");
    let tests: Vec<&str> = list.lines().filter_map(|line| line.strip_suffix(": test")).collect();
    let is_meant = |name: &str, exception: &str| {
        if exception.ends_with("::") { name.starts_with(exception) } else { name == exception }
    };
    for (exception, reason) in exceptions {
        assert!(!reason.is_empty(), "{exception} is excepted without a reason");
        assert!(tests.iter().any(|name| is_meant(name, exception)), "no test is called {exception}");
    }
    let others = tests.iter().filter(|name| !exceptions.iter().any(|(exception, _)| is_meant(name, exception)));
    let run = |tests: &[&str], threads: &str| {
        let mut command = Command::new(&binary);
        command.args(["--exact", "--test-threads", threads]).args(tests).env("REDOUBLE_TESTS_UPSTREAM", "1");
        command.stdin(Stdio::null()).output().expect("this binary runs")
    };
    let first = run(&others.copied().collect::<Vec<_>>(), "2");
    let said = String::from_utf8_lossy(&first.stdout);
    let failed: Vec<&str> =
        said.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED")).collect();
    if failed.is_empty() {
        assert!(
            first.status.success(),
            "in front of redis-server:\n{said}\n{}",
            String::from_utf8_lossy(&first.stderr)
        );
        return;
    }
    // Real time passes in front of a real server: on a busy machine a story about milliseconds can become another one. So
    // what has failed is told once more, alone.
    let again = run(&failed, "1");
    let said = String::from_utf8_lossy(&again.stdout);
    assert!(again.status.success(), "in front of redis-server:\n{said}\n{}", String::from_utf8_lossy(&again.stderr));
}
