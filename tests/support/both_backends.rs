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
    let output = Command::new(&binary)
        .args(["--exact", "--test-threads", "2"])
        .args(others)
        .env("REDOUBLE_TESTS_UPSTREAM", "1")
        .stdin(Stdio::null())
        .output()
        .expect("this binary runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "in front of redis-server:\n{said}\n{}", String::from_utf8_lossy(&output.stderr));
}
