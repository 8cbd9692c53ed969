//! Follows a page that shows files, commands with their output, and changes to a program, in the order of the page.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// A step of a page.
enum Step {
    /// A file and its content: a block with a name after its language.
    File(String, String),
    /// A command and its output. An output line that ends in `...` may continue differently.
    Console(String, String),
    /// A change to the program, in which each line begins with a space, a minus or a plus.
    Change(String),
}

/// Follows a page in a folder and returns the number of its steps. Changes apply to `program`. Numbers, times and
/// tokens in the output may differ.
pub fn follow(page: &str, folder: &Path, program: &str, path: &str) -> usize {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs").join(page)).expect("the page");
    let steps = steps(&page);
    let count = steps.len();
    for step in steps {
        match step {
            Step::File(name, text) => fs::write(folder.join(name), text).expect("a file"),
            Step::Console(command, expected) => run(&command, &expected, folder, path),
            Step::Change(change) => {
                let program = folder.join(program);
                let text = fs::read_to_string(&program).expect("the program");
                fs::write(&program, changed(&text, &change)).expect("a changed program");
            }
        }
    }
    count
}

fn steps(page: &str) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut rest = page;
    while let Some((_, behind)) = rest.split_once("\n```") {
        let (kind, behind) = behind.split_once('\n').expect("a line");
        let (block, behind) = behind.split_once("\n```").expect("the end of the block");
        match kind {
            "console" => {
                let (command, output) = block.split_once('\n').expect("a command and what it prints");
                let command = command.strip_prefix("$ ").expect("a command behind a dollar sign");
                steps.push(Step::Console(command.to_owned(), output.to_owned()));
            }
            "diff" => steps.push(Step::Change(block.to_owned())),
            kind => {
                if let Some((_language, name)) = kind.split_once(' ') {
                    steps.push(Step::File(name.to_owned(), format!("{block}\n")));
                }
            }
        }
        rest = behind;
    }
    steps
}

#[track_caller]
fn run(command: &str, expected: &str, folder: &Path, path: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("{{ {command}; }} 2>&1")]).current_dir(folder).stdin(Stdio::null());
    shell.env("PATH", path).env("PYTHONDONTWRITEBYTECODE", "1").env("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1");
    // The Python package from its sources, as an installation finds it.
    shell.env("PYTHONPATH", concat!(env!("CARGO_MANIFEST_DIR"), "/packages/python/src"));
    shell.env("PYTEST_PLUGINS", "redouble.pytest_plugin").env("REDOUBLE_BINARY", env!("CARGO_BIN_EXE_redouble"));
    shell.env("NPM_CONFIG_LOGLEVEL", "error").env("NO_COLOR", "1").env_remove("REDOUBLE");
    // Test runners print colours and annotations where they believe to be in CI; the pages show neither.
    for name in ["CI", "FORCE_COLOR", "GITHUB_ACTIONS"] {
        shell.env_remove(name);
    }
    let output = shell.output().expect("a shell");
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(shortened(&timeless(&said), expected), timeless(expected), "$ {command}\n{said}");
    let fails = expected.contains("failed because of");
    assert_eq!(output.status.code(), Some(if fails { 3 } else { 0 }), "$ {command}\n{said}");
}

/// Cuts the lines of a text whose expected counterparts end in `...`.
fn shortened(text: &str, expected: &str) -> String {
    let expected = timeless(expected);
    let mut expected = expected.lines().map(|line| line.strip_suffix("..."));
    let cut = |line: &str| match expected.next().flatten() {
        Some(start) if line.starts_with(start) => format!("{start}...\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(cut).collect()
}

/// Replaces each number that is not part of a name by `N`, and each token by `T`.
fn timeless(text: &str) -> String {
    let is_token = |word: &str| word.len() == 32 && word.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    let mut shown = String::new();
    for line in text.trim_end().lines() {
        for word in line.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric()) {
            let (bare, end) = match word.strip_suffix(|letter: char| !letter.is_ascii_alphanumeric()) {
                Some(bare) => (bare, &word[bare.len()..]),
                None => (word, ""),
            };
            let bare = match bare {
                token if is_token(token) => "T",
                number if is_number(number.trim_end_matches('s')) => "N",
                other => other,
            };
            // Columns are as wide as their widest number.
            if !(bare.is_empty() && end == " " && shown.ends_with("N ")) {
                shown.push_str(bare);
                shown.push_str(end);
            }
        }
        shown.push('\n');
    }
    shown
}

/// Returns the program with a change applied.
#[track_caller]
fn changed(program: &str, change: &str) -> String {
    let side = |leave_out: char| -> String {
        let lines = change.lines().filter(|line| !line.starts_with(leave_out));
        lines.map(|line| format!("{}\n", line.get(1..).unwrap_or_default())).collect()
    };
    let (before, after) = (side('+'), side('-'));
    assert_eq!(program.matches(&before).count(), 1, "this is to stand there once:\n{before}in\n{program}");
    program.replace(&before, &after)
}
