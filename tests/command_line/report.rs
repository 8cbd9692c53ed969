//! The program: `redouble report`.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

const RACE: &str = concat!(
    r#"{"seq":1,"time_us":1000,"client":1,"name":"A","command":["SETNX","lock","a"],"raw":":1\r\n","outcome":"answered"}"#,
    "\n",
    r#"{"seq":2,"time_us":2000,"client":2,"name":"B","command":["SETNX","lock","b"],"raw":":0\r\n","outcome":"answered"}"#,
    "\n",
    r#"{"seq":3,"time_us":3000,"client":2,"name":"B","command":["DEL","lock"],"raw":":1\r\n","outcome":"answered"}"#,
    "\n",
    r#"{"seq":4,"time_us":4000,"client":2,"name":"B","command":["SETNX","lock","b"],"raw":":1\r\n","outcome":"answered"}"#,
    "\n",
);

/// A temporary directory for one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("redouble-report-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    fn file(&self, name: &str, content: &str) -> String {
        fs::write(self.0.join(name), content).expect("a file");
        name.to_owned()
    }

    fn report(&self, arguments: &[&str]) -> Output {
        self.report_of("", arguments)
    }

    fn report_of(&self, input: &str, arguments: &[&str]) -> Output {
        let mut child = Command::new(env!("CARGO_BIN_EXE_redouble"))
            .arg("report")
            .args(arguments)
            .current_dir(&self.0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program");
        // The program may exit before it has read all of its input.
        let _ = child.stdin.take().expect("its input").write_all(input.as_bytes());
        child.wait_with_output().expect("its end")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn shown(output: &Output) -> String {
    assert!(output.status.success(), "{}", said(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_page_is_written_where_it_is_wanted() {
    let folder = Folder::new("where");
    let journal = folder.file("journal.jsonl", RACE);
    let told = shown(&folder.report(&[&journal]));
    assert!(told.starts_with("report.html ("), "{told}");
    assert!(fs::read_to_string(folder.0.join("report.html")).unwrap().starts_with("<!doctype html>"));
    shown(&folder.report(&[&journal, "-o", "other.html"]));
    let page = fs::read_to_string(folder.0.join("other.html")).unwrap();
    assert_eq!(shown(&folder.report_of(RACE, &["-", "-o", "-"])), page);
    assert!(Path::new(&folder.0).join("other.html").exists());
}

#[test]
fn the_text_goes_to_standard_output_and_is_plain() {
    let folder = Folder::new("text");
    let text = shown(&folder.report_of(RACE, &["--text", "-"]));
    assert!(text.contains("no-expiry") && text.contains("Lock lock\n") && !text.contains('\x1b'), "{text}");
}

#[test]
fn several_files_are_several_servers() {
    let folder = Folder::new("several");
    let (one, other) = (folder.file("one.jsonl", RACE), folder.file("other.jsonl", RACE));
    let text = shown(&folder.report(&[&one, &other, "--text"]));
    assert!(text.contains("2 servers") && text.contains("Lock lock on server 2"), "{text}");
}

#[test]
fn what_is_allowed_is_not_counted() {
    let folder = Folder::new("allowed");
    let journal = folder.file("journal.jsonl", RACE);
    let allowed = folder.file("allowed", "# known\n\n* loc? it is a test\n");
    let text = shown(&folder.report(&[&journal, "--text", "--allow", &allowed]));
    assert!(text.starts_with("nothing found (") && text.contains("Allowed: it is a test"), "{text}");
    let text = shown(&folder.report(&[&journal, "--text", "--not-locks", "l*"]));
    assert!(text.contains("0 locks"), "{text}");
    let text = shown(&folder.report_of(RACE.lines().next().unwrap(), &["-", "--text", "--locks", "loc*"]));
    assert!(text.contains("1 lock"), "{text}");
}

#[test]
fn what_cannot_be_read_is_named() {
    let folder = Folder::new("errors");
    let broken = folder.file("broken.jsonl", &format!("{RACE}{{\"seq\":5}}\n"));
    let allowed = folder.file("allowed", "no-expiry lock\n");
    for (arguments, why) in [
        (vec![broken.as_str()], "broken.jsonl, line 5: "),
        (vec!["missing.jsonl"], "missing.jsonl: No such file or directory"),
        (vec![], "no journal; as in: redouble report"),
        (vec!["--html", "x"], "there is no flag '--html'"),
        (vec!["--allow", allowed.as_str(), "x"], "allowed:1: 'no-expiry lock' has no reason"),
        (vec!["-o", "allowed/x.html", "-"], "cannot write allowed/x.html: Not a directory"),
    ] {
        let output = folder.report(&arguments);
        let said = said(&output);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
        assert!(said.starts_with("redouble report: ") && said.contains(why), "{arguments:?}: {said}");
    }
    assert!(shown(&folder.report(&["--help"])).contains("redouble report [FLAGS] FILE"));
}
