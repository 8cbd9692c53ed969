//! For every command that writes: `close-before` leaves the data unchanged, `close-after` leaves the command's effect,
//! and the client cannot tell the two apart.

use std::collections::BTreeMap;

use redouble::{Builder, Server};

use crate::driver::Driver;
use crate::support::wire::{Frame, Wire, request};
use crate::support::{address, profile, start};

/// A call of each writing command, after commands that prepare the data. `;` separates commands, blanks separate words;
/// `\x20` stands for a byte.
const SAMPLES: &[(&str, &str, &str)] = &[
    ("APPEND", "SET k a", "APPEND k b"),
    ("BITFIELD", "", "BITFIELD k SET u8 0 255"),
    ("BITOP", "SET a x", "BITOP NOT k a"),
    ("BLMOVE", "RPUSH a 1 2", "BLMOVE a k LEFT RIGHT 0"),
    ("BLMPOP", "RPUSH k 1 2", "BLMPOP 0 1 k LEFT"),
    ("BLPOP", "RPUSH k 1 2", "BLPOP k 0"),
    ("BRPOP", "RPUSH k 1 2", "BRPOP k 0"),
    ("BRPOPLPUSH", "RPUSH a 1 2", "BRPOPLPUSH a k 0"),
    ("BZMPOP", "ZADD k 1 a 2 b", "BZMPOP 0 1 k MIN"),
    ("BZPOPMAX", "ZADD k 1 a 2 b", "BZPOPMAX k 0"),
    ("BZPOPMIN", "ZADD k 1 a 2 b", "BZPOPMIN k 0"),
    ("COPY", "SET a x", "COPY a k"),
    ("DECR", "", "DECR k"),
    ("DECRBY", "", "DECRBY k 5"),
    ("DEL", "SET k a", "DEL k"),
    ("DELEX", "SET k a", "DELEX k IFEQ a"),
    ("DELIFEQ", "SET k a", "DELIFEQ k a"),
    ("EXPIRE", "SET k a", "EXPIRE k 100"),
    ("EXPIREAT", "SET k a", "EXPIREAT k 9999999999"),
    ("FLUSHALL", "SET k a", "FLUSHALL"),
    ("FLUSHDB", "SET k a", "FLUSHDB"),
    ("FUNCTION|DELETE", LIBRARY, "FUNCTION DELETE l"),
    ("FUNCTION|FLUSH", LIBRARY, "FUNCTION FLUSH"),
    ("FUNCTION|LOAD", "", LIBRARY),
    (
        "FUNCTION|RESTORE",
        "",
        "FUNCTION RESTORE \\xf5@A#!lua\\x20name=l\\x0aredis.register_function(\"f\",function()\\x20return\\x201\\x20end)\
         \\x0a\\x00\\x00\\x0fC\\x5c\\x9a\\x85>\\x13",
    ),
    ("GEOADD", "", "GEOADD k 13.36 38.11 Palermo"),
    ("GEORADIUS", PLACES, "GEORADIUS a 15 37 200 km STORE k"),
    ("GEORADIUSBYMEMBER", PLACES, "GEORADIUSBYMEMBER a Palermo 200 km STORE k"),
    ("GEOSEARCHSTORE", PLACES, "GEOSEARCHSTORE k a FROMMEMBER Palermo BYRADIUS 200 km"),
    ("GETDEL", "SET k a", "GETDEL k"),
    ("GETEX", "SET k a", "GETEX k EX 100"),
    ("GETSET", "SET k a", "GETSET k b"),
    ("HDEL", "HSET k f v", "HDEL k f"),
    ("HEXPIRE", "HSET k f v", "HEXPIRE k 100 FIELDS 1 f"),
    ("HEXPIREAT", "HSET k f v", "HEXPIREAT k 9999999999 FIELDS 1 f"),
    ("HGETDEL", "HSET k f v g w", "HGETDEL k FIELDS 1 f"),
    ("HGETEX", "HSET k f v", "HGETEX k EX 100 FIELDS 1 f"),
    ("HINCRBY", "", "HINCRBY k f 2"),
    ("HINCRBYFLOAT", "", "HINCRBYFLOAT k f 2.5"),
    ("HMSET", "", "HMSET k f v"),
    ("HPERSIST", "HSET k f v;HEXPIRE k 100 FIELDS 1 f", "HPERSIST k FIELDS 1 f"),
    ("HPEXPIRE", "HSET k f v", "HPEXPIRE k 100000 FIELDS 1 f"),
    ("HPEXPIREAT", "HSET k f v", "HPEXPIREAT k 9999999999000 FIELDS 1 f"),
    ("HSET", "", "HSET k f v"),
    ("HSETEX", "", "HSETEX k EX 100 FIELDS 1 f v"),
    ("HSETNX", "", "HSETNX k f v"),
    ("INCR", "", "INCR k"),
    ("INCRBY", "", "INCRBY k 5"),
    ("INCRBYFLOAT", "", "INCRBYFLOAT k 0.5"),
    ("LINSERT", "RPUSH k 1 2", "LINSERT k BEFORE 2 x"),
    ("LMOVE", "RPUSH a 1 2", "LMOVE a k LEFT RIGHT"),
    ("LMPOP", "RPUSH k 1 2", "LMPOP 1 k LEFT"),
    ("LPOP", "RPUSH k 1 2", "LPOP k"),
    ("LPUSH", "", "LPUSH k 1"),
    ("LPUSHX", "RPUSH k 1", "LPUSHX k 2"),
    ("LREM", "RPUSH k 1 2", "LREM k 1 2"),
    ("LSET", "RPUSH k 1 2", "LSET k 0 x"),
    ("LTRIM", "RPUSH k 1 2 3", "LTRIM k 0 1"),
    ("MOVE", "SET k a", "MOVE k 1"),
    ("MSET", "", "MSET k 1 l 2"),
    ("MSETEX", "", "MSETEX 2 k 1 l 2 EX 100"),
    ("MSETNX", "", "MSETNX k 1 l 2"),
    ("PERSIST", "SET k a EX 100", "PERSIST k"),
    ("PEXPIRE", "SET k a", "PEXPIRE k 100000"),
    ("PEXPIREAT", "SET k a", "PEXPIREAT k 9999999999000"),
    ("PFADD", "", "PFADD k a b c"),
    ("PFDEBUG", "PFADD k a b c", "PFDEBUG TODENSE k"),
    ("PFMERGE", "PFADD a x", "PFMERGE k a"),
    ("PSETEX", "", "PSETEX k 100000 a"),
    ("RENAME", "SET k a", "RENAME k l"),
    ("RENAMENX", "SET k a", "RENAMENX k l"),
    ("RESTORE", "", "RESTORE k 0 \\x00\\x01v\\x0a\\x00\\x91\\x08\\xce\\xb2\\x198\\x8a\\xce"),
    ("RPOP", "RPUSH k 1 2", "RPOP k"),
    ("RPOPLPUSH", "RPUSH a 1 2", "RPOPLPUSH a k"),
    ("RPUSH", "", "RPUSH k 1"),
    ("RPUSHX", "RPUSH k 1", "RPUSHX k 2"),
    ("SADD", "", "SADD k a"),
    ("SDIFFSTORE", "SADD a 1 2", "SDIFFSTORE k a"),
    ("SET", "", "SET k token NX PX 30000"),
    ("SETBIT", "", "SETBIT k 7 1"),
    ("SETEX", "", "SETEX k 100 a"),
    ("SETNX", "", "SETNX k a"),
    ("SETRANGE", "SET k abc", "SETRANGE k 1 x"),
    ("SINTERSTORE", "SADD a 1 2", "SINTERSTORE k a"),
    ("SMOVE", "SADD a 1 2", "SMOVE a k 1"),
    ("SORT", "RPUSH a 2 1", "SORT a STORE k"),
    ("SPOP", "SADD k a", "SPOP k"),
    ("SREM", "SADD k a b", "SREM k a"),
    ("SUNIONSTORE", "SADD a 1 2", "SUNIONSTORE k a"),
    ("SWAPDB", "SET k a", "SWAPDB 0 1"),
    ("UNLINK", "SET k a", "UNLINK k"),
    ("XACK", PENDING, "XACK s g 1-1"),
    ("XACKDEL", PENDING, "XACKDEL s g IDS 1 1-1"),
    ("XADD", "", "XADD s * f v"),
    ("XAUTOCLAIM", PENDING, "XAUTOCLAIM s g other 0 0"),
    ("XCLAIM", PENDING, "XCLAIM s g other 0 1-1"),
    ("XDEL", STREAM, "XDEL s 1-1"),
    ("XDELEX", STREAM, "XDELEX s IDS 1 1-1"),
    ("XGROUP|CREATE", "XADD s 1-1 f v", "XGROUP CREATE s g 0"),
    ("XGROUP|CREATECONSUMER", STREAM, "XGROUP CREATECONSUMER s g c"),
    ("XGROUP|DELCONSUMER", PENDING, "XGROUP DELCONSUMER s g c"),
    ("XGROUP|DESTROY", STREAM, "XGROUP DESTROY s g"),
    ("XGROUP|SETID", STREAM, "XGROUP SETID s g 1-1"),
    ("XREADGROUP", STREAM, "XREADGROUP GROUP g c STREAMS s >"),
    ("XSETID", STREAM, "XSETID s 5-0"),
    ("XTRIM", STREAM, "XTRIM s MAXLEN 0"),
    ("ZADD", "", "ZADD k 1 a"),
    ("ZDIFFSTORE", "ZADD a 1 a", "ZDIFFSTORE k 1 a"),
    ("ZINCRBY", "", "ZINCRBY k 1 a"),
    ("ZINTERSTORE", "ZADD a 1 a", "ZINTERSTORE k 1 a"),
    ("ZMPOP", "ZADD k 1 a 2 b", "ZMPOP 1 k MIN"),
    ("ZPOPMAX", "ZADD k 1 a 2 b", "ZPOPMAX k"),
    ("ZPOPMIN", "ZADD k 1 a 2 b", "ZPOPMIN k"),
    ("ZRANGESTORE", "ZADD a 1 a 2 b", "ZRANGESTORE k a 0 -1"),
    ("ZREM", "ZADD k 1 a 2 b", "ZREM k a"),
    ("ZREMRANGEBYLEX", "ZADD k 0 a 0 b", "ZREMRANGEBYLEX k [a [a"),
    ("ZREMRANGEBYRANK", "ZADD k 1 a 2 b", "ZREMRANGEBYRANK k 0 0"),
    ("ZREMRANGEBYSCORE", "ZADD k 1 a 2 b", "ZREMRANGEBYSCORE k 1 1"),
    ("ZUNIONSTORE", "ZADD a 1 a", "ZUNIONSTORE k 1 a"),
];

