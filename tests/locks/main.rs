//! The lock libraries' own test suites, against redis-server and against redouble: what passes on the first must pass
//! on the second.
//!
//! ```text
//! cargo test --test locks                       the fast suites
//! cargo test --test locks -- --all              all suites but those that only run when named
//! cargo test --test locks -- --library pottery  one suite
//! cargo test --test locks -- --server NAME=COMMAND  another server in place of redouble
//! ```
//!
//! There is no list of expected failures. The run fails if a suite passes fewer tests on redouble, cannot be installed
//! or prints no results, or if the lock auditor's findings in its traffic differ from the known ones (`locks/findings`).

#[path = "../support/mod.rs"]
mod support;

mod findings;
mod install;
mod lost_replies;
mod packages;
mod run;
mod side;
mod sources;
mod suites;
mod verdicts;

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Mutex;

use install::{Installed, install};
use run::{Run, run};
use side::{Side, tail};
use suites::{Pace, SUITES, Source, Suite};
use support::no_harness::{self, Options, Tally, exit_code, run_jobs, table, unknown};
use verdicts::{Verdict, check_readers};

/// How many runs go on at once. They sleep most of the time, but many depend on timing, so they must not slow each
/// other down.
const AT_ONCE: usize = 4;

/// The result of a suite on one side.
enum Outcome {
    Ran(Run),
    /// The commands that the server does not know.
    Lacks(Vec<String>),
    Broke(String),
}

/// The results of a suite: on redis-server, then on the server that is compared with it.
struct Comparison {
    suite: &'static Suite,
    outcomes: [Outcome; 2],
    /// Whether this is the suite's second run, without others beside it.
    again: bool,
}

fn main() -> ExitCode {
    no_harness::check();
    check_readers();
    exit_code("locks", Options::of_process("locks", "--library").and_then(run_options))
}

fn run_options(options: Options) -> Result<bool, String> {
    let is_well = compare(&wanted(&options)?, options.server.as_deref())?;
    Ok(is_well & (!options.all || !options.named.is_empty() || lost_replies::page_is_right()?))
}

/// The suites that are wanted: those that are named, or those of which `cargo test` was given a part of the name.
fn wanted(options: &Options) -> Result<Vec<&'static Suite>, String> {
    let known: Vec<&str> = SUITES.iter().map(|suite| suite.library).collect();
    if let Some(name) = options.named.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(unknown("suite", name, &known));
    }
    let is_named = |suite: &Suite| options.named.iter().any(|name| suite.library == name);
    let is_meant = |suite: &Suite| options.words.iter().any(|word| suite.library.contains(word.as_str()));
    let is_wanted = |suite: &&Suite| match suite.pace {
        _ if !options.named.is_empty() => is_named(suite),
        Pace::Fast => options.words.is_empty() || is_meant(suite),
        Pace::Slow => options.all,
        Pace::WhenNamed => false,
    };
    Ok(SUITES.iter().filter(is_wanted).collect())
}

