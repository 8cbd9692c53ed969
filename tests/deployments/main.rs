//! Real deployments, directly and through redouble: Clusters of six nodes, and sets of three Sentinels, a master and two
//! replicas. What clients get directly, they must get through redouble, also while nodes fail over and slots move.
//!
//! ```text
//! cargo test --test deployments -- --all                   all programs and stories
//! cargo test --test deployments -- --only ioredis          those whose names begin so
//! cargo test --test deployments -- --only ioredis --side direct  only directly; --side through
//! cargo test --test deployments -- --only suite            the suites of client libraries, which `--all` leaves out
//! ```
//!
//! A program prints what its operations answered, and writes while the deployment changes. The run fails if the two
//! transcripts differ, if a write that was acknowledged is lost or a write is there twice through redouble and not directly,
//! or if a connection of the program's own reaches a node.

#[path = "../support/mod.rs"]
mod support;

mod administration;
mod bad_days;
mod crawl;
mod front;
mod own_sentinels;
#[expect(dead_code, reason = "these programs have packages of their own")]
#[path = "../locks/packages.rs"]
mod packages;
mod programs;
mod redis_rs;
#[expect(dead_code, reason = "only the running of programs with a time limit is used")]
#[path = "../locks/side.rs"]
mod side;
#[path = "../locks/sources.rs"]
mod sources;
mod stories;
mod suites;
#[expect(dead_code, reason = "these suites run in pytest and cargo")]
#[path = "../locks/verdicts.rs"]
mod verdicts;
mod watch;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use programs::{Outcome, PROGRAMS, Program, install, play};
use stories::{STORIES, Story};
use suites::{SUITES, Suite};
use support::no_harness::{self, Options, Tally, exit_code, run_jobs, table, unknown};
use verdicts::{Verdict, Verdicts};

/// How many deployments there are at once.
const AT_ONCE: usize = 3;

/// The sides that `--side` names.
const SIDES: [&str; 2] = ["direct", "through"];

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    if let (Some("--program"), Some(name)) = (arguments.next().as_deref(), arguments.next()) {
        return exit_code(&name, redis_rs::run(&name).map(|()| true).map_err(|error| error.to_string()));
    }
    no_harness::check();
    exit_code("deployments", Options::of_process("deployments", "--only").and_then(run))
}

fn run(options: Options) -> Result<bool, String> {
    if !options.all && options.named.is_empty() {
        println!("deployments: run by `make deployments`");
        return Ok(true);
    }
    let mut known: Vec<&str> = PROGRAMS.iter().map(|program| program.name).collect();
    known.extend(STORIES.iter().map(|story| story.name).chain(SUITES.iter().map(|suite| suite.name)));
    if let Some(name) = options.named.iter().find(|name| !known.iter().any(|known| known.starts_with(*name))) {
        return Err(unknown("program, story or suite", name, &known));
    }
    if let Some(side) = options.sides.iter().find(|side| !SIDES.contains(&side.as_str())) {
        return Err(unknown("side", side, &SIDES));
    }
    let is_side = |side: &&str| options.sides.is_empty() || options.sides.iter().any(|wanted| wanted == side);
    let sides: Vec<&str> = SIDES.into_iter().filter(is_side).collect();
    let is_named = |name: &str| options.named.iter().any(|wanted| name.starts_with(wanted));
    let is_wanted = |name: &str| options.named.is_empty() || is_named(name);
    let mut tally = Tally::default();
    #[allow(clippy::disallowed_methods, reason = "the duration of a run is told")]
    let start = Instant::now();
    let programs: Vec<&Program> = PROGRAMS.iter().filter(|program| is_wanted(program.name)).collect();
    run_programs(&programs, &sides, &mut tally)?;
    // A story is about redouble.
    if sides.contains(&"through") {
        let stories: Vec<&Story> = STORIES.iter().filter(|story| is_wanted(story.name)).collect();
        run_stories(&stories, &mut tally);
    }
    let suites: Vec<&Suite> = SUITES.iter().filter(|suite| is_named(suite.name)).collect();
    run_suites(&suites, &sides, &mut tally);
    println!("\nit took {} s", start.elapsed().as_secs());
    Ok(tally.close())
}

