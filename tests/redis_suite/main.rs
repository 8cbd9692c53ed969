//! Redis's own test suite, against redis-server, against redouble, and against redouble in front of redis-server: what
//! passes on the first must pass on the others.
//!
//! ```text
//! cargo test --test redis_suite -- --all                every unit
//! cargo test --test redis_suite -- --unit unit/scan     one unit; can be repeated
//! cargo test --test redis_suite -- --all --side upstream  only redouble in front of redis-server; --side redouble
//! cargo test --test redis_suite -- --server NAME=COMMAND  another server in place of redouble
//! ```
//!
//! The suite is written in Tcl, and runs in its external mode: each unit against a server of its own that has just
//! started. It skips by itself what a server that it has not started cannot show, which is all of replication and of the
//! cluster. The run fails if a test passes on redis-server and not on another side, unless `inapplicable.rs` names it
//! with the reason. Nothing is remembered from run to run: all sides run every unit.

#[path = "../support/mod.rs"]
mod support;

#[path = "../support/apt.rs"]
mod apt;
mod inapplicable;
#[expect(dead_code, reason = "this suite needs no packages of other languages")]
#[path = "../locks/packages.rs"]
mod packages;
mod run;
#[expect(dead_code, reason = "this suite does not choose its tests by what a server lacks")]
#[path = "../locks/side.rs"]
mod side;
mod source;
#[path = "../locks/verdicts.rs"]
mod verdicts;

use std::collections::BTreeMap;
use std::process::ExitCode;

use inapplicable::{Inapplicable, is_inapplicable};
use run::{Lane, run};
use side::{Side, tail};
use source::Suite;
use support::no_harness::{self, Options, Tally, exit_code, run_jobs, table, unknown};
use verdicts::{Verdict, check_readers};

/// How many units run at once. Many tests depend on timing, so there are few.
const AT_ONCE: usize = 2;

/// The release whose suite this is.
const RELEASE: &str = "7.0.";

/// The results of a unit: on redis-server, then on the sides that are compared with it.
struct Comparison {
    unit: String,
    results: Vec<Result<run::Run, String>>,
    /// Whether this is the unit's second run, without others beside it.
    again: bool,
}

fn main() -> ExitCode {
    no_harness::check();
    check_readers();
    exit_code("redis_suite", Options::of_process("redis_suite", "--unit").and_then(compare))
}

/// redouble, keeping its data as redis-server does: the suite saves and reloads them.
fn redouble() -> Side {
    let mut side = Side::redouble();
    side.arguments.extend(["--persist", "yes"].map(str::to_owned));
    side
}

/// Whether every test that passes on redis-server passes on the server, too.
fn compare(options: Options) -> Result<bool, String> {
    if !options.all && options.named.is_empty() {
        println!("redis_suite: run by `make redis-suite`");
        return Ok(true);
    }
    let mut sides = Side::wanted(&options, redouble())?;
    sides.iter_mut().for_each(|side| side.journal = false);
    let version = sides[0].name.rsplit(' ').next().unwrap_or_default();
    if !version.starts_with(RELEASE) {
        return Err(format!("the suite is that of Redis {RELEASE}x, and redis-server here is {version}"));
    }
    let suite = source::fetch(version)?;
    let units = if options.all { suite.units.clone() } else { options.named };
    if let Some(name) = units.iter().find(|unit| !suite.units.contains(unit)) {
        let known: Vec<&str> = suite.units.iter().map(String::as_str).collect();
        return Err(unknown("unit", name, &known));
    }
    let mut comparisons = run_all(&suite, &units, &sides)?;
    let alone = Lane::new(&suite, 0)?;
    for comparison in &mut comparisons {
        // A second run without load tells a real failure from a slow machine.
        if !comparison.complaints(&sides).is_empty() {
            println!("{} again, alone", comparison.unit);
            let results = sides.iter().map(|side| run(&alone, &comparison.unit, side)).collect();
            *comparison = Comparison { unit: comparison.unit.clone(), results, again: true };
        }
    }
    print_table(&comparisons, &sides);
    let mut tally = Tally::default();
    for comparison in &comparisons {
        if !tally.count(&comparison.unit, &comparison.complaints(&sides)) {
            for run in comparison.results[1..].iter().flatten() {
                println!("  the end of {}:\n{}", run.log.display(), tail(&run.log));
            }
        }
    }
    Ok(tally.close())
}

