//! `redouble run`: the command that it starts finds its server and keeps its own signals, output and exit status. No
//! process remains afterwards.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};

pub(crate) const BINARY: &str = env!("CARGO_BIN_EXE_redouble");

pub(crate) fn command(flags: &[&str], script: &str) -> Command {
    let mut command = Command::new(BINARY);
    command.arg("run").args(flags).args(["--", "sh", "-c", script]);
    // Its own process group keeps signals from the terminal of the tests away from it.
    command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn run(flags: &[&str], script: &str) -> Output {
    command(flags, script).output().unwrap()
}

pub(crate) fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Returns the output of a script that exits with 0 and prints nothing on standard error.
#[track_caller]
pub(crate) fn said(flags: &[&str], script: &str) -> String {
    let output = run(flags, script);
    assert_eq!((errors(&output).as_str(), output.status.code()), ("", Some(0)));
    out(&output)
}

/// A temporary directory for one test.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("redouble-run-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    pub(crate) fn text(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A run whose command talks with the test.
struct Running {
    child: Child,
    lines: BufReader<ChildStdout>,
}

impl Running {
    fn of(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap());
        Self { child, lines }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    }

    fn say(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        writeln!(input, "{line}").unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Reads all output until every process that holds the pipe has exited.
    fn rest(&mut self) -> String {
        let mut rest = String::new();
        self.lines.read_to_string(&mut rest).unwrap();
        rest
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn is_served(port: &str) -> bool {
    TcpStream::connect(("127.0.0.1", port.parse().unwrap())).is_ok()
}

// ---- what the command inherits

#[test]
fn the_command_is_told_where_the_replicas_are() {
    let script = r#"test "$REDIS_URLS" = "$REDIS_URL" && redis-cli -u "$REDIS_URL" SET a 1 >/dev/null
                    for at in $(echo "$REDIS_REPLICAS" | tr , ' '); do redis-cli -u "redis://$at" GET a; done"#;
    assert_eq!(said(&["--replicas", "2"], script), "1\n1\n");
}

#[test]
fn the_command_finds_its_server_by_the_environment() {
    let script = r#"redis-cli -u "$REDIS_URL" SET a b; redis-cli -h "$REDIS_HOST" -p "$REDIS_PORT" GET a
                    test "$REDIS_URL" = "redis://$REDIS_HOST:$REDIS_PORT" && test "$REDIS_URLS" = "$REDIS_URL" && echo same"#;
    assert_eq!(said(&[], script), "OK\nb\nsame\n");
}

#[test]
fn the_password_is_in_the_url() {
    let flags = ["--requirepass", "a b/c@d"];
    assert_eq!(said(&flags, r#"redis-cli --no-auth-warning -u "$REDIS_URL" PING"#), "PONG\n");
    assert!(said(&flags, "echo $REDIS_URL").starts_with("redis://default:a%20b%2Fc%40d@127.0.0.1:"));
}

#[test]
fn of_several_instances_the_command_is_told_all() {
    let script = r#"echo "$REDIS_URLS" | tr , '\n' | while read url; do redis-cli -u "$url" SETNX a "$url"; done
                    test "${REDIS_URLS%%,*}" = "$REDIS_URL" && redis-cli -u "$REDIS_URL" GET a | grep -c "$REDIS_PORT""#;
    assert_eq!(said(&["--instances", "3"], script), "1\n1\n1\n1\n");
    let output = run(&["--instances", "3", "--report"], &format!("{script}; redis-cli -u ${{REDIS_URLS##*,}} NOSUCH"));
    let report = errors(&output);
    let expected =
        "redouble run: 4 commands, 5 connections, 3 locks taken\nredouble run: unsupported commands: NOSUCH (1)\n";
    assert_eq!(report, expected);
}

#[test]
fn a_port_that_was_asked_for_is_the_one_and_a_taken_one_is_an_error() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let output = run(&["--port", &port, "--bind", "127.0.0.1"], "echo never");
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(125), ""));
    let reason = format!("redouble run: cannot listen on 127.0.0.1:{port}: Address already in use");
    assert!(errors(&output).starts_with(&reason), "{}", errors(&output));
    drop(taken);
    // Another process may take the port before the server does, so the test tries again.
    let is_right = |_| {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
        let output = run(&["--port", &port], "echo $REDIS_PORT");
        assert!(
            out(&output) == format!("{port}\n") || errors(&output).contains("Address already in use"),
            "{output:?}"
        );
        output.status.success()
    };
    assert!((0..5).any(is_right));
}

#[test]
fn every_flag_of_the_server_and_a_configuration_file_can_be_given() {
    let folder = Folder::new("flags");
    fs::write(folder.text("a.conf"), "databases 3\ntimeout 7\n").unwrap();
    let flags = [&folder.text("a.conf"), "--timeout", "8", "--compat", "redis-7.0"];
    let script = "redis-cli -u $REDIS_URL CONFIG GET databases; redis-cli -u $REDIS_URL CONFIG GET timeout";
    assert_eq!(said(&flags, script), "databases\n3\ntimeout\n8\n");
}

#[test]
fn the_command_is_where_it_was_and_as_free_as_it_was() {
    let folder = Folder::new("place");
    let here = std::env::current_dir().unwrap();
    let limit = Command::new("sh").args(["-c", "ulimit -n"]).output().unwrap();
    let script = "pwd; ulimit -n; env | grep -c '^REDOUBLE'";
    // The command inherits the original environment and limits, not those that the server has set for itself.
    let before = std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("REDOUBLE")).count();
    let expected = format!("{}\n{}{before}\n", here.display(), String::from_utf8_lossy(&limit.stdout));
    assert_eq!(out(&run(&["--dir", &folder.text("")], script)), expected);
}

#[test]
fn standard_input_is_the_commands() {
    let mut running = Running::of(&mut command(&[], "cat"));
    running.say("heard");
    assert_eq!(running.line(), "heard");
    drop(running.child.stdin.take());
    assert_eq!(running.rest(), "");
}

#[test]
fn standard_output_carries_only_what_the_command_says() {
    let folder = Folder::new("log");
    let log = folder.text("log");
    let said = said(&["--logfile", &log], "redis-cli -u $REDIS_URL PING");
    assert_eq!(said, "PONG\n");
    assert!(fs::read_to_string(log).unwrap().contains("User requested shutdown"));
}

#[test]
fn two_runs_at_the_same_time_do_not_meet() {
    let script = r#"redis-cli -u "$REDIS_URL" SET who "$0$1" ; read go; redis-cli -u "$REDIS_URL" GET who"#;
    let mut runs = ["one", "two"].map(|name| Running::of(command(&[], script).arg(name)));
    runs.iter_mut().for_each(|run| assert_eq!(run.line(), "OK"));
    runs.iter_mut().for_each(|run| run.say("go"));
    assert_eq!(runs.each_mut().map(|run| run.line()), ["one", "two"]);
}

// ---- how it ends

#[test]
fn the_status_is_the_commands() {
    for (script, status) in [("exit 0", 0), ("exit 1", 1), ("exit 77", 77), ("kill -9 $$", 137), ("kill -TERM $$", 143)]
    {
        let output = run(&[], script);
        assert_eq!((output.status.code(), errors(&output).as_str()), (Some(status), ""), "{script}");
    }
}

#[test]
fn a_command_that_is_not_there_or_cannot_be_run_is_named() {
    let folder = Folder::new("commands");
    let plain = folder.text("plain");
    fs::write(&plain, "no program").unwrap();
    for (name, status, reason) in
        [("redouble-no-such-command", 127, "No such file or directory"), (&plain, 126, "Permission denied")]
    {
        let output = Command::new(BINARY).args(["run", "--", name]).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{name}");
        assert_eq!(errors(&output), format!("redouble: {name}: {reason}\n"));
    }
}

/// Prints the port of its server, blocks for ever, and reports a signal.
const WAITS: &str = r#"trap 'echo "got it"; exit 9' TERM INT HUP QUIT USR1 USR2
                       echo "$REDIS_PORT"
                       redis-cli -u "$REDIS_URL" BLPOP nothing 0 >/dev/null 2>&1 & wait"#;

#[test]
fn signals_reach_the_command_which_decides_what_they_mean() {
    for signal in [Signal::TERM, Signal::INT, Signal::HUP, Signal::QUIT, Signal::USR1, Signal::USR2] {
        let mut running = Running::of(&mut command(&[], WAITS));
        let port = running.line();
        assert!(is_served(&port));
        running.signal(signal);
        assert_eq!(running.rest(), "got it\n", "{signal:?}");
        assert_eq!(running.child.wait().unwrap().code(), Some(9), "{signal:?}");
        assert!(!is_served(&port), "{signal:?}");
    }
}

#[test]
fn killed_it_takes_its_server_and_the_command_along() {
    let mut running = Running::of(&mut command(&[], WAITS));
    let port = running.line();
    running.signal(Signal::KILL);
    // The pipe closes when the last process exits. The kernel signals the command once for each thread of the parent
    // that could have been its new parent.
    let rest = running.rest();
    assert!(rest.starts_with("got it\n"), "{rest}");
    assert_eq!(running.child.wait().unwrap().signal(), Some(9));
    assert!(!is_served(&port));
}

#[test]
fn it_ends_with_its_parent_if_that_is_asked_for() {
    let script = r#""$0" run --exit-with-parent yes -- sh -c "$1" & wait"#;
    let mut parent = Command::new("sh");
    parent.args(["-c", script, BINARY, WAITS]).process_group(0).stdout(Stdio::piped());
    let mut parent = Running::of(&mut parent);
    let port = parent.line();
    parent.signal(Signal::KILL);
    assert_eq!(parent.rest(), "got it\n");
    assert!(!is_served(&port));
}

#[test]
fn the_server_is_gone_when_the_command_has_ended_and_not_before() {
    let port = said(&[], "redis-cli -u $REDIS_URL PING >/dev/null; echo $REDIS_PORT");
    assert!(!is_served(port.trim_end()));
    // A SHUTDOWN of the server does not end the command.
    let output = run(&[], "redis-cli -u $REDIS_URL SHUTDOWN NOSAVE; echo went on; exit 4");
    assert_eq!((out(&output).as_str(), output.status.code()), ("went on\n", Some(4)));
}

#[test]
fn files_that_tell_of_the_server_are_there_while_it_is() {
    let folder = Folder::new("notices");
    let (port, pid) = (folder.text("port"), folder.text("pid"));
    let script = format!(r#"test "$(cat {port})" = "$REDIS_PORT" && test "$(cat {pid})" = "$PPID" && echo right"#);
    assert_eq!(said(&["--port-file", &port, "--pidfile", &pid], &script), "right\n");
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 0);
}

// ---- variables of other names

#[test]
fn a_variable_of_another_name_says_where_the_server_is() {
    let script = r#"test "$CACHE" = "$REDIS_URL" && test "$SPRING_DATA_REDIS_PORT" = "$REDIS_PORT" &&
        test "$QUEUE_ADDR" = "$REDIS_HOST:$REDIS_PORT" && test "$CONFIG" = "{\"at\": \"$REDIS_URL/3\"}" && echo same"#;
    let flags = [
        "--env",
        "CACHE",
        "--env=SPRING_DATA_REDIS_PORT",
        "--env",
        "QUEUE_ADDR",
        "--env",
        r#"CONFIG={"at": "{url}/3"}"#,
    ];
    assert_eq!(said(&flags, script), "same\n");
    // One of the usual names may have another value, too.
    assert_eq!(said(&["--env", "REDIS_URL={url}/7"], "redis-cli -u $REDIS_URL CLIENT INFO | grep -o 'db=7'"), "db=7\n");
    let all = said(&["--instances", "2", "--env", "NODES={urls}"], r#"test "$NODES" = "$REDIS_URLS" && echo "$NODES""#);
    assert_eq!(all.matches("redis://").count(), 2, "{all}");
}

#[test]
fn an_exploration_sets_variables_of_other_names_and_its_replay_does() {
    let mut explore = Command::new(BINARY);
    explore.args(["explore", "--env", "CACHE_URL", "--", "sh", "-c", "redis-cli -u $CACHE_URL SET a 1; exit 1"]);
    let output = explore.stdin(Stdio::null()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let said = errors(&output);
    assert!(said.contains("SET a 1  -> OK"), "{said}");
    let replay = said.lines().find(|line| line.contains("--replay")).unwrap_or_else(|| panic!("{said}"));
    assert!(replay.contains(" --env CACHE_URL -- sh -c "), "{replay}");
}

#[test]
fn a_variable_that_cannot_be_set_is_refused() {
    for value in ["", "=x", "CACHE={hosts}"] {
        let output = run(&["--env", value], "true");
        assert_eq!(output.status.code(), Some(125), "{value}");
        assert!(
            errors(&output).starts_with("redouble run: --env takes NAME, or NAME=FORMAT with {url}, "),
            "{value}: {}",
            errors(&output)
        );
    }
}

// ---- the commands as they come

#[test]
fn verbose_shows_who_sends_what_and_the_reply_without_secrets() {
    let script = r#"printf 'CLIENT SETNAME web-1\nSELECT 3\nSET k v\nGET nothing\nINCR k\nAUTH me geheim\n' | redis-cli -u "$REDIS_URL""#;
    for flag in ["--verbose", "-v"] {
        let output = run(&[flag], script);
        let said = errors(&output);
        assert!(out(&output).contains("OK\n") && !out(&output).contains("redouble"), "{}", out(&output));
        let shown: Vec<&str> =
            said.lines().filter_map(|line| line.split_once(" [3 web-1] ")).map(|(_, shown)| shown).collect();
        let expected =
            ["SET k v -> OK", "GET nothing -> (nil)", "INCR k -> ERR value is not an integer or out of range"];
        assert_eq!(shown[..3], expected, "{said}");
        assert!(shown[3].starts_with("AUTH (redacted)") && !said.contains("geheim"), "{said}");
        assert!(said.lines().all(|line| line.starts_with("redouble run: #")), "{said}");
    }
}

#[test]
fn verbose_shows_what_scripts_run_and_what_is_in_spaces_that_are_gone() {
    let script = r#"cli() { redis-cli --no-auth-warning "$@" >/dev/null; }
        cli -u redis://space.w1:any@$REDIS_HOST:$REDIS_PORT SET inside 1
        cli -u $REDIS_URL REDOUBLE SPACES DROP w1; cli -u $REDIS_URL SET before 1; cli -u $REDIS_URL REDOUBLE RESET
        cli -u $REDIS_URL EVAL 'return redis.call("SET", KEYS[1], "x")' 1 scripted"#;
    let said = errors(&run(&["-v"], script));
    let at = |text: &str| said.find(text).unwrap_or_else(|| panic!("{text}: {said}"));
    assert!(at("space w1 [0 127.0.0.1:") < at(" SET inside 1 -> OK\n"), "{said}");
    assert!(at(" SET before 1 -> OK\n") < at(" EVAL \"return"), "{said}");
    assert!(at("1 scripted -> OK\nredouble run:   SET scripted x -> OK\n") > 0, "{said}");
}

#[test]
fn a_terminal_that_nobody_reads_holds_up_no_command() {
    let script = r#"yes 'PING 0123456789012345678901234567890123456789' | head -30000 | redis-cli -u "$REDIS_URL" >/dev/null; echo done"#;
    let mut running = Running::of(&mut command(&["-v"], script));
    // Until here nobody has read standard error.
    assert_eq!(running.line(), "done");
    let mut said = String::new();
    running.child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    let left_out = said.lines().find(|line| line.contains(" commands not shown: they came too fast"));
    assert!(left_out.is_some(), "{} lines", said.lines().count());
    assert_eq!(running.child.wait().unwrap().code(), Some(0));
}

// ---- the report

#[test]
fn the_report_tells_what_happened_and_standard_output_is_left_alone() {
    let script = r#"cli() { redis-cli -u "$REDIS_URL" "$@" >/dev/null; }
        cli SET lock a NX PX 9000; cli SET lock b NX PX 9000; cli SETNX lock c; cli SETNX other d; cli SET plain e
        cli EVAL 'return redis.call("SET", KEYS[1], "f", "NX")' 1 scripted
        printf 'MULTI\nSET queued g NX GET\nSETNX lock h\nEXEC\n' | cli"#;
    let output = run(&["--report"], script);
    assert_eq!((out(&output).as_str(), output.status.code()), ("", Some(0)));
    let report = errors(&output);
    let first = report.lines().next().unwrap();
    assert!(first.starts_with("redouble run: ") && first.ends_with(" connections, 4 locks taken"), "{report}");
    assert!(first.contains(" 7 connections"), "{report}");
    assert_eq!(report.lines().count(), 1, "{report}");
}

/// Sends an unsupported command, and arms a fault and a gate that no command matches.
const SLOPPY: &str = r#"cli() { redis-cli -u "$REDIS_URL" "$@" >/dev/null; }
    cli NOSUCH a; cli nosuch b; cli CONFIG NOSUCH; cli EVAL 'return redis.pcall("nosuch3")' 0
    cli REDOUBLE FAULT ADD lost on DEL close-after; cli REDOUBLE FAULT ADD met on GET error 'E x'
    cli REDOUBLE FAULT ADD gone on DEL close-after; cli REDOUBLE FAULT REMOVE gone
    cli REDOUBLE GATE ADD narrow on DEL
    cli GET a"#;

const FAULTS: [&str; 3] = [
    "redouble run: unsupported commands: CONFIG NOSUCH (1), NOSUCH (2), NOSUCH3 (1)",
    "redouble run: faults that never fired: gone, lost",
    "redouble run: gates that were never reached: narrow",
];

#[test]
fn the_report_names_what_should_not_have_been() {
    let output = run(&["--report"], SLOPPY);
    assert_eq!(output.status.code(), Some(0));
    let report = errors(&output);
    assert_eq!(report.lines().skip(1).collect::<Vec<_>>(), FAULTS, "{report}");
}

#[test]
fn strict_fails_if_the_tests_never_reached_the_server() {
    let output = run(&["--strict"], "true");
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(errors(&output), "redouble run: failed because of nobody having connected (--strict)\n");
}

#[test]
fn strict_fails_if_nobody_opened_a_gate() {
    let script = "redis-cli -u $REDIS_URL REDOUBLE GATE ADD door on SET; redis-cli -u $REDIS_URL SET k v";
    let output = run(&["--strict", "--gate-timeout", "1ms"], script);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        errors(&output).starts_with("redouble run: gates that nobody opened in time: door\n"),
        "{}",
        errors(&output)
    );
}

#[test]
fn strict_fails_for_it_and_says_why() {
    const WHY: &str = "redouble run: failed because of unsupported commands and faults that never fired and gates that \
                       were never reached (--strict)";
    let output = run(&["--strict"], SLOPPY);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(errors(&output).lines().collect::<Vec<_>>(), [FAULTS.as_slice(), &[WHY]].concat());
    // The command's own failure status takes precedence.
    assert_eq!(run(&["--strict"], &format!("{SLOPPY}; exit 6")).status.code(), Some(6));
    assert_eq!(said(&["--strict"], "redis-cli -u $REDIS_URL GET a"), "\n");
}

#[test]
fn it_explains_itself() {
    let run = |arguments: &[&str]| Command::new(BINARY).arg("run").args(arguments).output().unwrap();
    let help = run(&["--help"]);
    assert!(out(&help).contains("redouble run [FLAGS] -- COMMAND") && help.status.success());
    assert!(out(&help).lines().all(|line| line.len() <= 90));
    for (arguments, reason) in [
        (&[][..], "no command; it stands behind --"),
        (&["--"], "no command; it stands behind --"),
        (
            &["npm", "test"],
            "-- is missing; flags for the server stand in front of it, the command behind it, as in: redouble run -- npm test\n",
        ),
        (
            &["--report", "sh", "-c", "exit 0"],
            "-- is missing; flags for the server stand in front of it, the command behind it, as in: redouble run --report -- sh -c 'exit 0'\n",
        ),
        (&["-", "--", "true"], "no configuration can be read from standard input"),
        (&["--daemonize", "yes", "--", "true"], "with --daemonize there would be nobody"),
        (&["--bogus", "1", "--", "true"], "Bad directive or wrong number of arguments, in 'bogus \"1\"'"),
        (&["/nowhere.conf", "--", "true"], "can't open config file '/nowhere.conf': No such file or directory"),
        (&["--load", "/nowhere.txt", "--", "true"], "cannot load /nowhere.txt: No such file or directory"),
    ] {
        let output = run(arguments);
        assert_eq!((output.status.code(), out(&output).as_str()), (Some(125), ""), "{arguments:?}");
        assert!(errors(&output).starts_with(&format!("redouble run: {reason}")), "{}", errors(&output));
    }
}
