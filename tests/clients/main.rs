//! The test suites of client libraries, against redis-server, against redouble, and against redouble in front of
//! redis-server: what passes on the first must pass on the others.
//!
//! ```text
//! cargo test --test clients -- --all                every suite
//! cargo test --test clients -- --client redis-py    the suites whose names begin so
//! cargo test --test clients -- --all --side upstream  only redouble in front of redis-server; --side redouble
//! cargo test --test clients -- --all --real PROGRAM  another real server in place of redis-server, such as valkey-server
//! cargo test --test clients -- --server NAME=COMMAND  another server in place of redouble
//! ```
//!
//! There is no list of expected failures. A suite leaves out what needs a cluster, a sentinel, modules or TLS; a test that
//! fails on redis-server does not count. The run fails if a test passes on redis-server and not on another side, or if a
//! suite cannot be installed or passes fewer tests on redis-server than it is known to pass.

#[path = "../support/mod.rs"]
mod support;

#[path = "../support/apt.rs"]
mod apt;
mod install;
#[expect(dead_code, reason = "these suites have packages of their own")]
#[path = "../locks/packages.rs"]
mod packages;
mod run;
#[expect(dead_code, reason = "these suites are not chosen by what a server lacks")]
#[path = "../locks/side.rs"]
mod side;
#[path = "../locks/sources.rs"]
mod sources;
mod suites;
#[path = "../locks/verdicts.rs"]
mod verdicts;

use std::collections::BTreeMap;
use std::process::ExitCode;

use install::install;
use run::{Run, run};
use side::{Side, tail};
use suites::{SUITES, Suite};
use support::no_harness::{self, Options, Tally, exit_code, run_jobs, table, unknown};
use verdicts::{Verdict, check_readers};

/// How many runs go on at once. Some tests depend on timing, so there are few.
const AT_ONCE: usize = 2;

/// The results of a suite: on redis-server, then on the sides that are compared with it.
struct Comparison {
    suite: &'static Suite,
    results: Results,
    /// The results of a second run, without others beside it, if the first one showed differences.
    again: Option<Results>,
}

type Results = Vec<Result<Run, String>>;

fn main() -> ExitCode {
    no_harness::check();
    check_readers();
    exit_code("clients", Options::of_process("clients", "--client").and_then(compare))
}

/// redouble, keeping its data as redis-server does: some suites save them.
fn redouble() -> Side {
    let mut side = Side::redouble();
    side.arguments.extend(["--persist", "yes"].map(str::to_owned));
    side
}

/// Whether every test that passes on redis-server passes on the server, too.
fn compare(options: Options) -> Result<bool, String> {
    if !options.all && options.named.is_empty() {
        println!("clients: run by `make clients`");
        return Ok(true);
    }
    let known: Vec<&str> = SUITES.iter().map(|suite| suite.name).collect();
    if let Some(name) = options.named.iter().find(|name| !known.iter().any(|known| known.starts_with(*name))) {
        return Err(unknown("suite", name, &known));
    }
    let is_named = |suite: &&Suite| options.named.iter().any(|name| suite.name.starts_with(name));
    let is_wanted = |suite: &&Suite| options.named.is_empty() || is_named(suite);
    let suites: Vec<&'static Suite> = SUITES.iter().filter(is_wanted).collect();
    let mut sides = Side::wanted(&options, redouble())?;
    sides.iter_mut().for_each(|side| side.journal = false);
    let mut comparisons = run_all(&suites, &sides);
    for comparison in &mut comparisons {
        // A second run without load tells a real difference from a slow machine.
        if comparison.results.iter().all(Result::is_ok) && !comparison.complaints(&sides).is_empty() {
            println!("{} again, alone", comparison.suite.name);
            comparison.again = Some(sides.iter().map(|side| installed_run(comparison.suite, side)).collect());
        }
    }
    print_table(&comparisons, &sides);
    let mut tally = Tally::default();
    for comparison in &comparisons {
        let name = format!("{} {}", comparison.suite.name, comparison.suite.version);
        if !tally.count(&name, &comparison.complaints(&sides)) {
            for run in comparison.results[1..].iter().flatten() {
                println!("  the end of {}:\n{}", run.log.display(), tail(&run.log));
            }
        }
    }
    Ok(tally.close())
}

