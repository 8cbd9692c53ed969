//! The lock libraries' own test suites, and programs that use libraries as their READMEs show (`examples`), against
//! redis-server, against redouble, and against redouble in front of redis-server: what passes on the first must pass on the
//! others.
//!
//! ```text
//! cargo test --test locks                       the fast suites
//! cargo test --test locks -- --all              all suites but those that only run when named
//! cargo test --test locks -- --library pottery  one suite; `examples` are all programs of `examples`
//! cargo test --test locks -- --library lost-locks  the table of a page: what libraries do when a failover loses a lock
//! cargo test --test locks -- --side upstream    only redouble in front of redis-server; --side redouble: only redouble
//! cargo test --test locks -- --real PROGRAM     another real server in place of redis-server, such as valkey-server
//! cargo test --test locks -- --server NAME=COMMAND  another server in place of redouble
//! ```
//!
//! There is no list of expected failures. The run fails if a suite passes fewer tests on a side than on redis-server, cannot
//! be installed or prints no results, or if the lock auditor's findings in its traffic differ from the known ones
//! (`locks/findings`). In front of a real server only errors count, because there it knows less.

#[path = "../support/mod.rs"]
mod support;

mod examples;
mod findings;
mod install;
mod lost_locks;
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

use examples::EXAMPLES;
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

/// The results of a suite: on redis-server, then on the sides that are compared with it.
struct Comparison {
    suite: &'static Suite,
    outcomes: Vec<Outcome>,
    /// Whether this is the suite's second run, without others beside it.
    again: bool,
}

fn main() -> ExitCode {
    no_harness::check();
    check_readers();
    exit_code("locks", Options::of_process("locks", "--library").and_then(run_options))
}

/// Plays the table of a page. Returns whether the page says what happens.
type Play = fn() -> Result<bool, String>;

/// The pages whose tables are played, by the names that `--library` knows them by.
const PAGES: [(&str, Play); 2] =
    [("lost-replies", lost_replies::page_is_right), ("lost-locks", lost_locks::page_is_right)];

fn run_options(options: Options) -> Result<bool, String> {
    let suites = wanted(&options)?;
    let is_named = |name: &str| options.named.iter().any(|named| named == name);
    let is_wanted = |name: &str| if options.named.is_empty() { options.all } else { is_named(name) };
    let pages: Vec<_> = PAGES.iter().filter(|(name, _)| is_wanted(name)).collect();
    let mut is_well = suites.is_empty() && !pages.is_empty() || compare(&suites, &options)?;
    for (name, is_right) in pages {
        let is_right = is_right()?;
        println!("the table of {name} {}", if is_right { "is right" } else { "is not what happens" });
        is_well &= is_right;
    }
    Ok(is_well)
}

/// Whether the table of a page shows what happened. Prints the rows that differ.
fn shows(page: &str, shown: &[&str], happened: &[String]) -> bool {
    let shows = shown == happened;
    if !shows {
        println!("\n{page} shows");
        shown.iter().filter(|row| !happened.iter().any(|other| other == *row)).for_each(|row| println!("{row}"));
        println!("and this happens");
        happened.iter().filter(|row| !shown.contains(&row.as_str())).for_each(|row| println!("{row}"));
    }
    shows
}

/// The suites that are wanted: those that are named, or those of which `cargo test` was given a part of the name.
fn wanted(options: &Options) -> Result<Vec<&'static Suite>, String> {
    let suites = || SUITES.iter().chain(EXAMPLES);
    let pages = PAGES.iter().map(|(name, _)| *name);
    let known: Vec<&str> = suites().map(|suite| suite.library).chain([examples::ALL]).chain(pages).collect();
    if let Some(name) = options.named.iter().find(|name| !known.contains(&name.as_str())) {
        return Err(unknown("suite", name, &known));
    }
    let is_example = |suite: &Suite| EXAMPLES.iter().any(|example| example.library == suite.library);
    let is_named = |suite: &Suite| {
        options.named.iter().any(|name| suite.library == name || name == examples::ALL && is_example(suite))
    };
    let is_meant = |suite: &Suite| options.words.iter().any(|word| suite.library.contains(word.as_str()));
    let is_wanted = |suite: &&Suite| match suite.pace {
        _ if !options.named.is_empty() => is_named(suite),
        Pace::Fast => options.words.is_empty() || is_meant(suite),
        Pace::Slow => options.all,
        Pace::WhenNamed => false,
    };
    Ok(suites().filter(is_wanted).collect())
}

