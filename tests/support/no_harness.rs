//! What the test binaries without a harness share: options, jobs side by side, tables of results, the exit status.
//!
//! Such a binary runs whole suites, which take long. Plain `cargo test` passes its flags and words to it as to every
//! test binary, and most of them then run nothing: `--all` or a name asks for the rest.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::Mutex;

/// The options of such a binary.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct Options {
    /// `--all`
    pub all: bool,
    /// What the option that names suites was given, which can be repeated.
    pub named: Vec<String>,
    /// `--server NAME=COMMAND`: another server in place of redouble.
    pub server: Option<String>,
    /// `--real PROGRAM`: the real server that the others are compared with, in place of redis-server.
    pub real: Option<String>,
    /// `--side NAME`: what is compared with it; can be repeated.
    pub sides: Vec<String>,
    /// Words that stand alone: the tests that `cargo test` was asked for.
    pub words: Vec<String>,
}

impl Options {
    /// The options of this process. `naming` is the option that names what to run: `--client`.
    pub fn of_process(binary: &str, naming: &str) -> Result<Self, String> {
        Self::parse(std::env::args().skip(1), binary, naming)
    }

    fn parse(mut arguments: impl Iterator<Item = String>, binary: &str, naming: &str) -> Result<Self, String> {
        let mut options = Self::default();
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--all" => options.all = true,
                "--server" => options.server = Some(arguments.next().ok_or("--server NAME=COMMAND")?),
                "--real" => options.real = Some(arguments.next().ok_or("--real PROGRAM")?),
                "--side" => options.sides.push(arguments.next().ok_or("--side NAME")?),
                flag if flag == naming => {
                    options.named.push(arguments.next().ok_or_else(|| format!("{naming} NAME"))?);
                }
                // A flag of `cargo test` that is meant for binaries with a harness.
                flag if flag.starts_with('-') => println!("{binary}: {flag} means nothing here"),
                _ => options.words.push(argument),
            }
        }
        Ok(options)
    }
}

/// The error for a name that nothing has. `kind` says what is named: `suite`.
pub fn unknown(kind: &str, name: &str, known: &[&str]) -> String {
    format!("no {kind} is called {name}; there are {}", known.join(", "))
}

/// The exit status of a binary: whether all is well, or why it could not run.
pub fn exit_code(binary: &str, is_well: Result<bool, String>) -> ExitCode {
    match is_well {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{binary}: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Runs jobs, `at_once` side by side, those with the most seconds first. A job is told which of the workers runs it. The
/// results have the order of the jobs.
pub fn run_jobs<J: Send, R: Send>(
    at_once: usize,
    jobs: impl IntoIterator<Item = (u64, J)>,
    run: impl Fn(usize, J) -> R + Sync,
) -> Vec<R> {
    let mut left: Vec<(usize, (u64, J))> = jobs.into_iter().enumerate().collect();
    left.sort_by_key(|(index, (seconds, _))| (*seconds, usize::MAX - index));
    let left = Mutex::new(left);
    let done = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for worker in 0..at_once {
            let (left, done, run) = (&left, &done, &run);
            scope.spawn(move || {
                loop {
                    let Some((index, (_, job))) = left.lock().expect("nobody panics with it").pop() else { return };
                    let result = run(worker, job);
                    done.lock().expect("nobody panics with it").push((index, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("nobody panics with it");
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
}

/// A table in columns. The columns of numbers, counted from 0, end at the same place.
pub fn table(rows: &[Vec<String>], numbers: &[usize]) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let width = widths[column];
            let written = match numbers.contains(&column) {
                true => write!(line, "{cell:>width$}  "),
                false => write!(line, "{cell:width$}  "),
            };
            written.expect("text can be written into a String");
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// How many suites or steps were well.
#[derive(Default)]
pub struct Tally {
    passed: usize,
    failed: usize,
}

impl Tally {
    /// Counts a suite, prints what is to complain of in it, and says whether that is nothing.
    pub fn count(&mut self, name: &str, complaints: &[String]) -> bool {
        for complaint in complaints {
            println!("\n{name}: {complaint}");
        }
        let is_well = complaints.is_empty();
        *(if is_well { &mut self.passed } else { &mut self.failed }) += 1;
        is_well
    }

    /// Prints the closing line, `3 passed, 0 failed`, and says whether nothing failed.
    pub fn close(self) -> bool {
        println!("\n{} passed, {} failed", self.passed, self.failed);
        self.failed == 0
    }
}

/// Checks this module. A binary without a harness calls this before it relies on it.
pub fn check() {
    let parse = |words: &[&str]| Options::parse(words.iter().map(|word| (*word).to_owned()), "check", "--only");
    let words = ["--only", "a", "word", "--server", "n=c", "--only", "b", "--real", "r", "--side", "s", "--side", "t"];
    let options = parse(&words).expect("these are right");
    assert_eq!((options.real.as_deref(), options.sides), (Some("r"), vec!["s".into(), "t".into()]));
    assert_eq!((options.all, options.named, options.words), (false, vec!["a".into(), "b".into()], vec!["word".into()]));
    assert_eq!(options.server.as_deref(), Some("n=c"));
    assert_eq!(parse(&["--all", "--only"]), Err("--only NAME".to_owned()));
    assert_eq!(run_jobs(2, [(1, "a"), (9, "b"), (1, "c")], |_, job| job), ["a", "b", "c"]);
    let rows = [["name", "tests", "result"], ["long name", "7", "well"]].map(|row| row.map(str::to_owned).to_vec());
    assert_eq!(table(&rows, &[1]), "name       tests  result\nlong name      7  well\n");
}