/// Runs every suite on all sides, a few suites at a time, the longest first. The runs of a suite do not overlap, because
/// some listen on fixed ports.
fn run_all(suites: &[&'static Suite], sides: &[Side]) -> Vec<Comparison> {
    // One suite after another is installed: several use the same packages.
    let ready: Vec<_> = suites.iter().map(|suite| (suite.seconds, (*suite, install(suite).err()))).collect();
    run_jobs(AT_ONCE, ready, |_, (suite, unready)| {
        let results = sides.iter().map(|side| match &unready {
            Some(error) => Err(format!("it could not be installed: {error}")),
            None => installed_run(suite, side),
        });
        let results: Results = results.collect();
        println!("{}: {}", suite.name, results.iter().map(passed).collect::<Vec<_>>().join(", "));
        Comparison { suite, results, again: None }
    })
}

fn installed_run(suite: &'static Suite, side: &Side) -> Result<Run, String> {
    run(suite, &install(suite)?, side)
}

/// How many tests of each name passed. A name can stand for several tests.
fn passes(run: &Run) -> BTreeMap<&str, usize> {
    let mut passes = BTreeMap::new();
    run.verdicts.named(Verdict::Passed).for_each(|name| *passes.entry(name).or_default() += 1);
    passes
}

/// The tests that pass on the real server more often than on this side.
fn missing(results: &Results, side: usize) -> Vec<&str> {
    let (Ok(there), Ok(here)) = (&results[0], &results[side]) else { return Vec::new() };
    let here = passes(here);
    let is_missing = |(name, count): &(&str, usize)| here.get(name).copied().unwrap_or(0) < *count;
    passes(there).into_iter().filter(is_missing).map(|(name, _)| name).collect()
}

fn passed(result: &Result<Run, String>) -> String {
    result.as_ref().map_or_else(|_| "no result".to_owned(), |run| run.verdicts.passed().to_string())
}

impl Comparison {
    /// The differences that fail the comparison.
    fn complaints(&self, sides: &[Side]) -> Vec<String> {
        let mut complaints = Vec::new();
        for results in std::iter::once(&self.results).chain(&self.again) {
            for (result, side) in results.iter().zip(sides) {
                if let Err(reason) = result {
                    complaints.push(format!("no result on {}: {reason}", side.name));
                }
            }
        }
        if let Ok(there) = &self.results[0]
            && there.verdicts.passed() < self.suite.passes
        {
            let (passed, known) = (there.verdicts.passed(), self.suite.passes);
            complaints.push(format!("{} passes {passed} tests and is known to pass {known}", sides[0].name));
        }
        for (number, side) in sides.iter().enumerate().skip(1) {
            let second = self.again.as_ref().map(|again| missing(again, number));
            for name in missing(&self.results, number) {
                if second.as_ref().is_none_or(|second| second.contains(&name)) {
                    complaints.push(format!("passes on {} and not on {}: {name}", sides[0].name, side.name));
                }
            }
        }
        complaints
    }
}

fn print_table(comparisons: &[Comparison], sides: &[Side]) {
    let mut head = ["client", "version"].map(str::to_owned).to_vec();
    head.extend(sides.iter().map(|side| side.name.clone()));
    let numbers: Vec<usize> = (2..head.len()).collect();
    let mut rows = vec![head];
    for Comparison { suite, results, again } in comparisons {
        let mut row = [suite.name, suite.version].map(str::to_owned).to_vec();
        row.extend(again.as_ref().unwrap_or(results).iter().map(passed));
        if again.is_some()
            && let Some(last) = row.last_mut()
        {
            last.push_str(" (second run)");
        }
        rows.push(row);
    }
    println!("\n{}", table(&rows, &numbers));
    for Comparison { suite, .. } in comparisons {
        for (left_out, reason) in suite.leaves_out {
            println!("left out of {}: {left_out}: {reason}", suite.name);
        }
    }
}
