//! The stories that ecosystems tell in their own language: `packages/NAME/tests/run.py FILES`, which prints `ok STORY` or
//! `FAILED STORY` for each.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use super::Report;
use super::environment::Environment;

pub fn run(name: &'static str, environment: &Environment, report: &mut Report) {
    if let Err(error) = tell(name, environment, report) {
        println!("{error}");
        report.tell(name, false);
    }
}

fn tell(name: &'static str, environment: &Environment, report: &mut Report) -> Result<(), String> {
    if !report.wants_step() {
        return Ok(());
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("packages").join(name).join("tests");
    let brought = environment.bring(&source, &format!("{name}-tests"))?;
    let mut script = environment.python(&brought.join("run.py"));
    script.arg(environment.files());
    let mut child = script.stdout(Stdio::piped()).spawn().map_err(|error| format!("{script:?}: {error}"))?;
    let output = BufReader::new(child.stdout.take().expect("piped"));
    let before = (report.passed, report.failed.len());
    for line in output.lines().map_while(Result::ok) {
        println!("{line}");
        let words = |verdict: &str| line.strip_prefix(verdict).and_then(|rest| rest.strip_prefix(' '));
        if let Some(story) = words("ok") {
            report.count(story, true);
        } else if let Some(story) = words("FAILED") {
            report.count(story, false);
        }
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    if !status.success() && report.failed.len() == before.1 {
        return Err(format!("packages/{name}/tests/run.py ended with {status}"));
    }
    if (report.passed, report.failed.len()) == before {
        return Err(format!("packages/{name}/tests/run.py told no story"));
    }
    Ok(())
}
