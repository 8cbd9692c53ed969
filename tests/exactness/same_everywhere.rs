//! A command is one function, wherever it is called from: sent alone, in a transaction, by a script that calls it, by a
//! script that calls many. Random commands, right and wrong ones, must answer the same everywhere and leave the same data.
//!
//! Half of the commands come from templates, so that most of them make sense; the other half are made from the table
//! that the server itself shows, with whatever words there are.

use std::time::Duration;

use redouble::Server;

use crate::support::wire::{Frame, Wire};
use crate::support::{Dice, address, start};

const ROUNDS: usize = 100;
const COMMANDS: usize = 30;
const KEYS: [&str; 5] = ["a", "b", "c", "{tag}d", ""];
/// Keys that mostly hold one type: lists, hashes, sets, sorted sets, streams, places.
const TYPED_KEYS: [&str; 11] = ["l1", "l2", "h1", "h2", "s1", "s2", "z1", "z2", "x1", "g1", "g2"];

/// Words of templates: `K` is a key, `I` an integer, `V` a value, `T` a time in the future or not, `O` an option; `L`, `H`,
/// `S`, `Z`, `X` and `G` are keys, mostly of that type; `M` is a member or field, `F` a score, `E` an end, `B` a bound.
const TEMPLATES: &[&str] = &[
    "SET K V",
    "SET K V O",
    "SET K V O O I",
    "SET K V PX T",
    "SET K V EXAT I",
    "GET K",
    "GETSET K V",
    "GETDEL K",
    "GETEX K O T",
    "SETNX K V",
    "SETEX K T V",
    "PSETEX K T V",
    "MSET K V K V",
    "MSETNX K V K V",
    "MSET K V K",
    "MGET K K K",
    "APPEND K V",
    "STRLEN K",
    "GETRANGE K I I",
    "SETRANGE K 3 V",
    "SETRANGE K I V",
    "INCR K",
    "DECRBY K I",
    "INCRBY K I",
    "INCRBYFLOAT K I",
    "INCRBYFLOAT K V",
    "LCS K K",
    "LCS K K IDX WITHMATCHLEN",
    "LCS K K LEN",
    "SETBIT K 70 1",
    "SETBIT K I I",
    "GETBIT K I",
    "BITCOUNT K I I O",
    "BITPOS K 1",
    "BITPOS K I I",
    "BITOP XOR K K K",
    "BITOP NOT K K",
    "BITFIELD K SET u8 #1 I GET i4 2 OVERFLOW FAIL INCRBY u2 100 1",
    "BITFIELD_RO K GET u8 I",
    "DEL K K",
    "UNLINK K",
    "EXISTS K K K",
    "TOUCH K K",
    "TYPE K",
    "RENAME K K",
    "RENAMENX K K",
    "COPY K K O",
    "COPY K K DB 1",
    "MOVE K 1",
    "EXPIRE K T O",
    "PEXPIRE K T",
    "PEXPIREAT K I",
    "TTL K",
    "PTTL K",
    "PEXPIRETIME K",
    "PERSIST K",
    "KEYS *",
    "DBSIZE",
    "DUMP K",
    "RESTORE K 0 V",
    "OBJECT ENCODING K",
    "OBJECT REFCOUNT K",
    "FLUSHDB",
    "SWAPDB 0 1",
    "SWAPDB I I",
    "ECHO V",
    "PING V",
    "TIME",
    "LPUSH L V",
    "LPUSH L V V V",
    "RPUSH L M M M",
    "RPUSH L V",
    "LPUSHX L V",
    "RPUSHX L V",
    "LPOP L",
    "RPOP L",
    "LPOP L I",
    "RPOP L I",
    "LLEN L",
    "LINDEX L I",
    "LSET L I V",
    "LRANGE L 0 -1",
    "LRANGE L I I",
    "LTRIM L 0 7",
    "LTRIM L I I",
    "LREM L I M",
    "LINSERT L BEFORE M V",
    "LINSERT L AFTER M V",
    "LPOS L M",
    "LPOS L M COUNT I",
    "LPOS L M RANK I MAXLEN I",
    "LMOVE L L E E",
    "RPOPLPUSH L L",
    "LMPOP 2 L L E",
    "LMPOP I L L E COUNT 2",
    "SORT L ALPHA",
    "SORT L",
    "SORT L ALPHA DESC LIMIT I I STORE L",
    "SORT_RO L ALPHA BY *1 GET # GET K",
    "SORT S ALPHA",
    "SORT Z ALPHA STORE L",
    "HSET H M V",
    "HSET H M V M V M V",
    "HMSET H M V M V",
    "HSETNX H M V",
    "HGET H M",
    "HMGET H M M M",
    "HDEL H M",
    "HDEL H M M",
    "HEXISTS H M",
    "HLEN H",
    "HSTRLEN H M",
    "HKEYS H",
    "HVALS H",
    "HGETALL H",
    "HINCRBY H M I",
    "HINCRBYFLOAT H M F",
    "HSCAN H 0",
    "SADD S M",
    "SADD S M M M",
    "SADD S I I",
    "SADD S V",
    "SREM S M M",
    "SISMEMBER S M",
    "SMISMEMBER S M M",
    "SMEMBERS S",
    "SCARD S",
    "SMOVE S S M",
    "SINTER S S",
    "SUNION S S",
    "SDIFF S S",
    "SINTERSTORE S S S",
    "SUNIONSTORE S S S",
    "SDIFFSTORE S S Z",
    "SINTERCARD 2 S S LIMIT I",
    "SSCAN S 0",
    "ZADD Z F M",
    "ZADD Z F M F M F M",
    "ZADD Z O F M",
    "ZADD Z O CH F M F M",
    "ZADD Z O INCR F M",
    "ZINCRBY Z F M",
    "ZREM Z M M",
    "ZSCORE Z M",
    "ZMSCORE Z M M",
    "ZRANK Z M",
    "ZREVRANK Z M",
    "ZCARD Z",
    "ZCOUNT Z F F",
    "ZLEXCOUNT Z B B",
    "ZRANGE Z 0 -1 WITHSCORES",
    "ZRANGE Z I I REV",
    "ZRANGE Z F F BYSCORE LIMIT I I",
    "ZRANGE Z B B BYLEX",
    "ZREVRANGE Z I I",
    "ZRANGEBYSCORE Z F F WITHSCORES",
    "ZREVRANGEBYLEX Z B B",
    "ZRANGESTORE Z Z I I",
    "ZPOPMIN Z",
    "ZPOPMAX Z I",
    "ZMPOP 2 Z Z MIN",
    "ZMPOP 2 Z S MAX COUNT I",
    "ZREMRANGEBYRANK Z I I",
    "ZREMRANGEBYSCORE Z F F",
    "ZREMRANGEBYLEX Z B B",
    "ZUNION 2 Z S WITHSCORES",
    "ZINTER 2 Z Z WEIGHTS F F AGGREGATE MAX WITHSCORES",
    "ZDIFF 2 Z S WITHSCORES",
    "ZUNIONSTORE Z 2 Z Z WEIGHTS F 1",
    "ZINTERSTORE Z 2 Z S AGGREGATE MIN",
    "ZDIFFSTORE Z 2 Z Z",
    "ZINTERCARD 2 Z S LIMIT I",
    "ZSCAN Z 0",
    "GEOADD G 13.36 38.11 M 15.08 37.5 M",
    "GEOADD G I I M",
    "GEODIST G M M km",
    "GEOPOS G M M",
    "GEOHASH G M",
    "GEOSEARCH G FROMMEMBER M BYRADIUS 200 km ASC WITHDIST WITHCOORD WITHHASH",
    "GEOSEARCHSTORE Z G FROMLONLAT 15 37 BYBOX 400 400 km",
    "GEORADIUS G 15 37 200 km STORE G",
    "XADD X * M V",
    "XADD X MAXLEN I * M V M V",
    "XADD X I M V",
    "XLEN X",
    "XRANGE X - +",
    "XREVRANGE X + - COUNT I",
    "XDEL X I",
    "XTRIM X MAXLEN 3",
    "XGROUP CREATE X M 0",
    "XGROUP DESTROY X M",
    "XACK X M I",
    "XPENDING X M",
    "XINFO STREAM X",
    "TYPE Z",
    "OBJECT ENCODING L",
    "OBJECT ENCODING H",
    "OBJECT ENCODING S",
    "OBJECT ENCODING Z",
    "DUMP H",
    "DEL Z L",
    "RENAME L L",
    "COPY Z Z REPLACE",
    "EXPIRE H T",
    "PEXPIRE L T",
];

