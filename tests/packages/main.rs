//! The files that `make packages` builds, each tried in a fresh environment, as a user would have it.
//!
//! ```text
//! cargo test --test packages -- --all            every step
//! cargo test --test packages -- --only python    one step, or the stories whose names contain it
//! ```
//!
//! The files are copied into a folder outside the repository, and programs are run from there: without a compiler in
//! PATH, and, where mounting is allowed, with an empty folder in place of the repository.

#[path = "../support/mod.rs"]
mod support;

mod bill_of_materials;
mod binary;
mod environment;
mod publishing;
mod scripts;

use std::panic;
use std::process::ExitCode;

use environment::Environment;
use scripts::Brought;
use support::no_harness::{Options, Tally, check, exit_code};

/// What a story does: an error says what went wrong.
type Story = fn(&Environment) -> Result<(), String>;

/// A step of the run, which tells each of its stories as it ends.
struct Step {
    name: &'static str,
    run: fn(&Environment, &mut Report),
}

const STEPS: &[Step] = &[
    Step {
        name: "binary",
        run: |environment, report| {
            report.tell_all(environment, binary::STORIES);
            if cfg!(target_os = "linux") {
                report.tell_all(environment, binary::IN_AN_EMPTY_ROOT);
            }
        },
    },
    Step { name: "sbom", run: |environment, report| report.tell_all(environment, bill_of_materials::STORIES) },
    Step { name: "crate", run: |environment, report| report.tell_all(environment, publishing::STORIES) },
    Step { name: "python", run: |environment, report| scripts::run("python", Brought::Tests, environment, report) },
    Step { name: "node", run: |environment, report| scripts::run("node", Brought::Tests, environment, report) },
    Step { name: "image", run: |environment, report| scripts::run("image", Brought::Tests, environment, report) },
    // Nothing is built of the action, so its stories need its files.
    Step {
        name: "action",
        run: |environment, report| scripts::run("action", Brought::Everything, environment, report),
    },
];

/// The stories that were told.
pub struct Report {
    /// The steps or stories that were asked for; all, if there are none.
    only: Vec<String>,
    /// The step that runs.
    step: &'static str,
    told: usize,
    tally: Tally,
}

impl Report {
    /// Runs stories of this program.
    fn tell_all(&mut self, environment: &Environment, stories: &[(&str, Story)]) {
        for (name, story) in stories {
            if self.wants(name) {
                let result = panic::catch_unwind(|| story(environment));
                let result = result.unwrap_or_else(|_| Err("it panicked, see above".to_owned()));
                println!("{} {name}", if result.is_ok() { "ok" } else { "FAILED" });
                self.count(name, result);
            }
        }
    }

    /// Takes the result of a story whose line is printed.
    fn count(&mut self, name: &str, result: Result<(), String>) {
        let complaints: Vec<String> = result.err().into_iter().collect();
        self.tally.count(&format!("{}: {name}", self.step), &complaints);
        self.told += 1;
    }

    /// Whether all stories of this step are told.
    fn wants_step(&self) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == self.step)
    }

    /// Whether a story of this step is told.
    fn wants(&self, story: &str) -> bool {
        self.wants_step() || self.only.iter().any(|only| story.contains(only))
    }
}

fn main() -> ExitCode {
    check();
    exit_code("packages", Options::of_process("packages", "--only").and_then(try_packages))
}

/// Whether all stories that were asked for end well.
fn try_packages(options: Options) -> Result<bool, String> {
    if !options.all && options.named.is_empty() {
        println!("packages: run by `make test-packages`");
        return Ok(true);
    }
    let environment = Environment::new()?;
    let mut report = Report { only: options.named, step: "", told: 0, tally: Tally::default() };
    for step in STEPS {
        println!("\n{}", step.name);
        report.step = step.name;
        (step.run)(&environment, &mut report);
    }
    if report.told == 0 {
        return Err(format!("no step or story is called {}", report.only.join(" or ")));
    }
    Ok(report.tally.close())
}
