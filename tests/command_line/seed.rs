//! Seed data: a server loads all of its seed file exactly, or does not start. REDOUBLE SAVE writes files that both
//! redouble and the real server can load.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, UNIX_EPOCH};

use redouble::{Builder, Error, Server};

use crate::support::process::ServerProcess;
use crate::support::wire::{Frame, Wire};
use crate::support::{Dice, address, profile, spawn, start};

/// A temporary directory for one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("redouble-seed-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    fn text(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        fs::write(self.text(name), content).unwrap();
        self.text(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn wire(server: &Server) -> Wire {
    Wire::connect(address(server))
}

fn ok() -> Frame {
    Frame::status("OK")
}

/// A server whose clients name files in the temporary directories of the tests.
fn writer() -> Builder {
    Server::builder().enable_paths_outside_dir()
}

/// As flags.
const ANYWHERE: [&str; 2] = ["--enable-paths-outside-dir", "yes"];

// ---- commands

#[test]
fn what_a_file_of_commands_says_is_there_for_the_first_client() {
    let folder = Folder::new("commands");
    let path = folder.file(
        "seed.txt",
        "# locks\nSET lock:a \"worker 1\" PX 90000\n\nSELECT 3\nHSET job state 'in progress'\r\nMULTI\nINCR n\nINCR n\nEXEC\n\
         EVAL \"return redis.call('RPUSH', KEYS[1], 'x', 'y')\" 1 list\n",
    );
    let server = start(Server::builder().load(path));
    let mut wire = wire(&server);
    assert_eq!(wire.ask("GET lock:a"), Frame::bulk("worker 1"));
    assert!(wire.ask("PTTL lock:a").integer() > 0);
    assert_eq!(wire.ask("SELECT 3"), ok());
    assert_eq!(wire.ask("HGET job state"), Frame::bulk("in progress"));
    assert_eq!(wire.ask("GET n"), Frame::bulk("2"));
    assert_eq!(wire.ask("LLEN list").integer(), 2);
    // Loading leaves no trace in client ids and statistics.
    assert_eq!(wire.ask("CLIENT ID").integer(), 1);
    let stats = wire.ask("INFO stats").text();
    assert!(stats.contains("total_connections_received:1\r\n"), "{stats}");
    assert!(stats.contains("total_commands_processed:7\r\n"), "{stats}");
}

#[test]
fn several_files_are_loaded_in_their_order_from_where_the_server_is() {
    let folder = Folder::new("several");
    folder.file("one file.txt", "SET a 1\nSET b 1\n");
    folder.file("two.txt", "SET b 2\n");
    let dir = folder.text("");
    let server = ServerProcess::redouble(&["--dir", &dir, "--load", "one file.txt", "--load", "two.txt"]);
    let mut wire = Wire::connect(server.address());
    assert_eq!(wire.ask("MGET a b"), Frame::Array(vec![Frame::bulk("1"), Frame::bulk("2")]));
}

#[test]
fn a_password_and_rules_for_users_do_not_keep_data_from_being_loaded() {
    let folder = Folder::new("password");
    let path = folder.file("seed.txt", "SET a 1\n");
    let server = start(Server::builder().password("secret").load(path));
    let mut wire = wire(&server);
    assert_eq!(wire.ask("GET a"), Frame::error("NOAUTH Authentication required."));
    assert_eq!(wire.ask("AUTH secret"), ok());
    assert_eq!(wire.ask("GET a"), Frame::bulk("1"));
}

#[test]
fn what_goes_wrong_is_named_with_file_and_line_and_nothing_is_served() {
    let folder = Folder::new("wrong");
    let list = "*1\r\n$4\r\nPING\r\n";
    for (content, line, reason) in [
        ("SET a 1\nNOSUCH b\n", 2, "ERR unknown command 'NOSUCH', with args beginning with: 'b' "),
        ("SET a 1\n\n# x\nLPUSH a b\n", 4, "WRONGTYPE Operation against a key holding the wrong kind of value"),
        ("SET a \"b\n", 1, "unbalanced quotes"),
        ("SET a\n", 1, "ERR wrong number of arguments for 'set' command"),
        ("MULTI\nSET a 1\n", 2, "the file ends after MULTI, without EXEC"),
        ("SET s x\nMULTI\nSET a 1\nINCR s\nEXEC\n", 5, "ERR value is not an integer or out of range"),
        ("BLPOP nothing 0\n", 1, "the command would wait, and nobody is there to end that"),
        ("QUIT\n", 1, "'quit' is for clients of a running server, and not for a file"),
        ("SELECT 16\n", 1, "ERR DB index is out of range"),
        (&[list, "*2\r\n$3\r\nGET\r\n"].concat(), 4, "the file ends in the middle of a command"),
        (&[list, "*1\r\n+PING\r\n"].concat(), 4, "ERR Protocol error: expected '$', got '+'"),
    ] {
        let path = folder.file("seed.txt", content);
        match Server::builder().load(&path).spawn() {
            Err(Error::Load { path: named, line: at, reason: why }) => {
                assert_eq!((named.display().to_string(), at, why.as_str()), (path, Some(line), reason), "{content:?}");
            }
            Err(other) => panic!("{content:?}: {other}"),
            Ok(_) => panic!("{content:?} was loaded"),
        }
    }
    let error = Server::builder().load("/nowhere.txt").spawn().err().unwrap().to_string();
    assert_eq!(error, "cannot load /nowhere.txt: No such file or directory");
}

#[test]
fn the_binary_says_on_its_log_what_it_could_not_load() {
    let folder = Folder::new("binary");
    let path = folder.file("seed.txt", "SET a 1\nNOSUCH\n");
    let binary = env!("CARGO_BIN_EXE_redouble");
    let output = Command::new(binary).args(["--port", "0", "--load", &path]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!output.status.success());
    assert!(said.contains(&format!("# cannot load {path}, line 2: ERR unknown command 'NOSUCH'")), "{said}");
    assert!(!said.contains("Ready to accept connections"), "{said}");
}

// ---- SAVE

#[test]
fn saved_data_is_a_file_that_a_person_can_read_and_a_version_control_can_keep() {
    let folder = Folder::new("readable");
    let server = start(Server::builder().compat(profile("redis-7.4")).enable_paths_outside_dir());
    server.freeze();
    server.set_time(UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    let mut wire = wire(&server);
    for words in [
        &["SET", "z", ""][..],
        &["SET", "a", "über \"uns\"\n"],
        &["SET", "bytes", "\0"],
        &["SET", "lock", "token-1", "PX", "30000"],
        &["SET", "over", "x", "PX", "10"],
        &["RPUSH", "list", "1", "two words", "'", "#", "5", "6", "7", "8", "9"],
        &["SADD", "set", "b", "a"],
        &["SADD", "numbers", "3", "1", "-2"],
        &["HSET", "hash", "f", "v", "g", "w"],
        &["HPEXPIRE", "hash", "5000", "FIELDS", "1", "g"],
        &["ZADD", "scores", "1.5", "b", "-inf", "a", "0.1", "c"],
        &["XADD", "stream", "1-1", "f", "v", "g", "h i"],
        &["XADD", "stream", "2-0", "f", "w"],
        &["XDEL", "stream", "2-0"],
        &["XGROUP", "CREATE", "stream", "g", "1-1", "ENTRIESREAD", "1"],
        &["XGROUP", "CREATE", "empty", "g", "$", "MKSTREAM"],
        &["FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() return 1 end)"],
    ] {
        assert!(!wire.call(words).is_error(), "{words:?}");
    }
    wire.ask("SELECT 5");
    wire.ask("SET five 5");
    server.advance(Duration::from_millis(11));
    let path = folder.text("data.txt");
    assert_eq!(wire.ask(&format!("REDOUBLE SAVE {path}")), ok());
    let expected = r##"# Data of a Redis server, one command a line. To start a server with it: redouble --load FILE
FUNCTION LOAD REPLACE "#!lua name=l\nredis.register_function('f', function() return 1 end)"
SELECT 0
SET a "über \"uns\"\n"
SET bytes "\x00"
XGROUP CREATE empty g 0-0 MKSTREAM
HSET hash g w f v
HPEXPIREAT hash 1700000005000 FIELDS 1 g
RPUSH list 1 "two words" "'" "#" 5 6 7 8
RPUSH list 9
SET lock token-1
PEXPIREAT lock 1700000030000
SADD numbers -2 1 3
ZADD scores -inf a 0.1 c 1.5 b
SADD set b a
XADD stream 1-1 f v g "h i"
XSETID stream 2-0 ENTRIESADDED 2 MAXDELETEDID 2-0
XGROUP CREATE stream g 1-1 ENTRIESREAD 1
SET z ""
SELECT 5
SET five 5
"##;
    assert_eq!(fs::read_to_string(&path).unwrap(), expected);
}

#[test]
fn a_test_in_rust_saves_and_loads_without_a_connection() {
    let folder = Folder::new("handle");
    let server = spawn();
    wire(&server).ask("SET a 1");
    let path = folder.text("a.rdb");
    server.save(&path).unwrap();
    let other = start(Server::builder().load(&path));
    assert_eq!(wire(&other).ask("GET a"), Frame::bulk("1"));
    let refused = server.save("/nowhere/at/all.rdb").unwrap_err();
    assert_eq!(refused.to_string(), "the file '/nowhere/at/all.rdb' cannot be written: No such file or directory");
}

#[test]
fn a_relative_path_is_relative_to_where_the_server_is_and_no_other_file_stays_behind() {
    let folder = Folder::new("relative");
    let server = ServerProcess::redouble(&["--dir", &folder.text("")]);
    let mut wire = Wire::connect(server.address());
    wire.ask("SET a 1");
    assert_eq!(wire.ask("REDOUBLE SAVE a.rdb"), ok());
    assert_eq!(wire.ask("REDOUBLE SAVE a.rdb"), ok());
    let names: Vec<_> = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["a.rdb"]);
    assert!(fs::read(folder.text("a.rdb")).unwrap().starts_with(b"REDIS0010"));
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_that_names_it() {
    let server = start(writer());
    let mut wire = wire(&server);
    let refused = "ERR the file '/nowhere/at/all.rdb' cannot be written: No such file or directory";
    assert_eq!(wire.ask("REDOUBLE SAVE /nowhere/at/all.rdb"), Frame::error(refused));
    assert_eq!(
        wire.call(&["REDOUBLE", "SAVE", ""]),
        Frame::error("ERR the path of a file was expected; received nothing")
    );
    assert!(wire.ask("REDOUBLE SAVE").is_error());
}

// ---- round trips

/// Fills a few databases with values of every type, grown and shrunk, small and large, with and without expiry.
fn fill(wire: &mut Wire, dice: &mut Dice, newer: bool) {
    fn word(dice: &mut Dice) -> Vec<u8> {
        match dice.below(6) {
            0 => dice.below(100_000).to_string().into_bytes(),
            1 => format!("-{}", dice.next() >> dice.below(60)).into_bytes(),
            2 => {
                let length = dice.below(80);
                dice.bytes(length)
            }
            3 => vec![b'r'; dice.below(300)],
            4 => "quote \" ' \\ \n # ü \u{85}".into(),
            _ => format!("word:{}", dice.below(50)).into_bytes(),
        }
    }
    for db in [0, 7, 15] {
        wire.ask(&format!("SELECT {db}"));
        for number in 0..24 {
            let key = [word(dice), format!(":{number}").into_bytes()].concat();
            let name = key.as_slice();
            let many = [1, 3, 20, 200, 600][dice.below(5)];
            let kind = dice.below(8);
            for turn in 0..many {
                let (one, other) = (word(dice), word(dice));
                let (one, other) = (one.as_slice(), other.as_slice());
                // A set of integers is sorted until another kind of member is added.
                let (member, number) = ([b"m", one].concat(), (dice.next() as i64 >> dice.below(60)).to_string());
                let score = format!("{}", (dice.next() as i64 >> dice.below(60)) as f64 / 8.0);
                let words: Vec<&[u8]> = match kind {
                    0 => vec![b"SET", name, one],
                    1 => vec![b"RPUSH", name, one],
                    2 => vec![b"SADD", name, &member],
                    3 => vec![b"HSET", name, one, other],
                    4 => vec![b"ZADD", name, score.as_bytes(), one],
                    5 => vec![b"XADD", name, b"*", one, other, b"f", one],
                    6 => vec![b"SADD", name, number.as_bytes()],
                    _ => vec![b"PFADD", name, one],
                };
                assert!(!wire.call(&words).is_error());
                if turn % 7 == 3 {
                    match kind {
                        1 => drop(wire.call(&[b"LPOP", name])),
                        2 => drop(wire.call(&[b"SPOP", name])),
                        4 => drop(wire.call(&[b"ZPOPMIN", name])),
                        5 => drop(wire.call(&[b"XTRIM".as_slice(), name, b"MAXLEN", b"20"])),
                        _ => {}
                    }
                }
            }
            if kind == 5 && number % 2 == 0 {
                wire.call(&[b"XGROUP".as_slice(), b"CREATE", name, b"g 1", b"0"]);
                if number % 4 == 0 {
                    let read: [&[u8]; 9] =
                        [b"XREADGROUP", b"GROUP", b"g 1", b"consumer", b"COUNT", b"3", b"STREAMS", name, b">"];
                    wire.call(&read);
                }
            }
            if newer && kind == 3 && number % 2 == 0 {
                let fields = wire.call(&[b"HKEYS", name]);
                let Some(Frame::Bulk(field)) = fields.items().first().cloned() else { panic!("{fields:?}") };
                wire.call(&[b"HEXPIRE".as_slice(), name, b"1000", b"FIELDS", b"1", &field]);
            }
            if number % 3 == 0 {
                wire.call(&[b"PEXPIRE".as_slice(), name, b"9000000"]);
            }
        }
    }
    wire.ask("SELECT 0");
}

/// Returns all keys with their deadlines.
fn deadlines(wire: &mut Wire) -> Vec<(usize, Vec<u8>, Frame)> {
    let mut found = Vec::new();
    for db in 0..16 {
        wire.ask(&format!("SELECT {db}"));
        for key in wire.ask("KEYS *").items() {
            let Frame::Bulk(key) = key else { panic!("{key:?}") };
            let deadline = wire.call(&[b"PEXPIRETIME".as_slice(), key]);
            found.push((db, key.clone(), deadline));
        }
    }
    wire.ask("SELECT 0");
    found.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
    found
}

/// Returns all keys with their DUMP payloads.
fn payloads(wire: &mut Wire) -> Vec<Frame> {
    let keys = deadlines(wire);
    keys.iter()
        .map(|(db, key, _)| {
            wire.ask(&format!("SELECT {db}"));
            wire.call(&[b"DUMP".as_slice(), key])
        })
        .collect()
}

fn digest(wire: &mut Wire) -> String {
    wire.ask("DEBUG DIGEST").text()
}

const DEBUG: [&str; 2] = ["--enable-debug-command", "yes"];

#[test]
fn whatever_there_is_comes_back_the_same_in_both_forms_and_on_every_kind_of_server() {
    let folder = Folder::new("round");
    for (seed, name) in ["redis-6.2", "redis-7.0", "redis-7.2", "redis-7.4", "valkey-9.1"].into_iter().enumerate() {
        let flags = ["--compat", name, ANYWHERE[0], ANYWHERE[1], DEBUG[0], DEBUG[1]];
        // DEBUG needs no directive before 7.0.
        let flags = if name == "redis-6.2" { &flags[..4] } else { &flags };
        let server = ServerProcess::redouble(flags);
        let mut wire = Wire::connect(server.address());
        fill(&mut wire, &mut Dice::new(seed as u64 + 1), matches!(name, "redis-7.4" | "valkey-9.1"));
        let before = (digest(&mut wire), (name != "redis-6.2").then(|| deadlines(&mut wire)));
        for ending in ["txt", "rdb"] {
            let path = folder.text(&format!("{name}.{ending}"));
            assert_eq!(wire.ask(&format!("REDOUBLE SAVE {path}")), ok());
            let other = ServerProcess::redouble(&[flags, &["--load", &path]].concat());
            let mut other = Wire::connect(other.address());
            let after = (digest(&mut other), (name != "redis-6.2").then(|| deadlines(&mut other)));
            assert!(after == before, "{name} {ending}: {:?} {:?}", after.0, before.0);
            if ending == "rdb" && name == "redis-7.0" {
                assert!(payloads(&mut other) == payloads(&mut wire), "{name}");
            }
            // A server that loaded a file saves the same bytes.
            let again = folder.text(&format!("again.{ending}"));
            assert_eq!(other.ask(&format!("REDOUBLE SAVE {again}")), ok());
            assert!(fs::read(&path).unwrap() == fs::read(&again).unwrap(), "{name} {ending}");
        }
    }
}

#[test]
fn a_real_server_loads_what_was_saved_and_its_own_snapshot_is_loaded() {
    let folder = Folder::new("real");
    let dir = folder.text("");
    let ours = ServerProcess::redouble(&["--compat", "redis-7.2", "--dir", &dir, DEBUG[0], DEBUG[1]]);
    let mut wire = Wire::connect(ours.address());
    fill(&mut wire, &mut Dice::new(11), false);
    wire.call(&["FUNCTION", "LOAD", "#!lua name=l\nredis.register_function('f', function() return 'f' end)"]);
    assert_eq!(wire.ask("REDOUBLE SAVE ours.rdb"), ok());

    let renames = ["--enable-protected-configs", "yes"];
    let flags = [&["--dir", &dir, "--dbfilename", "ours.rdb"][..], &renames, &DEBUG].concat();
    let real = ServerProcess::redis(&flags);
    let mut theirs = Wire::connect(real.address());
    assert!(deadlines(&mut theirs) == deadlines(&mut wire));
    assert_eq!(theirs.ask("FCALL f 0"), Frame::bulk("f"));
    // The digest of 7.2 formats scores differently from that of 7.0.
    let same =
        ServerProcess::redouble(&["--compat", "redis-7.0", "--load", &folder.text("ours.rdb"), DEBUG[0], DEBUG[1]]);
    assert_eq!(digest(&mut theirs), digest(&mut Wire::connect(same.address())));

    theirs.ask("FLUSHALL");
    fill(&mut theirs, &mut Dice::new(12), false);
    assert_eq!(theirs.ask("CONFIG SET dbfilename theirs.rdb"), ok());
    assert_eq!(theirs.ask("SAVE"), ok());
    let loaded =
        ServerProcess::redouble(&["--compat", "redis-7.0", "--load", &folder.text("theirs.rdb"), DEBUG[0], DEBUG[1]]);
    let mut loaded = Wire::connect(loaded.address());
    assert_eq!(digest(&mut loaded), digest(&mut theirs));
    assert!(deadlines(&mut loaded) == deadlines(&mut theirs));
    assert!(payloads(&mut loaded) == payloads(&mut theirs));
    assert_eq!(loaded.ask("FCALL f 0"), Frame::bulk("f"));
}

#[test]
fn a_real_server_can_be_fed_with_what_was_saved_through_redis_cli() {
    let folder = Folder::new("fed");
    let flags = ["--compat", "redis-7.0", DEBUG[0], DEBUG[1], ANYWHERE[0], ANYWHERE[1]];
    let ours = ServerProcess::redouble(&flags);
    let mut wire = Wire::connect(ours.address());
    fill(&mut wire, &mut Dice::new(21), false);
    let path = folder.text("data.txt");
    assert_eq!(wire.ask(&format!("REDOUBLE SAVE {path}")), ok());
    let real = ServerProcess::redis(&DEBUG);
    let mut child = Command::new("redis-cli")
        .args(["-p", &real.address().port().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // redis-cli does not accept comments.
    let text = fs::read(&path).unwrap();
    let commands = &text[text.iter().position(|byte| *byte == b'\n').unwrap() + 1..];
    let mut input = child.stdin.take().unwrap();
    let commands = commands.to_vec();
    let feeding = std::thread::spawn(move || input.write_all(&commands));
    let said = String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout).into_owned();
    feeding.join().unwrap().unwrap();
    assert!(!said.contains("ERR"), "{said}");
    let mut theirs = Wire::connect(real.address());
    assert_eq!(digest(&mut theirs), digest(&mut wire));
    assert!(deadlines(&mut theirs) == deadlines(&mut wire));
}

#[test]
fn an_append_only_file_of_a_real_server_is_loaded() {
    let folder = Folder::new("aof");
    let real = ServerProcess::redis(&["--dir", &folder.text(""), "--appendonly", "yes", DEBUG[0], DEBUG[1]]);
    let mut theirs = Wire::connect(real.address());
    fill(&mut theirs, &mut Dice::new(31), false);
    let logs: Vec<PathBuf> = fs::read_dir(folder.text("appendonlydir"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "aof"))
        .collect();
    let log = logs.iter().find(|path| path.display().to_string().contains(".incr.")).unwrap();
    let flags = ["--compat", "redis-7.0", DEBUG[0], DEBUG[1], "--load"];
    let loaded = ServerProcess::redouble(&[&flags[..], &[log.to_str().unwrap()]].concat());
    assert_eq!(digest(&mut Wire::connect(loaded.address())), digest(&mut theirs));
}

#[test]
fn commands_may_follow_a_snapshot_in_the_same_file() {
    let folder = Folder::new("preamble");
    let server = start(writer());
    let path = folder.text("a.rdb");
    wire(&server).ask("SET a 1");
    assert_eq!(wire(&server).ask(&format!("REDOUBLE SAVE {path}")), ok());
    let mut content = fs::read(&path).unwrap();
    content.extend_from_slice(b"*2\r\n$4\r\nINCR\r\n$1\r\na\r\n");
    let server = start(Server::builder().load(folder.file("both.aof", content)));
    assert_eq!(wire(&server).ask("GET a"), Frame::bulk("2"));
}

#[test]
fn keys_whose_time_is_up_are_neither_saved_nor_loaded() {
    let folder = Folder::new("overdue");
    let server = start(writer());
    server.freeze();
    let mut wire = wire(&server);
    wire.ask("SET stays 1");
    wire.ask("SET goes 1 PX 1000");
    let (text, snapshot) = (folder.text("a.txt"), folder.text("a.rdb"));
    for path in [&text, &snapshot] {
        assert_eq!(wire.ask(&format!("REDOUBLE SAVE {path}")), ok());
    }
    server.advance(Duration::from_millis(1001));
    assert_eq!(wire.ask(&format!("REDOUBLE SAVE {}", folder.text("later.txt"))), ok());
    assert!(!fs::read_to_string(folder.text("later.txt")).unwrap().contains("goes"));
    // A time that is past for every server that starts later.
    server.set_time(UNIX_EPOCH + Duration::from_secs(1000));
    wire.ask("SET goes 1 PX 1000");
    for path in [&text, &snapshot] {
        assert_eq!(wire.ask(&format!("REDOUBLE SAVE {path}")), ok());
        let other = start(Server::builder().load(path));
        assert_eq!(self::wire(&other).ask("KEYS *"), Frame::Array(vec![Frame::bulk("stays")]));
    }
}

#[test]
fn a_snapshot_that_does_not_fit_the_server_is_refused() {
    let folder = Folder::new("unfit");
    let refused = |name: &str, databases: u32, path: &str| {
        let builder = Server::builder().compat(profile(name)).databases(databases);
        builder.load(path).spawn().err().unwrap_or_else(|| panic!("{path} was loaded")).to_string()
    };
    let server = start(writer().compat(profile("redis-7.4")));
    let mut wire = wire(&server);
    wire.ask("SELECT 2");
    wire.ask("HSET h f v");
    let path = folder.text("plain.rdb");
    assert_eq!(wire.ask(&format!("REDOUBLE SAVE {path}")), ok());
    let said = refused("redis-7.0", 2, &path);
    assert_eq!(said, format!("cannot load {path}: it holds data of database 2, and there are 2, counted from 0"));

    wire.ask("HEXPIRE h 1000 FIELDS 1 f");
    let path = folder.text("times.rdb");
    assert_eq!(wire.ask(&format!("REDOUBLE SAVE {path}")), ok());
    let said = refused("redis-7.2", 16, &path);
    let reason = "the value of 'h' has fields with a time to live, which redis-7.2 does not have";
    assert_eq!(said, format!("cannot load {path}: {reason}"));

    let mut damaged = fs::read(&path).unwrap();
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let path = folder.file("damaged.rdb", damaged);
    let said = refused("redis-7.4", 16, &path);
    assert!(said.ends_with("the checksum is wrong: the file is damaged"), "{said}");
}