const OPTIONS: &[&str] =
    &["NX", "XX", "GT", "LT", "GET", "KEEPTTL", "EX", "PX", "PERSIST", "REPLACE", "BIT", "BYTE", "BOGUS", "db", ""];
const INTEGERS: &[&str] =
    &["0", "1", "-1", "2", "7", "100", "-100", "1.5", "9223372036854775807", "-9223372036854775808", " 1", "x", ""];
const VALUES: &[&str] =
    &["", "v", "10", "-7", "3.25", "some longer value that is no number", "\r\n\0\u{ff}", "9007199254740993"];
const MEMBERS: &[&str] = &["a", "b", "c", "d", "e", "f", "1", "2", "-3", "", "a longer member"];
const SCORES: &[&str] = &["0", "1", "1", "2.5", "-7", "100", "0.1", "1e17", "inf", "-inf", "(2", "nan", "x"];
const ENDS: &[&str] = &["LEFT", "RIGHT", "left", "BOTH"];
const BOUNDS: &[&str] = &["-", "+", "[b", "(b", "[e", "(1", "b"];
const TIMES: &[&str] = &["1", "50", "1000", "100000", "0", "-5", "9223372036854775807", "soon"];

/// What is not said twice the same way.
const CHANCE: [&str; 5] = ["randomkey", "srandmember", "spop", "hrandfield", "zrandmember"];