const LIBRARY: &str =
    "FUNCTION LOAD #!lua\\x20name=l\\x0aredis.register_function('f',function()\\x20return\\x201\\x20end)";
const PLACES: &str = "GEOADD a 13.36 38.11 Palermo 15.08 37.50 Catania";
const STREAM: &str = "XADD s 1-1 f v;XGROUP CREATE s g 0";
const PENDING: &str = "XADD s 1-1 f v;XGROUP CREATE s g 0;XREADGROUP GROUP g c STREAMS s >";

/// Commands that write by calling others, with the command name that a fault matches.
const RUNNERS: &[(&str, &str, &str)] = &[
    ("EVAL", "", "EVAL return\\x20redis.call('SET',KEYS[1],'v') 1 k"),
    ("EVALSHA", SCRIPT, "EVALSHA 948fb05a800633cd285d7440e4d64ca534f7c396 1 k"),
    (
        "FCALL",
        "FUNCTION LOAD #!lua\\x20name=l\\x0aredis.register_function('f',function(keys)\\x20redis.call('SET',keys[1],1)\\x20end)",
        "FCALL f 1 k",
    ),
    // The script runs long enough to be suspended.
    ("EVAL", "", "EVAL redis.call('SET',KEYS[1],'v')\\x20for\\x20i=1,3000000\\x20do\\x20end\\x20return\\x201 1 k"),
];

