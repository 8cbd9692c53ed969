//! What a benchmark is told: which parts to measure, and how long.

use std::sync::OnceLock;

/// The server that is measured: the program of `REDOUBLE`, as `make bench` sets it, which is linked as the published one; or what
/// cargo has built for the bench.
pub fn redouble() -> &'static str {
    static PROGRAM: OnceLock<String> = OnceLock::new();
    PROGRAM.get_or_init(|| std::env::var("REDOUBLE").unwrap_or_else(|_| env!("CARGO_BIN_EXE_redouble").to_owned()))
}

/// `ONLY=EVALSHA make bench` measures only the tests with that in their title.
pub fn is_wanted(title: &str) -> bool {
    std::env::var("ONLY").map_or(true, |only| title.contains(&only))
}

/// `-- --quick` measures once, and less: to see that a benchmark works, and roughly what it says.
pub fn is_quick() -> bool {
    std::env::args().any(|argument| argument == "--quick")
}

/// How often each server is measured: `ROUNDS`, or once if it is to be quick.
pub fn rounds(usual: usize) -> usize {
    let wanted = std::env::var("ROUNDS").ok().and_then(|rounds| rounds.parse().ok());
    wanted.unwrap_or(if is_quick() { 1 } else { usual })
}

/// The requests of a round; a tenth of them if it is to be quick.
pub fn some(requests: u64) -> u64 {
    if is_quick() { requests.div_ceil(10) } else { requests }
}
