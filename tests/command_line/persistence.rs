//! `--persist`: data that outlives the server, in files that a real server reads, too.

use std::fs;
use std::os::unix::fs::{FileTypeExt, symlink};
use std::path::PathBuf;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::process::ServerProcess;
use crate::support::wire::{Frame, Wire, request};
use crate::support::{CHECKED_PROFILE, wait_until};

const DIGEST: [&str; 2] = ["--enable-debug-command", "yes"];

/// A temporary directory for one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("redouble-persist-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    fn dump(&self) -> PathBuf {
        self.0.join("dump.rdb")
    }

    fn flags(&self) -> [String; 2] {
        ["--dir".to_owned(), self.0.display().to_string()]
    }

    /// A server that keeps its data here.
    fn server(&self, flags: &[&str]) -> ServerProcess {
        let own = self.flags();
        let own = ["--persist", &own[0], &own[1]];
        ServerProcess::redouble(&[&own[..], &DIGEST, flags].concat())
    }

    fn redis(&self) -> ServerProcess {
        let own = self.flags();
        let own = [own[0].as_str(), &own[1], "--dbfilename", "dump.rdb"];
        ServerProcess::redis(&[&own[..], &DIGEST].concat())
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn wire(server: &ServerProcess) -> Wire {
    Wire::connect(server.address())
}

fn ok() -> Frame {
    Frame::status("OK")
}

/// One value of each type, with deadlines, in two databases.
fn fill(wire: &mut Wire) {
    for command in [
        "SET text value",
        "SET number 12345",
        "SET timed value PX 100000000",
        "RPUSH list a b 3",
        "SADD numbers 1 2 3",
        "SADD words a b c",
        "HSET hash field value other 2",
        "ZADD ranks 1 a 2.5 b",
        "XADD stream 5-1 field value",
        "XGROUP CREATE stream group 0",
        "PFADD counted a b c",
        "SELECT 3",
        "SET elsewhere value",
        "SELECT 0",
    ] {
        assert!(!wire.ask(command).is_error(), "{command}");
    }
    let library = "#!lua name=lib\nredis.register_function('one', function() return 1 end)";
    assert_eq!(wire.call(&["FUNCTION", "LOAD", library]), Frame::bulk("lib"));
}

fn digest(server: &ServerProcess) -> String {
    let mut wire = wire(server);
    assert_eq!(wire.ask("FCALL one 0").integer(), 1);
    wire.ask("DEBUG DIGEST").text()
}

fn field(wire: &mut Wire, name: &str) -> String {
    let info = wire.ask("INFO persistence").text();
    let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("{name} in {info}")).trim().to_owned()
}

#[test]
fn data_comes_back_after_the_end_of_the_server_by_command_or_signal() {
    let folder = Folder::new("end");
    let server = folder.server(&[]);
    fill(&mut wire(&server));
    let written = digest(&server);
    wire(&server).send(b"SHUTDOWN\r\n");
    wait_until("the file", || folder.dump().exists());
    drop(server);

    let server = folder.server(&[]);
    assert_eq!(digest(&server), written);
    assert_eq!(field(&mut wire(&server), "rdb_last_load_keys_loaded"), "11");
    assert_eq!(field(&mut wire(&server), "rdb_changes_since_last_save"), "0");
    fs::remove_file(folder.dump()).unwrap();
    kill_process(Pid::from_raw(server.id() as i32).unwrap(), Signal::TERM).unwrap();
    wait_until("the file", || folder.dump().exists());
    drop(server);
    assert_eq!(digest(&folder.server(&[])), written);
}

#[test]
fn nosave_and_no_save_points_leave_the_old_file() {
    let folder = Folder::new("nosave");
    for (flags, command) in [(&[][..], "SHUTDOWN NOSAVE"), (&["--save", ""], "SHUTDOWN")] {
        let server = folder.server(flags);
        let mut wire = wire(&server);
        assert_eq!(wire.ask("SET a 1"), ok());
        wire.send(format!("{command}\r\n").as_bytes());
        assert!(wire.is_closed());
        assert!(!folder.dump().exists(), "{command}");
    }
}