const SCRIPT: &str = "SCRIPT LOAD return\\x20redis.call('SET',KEYS[1],'v')";

/// The profiles whose commands are covered.
const PROFILES: [&str; 3] = ["redis-7.0", "redis-8.4", "valkey-9.1"];

fn spawn_as(name: &str) -> Server {
    let server = start(Builder::default().compat(profile(name)));
    let mut driver = Driver::connect(address(&server));
    assert_eq!(driver.ask("REDOUBLE CLOCK FREEZE 1700000000000"), Frame::status("OK"));
    server
}

fn words(line: &str) -> Vec<Vec<u8>> {
    line.split_whitespace().map(unescaped).collect()
}

/// Decodes `\x20` and the like in a word.
fn unescaped(word: &str) -> Vec<u8> {
    let mut parts = word.split("\\x");
    let mut bytes = parts.next().unwrap_or_default().as_bytes().to_vec();
    for part in parts {
        bytes.push(u8::from_str_radix(&part[..2], 16).expect("two hexadecimal digits"));
        bytes.extend_from_slice(&part.as_bytes()[2..]);
    }
    bytes
}

/// Returns all data of the server in a form that can be compared.
fn holdings(driver: &mut Driver) -> BTreeMap<String, Vec<Frame>> {
    let mut all = BTreeMap::new();
    for db in 0..2 {
        assert_eq!(driver.ask(&format!("SELECT {db}")), Frame::status("OK"));
        for key in driver.ask("KEYS *").items().to_vec() {
            let key = key.text();
            let held = vec![driver.ask(&format!("DUMP {key}")), driver.ask(&format!("PEXPIRETIME {key}"))];
            all.insert(format!("{db} {key}"), held);
        }
    }
    driver.ask("SELECT 0");
    all.insert("functions".to_owned(), vec![driver.ask("FUNCTION LIST WITHCODE")]);
    all
}