/// Small collections are kept in a different way than large ones; here most become large.
const PACKING: [&str; 5] = [
    "hash-max-listpack-entries",
    "list-max-listpack-size",
    "set-max-intset-entries",
    "zset-max-listpack-entries",
    "stream-node-max-entries",
];

struct Author {
    dice: Dice,
    /// Names of commands and how many words they need at least, from the table.
    table: Vec<(String, i64)>,
}

impl Author {
    fn new(seed: u64, wire: &mut Wire) -> Self {
        let table = wire.ask("COMMAND");
        let table = table.items().iter().map(Frame::items).filter_map(|row| {
            let name = row[0].text();
            let has = |flag: &str| row[2].items().iter().any(|other| other.text() == flag);
            let touches_data = has("write") || has("readonly");
            let is_tame = !has("noscript") && !has("blocking") && !has("no_multi") && !has("admin");
            (touches_data && is_tame && !CHANCE.contains(&name.as_str())).then(|| (name, row[1].integer()))
        });
        let table: Vec<_> = table.collect();
        assert!(table.len() > 40, "only {} commands in the table", table.len());
        Self { dice: Dice::new(seed), table }
    }

    fn one<'w>(&mut self, words: &[&'w str]) -> &'w str {
        words[self.dice.below(words.len())]
    }

    fn command(&mut self) -> Vec<String> {
        if self.dice.below(2) == 0 {
            let template = self.one(TEMPLATES);
            return template.split(' ').map(|word| self.word(word).to_owned()).collect();
        }
        let (name, arity) = self.table[self.dice.below(self.table.len())].clone();
        let more = if arity < 0 { self.dice.below(4) } else { 0 };
        let mut words = vec![name];
        for place in 1..arity.unsigned_abs() as usize + more {
            let typed = ["K", "L", "H", "S", "Z", "X", "G"];
            let kind = match place {
                1 if self.dice.below(8) > 0 => self.one(&typed),
                _ => self.one(&["K", "I", "V", "T", "O", "M", "F", "Z", "S"]),
            };
            words.push(self.word(kind).to_owned());
        }
        words
    }

    fn word<'w>(&mut self, word: &'w str) -> &'w str {
        match word {
            "K" => self.one(&KEYS),
            "I" => self.one(INTEGERS),
            "V" => self.one(VALUES),
            "T" => self.one(TIMES),
            "O" => self.one(OPTIONS),
            "M" => self.one(MEMBERS),
            "F" => self.one(SCORES),
            "E" => self.one(ENDS),
            "B" => self.one(BOUNDS),
            "L" | "H" | "S" | "Z" | "X" | "G" if self.dice.below(12) == 0 => self.one(&KEYS),
            "L" => self.one(&["l1", "l2"]),
            "H" => self.one(&["h1", "h2"]),
            "S" => self.one(&["s1", "s2"]),
            "Z" => self.one(&["z1", "z2"]),
            "X" => "x1",
            "G" => self.one(&["g1", "g2"]),
            word => word,
        }
    }
}

