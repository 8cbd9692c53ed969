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
    check_readers();
    let all = std::env::args().any(|argument| argument == "--all")
        && !std::env::args().any(|argument| argument == "--library");
    let compared = wanted(std::env::args().skip(1)).and_then(|(suites, server)| compare(&suites, server));
    let done = compared.and_then(|is_well| Ok(is_well & (!all || lost_replies::page_is_right()?)));
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("locks: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Parses the arguments: which suites, and against which server.
fn wanted(mut arguments: impl Iterator<Item = String>) -> Result<(Vec<&'static Suite>, Option<String>), String> {
    let (mut all, mut library, mut server, mut filters) = (false, None, None, Vec::new());
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--all" => all = true,
            "--library" => library = arguments.next(),
            "--server" => server = arguments.next(),
            // `cargo test` passes the same flags and words to every test binary. This one has no harness, so it ignores
            // the flags; the words name the tests to run.
            flag if flag.starts_with('-') => println!("locks: {flag} means nothing here"),
            _ => filters.push(argument),
        }
    }
    let known: Vec<&str> = SUITES.iter().map(|suite| suite.library).collect();
    if let Some(library) = library {
        let named = SUITES.iter().find(|suite| suite.library == library);
        let named = named.ok_or_else(|| format!("no suite is called {library}; there are {}", known.join(", ")))?;
        return Ok((vec![named], server));
    }
    let suites = SUITES.iter().filter(|suite| match suite.pace {
        Pace::Fast => filters.is_empty() || filters.iter().any(|filter| suite.library.contains(filter.as_str())),
        Pace::Slow => all,
        Pace::WhenNamed => false,
    });
    Ok((suites.collect(), server))
}

/// Whether every suite passes as many tests on the server as on redis-server.
fn compare(suites: &[&'static Suite], server: Option<String>) -> Result<bool, String> {
    if suites.is_empty() {
        println!("locks: no suite of that name");
        return Ok(true);
    }
    let ours = server.map_or_else(|| Ok(Side::redouble()), |described| Side::named(&described))?;
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
    let mut is_well = true;
    for comparison in &comparisons {
        for complaint in comparison.complaints() {
            is_well = false;
            println!("\n{} {}: {complaint}", comparison.suite.library, comparison.suite.version);
        }
        if !comparison.complaints().is_empty() {
            comparison.explain(&sides[1]);
        }
    }
    Ok(is_well)
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
    let mut jobs: Vec<(usize, &[usize])> = Vec::new();
    for (index, suite) in suites.iter().enumerate() {
        if suite.keeps_files { jobs.push((index, &[0, 1])) } else { jobs.extend([(index, &[0][..]), (index, &[1])]) }
    }
    jobs.sort_by_key(|&(index, sides)| suites[index].seconds * sides.len() as u64);
    let jobs = Mutex::new(jobs);
    let done = Mutex::new(Vec::new());
    let run_one = |index: usize, side: usize| {
        let suite: &Suite = suites[index];
        let is_missing = |name: &&String| side == 1 && suite.needs.contains(&name.as_str());
        let missing: Vec<String> = lacking.iter().filter(is_missing).cloned().collect();
        let outcome = if missing.is_empty() {
            outcome(suite, installed[index].as_ref(), &sides[side])
        } else {
            Outcome::Lacks(missing)
        };
        done.lock().expect("nobody panics with it").push((index, side, outcome));
    };
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some((index, sides)) = jobs.lock().expect("nobody panics with it").pop() else { return };
                    sides.iter().for_each(|&side| run_one(index, side));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("nobody panics with it");
    done.sort_by_key(|(index, side, _)| (*index, *side));
    let mut done = done.into_iter().map(|(_, _, outcome)| outcome);
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
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [0, 1, 2, 3].map(width);
    println!();
    for [library, version, tests, there, here] in &rows {
        let [first, second, third, fourth] = widths;
        println!("{library:first$}  {version:second$}  {tests:>third$}  {there:>fourth$}  {here}");
    }
}
