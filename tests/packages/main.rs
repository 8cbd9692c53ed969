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

mod binary;
mod environment;
mod scripts;

use std::process::ExitCode;

use environment::Environment;

/// What a story does: an error says what went wrong.
type Story = fn(&Environment) -> Result<(), String>;

/// A step of the run, which tells each of its stories as it ends.
struct Step {
    name: &'static str,
    run: fn(&Environment, &mut Report),
}

const STEPS: &[Step] = &[
    Step { name: "binary", run: |environment, report| report.tell_all(environment, binary::STORIES) },
    Step { name: "python", run: |environment, report| scripts::run("python", environment, report) },
    Step { name: "node", run: |environment, report| scripts::run("node", environment, report) },
    Step { name: "image", run: |environment, report| scripts::run("image", environment, report) },
];

/// The stories that were told.
pub struct Report {
    only: Option<String>,
    /// The step that runs.
    step: &'static str,
    passed: usize,
    failed: Vec<String>,
}

impl Report {
    /// Runs stories of this program.
    fn tell_all(&mut self, environment: &Environment, stories: &[(&str, Story)]) {
        for (name, story) in stories {
            if self.wants(name) {
                let result = story(environment);
                if let Err(error) = &result {
                    println!("{error}");
                }
                self.tell(name, result.is_ok());
            }
        }
    }

    /// Takes the result of a story.
    fn tell(&mut self, name: &str, has_passed: bool) {
        println!("{} {name}", if has_passed { "ok" } else { "FAILED" });
        self.count(name, has_passed);
    }

    /// Takes the result of a story that somebody else printed.
    fn count(&mut self, name: &str, has_passed: bool) {
        if has_passed {
            self.passed += 1;
        } else {
            self.failed.push(format!("{}: {name}", self.step));
        }
    }

    /// Whether a script is run, whose stories are not chosen one by one.
    fn wants_step(&self) -> bool {
        self.only.as_deref().is_none_or(|only| self.step == only)
    }

    /// Whether a story of this step is told.
    fn wants(&self, story: &str) -> bool {
        self.only.as_deref().is_none_or(|only| self.step == only || story.contains(only))
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let only = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--all"] => None,
        ["--only", name] => Some(name.to_owned()),
        _ => {
            println!("packages: run by `make test-packages`");
            return ExitCode::SUCCESS;
        }
    };
    let environment = match Environment::new() {
        Ok(environment) => environment,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut report = Report { only, step: "", passed: 0, failed: Vec::new() };
    for step in STEPS {
        println!("\n{}", step.name);
        report.step = step.name;
        (step.run)(&environment, &mut report);
    }
    println!("\n{} passed, {} failed", report.passed, report.failed.len());
    for name in &report.failed {
        println!("  {name}");
    }
    if report.passed == 0 {
        println!("  no story has this name");
    }
    if report.failed.is_empty() && report.passed > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