/// Runs every unit on all sides, a few units at a time.
fn run_all(suite: &Suite, units: &[String], sides: &[Side]) -> Result<Vec<Comparison>, String> {
    let lanes = (0..AT_ONCE).map(|number| Lane::new(suite, number)).collect::<Result<Vec<_>, _>>()?;
    let jobs = units.iter().map(|unit| (0, unit));
    Ok(run_jobs(AT_ONCE, jobs, |lane, unit| {
        let results = sides.iter().map(|side| run(&lanes[lane], unit, side)).collect();
        let comparison = Comparison { unit: unit.clone(), results, again: false };
        println!("{unit}: {}", comparison.passed().join(", "));
        comparison
    }))
}

impl Comparison {
    /// How many tests passed on each side.
    fn passed(&self) -> Vec<String> {
        let passed = self.results.iter().map(|result| match result {
            Ok(run) => run.verdicts.passed().to_string(),
            Err(_) => "no result".to_owned(),
        });
        passed.collect()
    }

    /// The differences that fail the comparison.
    fn complaints(&self, sides: &[Side]) -> Vec<String> {
        let mut complaints = Vec::new();
        for (result, side) in self.results.iter().zip(sides) {
            if let Err(reason) = result {
                complaints.push(format!("no result on {}: {reason}", side.name));
            }
        }
        let [Ok(there), others @ ..] = &self.results[..] else { return complaints };
        // A name can stand for several tests, as in loops.
        let count = |run: &run::Run| {
            let mut passed: BTreeMap<String, usize> = BTreeMap::new();
            run.verdicts.named(Verdict::Passed).for_each(|name| *passed.entry(name.to_owned()).or_default() += 1);
            passed
        };
        let there = count(there);
        for (result, side) in others.iter().zip(&sides[1..]) {
            let Ok(here) = result else { continue };
            let here = count(here);
            for (name, expected) in &there {
                let found = here.get(name).copied().unwrap_or(0);
                if found < *expected && !is_inapplicable(side, &self.unit, name) {
                    let (direct, name_of_side) = (&sides[0].name, &side.name);
                    complaints
                        .push(format!("passes {expected} times on {direct}, {found} times on {name_of_side}: {name}"));
                }
            }
            for Inapplicable { test, .. } in inapplicable::of_unit(side, &self.unit) {
                if !there.contains_key(*test) {
                    complaints.push(format!("named inapplicable, but does not pass on redis-server: {test}"));
                }
            }
        }
        complaints
    }

    /// The tests that are left out of the comparison, and why.
    fn left_out(&self, sides: &[Side]) -> usize {
        sides[1..].iter().map(|side| inapplicable::of_unit(side, &self.unit).count()).sum()
    }
}

fn print_table(comparisons: &[Comparison], sides: &[Side]) {
    let mut head = vec!["unit".to_owned()];
    head.extend(sides.iter().map(|side| side.name.clone()));
    head.push("cannot apply".to_owned());
    let numbers: Vec<usize> = (1..=sides.len()).collect();
    let mut rows = vec![head];
    let mut totals = vec![0; sides.len() + 1];
    for comparison in comparisons {
        let passed = comparison.results.iter().map(|result| result.as_ref().map_or(0, |run| run.verdicts.passed()));
        let left_out = comparison.left_out(sides);
        for (total, count) in totals.iter_mut().zip(passed.chain([left_out])) {
            *total += count;
        }
        let is_skipped =
            comparison.results.iter().all(|result| result.as_ref().is_ok_and(|run| run.verdicts.count() == 0));
        if is_skipped {
            continue;
        }
        let mut row = vec![comparison.unit.clone()];
        row.extend(comparison.passed());
        if comparison.again
            && let Some(last) = row.last_mut()
        {
            last.push_str(" (second run)");
        }
        row.push(if left_out > 0 { left_out.to_string() } else { String::new() });
        rows.push(row);
    }
    let mut last = vec!["all".to_owned()];
    last.extend(totals.iter().map(usize::to_string));
    rows.push(last);
    println!("\n{}", table(&rows, &numbers));
    for side in &sides[1..] {
        for comparison in comparisons {
            for Inapplicable { test, reason, .. } in inapplicable::of_unit(side, &comparison.unit) {
                println!("cannot apply to {}: {}, {test}: {reason}", side.name, comparison.unit);
            }
        }
    }
}