/// Whether every suite passes as many tests on the server as on redis-server.
fn compare(suites: &[&'static Suite], server: Option<&str>) -> Result<bool, String> {
    if suites.is_empty() {
        println!("locks: no suite of that name");
        return Ok(true);
    }
    let ours = server.map_or_else(|| Ok(Side::redouble()), Side::named)?;
    let sides = [Side::redis()?, ours];
    let needs: BTreeSet<&str> = suites.iter().flat_map(|suite| suite.needs).copied().collect();
    let needs: Vec<&str> = needs.into_iter().collect();
    let lacking = if needs.is_empty() { Vec::new() } else { sides[1].lacks(&needs)? };
    let installed = install_all(suites);
    let mut comparisons = run_all(suites, &installed, &sides, &lacking);
    for (comparison, installed) in comparisons.iter_mut().zip(&installed) {
        // Many tests depend on timing. A second run without load tells a real failure from a slow machine.
        if let (false, Ok(installed)) = (comparison.complaints().is_empty(), installed)
            && comparison.suite.seconds < 120
        {
            println!("{} again, alone: {}", comparison.suite.library, comparison.failures().join(", "));
            let outcomes = sides.each_ref().map(|side| outcome(comparison.suite, Ok(installed), side));
            *comparison = Comparison { suite: comparison.suite, outcomes, again: true };
        }
    }
    print_table(&comparisons, &sides);
    let mut tally = Tally::default();
    for comparison in &comparisons {
        let name = format!("{} {}", comparison.suite.library, comparison.suite.version);
        if !tally.count(&name, &comparison.complaints()) {
            comparison.explain(&sides[1]);
        }
    }
    Ok(tally.close())
}

/// Installs what is missing. The package tools run side by side, each with one suite at a time.
fn install_all(suites: &[&'static Suite]) -> Vec<Result<Installed, String>> {
    let kinds: [fn(&Source) -> bool; 3] = [
        |source| matches!(source, Source::Python { .. }),
        |source| matches!(source, Source::Node { .. }),
        |source| matches!(source, Source::Rust { .. }),
    ];
    let results = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for is_of_kind in kinds {
            let results = &results;
            scope.spawn(move || {
                for (index, suite) in suites.iter().enumerate().filter(|(_, suite)| is_of_kind(&suite.source)) {
                    let result = install(suite);
                    results.lock().expect("nobody panics with it").push((index, result));
                }
            });
        }
    });
    let mut results = results.into_inner().expect("nobody panics with it");
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Runs every suite on both sides, a few at a time, the longest first.
fn run_all(
    suites: &[&'static Suite],
    installed: &[Result<Installed, String>],
    sides: &[Side; 2],
    lacking: &[String],
) -> Vec<Comparison> {
    let mut jobs: Vec<(u64, (usize, &[usize]))> = Vec::new();
    for (index, suite) in suites.iter().enumerate() {
        let of_sides: &[&[usize]] = if suite.keeps_files { &[&[0, 1]] } else { &[&[0], &[1]] };
        jobs.extend(of_sides.iter().map(|sides| (suite.seconds * sides.len() as u64, (index, *sides))));
    }
    let outcome_on = |index: usize, side: usize| {
        let suite: &Suite = suites[index];
        let is_missing = |name: &&String| side == 1 && suite.needs.contains(&name.as_str());
        let missing: Vec<String> = lacking.iter().filter(is_missing).cloned().collect();
        if missing.is_empty() {
            outcome(suite, installed[index].as_ref(), &sides[side])
        } else {
            Outcome::Lacks(missing)
        }
    };
    let done = run_jobs(AT_ONCE, jobs, |_, (index, sides)| {
        sides.iter().map(|&side| outcome_on(index, side)).collect::<Vec<_>>()
    });
    let mut done = done.into_iter().flatten();
    let mut next = || done.next().expect("each job has an outcome");
    suites.iter().map(|suite| Comparison { suite, outcomes: [next(), next()], again: false }).collect()
}

fn outcome(suite: &Suite, installed: Result<&Installed, &String>, side: &Side) -> Outcome {
    match installed {
        Ok(installed) => run(suite, installed, side).map_or_else(Outcome::Broke, Outcome::Ran),
        Err(error) => Outcome::Broke(format!("it could not be installed: {error}")),
    }
}

impl Comparison {
    /// Returns the differences that fail the comparison.
    fn complaints(&self) -> Vec<String> {
        let suite = self.suite;
        let mut complaints = Vec::new();
        for (outcome, place) in self.outcomes.iter().zip(["redis-server", "the server"]) {
            if let Outcome::Broke(reason) = outcome {
                complaints.push(format!("no result on {place}: {reason}"));
            }
        }
        if let Outcome::Ran(there) = &self.outcomes[0]
            && there.verdicts.passed() + suite.unsteady < suite.passes
        {
            let passed = there.verdicts.passed();
            complaints.push(format!("redis-server passes {passed} tests and is known to pass {}", suite.passes));
        }
        if let Outcome::Ran(here) = &self.outcomes[1]
            && let Some(journals) = &here.journals
        {
            match findings::complaints(suite, journals) {
                Ok(unexpected) => complaints.extend(unexpected.into_iter().map(|line| format!("the audit: {line}"))),
                Err(error) => complaints.push(format!("no audit: {error}")),
            }
        }
        if let [Outcome::Ran(there), Outcome::Ran(here)] = &self.outcomes
            && here.verdicts.passed() + suite.unsteady < there.verdicts.passed()
        {
            let (there, here) = (there.verdicts.passed(), here.verdicts.passed());
            complaints.push(format!("{there} tests pass on redis-server, {here} here"));
        }
        complaints
    }

    /// Returns the tests that fail on one side only.
    fn failures(&self) -> Vec<String> {
        let [there, here] = self.outcomes.each_ref().map(|outcome| match outcome {
            Outcome::Ran(run) => run.verdicts.named(Verdict::Failed).collect::<BTreeSet<_>>(),
            _ => BTreeSet::new(),
        });
        there.symmetric_difference(&here).map(|name| (*name).to_owned()).collect()
    }

    /// Prints the tests that failed and the end of the output.
    fn explain(&self, ours: &Side) {
        if let Outcome::Ran(run) = &self.outcomes[0] {
            for name in run.verdicts.named(Verdict::Failed) {
                println!("  fails on redis-server: {name}");
            }
            let sent: Vec<&str> = run.sent.iter().map(String::as_str).collect();
            match ours.lacks(&sent) {
                Ok(unknown) if unknown.is_empty() => {}
                Ok(unknown) => println!("  it sends commands that {} does not know: {}", ours.name, unknown.join(", ")),
                Err(error) => println!("  {error}"),
            }
        }
        if let Outcome::Ran(run) = &self.outcomes[1] {
            for name in run.verdicts.named(Verdict::Failed) {
                println!("  fails on {}: {name}", ours.name);
            }
            println!("  the end of {}:\n{}", run.log.display(), tail(&run.log));
        }
    }
}

fn print_table(comparisons: &[Comparison], sides: &[Side; 2]) {
    let mut rows = vec![["library", "version", "tests", &sides[0].name, &sides[1].name].map(str::to_owned)];
    for Comparison { suite, outcomes, again } in comparisons {
        let tests = outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Ran(run) => Some(run.verdicts.count().to_string()),
            _ => None,
        });
        let [there, here] = outcomes.each_ref().map(|outcome| match outcome {
            Outcome::Ran(run) => run.verdicts.passed().to_string(),
            Outcome::Lacks(names) if names.len() > 3 => format!("needs {}, … ({})", names[..3].join(", "), names.len()),
            Outcome::Lacks(names) => format!("needs {}", names.join(", ")),
            Outcome::Broke(_) => "no result".to_owned(),
        });
        let here = if *again { format!("{here} (second run)") } else { here };
        rows.push([suite.library.to_owned(), suite.version.to_owned(), tests.unwrap_or_default(), there, here]);
    }
    println!("\n{}", table(&rows, &[2, 3]));
}