/// Whether every suite passes as many tests on each side as on redis-server.
fn compare(suites: &[&'static Suite], options: &Options) -> Result<bool, String> {
    if suites.is_empty() {
        println!("locks: no suite of that name");
        return Ok(true);
    }
    let sides = Side::wanted(options, Side::redouble())?;
    let needs: BTreeSet<&str> = suites.iter().flat_map(|suite| suite.needs).copied().collect();
    let needs: Vec<&str> = needs.into_iter().collect();
    let lacking = sides.iter().map(|side| if needs.is_empty() { Ok(Vec::new()) } else { side.lacks(&needs) });
    let lacking = lacking.collect::<Result<Vec<_>, _>>()?;
    let installed = install_all(suites);
    let mut comparisons = run_all(suites, &installed, &sides, &lacking);
    for (comparison, installed) in comparisons.iter_mut().zip(&installed) {
        // Many tests depend on timing. A second run without load tells a real failure from a slow machine.
        if let (false, Ok(installed)) = (comparison.complaints(&sides).is_empty(), installed)
            && comparison.suite.seconds < 120
        {
            println!("{} again, alone: {}", comparison.suite.library, comparison.failures().join(", "));
            let outcomes = sides.iter().map(|side| outcome(comparison.suite, Ok(installed), side)).collect();
            *comparison = Comparison { suite: comparison.suite, outcomes, again: true };
        }
    }
    print_table(&comparisons, &sides);
    let mut tally = Tally::default();
    for comparison in &comparisons {
        let name = format!("{} {}", comparison.suite.library, comparison.suite.version);
        if !tally.count(&name, &comparison.complaints(&sides)) {
            comparison.explain(&sides);
        }
    }
    Ok(tally.close())
}

/// Installs what is missing. The package tools run side by side, each with one suite at a time.
fn install_all(suites: &[&'static Suite]) -> Vec<Result<Installed, String>> {
    let kinds: [fn(&Source) -> bool; 3] = [
        |source| matches!(source, Source::Python { .. } | Source::PythonExample { .. }),
        |source| matches!(source, Source::Node { .. } | Source::NodeExample { .. }),
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

/// Runs every suite on all sides, a few at a time, the longest first.
fn run_all(
    suites: &[&'static Suite],
    installed: &[Result<Installed, String>],
    sides: &[Side],
    lacking: &[Vec<String>],
) -> Vec<Comparison> {
    let mut jobs: Vec<(u64, (usize, Vec<usize>))> = Vec::new();
    let every: Vec<usize> = (0..sides.len()).collect();
    for (index, suite) in suites.iter().enumerate() {
        let of_job = if suite.keeps_files { sides.len() } else { 1 };
        let of_jobs = every.chunks(of_job);
        jobs.extend(of_jobs.map(|sides| (suite.seconds * sides.len() as u64, (index, sides.to_vec()))));
    }
    let outcome_on = |index: usize, side: usize| {
        let suite: &Suite = suites[index];
        let is_missing = |name: &&String| suite.needs.contains(&name.as_str());
        let missing: Vec<String> = lacking[side].iter().filter(is_missing).cloned().collect();
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
    let mut outcomes = || done.by_ref().take(sides.len()).collect();
    suites.iter().map(|suite| Comparison { suite, outcomes: outcomes(), again: false }).collect()
}

fn outcome(suite: &Suite, installed: Result<&Installed, &String>, side: &Side) -> Outcome {
    match installed {
        Ok(installed) => run(suite, installed, side).map_or_else(Outcome::Broke, Outcome::Ran),
        Err(error) => Outcome::Broke(format!("it could not be installed: {error}")),
    }
}

impl Comparison {
    /// Returns the differences that fail the comparison.
    fn complaints(&self, sides: &[Side]) -> Vec<String> {
        let suite = self.suite;
        let mut complaints = Vec::new();
        for (outcome, side) in self.outcomes.iter().zip(sides) {
            if let Outcome::Broke(reason) = outcome {
                complaints.push(format!("no result on {}: {reason}", side.name));
            }
        }
        let [Outcome::Ran(there), others @ ..] = &self.outcomes[..] else { return complaints };
        let expected = there.verdicts.passed();
        if expected + suite.unsteady < suite.passes {
            complaints.push(format!("{} passes {expected} tests and is known to pass {}", sides[0].name, suite.passes));
        }
        for (outcome, side) in others.iter().zip(&sides[1..]) {
            let Outcome::Ran(here) = outcome else { continue };
            let name = &side.name;
            if let Some(journals) = &here.journals {
                match findings::complaints(suite, journals, side.upstream.is_some()) {
                    Ok(unexpected) => {
                        complaints.extend(unexpected.into_iter().map(|line| format!("the audit of {name}: {line}")));
                    }
                    Err(error) => complaints.push(format!("no audit of {name}: {error}")),
                }
            }
            if here.verdicts.passed() + suite.unsteady < expected {
                let passed = here.verdicts.passed();
                complaints.push(format!("{expected} tests pass on {}, {passed} on {name}", sides[0].name));
            }
        }
        complaints
    }

    /// Returns the tests that fail on some sides only.
    fn failures(&self) -> Vec<String> {
        let failed = |outcome: &'_ Outcome| match outcome {
            Outcome::Ran(run) => run.verdicts.named(Verdict::Failed).map(str::to_owned).collect(),
            _ => BTreeSet::new(),
        };
        let failed: Vec<BTreeSet<String>> = self.outcomes.iter().map(failed).collect();
        let anywhere: BTreeSet<String> = failed.iter().flatten().cloned().collect();
        anywhere.into_iter().filter(|name| !failed.iter().all(|failed| failed.contains(name))).collect()
    }

    /// Prints the tests that failed and the end of the output.
    fn explain(&self, sides: &[Side]) {
        for (number, (outcome, side)) in self.outcomes.iter().zip(sides).enumerate() {
            let Outcome::Ran(run) = outcome else { continue };
            for name in run.verdicts.named(Verdict::Failed) {
                println!("  fails on {}: {name}", side.name);
            }
            if number > 0 {
                println!("  the end of {}:\n{}", run.log.display(), tail(&run.log));
                continue;
            }
            let sent: Vec<&str> = run.sent.iter().map(String::as_str).collect();
            for side in &sides[1..] {
                match side.lacks(&sent) {
                    Ok(unknown) if unknown.is_empty() => {}
                    Ok(unknown) => {
                        println!("  it sends commands that {} does not know: {}", side.name, unknown.join(", "));
                    }
                    Err(error) => println!("  {error}"),
                }
            }
        }
    }
}

fn print_table(comparisons: &[Comparison], sides: &[Side]) {
    let mut head = ["library", "version", "tests"].map(str::to_owned).to_vec();
    head.extend(sides.iter().map(|side| side.name.clone()));
    let numbers: Vec<usize> = (2..head.len()).collect();
    let mut rows = vec![head];
    for Comparison { suite, outcomes, again } in comparisons {
        let tests = outcomes.iter().find_map(|outcome| match outcome {
            Outcome::Ran(run) => Some(run.verdicts.count().to_string()),
            _ => None,
        });
        let mut row = vec![suite.library.to_owned(), suite.version.to_owned(), tests.unwrap_or_default()];
        row.extend(outcomes.iter().map(|outcome| match outcome {
            Outcome::Ran(run) => run.verdicts.passed().to_string(),
            Outcome::Lacks(names) if names.len() > 3 => format!("needs {}, … ({})", names[..3].join(", "), names.len()),
            Outcome::Lacks(names) => format!("needs {}", names.join(", ")),
            Outcome::Broke(_) => "no result".to_owned(),
        }));
        if *again && let Some(last) = row.last_mut() {
            last.push_str(" (second run)");
        }
        rows.push(row);
    }
    println!("\n{}", table(&rows, &numbers));
}
