//! Who is who: the auditor knows which process each connection on this machine belongs to, so that two programs without
//! names are two, and the connections of one program may be one.

use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::Value;

use crate::support::process::ServerProcess;
use crate::support::wait_until;
use crate::support::wire::Wire;

const BINARY: &str = env!("CARGO_BIN_EXE_redouble");

/// Connects to each port that it is given, sends each line that it reads over the connection that the line begins with, and
/// prints the reply.
const WORKER: &str = r#"
for port in "$@"; do exec {fd}<>"/dev/tcp/127.0.0.1/$port"; fds+=("$fd"); done
while read -r at command; do
  printf '%s\r\n' "$command" >&"${fds[at]}"
  IFS= read -r reply <&"${fds[at]}"
  printf '%s\n' "${reply%$'\r'}"
done
"#;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("redouble-processes-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).unwrap();
        std::fs::write(path.join("worker.sh"), WORKER).unwrap();
        Self(path.canonicalize().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A program with a connection to each of some ports. It ends with its standard input.
struct Worker {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Worker {
    fn start(folder: &Folder, ports: &[u16]) -> Self {
        let mut command = Command::new("bash");
        command.arg(folder.path("worker.sh")).args(ports.iter().map(u16::to_string));
        // No child of the server, nor of its group.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        Self { child, input, output }
    }

    /// Sends a command over one of the connections, and waits for the first line of the reply.
    fn ask(&mut self, connection: usize, command: &str) -> String {
        writeln!(self.input.as_mut().unwrap(), "{connection} {command}").unwrap();
        let mut reply = String::new();
        self.output.read_line(&mut reply).unwrap();
        reply.trim_end().to_owned()
    }

    fn label(&self, ports: &[u16]) -> String {
        let ports: Vec<String> = ports.iter().map(u16::to_string).collect();
        format!("bash worker.sh {} (pid {})", ports.join(" "), self.child.id())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

const TAKE_ONE: &str = "SET lock:a 5f0c9a83b1d24e67 NX PX 600000";
const TAKE_ANOTHER: &str = "SET lock:a 91e7c2d40a8b36f5 NX PX 600000";

/// Somebody takes the lock; somebody else deletes it and takes it. Nobody is refused.
fn steal(one: (&mut Worker, usize), another: Option<(&mut Worker, usize)>) {
    assert_eq!(one.0.ask(one.1, TAKE_ONE), "+OK");
    let (thief, connection) = match another {
        Some(other) => other,
        None => (one.0, one.1 + 1),
    };
    assert_eq!(thief.ask(connection, "DEL lock:a"), ":1");
    assert_eq!(thief.ask(connection, TAKE_ANOTHER), "+OK");
}

fn count(driver: &mut Wire, question: &str) -> i64 {
    driver.ask(&format!("REDOUBLE AUDIT COUNT {question}")).integer()
}

fn port(server: &ServerProcess) -> u16 {
    server.address().port()
}

/// The findings about journals, as lines of JSON; with the codes of those that are errors.
fn audited(journals: &[&Path]) -> (Vec<Value>, Vec<String>) {
    let output = Command::new(BINARY).args(["audit", "--json", "--locks", "lock:*"]).args(journals).output().unwrap();
    let findings: Vec<Value> =
        String::from_utf8(output.stdout).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let errors = findings.iter().filter(|finding| finding["severity"] == "error");
    let mut codes: Vec<String> = errors.map(|finding| finding["code"].as_str().unwrap().to_owned()).collect();
    codes.sort();
    (findings, codes)
}

fn lines(journal: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(journal).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits until the journal has the process of a worker with its commands, or has commands without it.
fn until(driver: &mut Wire, worker: &mut Worker, connection: usize, is_known: bool) {
    let pid = format!("Integer({})", worker.child.id());
    wait_until("the process of a worker", || {
        assert_eq!(worker.ask(connection, "PING"), "+PONG");
        format!("{:?}", driver.ask("REDOUBLE JOURNAL LIST on PING limit 1")).contains(&pid) == is_known
    });
}

/// Two programs steal each other's lock on a server; the journal is written to a file.
fn played(folder: &Folder, server: &ServerProcess, driver: &mut Wire, is_known: bool) -> (PathBuf, [String; 2]) {
    let ports = [port(server)];
    let (mut one, mut other) = (Worker::start(folder, &ports), Worker::start(folder, &ports));
    [&mut one, &mut other].into_iter().for_each(|worker| until(driver, worker, 0, is_known));
    steal((&mut one, 0), Some((&mut other, 0)));
    let journal = folder.path("journal.jsonl");
    let reply = driver.ask(&format!("REDOUBLE JOURNAL EXPORT {}", journal.display()));
    assert!(!reply.is_error(), "{reply:?}");
    (journal, [one.label(&ports), other.label(&ports)])
}

fn server(flags: &[&str]) -> ServerProcess {
    ServerProcess::redouble(
        &[&["--audit", "yes", "--locks", "lock:*", "--enable-paths-outside-dir", "yes"], flags].concat(),
    )
}

#[test]
fn two_programs_without_names_that_hold_a_lock_at_once_are_an_error_and_are_called_what_they_are() {
    let folder = Folder::new("two");
    let server = server(&[]);
    let mut driver = Wire::connect(server.address());
    let (journal, [one, other]) = played(&folder, &server, &mut driver, true);
    assert_eq!(count(&mut driver, "severity error code two-holders"), 1);
    assert_eq!(count(&mut driver, "severity error code blind-delete"), 1);
    // The journal says it as well, and gives the same.
    let (findings, errors) = audited(&[&journal]);
    assert_eq!(errors, ["blind-delete", "two-holders"], "{findings:?}");
    let sentence = format!("{one} and {other} both held `lock:a`, because {other} had deleted it");
    assert!(findings.iter().any(|finding| finding["sentence"] == sentence.as_str()), "{sentence}: {findings:?}");
    let page = Command::new(BINARY).args(["report", "--locks", "lock:*", "-o", "-"]).arg(&journal).output().unwrap();
    let page = String::from_utf8(page.stdout).unwrap();
    assert!([&one, &other].iter().all(|program| page.contains(&format!(r#""process":"{program}""#))), "{one}");
    let deletion = findings.iter().find(|finding| finding["code"] == "blind-delete").unwrap();
    assert!(deletion["evidence"][0]["program"].as_str().unwrap().starts_with("bash worker.sh "), "{deletion}");
}

#[test]
fn in_front_of_another_server_programs_are_told_apart_as_well() {
    let folder = Folder::new("front");
    let redis = ServerProcess::redis(&["--save", ""]);
    let server = server(&["--upstream", &redis.url()]).in_front_of(redis);
    let mut driver = Wire::connect(server.address());
    let (journal, _) = played(&folder, &server, &mut driver, true);
    assert_eq!(count(&mut driver, "severity error"), 2);
    assert_eq!(audited(&[&journal]).1, ["blind-delete", "two-holders"]);
}

#[test]
fn the_connections_of_one_program_may_belong_together_and_are_numbered() {
    let folder = Folder::new("pool");
    let server = server(&[]);
    let mut driver = Wire::connect(server.address());
    let ports = [port(&server); 2];
    let mut pool = Worker::start(&folder, &ports);
    [0, 1].into_iter().for_each(|connection| until(&mut driver, &mut pool, connection, true));
    steal((&mut pool, 0), None);
    assert_eq!(count(&mut driver, "severity error"), 0);
    let journal = folder.path("journal.jsonl");
    assert!(!driver.ask(&format!("REDOUBLE JOURNAL EXPORT {}", journal.display())).is_error());
    let (findings, _) = audited(&[&journal]);
    let program = pool.label(&ports);
    let sentence = format!("client 3 of {program} deleted `lock:a`, which client 2 of {program} had taken; ");
    assert!(
        findings.iter().any(|finding| finding["sentence"].as_str().unwrap().starts_with(&sentence)),
        "{findings:?}"
    );
}

#[test]
fn who_deletes_everything_between_two_tests_gives_up_the_locks_of_its_process() {
    for is_own in [true, false] {
        let folder = Folder::new(if is_own { "own-flush" } else { "flush" });
        let server = server(&[]);
        let mut driver = Wire::connect(server.address());
        let ports = [port(&server); 2];
        let (mut pool, mut other) = (Worker::start(&folder, &ports), Worker::start(&folder, &ports));
        [0, 1].into_iter().for_each(|connection| until(&mut driver, &mut pool, connection, true));
        until(&mut driver, &mut other, 0, true);
        assert_eq!(pool.ask(0, TAKE_ONE), "+OK");
        assert_eq!(pool.ask(0, "SET data 1"), "+OK");
        let flushed = if is_own { pool.ask(1, "FLUSHALL") } else { other.ask(0, "FLUSHALL") };
        assert_eq!(flushed, "+OK");
        assert_eq!(pool.ask(0, "SET data 2"), "+OK");
        assert_eq!(count(&mut driver, "code work-after-expiry final"), i64::from(!is_own));
    }
}

#[test]
fn connections_of_one_program_with_different_names_are_two_parties() {
    let folder = Folder::new("names");
    let server = server(&[]);
    let mut driver = Wire::connect(server.address());
    let mut pool = Worker::start(&folder, &[port(&server); 2]);
    for (connection, name) in ["importer", "exporter"].into_iter().enumerate() {
        assert_eq!(pool.ask(connection, &format!("CLIENT SETNAME {name}")), "+OK");
    }
    steal((&mut pool, 0), None);
    assert_eq!(count(&mut driver, "severity error"), 2);
}

#[test]
fn a_pid_that_is_given_again_is_another_program_and_without_one_nothing_is_known() {
    let folder = Folder::new("reuse");
    let server = server(&[]);
    let mut driver = Wire::connect(server.address());
    let (journal, _) = played(&folder, &server, &mut driver, true);
    let rewritten = |name: &str, change: &dyn Fn(&mut Value, u64)| {
        let path = folder.path(name);
        let mut text = String::new();
        for mut line in lines(&journal) {
            // A process that is found late is known from then on.
            let Some(started) = line["process_started_us"].as_u64() else { continue };
            change(&mut line, started);
            text += &format!("{line}\n");
        }
        std::fs::write(&path, text).unwrap();
        audited(&[&path]).1
    };
    let first = lines(&journal).iter().map(|line| line["client"].as_u64().unwrap()).min().unwrap();
    let same_number = |line: &mut Value| line["pid"] = Value::from(4711);
    let both = rewritten("both.jsonl", &|line, started| {
        same_number(line);
        let earlier = if line["client"].as_u64() == Some(first) { 60_000_000 } else { 0 };
        line["process_started_us"] = Value::from(started - earlier);
    });
    assert_eq!(both, ["blind-delete", "two-holders"]);
    let one = rewritten("one.jsonl", &|line, _| {
        same_number(line);
        line["process_started_us"] = Value::from(5);
    });
    assert_eq!(one, Vec::<String>::new());
    let none = rewritten("none.jsonl", &|line, _| {
        let fields = line.as_object_mut().unwrap();
        ["pid", "program", "process_started_us", "parent_pid"].iter().for_each(|field| drop(fields.remove(*field)));
    });
    assert_eq!(none, Vec::<String>::new());
}

#[test]
fn a_child_may_release_what_its_parent_took_before_it_started() {
    let folder = Folder::new("child");
    let server = server(&[]);
    let mut driver = Wire::connect(server.address());
    let (journal, _) = played(&folder, &server, &mut driver, true);
    let journal = lines(&journal);
    let taken = journal.iter().find(|line| line["command"][2] == "5f0c9a83b1d24e67").unwrap();
    let errors = |started: i64| {
        let mut text = String::new();
        for mut line in journal.clone() {
            if line["client"] != taken["client"] {
                line["parent_pid"] = taken["pid"].clone();
                line["process_started_us"] = Value::from(taken["real_time_us"].as_i64().unwrap() + started);
            }
            text += &format!("{line}\n");
        }
        std::fs::write(folder.path("changed.jsonl"), text).unwrap();
        audited(&[&folder.path("changed.jsonl")]).1
    };
    assert_eq!(errors(1), Vec::<String>::new());
    assert_eq!(errors(-1_000_000), ["blind-delete", "two-holders"]);
}

#[test]
fn a_program_is_one_and_the_same_on_all_servers() {
    let folder = Folder::new("instances");
    let server = server(&["--instances", "3"]);
    let ports = [0, 1, 2].map(|more| port(&server) + more);
    let mut drivers = ports.map(|port| Wire::connect(([127, 0, 0, 1], port).into()));
    let (mut one, mut other) = (Worker::start(&folder, &ports), Worker::start(&folder, &ports));
    for (connection, driver) in drivers.iter_mut().enumerate() {
        [&mut one, &mut other].into_iter().for_each(|worker| until(driver, worker, connection, true));
    }
    for connection in 0..3 {
        assert_eq!(one.ask(connection, TAKE_ONE), "+OK");
    }
    for connection in [2, 1, 0] {
        assert_eq!(other.ask(connection, "DEL lock:a"), ":1");
        assert_eq!(other.ask(connection, TAKE_ANOTHER), "+OK");
    }
    let mut journals = Vec::new();
    for (number, driver) in drivers.iter_mut().enumerate() {
        let path = folder.path(&format!("{number}.jsonl"));
        assert!(!driver.ask(&format!("REDOUBLE JOURNAL EXPORT {}", path.display())).is_error());
        journals.push(path);
    }
    let of_one = |journal: &Path| {
        let lines = lines(journal);
        let taken = lines.iter().find(|line| line["command"][2] == "5f0c9a83b1d24e67").unwrap();
        (taken["pid"].as_u64(), taken["process_started_us"].as_u64())
    };
    assert_eq!(of_one(&journals[0]).0, Some(one.child.id().into()));
    assert!(journals.iter().all(|journal| of_one(journal) == of_one(&journals[0])));
    let journals: Vec<&Path> = journals.iter().map(PathBuf::as_path).collect();
    let (findings, errors) = audited(&journals);
    assert!(errors.contains(&"two-holders".to_owned()), "{findings:?}");
    let sentences: Vec<&str> = findings.iter().map(|finding| finding["sentence"].as_str().unwrap()).collect();
    assert!(sentences.iter().all(|sentence| !sentence.contains("client ")), "{sentences:?}");
    assert!(sentences.iter().any(|sentence| sentence.contains(&one.label(&ports))), "{sentences:?}");
}

#[test]
fn where_it_is_not_allowed_nothing_is_known_and_nobody_is_accused() {
    let folder = Folder::new("not-allowed");
    for scope in ["no", "children"] {
        let server = server(&["--identify-clients", scope]);
        let mut driver = Wire::connect(server.address());
        let (journal, _) = played(&folder, &server, &mut driver, false);
        let workers = |line: &&Value| line["command"][1] == "lock:a";
        assert!(lines(&journal).iter().filter(workers).all(|line| line.get("pid").is_none()), "{scope}");
        assert_eq!(count(&mut driver, "severity error"), 0, "{scope}");
        assert_eq!(count(&mut driver, "severity warning code blind-delete"), 1, "{scope}");
    }
}

/// Runs a shell script with the environment of `redouble run --audit`, and returns the journal.
fn run(folder: &Folder, flags: &[&str], script: &str) -> PathBuf {
    let journal = folder.path("run.jsonl");
    let mut command = Command::new(BINARY);
    command.args(["run", "--audit", "--journal-out"]).arg(&journal).args(flags);
    command.args(["--", "sh", "-c", script, BINARY]).stdin(Stdio::null());
    let output = command.process_group(0).output().unwrap();
    assert!(journal.exists(), "{}", String::from_utf8_lossy(&output.stderr));
    journal
}

#[test]
fn a_client_that_sends_one_command_and_ends_is_known_all_the_same() {
    let folder = Folder::new("one-shot");
    let socket = folder.path("socket");
    let flags = ["--identify-clients", "children", "--unixsocket", socket.to_str().unwrap()];
    let script = format!(
        r#"for number in 1 2 3 4 5 6 7 8 9; do "$0" cli -u "$REDIS_URL" SET key $number; done
        "$0" cli -s '{}' -a hush SET key unix"#,
        socket.display()
    );
    let lines = lines(&run(&folder, &flags, &script));
    let sets: Vec<&Value> = lines.iter().filter(|line| line["command"][0] == "SET").collect();
    assert_eq!(sets.len(), 10);
    let mut pids: Vec<u64> = sets.iter().map(|line| line["pid"].as_u64().unwrap_or_else(|| panic!("{line}"))).collect();
    pids.sort_unstable();
    pids.dedup();
    assert_eq!(pids.len(), 10);
    let program = |line: &Value| line["program"].as_str().unwrap().to_owned();
    assert!(program(sets[0]).starts_with("redouble cli -u redis://127.0.0.1:"), "{}", program(sets[0]));
    assert!(program(sets[9]).ends_with("-a *** SET key unix"), "{}", program(sets[9]));
}

#[test]
fn a_program_that_became_another_one_is_called_what_it_is_now() {
    let folder = Folder::new("exec");
    std::fs::write(
        folder.path("worker.sh"),
        r#"
        port=${REDIS_URL##*:}
        port=${port%%/*}
        for number in 1 2 3; do
          exec 5<>"/dev/tcp/127.0.0.1/$port"
          printf 'SET key %s\r\n' "$number" >&5
          read -r reply <&5
          exec 5>&-
        done
        [ "$1" = again ] || exec bash "$0" again
    "#,
    )
    .unwrap();
    let script = format!("cd '{}' && bash worker.sh once", folder.0.display());
    let lines = lines(&run(&folder, &[], &script));
    let sets: Vec<&Value> = lines.iter().filter(|line| line["command"][0] == "SET").collect();
    assert!(sets.iter().all(|line| line["pid"].is_u64() && line["pid"] == sets[0]["pid"]), "{sets:?}");
    let programs: Vec<&str> = sets.iter().map(|line| line["program"].as_str().unwrap()).collect();
    let [before, behind] = ["bash worker.sh once", "bash worker.sh again"];
    assert_eq!(programs, [before, before, before, behind, behind, behind]);
}

#[test]
fn the_commands_of_a_script_that_follow_one_another_may_be_one_program() {
    let folder = Folder::new("script");
    let script = r#"
        "$0" cli -u "$REDIS_URL" SET lock:a 5f0c9a83b1d24e67 NX PX 600000
        "$0" cli -u "$REDIS_URL" DEL lock:a
        "$0" cli -u "$REDIS_URL" SET lock:a 91e7c2d40a8b36f5 NX PX 600000
        "$0" cli -u "$REDIS_URL" DEL lock:a"#;
    assert_eq!(audited(&[&run(&folder, &[], script)]).1, Vec::<String>::new());
}

#[test]
fn connections_that_are_there_when_the_audit_begins_are_looked_up_then() {
    let folder = Folder::new("late");
    let server = ServerProcess::redouble(&[]);
    let mut driver = Wire::connect(server.address());
    let mut worker = Worker::start(&folder, &[port(&server)]);
    assert_eq!(worker.ask(0, "PING"), "+PONG");
    assert!(!driver.ask("REDOUBLE AUDIT ON").is_error());
    until(&mut driver, &mut worker, 0, true);
}