fn alone(wire: &mut Wire, commands: &[Vec<String>]) -> Vec<Frame> {
    commands.iter().map(|command| wire.call(command)).collect()
}

fn in_a_transaction(wire: &mut Wire, commands: &[Vec<String>]) -> Vec<Frame> {
    assert_eq!(wire.ask("MULTI"), Frame::status("OK"));
    for command in commands {
        assert_eq!(wire.call(command), Frame::status("QUEUED"), "{command:?}");
    }
    wire.ask("EXEC").items().to_vec()
}

const CALL: &str = "return redis.call(unpack(ARGV))";

fn by_a_script_each(wire: &mut Wire, commands: &[Vec<String>]) -> Vec<Frame> {
    let sha = wire.call(&["SCRIPT", "LOAD", CALL]).text();
    let suffix = format!(" script: {sha}, on @user_script:1.");
    let call = |command: &Vec<String>| {
        let head = ["EVALSHA", &sha, "0"].map(str::to_owned);
        match wire.call(&[&head[..], command].concat()) {
            Frame::Error(error) => {
                let text = String::from_utf8_lossy(&error).into_owned();
                let own = text.strip_suffix(&suffix);
                Frame::error(own.unwrap_or_else(|| panic!("{command:?}: {text} does not say where")))
            }
            reply => reply,
        }
    };
    commands.iter().map(call).collect()
}

