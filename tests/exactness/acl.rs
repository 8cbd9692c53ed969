//! Users and what they may do, told as stories.

use redis::{Connection, RedisResult, Value};
use redouble::Server;

use crate::support::process::ServerProcess;
use crate::support::{Dice, client, client_at, profile, spawn, start};

fn run(connection: &mut Connection, line: &str) -> RedisResult<Value> {
    let mut words = line.split(' ');
    let mut command = redis::cmd(words.next().unwrap_or_default());
    words.for_each(|word| {
        command.arg(word);
    });
    command.query(connection)
}

fn done(connection: &mut Connection, line: &str) {
    run(connection, line).unwrap_or_else(|error| panic!("{line}: {error}"));
}

fn text(connection: &mut Connection, line: &str) -> String {
    redis::from_redis_value(run(connection, line).unwrap_or_else(|error| panic!("{line}: {error}"))).unwrap()
}

fn lines(connection: &mut Connection, line: &str) -> Vec<String> {
    redis::from_redis_value(run(connection, line).unwrap_or_else(|error| panic!("{line}: {error}"))).unwrap()
}

/// The code of the error that a command gets.
fn code(connection: &mut Connection, line: &str) -> String {
    let error = run(connection, line).expect_err(line);
    error.code().unwrap_or("none").to_owned()
}

fn with_service(server: &Server, rules: &str) -> (Connection, Connection) {
    let mut admin = client(server);
    done(&mut admin, &format!("ACL SETUSER svc on >secret {rules}"));
    let mut service = client(server);
    done(&mut service, "AUTH svc secret");
    (admin, service)
}

#[test]
fn a_service_that_may_only_touch_its_locks_cannot_read_anything_else() {
    let server = spawn();
    let (mut admin, mut service) = with_service(&server, "~lock:* +@all -@dangerous");
    done(&mut admin, "SET session:1 private");
    done(&mut service, "SET lock:foo token NX PX 1000");
    assert_eq!(text(&mut service, "GET lock:foo"), "token");
    done(&mut service, "DEL lock:foo");
    for line in ["GET session:1", "MGET lock:foo session:1", "COPY session:1 lock:1", "RENAME session:1 lock:1"] {
        assert_eq!(code(&mut service, line), "NOPERM", "{line}");
    }
    // Nor can it look around, or give itself more.
    for line in ["KEYS *", "FLUSHALL", "CONFIG GET requirepass", "ACL SETUSER svc allkeys", "MONITOR", "SHUTDOWN"] {
        assert_eq!(code(&mut service, line), "NOPERM", "{line}");
    }
    assert_eq!(text(&mut admin, "GET session:1"), "private");
}

#[test]
fn a_reader_cannot_take_the_lock_that_it_looks_at() {
    let server = spawn();
    let (_, mut reader) = with_service(&server, "%R~lock:* +get +set +exists");
    done(&mut reader, "GET lock:foo");
    assert_eq!(code(&mut reader, "SET lock:foo mine NX"), "NOPERM");
    done(&mut reader, "EXISTS lock:foo");
}

#[test]
fn a_user_that_was_switched_off_is_refused_at_its_next_auth() {
    let server = spawn();
    let (mut admin, mut service) = with_service(&server, "~* +@all");
    done(&mut admin, "ACL SETUSER svc off");
    done(&mut service, "PING");
    assert_eq!(code(&mut service, "AUTH svc secret"), "WRONGPASS");
    assert_eq!(text(&mut service, "ACL WHOAMI"), "svc");
    assert_eq!(code(&mut client(&server), "AUTH svc secret"), "WRONGPASS");
}

#[test]
fn a_removed_user_is_gone_at_once() {
    let server = spawn();
    let (mut admin, mut service) = with_service(&server, "~* +@all");
    done(&mut admin, "ACL DELUSER svc");
    let error = run(&mut service, "GET k").unwrap_err();
    assert!(error.is_connection_dropped(), "{error}");
    done(&mut admin, "PING");
}

#[test]
fn new_rules_hold_for_who_is_connected_already() {
    let server = start(Server::builder().threads(2));
    let (mut admin, mut service) = with_service(&server, "~a +get");
    let mut other = client(&server);
    done(&mut other, "AUTH svc secret");
    for service in [&mut service, &mut other] {
        assert_eq!(code(service, "GET b"), "NOPERM");
    }
    done(&mut admin, "ACL SETUSER svc ~b -get +set");
    for service in [&mut service, &mut other] {
        done(service, "SET b 1");
        assert_eq!(code(service, "GET b"), "NOPERM");
    }
}

#[test]
fn a_denial_is_on_record() {
    let server = spawn();
    let (mut admin, mut service) = with_service(&server, "~lock:* +get");
    let _ = run(&mut service, "GET session:1");
    let _ = run(&mut service, "GET session:1");
    let _ = run(&mut service, "DEL lock:foo");
    let _ = run(&mut service, "AUTH svc guess");
    let log: Vec<std::collections::HashMap<String, Value>> =
        redis::from_redis_value(run(&mut admin, "ACL LOG").unwrap()).unwrap();
    let field = |entry: usize, name: &str| -> String { redis::from_redis_value(log[entry][name].clone()).unwrap() };
    let entry = |at| ["count", "reason", "context", "object", "username"].map(|name| field(at, name));
    assert_eq!(log.len(), 3);
    assert_eq!(entry(0), ["1", "auth", "toplevel", "AUTH", "svc"]);
    assert_eq!(entry(1), ["1", "command", "toplevel", "del", "svc"]);
    assert_eq!(entry(2), ["2", "key", "toplevel", "session:1", "svc"]);
    assert!(field(2, "client-info").contains("cmd=get user=svc"));
    done(&mut admin, "ACL LOG RESET");
    assert_eq!(run(&mut admin, "ACL LOG").unwrap(), Value::Array(Vec::new()));
}