#[test]
fn a_real_server_reads_what_is_kept_and_the_other_way_round() {
    let folder = Folder::new("redis");
    let server = folder.server(&["--compat", "redis-7.0"]);
    fill(&mut wire(&server));
    let written = digest(&server);
    assert_eq!(wire(&server).ask("SAVE"), ok());
    let redis = folder.redis();
    assert_eq!(digest(&redis), written);
    assert_eq!(wire(&redis).ask("SET more value"), ok());
    let further = digest(&redis);
    assert_eq!(wire(&redis).ask("SAVE"), ok());
    assert_eq!(digest(&folder.server(&["--compat", "redis-7.0"])), further);
}

#[test]
fn a_save_point_is_reached_on_the_servers_clock() {
    let folder = Folder::new("point");
    let server = folder.server(&["--save", "60 2"]);
    let mut wire = wire(&server);
    for command in ["REDOUBLE CLOCK FREEZE", "SET a 1", "SET b 1", "REDOUBLE CLOCK ADVANCE 60s"] {
        assert!(!wire.ask(command).is_error(), "{command}");
    }
    assert_eq!((folder.dump().exists(), field(&mut wire, "rdb_changes_since_last_save")), (false, "2".to_owned()));
    // The clock has moved when the file is there.
    assert!(!wire.ask("REDOUBLE CLOCK ADVANCE 1s").is_error());
    assert!(folder.dump().exists());
    assert_eq!(field(&mut wire, "rdb_changes_since_last_save"), "0");
    assert_eq!(field(&mut wire, "rdb_saves"), "1");
    let now = wire.ask("TIME").items()[0].text();
    assert_eq!(field(&mut wire, "rdb_last_save_time"), now);
    assert_eq!(wire.ask("LASTSAVE").integer().to_string(), now);
    // One change is not enough.
    for command in ["SET a 2", "REDOUBLE CLOCK ADVANCE 1h"] {
        assert!(!wire.ask(command).is_error(), "{command}");
    }
    assert_eq!(field(&mut wire, "rdb_saves"), "1");
}

#[test]
fn a_background_save_of_a_transaction_holds_all_of_it() {
    let folder = Folder::new("multi");
    let server = folder.server(&[]);
    let mut wire = wire(&server);
    for command in ["MULTI", "SET a 1", "BGSAVE", "SET b 1"] {
        assert!(!wire.ask(command).is_error(), "{command}");
    }
    assert_eq!(wire.ask("EXEC").items()[1], Frame::status("Background saving scheduled"));
    wire.ask_until("INFO persistence", |info| info.contains("rdb_saves:1"));
    drop(server);
    assert_eq!(Wire::connect(folder.server(&[]).address()).ask("DBSIZE").integer(), 2);
}

#[test]
fn a_background_save_holds_what_was_there_when_it_began_whatever_changes_meanwhile() {
    for changes in [
        "FLUSHALL",
        "SWAPDB 0 3|SET key:1 other|DEL list|APPEND key:2 more",
        "RENAME list key:3|FLUSHDB|SELECT 3|RPUSH list a",
    ] {
        let folder = Folder::new("instant");
        let server = folder.server(&[]);
        let mut wire = wire(&server);
        fill(&mut wire);
        assert_eq!(wire.ask("DEBUG POPULATE 30000"), ok());
        let expected = digest(&server);
        // In one piece, so that the changes come while the file is being written.
        let commands: Vec<u8> = (["BGSAVE"].into_iter().chain(changes.split('|')))
            .flat_map(|command| request(&command.split(' ').collect::<Vec<_>>()))
            .collect();
        assert!(wire.send(&commands));
        assert_eq!(wire.expect(), Frame::status("Background saving started"));
        changes.split('|').for_each(|change| assert!(!wire.expect().is_error(), "{change}"));
        wire.ask_until("INFO persistence", |info| info.contains("rdb_saves:1"));
        drop(server);
        assert_eq!(digest(&folder.server(&[])), expected, "{changes}");
    }
}