const CALL_MANY: &str = "local replies, at = {}, 1
    while at <= #ARGV do
        local words = {}
        for i = 1, tonumber(ARGV[at]) do words[i] = ARGV[at + i] end
        replies[#replies + 1] = redis.pcall(unpack(words))
        at = at + 1 + #words
    end
    return replies";

fn by_one_script(wire: &mut Wire, commands: &[Vec<String>]) -> Vec<Frame> {
    let mut words = ["EVAL", CALL_MANY, "0"].map(str::to_owned).to_vec();
    for command in commands {
        words.push(command.len().to_string());
        words.extend_from_slice(command);
    }
    wire.call(&words).items().to_vec()
}

/// A reply as it is once Lua has had it: its numbers are doubles, and it has one kind of nothing.
fn through_lua(frame: &Frame) -> Frame {
    match frame {
        // The double next to the largest integer is beyond it, and C makes the smallest of that.
        Frame::Integer(value) if *value as f64 >= 2_f64.powi(63) => Frame::Integer(i64::MIN),
        Frame::Integer(value) => Frame::Integer(*value as f64 as i64),
        Frame::NullArray => Frame::NullBulk,
        Frame::Array(items) => Frame::Array(items.iter().map(through_lua).collect()),
        Frame::Error(text) => Frame::Error(text.clone()),
        other => other.clone(),
    }
}

const LOOK: &str = "local found = {}
    for _, key in ipairs(KEYS) do
        found[#found + 1] = redis.call('DUMP', key)
        found[#found + 1] = redis.call('OBJECT', 'ENCODING', key)
        found[#found + 1] = redis.call('PEXPIRETIME', key)
    end
    return found";

/// Everything there is: each key of two databases with its value and deadline.
fn contents(wire: &mut Wire) -> Vec<Frame> {
    let mut contents = Vec::new();
    for db in ["0", "1"] {
        wire.call(&["SELECT", db]);
        contents.push(wire.ask("DBSIZE"));
        let keys: Vec<&str> = KEYS.into_iter().chain(TYPED_KEYS).collect();
        let (count, head) = (keys.len().to_string(), ["EVAL", LOOK]);
        contents.push(wire.call(&[&head[..], &[&count], &keys].concat()));
    }
    contents
}

type Way = fn(&mut Wire, &[Vec<String>]) -> Vec<Frame>;

#[test]
fn the_same_commands_answer_the_same_alone_in_a_transaction_and_in_scripts() {
    let ways: [(&str, Way, bool); 4] = [
        ("alone", alone, false),
        ("in a transaction", in_a_transaction, false),
        ("by a script each", by_a_script_each, true),
        ("by one script", by_one_script, true),
    ];
    for seed in 1..=4 {
        let servers = ways.map(|_| start(Server::builder()));
        let begin = servers[0].now();
        let mut wires: Vec<Wire> = servers.iter().map(|server| Wire::connect(address(server))).collect();
        for server in &servers {
            server.freeze();
            server.set_time(begin);
        }
        for wire in &mut wires {
            for setting in PACKING {
                assert_eq!(wire.call(&["CONFIG", "SET", setting, "5"]), Frame::status("OK"));
            }
        }
        let mut author = Author::new(seed, &mut wires[0]);
        let (mut errors, mut others) = (0, 0);
        for round in 0..ROUNDS {
            let commands: Vec<Vec<String>> = (0..COMMANDS).map(|_| author.command()).collect();
            let expected = alone(&mut wires[0], &commands);
            for ((name, way, lua), wire) in ways.iter().zip(&mut wires).skip(1) {
                let replies = way(wire, &commands);
                assert_eq!(replies.len(), expected.len(), "seed {seed}, round {round}, {name}");
                for ((command, expected), reply) in commands.iter().zip(&expected).zip(&replies) {
                    let expected = if *lua { through_lua(expected) } else { expected.clone() };
                    assert_eq!(*reply, expected, "seed {seed}, round {round}, {name}: {command:?}");
                }
            }
            errors += expected.iter().filter(|reply| reply.is_error()).count();
            others += expected.iter().filter(|reply| !reply.is_error()).count();
            // What is over is deleted now, and not at some moment that differs from server to server.
            servers.iter().for_each(|server| server.advance(Duration::ZERO));
            let left: Vec<Vec<Frame>> = wires.iter_mut().map(contents).collect();
            for ((name, ..), other) in ways.iter().zip(&left).skip(1) {
                assert_eq!(*other, left[0], "seed {seed}, round {round}: what is left {name}, after {commands:?}");
            }
            let db = author.dice.below(2).to_string();
            let passes = Duration::from_millis(author.dice.below(300) as u64);
            for (wire, server) in wires.iter_mut().zip(&servers) {
                wire.call(&["SELECT", &db]);
                server.advance(passes);
            }
        }
        // The random commands are neither all wrong nor all right.
        assert!(errors * 20 > others && others * 4 > errors, "{errors} errors and {others} other replies");
    }
}