/// Resets the server and prepares the data of a sample.
#[track_caller]
fn set_up(driver: &mut Driver, setup: &str) {
    driver.ask("FLUSHALL");
    driver.ask("FUNCTION FLUSH");
    for line in setup.split(';').filter(|line| !line.is_empty()) {
        let reply = driver.call(&words(line));
        assert!(!reply.is_error(), "{line}: {reply:?}");
    }
}

/// Sends a request under a fault and returns the server's data afterwards. The client must not receive a byte.
#[track_caller]
fn under_fault(server: &Server, driver: &mut Driver, rule: &str, sent: &[u8]) -> BTreeMap<String, Vec<Frame>> {
    driver.arm(&format!("f {rule}"));
    let mut client = Wire::connect(address(server));
    client.send(sent);
    assert_eq!(client.read_to_end(), b"", "{rule}");
    assert_eq!(driver.disarm("f"), 1, "{rule}");
    holdings(driver)
}

#[track_caller]
fn assert_told_apart(server: &Server, driver: &mut Driver, (name, setup, line): (&str, &str, &str)) {
    set_up(driver, setup);
    let before = holdings(driver);
    let reply = driver.call(&words(line));
    assert!(!reply.is_error(), "{line}: {reply:?}");
    let after = holdings(driver);
    assert_ne!(before, after, "{line} writes nothing");
    let transaction = [request(&["MULTI"]), request(&words(line)), request(&["EXEC"])].concat();
    for (verdict, expected) in
        [("close-before", &before), ("reset", &before), ("close-after", &after), ("truncate 0", &after)]
    {
        set_up(driver, setup);
        let held = under_fault(server, driver, &format!("on {name} {verdict}"), &request(&words(line)));
        assert_eq!(&held, expected, "{verdict} of {line}");
    }
    for (verdict, expected) in [("close-before", &before), ("close-after", &after)] {
        set_up(driver, setup);
        driver.arm(&format!("f on {name} {verdict}"));
        let mut client = Wire::connect(address(server));
        client.send(&transaction);
        assert_eq!(client.read_to_end(), b"+OK\r\n+QUEUED\r\n", "{verdict} of EXEC with {line}");
        assert_eq!(driver.disarm("f"), 1);
        assert_eq!(&holdings(driver), expected, "{verdict} of EXEC with {line}");
    }
    set_up(driver, setup);
    driver.arm(&format!("f on {name} error oops"));
    let mut client = Wire::connect(address(server));
    assert_eq!(client.call(&words(line)), Frame::error("ERR oops"));
    assert_eq!(driver.disarm("f"), 1);
    assert_eq!(holdings(driver), before, "error of {line}");
}