#[test]
fn what_stands_in_the_way_is_neither_followed_nor_waited_for() {
    let folder = Folder::new("way");
    let outside = folder.0.join("outside");
    let server = folder.server(&[]);
    let mut wire = wire(&server);
    assert_eq!(wire.ask("SET a 1"), ok());
    let pipe = || Command::new("mkfifo").arg(folder.dump()).status().map(|_| ());
    let link = || fs::write(&outside, "mine").and_then(|()| symlink(&outside, folder.dump()));
    let directory = || fs::create_dir(folder.dump());
    for (put, reason) in [
        (&pipe as &dyn Fn() -> std::io::Result<()>, "regular file"),
        (&link, "symbolic link"),
        (&directory, "directory"),
    ] {
        put().unwrap();
        let refusal = wire.ask("SAVE").text();
        assert!(refusal.contains("dump.rdb") && refusal.contains(reason), "{refusal}");
        assert_eq!(wire.ask("BGSAVE").text(), "Background saving started");
        wire.ask_until("INFO persistence", |info| info.contains("rdb_bgsave_in_progress:0"));
        assert_eq!(field(&mut wire, "rdb_last_bgsave_status"), "err");
        // A server that cannot save does not end.
        assert_eq!(wire.ask("SHUTDOWN").text(), "ERR Errors trying to SHUTDOWN. Check logs.");
        assert_eq!(wire.ask("EXISTS a"), Frame::Integer(1));
        let found = folder.dump().symlink_metadata().unwrap().file_type();
        assert!(found.is_fifo() || found.is_symlink() || found.is_dir(), "{found:?}");
        if found.is_dir() { fs::remove_dir(folder.dump()) } else { fs::remove_file(folder.dump()) }.unwrap();
    }
    assert_eq!(fs::read_to_string(&outside).unwrap(), "mine");
    assert_eq!(wire.ask("SAVE"), ok());
    // Nothing else is left behind.
    let mut names: Vec<_> = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["dump.rdb", "outside"]);
}

#[test]
fn writes_are_refused_after_a_background_save_that_failed_until_one_succeeds() {
    let folder = Folder::new("misconf");
    let server = folder.server(&["--save", "3600 1"]);
    let mut wire = wire(&server);
    assert_eq!(wire.ask("SET a 1"), ok());
    fs::create_dir(folder.dump()).unwrap();
    assert_eq!(wire.ask("BGSAVE").text(), "Background saving started");
    wire.ask_until("INFO persistence", |info| info.contains("rdb_last_bgsave_status:err"));
    let refused = |frame: Frame| frame.text().starts_with("MISCONF Redis is configured to save RDB snapshots");
    assert!(refused(wire.ask("SET a 2")));
    assert!(refused(wire.ask("PING")));
    for script in ["return redis.call('SET', 'a', '2')", "#!lua\nreturn redis.call('SET', 'a', '2')"] {
        assert!(refused(wire.call(&["EVAL", script, "0"])));
    }
    assert_eq!(wire.ask("GET a"), Frame::bulk("1"));
    assert_eq!(wire.ask("MULTI"), ok());
    assert!(refused(wire.ask("SET a 2")));
    assert!(wire.ask("EXEC").text().starts_with("EXECABORT"));
    assert_eq!(wire.ask("CONFIG SET stop-writes-on-bgsave-error no"), ok());
    assert_eq!(wire.ask("SET a 3"), ok());
    assert_eq!(wire.ask("CONFIG SET stop-writes-on-bgsave-error yes"), ok());
    assert!(refused(wire.ask("SET a 4")));
    fs::remove_dir(folder.dump()).unwrap();
    assert_eq!(wire.ask("BGSAVE").text(), "Background saving started");
    wire.ask_until("INFO persistence", |info| info.contains("rdb_last_bgsave_status:ok"));
    assert_eq!(wire.ask("SET a 5"), ok());
}

