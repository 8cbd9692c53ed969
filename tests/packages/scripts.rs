//! The stories that ecosystems tell in their own language: `packages/NAME/tests/run.py FILES`, which prints `ok STORY` or
//! `FAILED STORY` for each.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use super::Report;
use super::environment::Environment;

pub fn run(name: &'static str, environment: &Environment, report: &mut Report) {
    if report.wants_step()
        && let Err(error) = tell(name, environment, report)
    {
        println!("FAILED {name}");
        report.count(name, Err(error));
    }
}

fn tell(name: &'static str, environment: &Environment, report: &mut Report) -> Result<(), String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("packages").join(name).join("tests");
    let brought = environment.bring(&source, &format!("{name}-tests"))?;
    let mut script = environment.python(&brought.join("run.py"));
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