fn run_programs(programs: &[&Program], sides: &[&str], tally: &mut Tally) -> Result<(), String> {
    for program in programs {
        install(program.language)?;
    }
    let jobs = programs.iter().flat_map(|program| sides.iter().map(move |side| (1, (*program, *side))));
    let mut outcomes = run_jobs(AT_ONCE, jobs, |_, (program, side)| played(program, side));
    for (program, outcomes) in programs.iter().zip(outcomes.chunks_mut(sides.len())) {
        let complaints = complaints(sides, outcomes);
        if !complaints.is_empty() {
            say_once_more(program.name, &complaints);
            sides.iter().zip(outcomes).for_each(|(side, outcome)| *outcome = played(program, side));
        }
    }
    let head = ["program", "side", "writes", "unknown", "lost", "twice", "own connections", "clients seen"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for (program, outcomes) in programs.iter().zip(outcomes.chunks(sides.len())) {
        for (side, outcome) in sides.iter().zip(outcomes) {
            rows.push(row(program, side, outcome));
            if let Ok(Outcome { lost, doubled, log, .. }) = outcome {
                for line in lost.iter().chain(doubled).take(5) {
                    println!("{} {side}: {line}; its errors are in {}", program.name, log.display());
                }
            }
        }
        tally.count(program.name, &complaints(sides, outcomes));
    }
    if !programs.is_empty() {
        println!("\n{}", table(&rows, &[2, 3, 4, 5, 6, 7]));
    }
    Ok(())
}

fn played(program: &Program, side: &str) -> Result<Outcome, String> {
    let outcome = guarded(|| play(program, side == "through"));
    println!("{} {side}: {}", program.name, outcome.as_ref().map_or("no result", |_| "done"));
    outcome
}

/// What several deployments at once have disturbed is played again, alone: nodes are given up after a second without an answer.
fn say_once_more(name: &str, complaints: &[String]) {
    println!("{name}: once more, alone, because of this:");
    complaints.iter().for_each(|complaint| println!("  {complaint}"));
}

fn run_stories(stories: &[&Story], tally: &mut Tally) {
    let results = run_jobs(AT_ONCE, stories.iter().map(|story| (1, *story)), |_, story| {
        let result = guarded(story.play);
        println!("{}: {}", story.name, if result.is_ok() { "ok" } else { "FAILED" });
        result
    });
    for (story, mut result) in stories.iter().zip(results) {
        if let Err(reason) = &result {
            say_once_more(story.name, std::slice::from_ref(reason));
            result = guarded(story.play);
        }
        tally.count(story.name, result.err().as_slice());
    }
}

/// Runs suites of others, one after the other: they depend on timing.
fn run_suites(suites: &[&Suite], sides: &[&str], tally: &mut Tally) {
    let mut rows =
        vec![["suite", "version"].into_iter().chain(sides.iter().copied()).map(str::to_owned).collect::<Vec<_>>()];
    for suite in suites {
        let results: Vec<_> = sides.iter().map(|side| guarded(|| suites::run(suite, *side == "through"))).collect();
        let mut row = [suite.name, suite.version].map(str::to_owned).to_vec();
        let passed = |(verdicts, _): &(Verdicts, _)| verdicts.passed().to_string();
        row.extend(results.iter().map(|result| result.as_ref().map_or_else(|_| "no result".to_owned(), passed)));
        rows.push(row);
        let mut complaints: Vec<String> = results.iter().filter_map(|result| result.as_ref().err().cloned()).collect();
        if let (Some(Ok((verdicts, log))), Some(&"direct")) = (results.first(), sides.first())
            && verdicts.passed() < suite.passes
        {
            let (passed, known) = (verdicts.passed(), suite.passes);
            complaints.push(format!("{passed} pass directly and {known} are known to; see {}", log.display()));
        }
        if let [Ok((direct, _)), Ok((through, log))] = &results[..] {
            let pass: BTreeSet<&str> = through.named(Verdict::Passed).collect();
            let missing = direct.named(Verdict::Passed).filter(|name| !pass.contains(name));
            complaints.extend(
                missing.map(|name| format!("passes directly and not through redouble: {name}; see {}", log.display())),
            );
        }
        tally.count(suite.name, &complaints);
    }
    if !suites.is_empty() {
        println!("\n{}", table(&rows, &[2, 3]));
    }
}

/// Runs a part; its panic is its error.
fn guarded<T>(part: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(part)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        Err(text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default())
    })
}

fn row(program: &Program, side: &str, outcome: &Result<Outcome, String>) -> Vec<String> {
    let mut row = vec![program.name.to_owned(), side.to_owned()];
    match outcome {
        Err(_) => row.extend(["no result", "", "", "", "", ""].map(str::to_owned)),
        Ok(outcome) => {
            let seen = &outcome.seen;
            let numbers = [
                outcome.written,
                outcome.unknown,
                outcome.lost.len(),
                outcome.doubled.len(),
                seen.own.len(),
                seen.clients,
            ];
            row.extend(numbers.map(|number| number.to_string()));
        }
    }
    row
}

fn complaints(sides: &[&str], outcomes: &[Result<Outcome, String>]) -> Vec<String> {
    let mut complaints = Vec::new();
    for (side, outcome) in sides.iter().zip(outcomes) {
        match outcome {
            Err(reason) => complaints.push(format!("no result {side}: {reason}")),
            Ok(Outcome { seen, .. }) if *side == "direct" => {
                // Who sees nothing here would see nothing through redouble, either.
                if seen.own.is_empty() {
                    complaints.push(format!("no connection of the program was seen in {} looks", seen.looks));
                }
                complaints.extend(seen.strangers.iter().map(|line| format!("directly, a stranger at a node: {line}")));
            }
            Ok(Outcome { seen, .. }) => {
                complaints.extend(seen.own.iter().map(|line| format!("past redouble: {line}")));
                complaints.extend(seen.strangers.iter().map(|line| format!("a stranger at a node: {line}")));
            }
        }
    }
    if let [Ok(direct), Ok(through)] = outcomes {
        for (number, (there, here)) in direct.transcript.iter().zip(&through.transcript).enumerate() {
            // A client that has given up directly, after all its attempts, may be luckier through redouble.
            if there != here && !there.contains(": Io ") {
                complaints.push(format!("line {}, direct: {there}\n  through: {here}", number + 1));
            }
        }
        if direct.transcript.len() != through.transcript.len() {
            complaints.push(format!("{} lines direct, {} through", direct.transcript.len(), through.transcript.len()));
        }
        for (name, there, here) in [("lost", &direct.lost, &through.lost), ("twice", &direct.doubled, &through.doubled)]
        {
            // A client that repeats what may have run does so directly, too.
            if there.is_empty() && !here.is_empty() {
                complaints.push(format!("{name} through redouble, and not directly: {}", here.join("; ")));
            }
        }
    }
    complaints
}