#[test]
fn a_password_that_the_builder_was_given_is_the_default_users() {
    let server = start(Server::builder().password("first"));
    let mut admin = client(&server);
    let lines = lines(&mut admin, "ACL LIST");
    // The SHA-256 of the password.
    let hash = "a7937b64b8caa58f03721bb6bacf5c78cb235febe0e70b1b84cd99541461a08e";
    assert_eq!(lines, [format!("user default on sanitize-payload #{hash} ~* &* +@all")]);
    let address = server.address().unwrap();
    assert_eq!(code(&mut client_at(&format!("redis://{address}")), "PING"), "NOAUTH");
    done(&mut admin, "ACL SETUSER default nopass");
    done(&mut client_at(&format!("redis://{address}")), "PING");
}

/// Whatever rules made a user: the line that ACL LIST prints makes it again.
#[test]
fn what_acl_list_prints_makes_the_same_user_again() {
    const RULES: &[&str] = &[
        "on",
        "off",
        "nopass",
        "resetpass",
        ">x",
        ">y",
        "~a",
        "%R~a",
        "%W~b*",
        "%RW~c",
        "resetkeys",
        "allkeys",
        "&a",
        "&b*",
        "resetchannels",
        "+get",
        "-get",
        "+set",
        "+type",
        "+config",
        "-config",
        "+config|get",
        "-config|set",
        "+client|kill",
        "-client|list",
        "+select|0",
        "+select|x",
        "+select",
        "-select",
        "+@string",
        "-@string",
        "+@keyspace",
        "-@dangerous",
        "+@admin",
        "-@fast",
        "+@slow",
        "+@all",
        "-@all",
        "+@connection",
        "+@read",
        "-@read",
        "+@write",
        "+@bitmap",
        "-@transaction",
        "(+get ~k)",
        "(%R~x +@read &c)",
        "clearselectors",
        "reset",
        "(allkeys allchannels +@all -@keyspace)",
    ];
    for name in ["redis-7.0", "redis-7.2", "valkey-9.1"] {
        let server = start(Server::builder().compat(profile(name)));
        let mut admin = client(&server);
        let mut dice = Dice::new(7);
        for _ in 0..300 {
            let rules: Vec<&str> = (0..=dice.below(10)).map(|_| RULES[dice.below(RULES.len())]).collect();
            let rules = rules.join(" ");
            if run(&mut admin, &format!("ACL SETUSER a reset {rules}")).is_err() {
                // A pattern behind the one that means all.
                continue;
            }
            let shown = |lines: Vec<String>, start: &str| -> String {
                lines.iter().find_map(|line| line.strip_prefix(start)).unwrap_or_default().to_owned()
            };
            let first = shown(lines(&mut admin, "ACL LIST"), "user a ");
            done(&mut admin, &format!("ACL SETUSER b reset {first}"));
            let second = shown(lines(&mut admin, "ACL LIST"), "user b ");
            assert_eq!(first, second, "{name}: {rules}");
        }
    }
}

#[test]
fn users_are_read_from_the_acl_file_and_written_back() {
    let folder = std::env::temp_dir().join(format!("redouble-acl-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let file = folder.join("users.acl");
    let line = "user svc on nopass ~lock:* resetchannels -@all +get";
    std::fs::write(&file, format!("{line}\nuser default on nopass ~* &* +@all\n")).unwrap();
    let server = ServerProcess::redouble(&["--compat", "redis-7.0", "--aclfile", file.to_str().unwrap()]);
    let mut admin = client_at(&format!("redis://{}", server.address()));
    assert_eq!(lines(&mut admin, "ACL LIST")[1], line);
    let mut service = client_at(&format!("redis://{}", server.address()));
    done(&mut service, "AUTH svc x");

    done(&mut admin, "ACL SETUSER other on");
    done(&mut admin, "ACL SAVE");
    let saved = std::fs::read_to_string(&file).unwrap();
    let added = "user other on resetchannels -@all";
    assert_eq!(saved, format!("user default on nopass ~* &* +@all\n{added}\n{line}\n"));

    std::fs::write(&file, "user svc on foo\n").unwrap();
    let error = run(&mut admin, "ACL LOAD").unwrap_err().to_string();
    assert!(error.contains("users.acl:1: Syntax error. WARNING: ACL errors detected"), "{error}");
    done(&mut service, "GET lock:foo");

    std::fs::write(&file, format!("{line}\n")).unwrap();
    done(&mut admin, "ACL LOAD");
    assert_eq!(lines(&mut admin, "ACL USERS"), ["default", "svc"]);
    assert!(run(&mut service, "GET lock:foo").is_err(), "it has to come again");
    std::fs::remove_dir_all(&folder).unwrap();
}
