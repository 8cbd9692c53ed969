//! The stories that ecosystems tell in their own language: `packages/NAME/tests/run.py FILES`, which prints `ok STORY` or
//! `FAILED STORY` for each.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use super::Report;
use super::environment::Environment;

/// What a script sees of its folder of `packages`.
#[derive(Clone, Copy)]
pub enum Brought {
    /// Its tests: what they try is built from the rest.
    Tests,
    /// All of it, if nothing is built from it.
    Everything,
}

pub fn run(name: &'static str, what: Brought, environment: &Environment, report: &mut Report) {
    if report.wants_step()
        && let Err(error) = tell(name, what, environment, report)
    {
        println!("FAILED {name}");
        report.count(name, Err(error));
    }
}

fn tell(name: &str, what: Brought, environment: &Environment, report: &mut Report) -> Result<(), String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("packages").join(name);
    let script = match what {
        Brought::Tests => environment.bring(&folder.join("tests"), &format!("{name}-tests"))?.join("run.py"),
        Brought::Everything => environment.bring(&folder, name)?.join("tests/run.py"),
    };
    let mut script = environment.python(&script);
    script.arg(environment.files());
    let mut child = script.stdout(Stdio::piped()).spawn().map_err(|error| format!("{script:?}: {error}"))?;
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let (before, mut has_failed) = (report.told, false);
    for line in output.lines().map_while(Result::ok) {
        println!("{line}");
        let story = |verdict: &str| line.strip_prefix(verdict).and_then(|rest| rest.strip_prefix(' '));
        if let Some(story) = story("ok") {
            report.count(story, Ok(()));
        } else if let Some(story) = story("FAILED") {
            report.count(story, Err("see above".to_owned()));
            has_failed = true;
        }
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    match report.told == before {
        true => Err(format!("packages/{name}/tests/run.py told no story and ended with {status}")),
        false if !status.success() && !has_failed => Err(format!("packages/{name}/tests/run.py ended with {status}")),
        false => Ok(()),
    }
}