#[test]
fn a_command_that_never_ran_and_one_whose_reply_was_lost_look_alike_to_the_client_only() {
    for name in PROFILES {
        let server = spawn_as(name);
        let mut driver = Driver::connect(address(&server));
        let writers = driver.ask("COMMAND LIST FILTERBY ACLCAT write");
        for writer in writers.items() {
            let writer = writer.text().to_ascii_uppercase();
            // A server in no cluster refuses these.
            if writer.starts_with("CLUSTER|") {
                continue;
            }
            let sample = SAMPLES.iter().find(|(name, ..)| *name == writer);
            let sample = sample.unwrap_or_else(|| panic!("{writer} writes, and has no sample in this file"));
            assert_told_apart(&server, &mut driver, *sample);
        }
    }
}

#[test]
fn a_script_that_never_ran_and_one_whose_reply_was_lost_are_told_apart_too() {
    for name in PROFILES {
        let server = spawn_as(name);
        let mut driver = Driver::connect(address(&server));
        for runner in RUNNERS {
            assert_told_apart(&server, &mut driver, *runner);
        }
    }
}

/// The name of a blocking command, a call of it, and the command that serves it and leaves the key empty again.
const WAITERS: &[(&str, &str, &str)] = &[
    ("BLPOP", "BLPOP k 0", "RPUSH k 1"),
    ("BRPOP", "BRPOP k 0", "RPUSH k 1"),
    ("BLMPOP", "BLMPOP 0 1 k LEFT", "RPUSH k 1"),
    ("BLMOVE", "BLMOVE k l LEFT LEFT 0", "RPUSH k 1"),
    ("BRPOPLPUSH", "BRPOPLPUSH k l 0", "RPUSH k 1"),
    ("BZPOPMIN", "BZPOPMIN k 0", "ZADD k 1 a"),
    ("BZPOPMAX", "BZPOPMAX k 0", "ZADD k 1 a"),
    ("BZMPOP", "BZMPOP 0 1 k MIN", "ZADD k 1 a"),
];

#[test]
fn whoever_waits_for_an_element_takes_it_even_if_the_reply_is_lost() {
    let server = spawn_as("redis-7.0");
    let mut driver = Driver::connect(address(&server));
    for (name, line, gift) in WAITERS {
        set_up(&mut driver, "");
        driver.arm(&format!("f on {name} close-after"));
        let mut client = Wire::connect(address(&server));
        client.send(&request(&words(line)));
        driver.wire().ask_until("INFO clients", |info| info.contains("blocked_clients:1\r"));
        assert_eq!(driver.ask(gift), Frame::Integer(1), "{name}");
        assert_eq!(client.read_to_end(), b"", "{name}");
        assert_eq!(driver.ask("EXISTS k"), Frame::Integer(0), "{name} has taken it");
        assert_eq!(driver.disarm("f"), 1);

        set_up(&mut driver, "");
        driver.arm(&format!("f on {name} close-before"));
        let mut client = Wire::connect(address(&server));
        client.send(&request(&words(line)));
        assert_eq!(client.read_to_end(), b"", "{name}");
        assert_eq!(driver.ask(gift), Frame::Integer(1), "{name}");
        assert_eq!(driver.ask("EXISTS k"), Frame::Integer(1), "{name} never waited");
        assert_eq!(driver.disarm("f"), 1);
    }
}
