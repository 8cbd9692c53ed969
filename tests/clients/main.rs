//! The test suites of client libraries, against redis-server and against redouble: what passes on the first must pass
//! on the second.
//!
//! ```text
//! cargo test --test clients -- --all                every suite
//! cargo test --test clients -- --client redis-py    the suites whose names begin so
//! cargo test --test clients -- --server NAME=COMMAND  another server in place of redouble
//! ```
//!
//! There is no list of expected failures. A suite leaves out what needs a cluster, a sentinel, modules or TLS; a test that
//! fails on redis-server does not count. The run fails if a test passes on redis-server and not on the other server, or
//! if a suite cannot be installed or passes fewer tests on redis-server than it is known to pass.

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

/// The results of a suite: on redis-server, then on the server that is compared with it.
struct Comparison {
    suite: &'static Suite,
    results: [Result<Run, String>; 2],
    /// The results of a second run, without others beside it, if the first one showed differences.
    again: Option<[Result<Run, String>; 2]>,
}

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
    let ours = options.server.map_or_else(|| Ok(redouble()), |described| Side::named(&described))?;
    let sides = [Side::redis()?, Side { journal: false, ..ours }];
    let mut comparisons = run_all(&suites, &sides);
    for comparison in &mut comparisons {
        // A second run without load tells a real difference from a slow machine.
        if comparison.results.iter().all(Result::is_ok) && !comparison.complaints().is_empty() {
            println!("{} again, alone", comparison.suite.name);
            comparison.again = Some(sides.each_ref().map(|side| installed_run(comparison.suite, side)));
        }
    }
    print_table(&comparisons, &sides);
    let mut tally = Tally::default();
    for comparison in &comparisons {
        let name = format!("{} {}", comparison.suite.name, comparison.suite.version);
        if let (false, Ok(run)) = (tally.count(&name, &comparison.complaints()), &comparison.results[1]) {
            println!("  the end of {}:\n{}", run.log.display(), tail(&run.log));
        }
    }
    Ok(tally.close())
}

/// Runs every suite on both servers, a few suites at a time, the longest first. A suite's two runs do not overlap, because
/// some listen on fixed ports.
fn run_all(suites: &[&'static Suite], sides: &[Side; 2]) -> Vec<Comparison> {
    // One suite after another is installed: several use the same packages.
    let ready: Vec<_> = suites.iter().map(|suite| (suite.seconds, (*suite, install(suite).err()))).collect();
    run_jobs(AT_ONCE, ready, |_, (suite, unready)| {
        let results = sides.each_ref().map(|side| match &unready {
            Some(error) => Err(format!("it could not be installed: {error}")),
            None => installed_run(suite, side),
        });
        println!("{}: {}", suite.name, results.each_ref().map(passed).join(", "));
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

/// The tests that pass on the first server more often than on the second.
fn missing(results: &[Result<Run, String>; 2]) -> Vec<&str> {
    let [Ok(there), Ok(here)] = results else { return Vec::new() };
    let here = passes(here);
    let is_missing = |(name, count): &(&str, usize)| here.get(name).copied().unwrap_or(0) < *count;
    passes(there).into_iter().filter(is_missing).map(|(name, _)| name).collect()
}

fn passed(result: &Result<Run, String>) -> String {
    result.as_ref().map_or_else(|_| "no result".to_owned(), |run| run.verdicts.passed().to_string())
}

impl Comparison {
    /// The differences that fail the comparison.
    fn complaints(&self) -> Vec<String> {
        let mut complaints = Vec::new();
        for results in std::iter::once(&self.results).chain(&self.again) {
            for (result, place) in results.iter().zip(["redis-server", "the server"]) {
                if let Err(reason) = result {
                    complaints.push(format!("no result on {place}: {reason}"));
                }
            }
        }
        if let Ok(there) = &self.results[0]
            && there.verdicts.passed() < self.suite.passes
        {
            let (passed, known) = (there.verdicts.passed(), self.suite.passes);
            complaints.push(format!("redis-server passes {passed} tests and is known to pass {known}"));
        }
        let second = self.again.as_ref().map(missing);
        for name in missing(&self.results) {
            if second.as_ref().is_none_or(|second| second.contains(&name)) {
                complaints.push(format!("passes on redis-server and not here: {name}"));
            }
        }
        complaints
    }
}

fn print_table(comparisons: &[Comparison], sides: &[Side; 2]) {
    let mut rows = vec![["client", "version", &sides[0].name, &sides[1].name].map(str::to_owned)];
    for Comparison { suite, results, again } in comparisons {
        let [there, mut here] = again.as_ref().unwrap_or(results).each_ref().map(passed);
        if again.is_some() {
            here.push_str(" (second run)");
        }
        rows.push([suite.name.to_owned(), suite.version.to_owned(), there, here]);
    }
    println!("\n{}", table(&rows, &[2]));
    for Comparison { suite, .. } in comparisons {
        for (left_out, reason) in suite.leaves_out {
            println!("left out of {}: {left_out}: {reason}", suite.name);
        }
    }
}