#[test]
fn a_file_that_cannot_be_read_ends_the_start() {
    let folder = Folder::new("damaged");
    let own = folder.flags();
    let start = || {
        let flags = ["--persist", "--port", "0", &own[0], &own[1]];
        let output = Command::new(env!("CARGO_BIN_EXE_redouble")).args(flags).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    fs::write(folder.dump(), "SET a 1\n").unwrap();
    let said = start();
    assert!(said.contains("dump.rdb") && said.contains("it is no snapshot"), "{said}");
    fs::write(folder.dump(), b"REDIS0010\x00\x01a").unwrap();
    let said = start();
    assert!(said.contains("dump.rdb") && said.contains("cannot be read"), "{said}");
    fs::remove_file(folder.dump()).unwrap();
    Command::new("mkfifo").arg(folder.dump()).status().unwrap();
    let said = start();
    assert!(said.contains("dump.rdb") && said.contains("no regular file"), "{said}");
}

#[test]
fn a_space_keeps_nothing_and_saves_nothing_of_the_others() {
    let folder = Folder::new("space");
    let server = folder.server(&[]);
    let mut wire = wire(&server);
    assert!(!wire.ask("REDOUBLE SPACE s").is_error());
    assert!(wire.ask("SAVE").text().contains("outside of spaces"));
    assert!(!folder.dump().exists());
}

#[test]
fn several_instances_cannot_share_a_file() {
    let output = Command::new(env!("CARGO_BIN_EXE_redouble"))
        .args(["--persist", "--instances", "2", "--port", "0"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("2 instances cannot share dbfilename"), "{said}");
}

#[test]
fn run_keeps_the_data_of_its_command() {
    let folder = Folder::new("run");
    let own = folder.flags();
    let run = |script: &str| {
        let flags = ["run", "--persist", &own[0], &own[1], "--", "sh", "-c", script];
        let output = Command::new(env!("CARGO_BIN_EXE_redouble")).args(flags).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    };
    assert_eq!(run("redis-cli -u $REDIS_URL SET a 1"), "OK");
    assert_eq!(run("redis-cli -u $REDIS_URL GET a"), "1");
}

#[test]
fn a_reload_goes_through_the_file_and_what_was_saved_last_can_be_loaded_again() {
    let folder = Folder::new("reload");
    let server = folder.server(&[]);
    let mut wire = wire(&server);
    fill(&mut wire);
    let filled = digest(&server);
    assert_eq!(wire.ask("DEBUG RELOAD"), ok());
    assert_eq!(digest(&server), filled);
    assert_eq!(field(&mut wire, "rdb_changes_since_last_save"), "0");
    assert!(folder.dump().exists());

    assert_eq!(wire.ask("SET text other"), ok());
    assert_eq!(wire.ask("DEBUG RELOAD NOSAVE"), ok());
    assert_eq!(digest(&server), filled);

    assert_eq!(wire.ask("SET text other"), ok());
    assert_eq!(wire.ask("BGREWRITEAOF"), Frame::status("Background append only file rewriting started"));
    wire.ask_until("INFO persistence", |info| info.contains("aof_rewrite_in_progress:0"));
    fs::remove_file(folder.dump()).unwrap();
    let missing = Frame::error("ERR Error trying to load the RDB dump");
    assert_eq!(wire.ask("DEBUG RELOAD NOSAVE"), missing);
    assert_eq!(wire.ask("GET text"), Frame::bulk("other"));
    drop(server);

    // A real server of the release reads what a reload has written.
    let server = folder.server(&["--compat", CHECKED_PROFILE]);
    fill(&mut self::wire(&server));
    assert_eq!(self::wire(&server).ask("DEBUG RELOAD"), ok());
    drop(server);
    assert_eq!(digest(&folder.redis()), filled);
}
