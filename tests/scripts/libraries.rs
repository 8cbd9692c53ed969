//! Scripts as lock libraries send them, on a real redis-server. MONITOR tells what each run did; text and reply alone have to
//! tell the same.

use redouble::Profile;
use redouble::internals::{
    MonitorReader, MonitoredScripts, OwnedWords, Protocol, ScriptCall, ScriptKnowledge, ScriptRun, command_table,
};

use crate::bytes;
use crate::support::process::ServerProcess;
use crate::support::wire::{Frame, Wire};

/// A script, with the data that it meets.
struct Script {
    name: &'static str,
    text: &'static str,
    keys: &'static [&'static str],
    arguments: &'static [&'static str],
    data: Data,
}

/// What the keys of a script can hold when it comes.
#[derive(Clone, Copy)]
enum Data {
    /// The value of a string is the token.
    Token,
    /// A hash counts the holder's locks.
    Holders,
    /// A sorted set has the holders.
    Permits,
    /// A string is a number.
    Number,
}

impl Data {
    fn states(self) -> &'static [&'static [&'static str]] {
        match self {
            Self::Token => &[
                &[],
                &["SET lock mine PX 60000"],
                &["SET lock mine"],
                &["SET lock theirs PX 60000"],
                &["SET lock mine PX 60000", "SET second mine PX 60000"],
                &["SET second theirs"],
                &["HSET lock a b"],
            ],
            Self::Holders => &[
                &[],
                &["HSET lock mine 1", "PEXPIRE lock 60000"],
                &["HSET lock mine 2", "PEXPIRE lock 60000"],
                &["HSET lock theirs 1", "PEXPIRE lock 60000"],
                &["HSET lock mode read mine 1", "PEXPIRE lock 60000"],
                &["HSET lock mode write theirs:write 1", "PEXPIRE lock 60000"],
            ],
            Self::Permits => &[
                &[],
                &["ZADD lock 99999999999999 mine"],
                &["ZADD lock 1 mine"],
                &["ZADD lock 99999999999999 theirs 99999999999998 x"],
            ],
            Self::Number => &[&[], &["SET lock 0"], &["SET lock 1"], &["SET lock 5 PX 60000"]],
        }
    }
}

const fn token(name: &'static str, text: &'static str, arguments: &'static [&'static str]) -> Script {
    Script { name, text, keys: &["lock"], arguments, data: Data::Token }
}

const SCRIPTS: &[Script] = &[
    token(
        "compare and delete",
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
        &["mine"],
    ),
    token(
        "compare and extend",
        r#"if redis.call("GET", KEYS[1]) == ARGV[1] then return redis.call("PEXPIRE", KEYS[1], ARGV[2]) end return 0"#,
        &["mine", "9000"],
    ),
    token(
        "extend to a new time, or by an additional one (redis-py, to a new time)",
        "local held = redis.call('get', KEYS[1]) if not held or held ~= ARGV[1] then return 0 end
         local left = redis.call('pttl', KEYS[1]) if not left then left = 0 end
         if left < 0 then return 0 end
         local new = ARGV[2] if ARGV[3] == '0' then new = ARGV[2] + left end
         redis.call('pexpire', KEYS[1], new) return 1",
        &["mine", "9000", "1"],
    ),
    token(
        "delete, or say that it is gone (redsync)",
        r#"local v = redis.call("GET", KEYS[1])
           if v == ARGV[1] then return redis.call("DEL", KEYS[1]) elseif v == false then return -1 else return 0 end"#,
        &["mine"],
    ),
    token(
        "take unless held by another (Spring)",
        "local id = redis.call('GET', KEYS[1])
         if id == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) return true
         elseif not id then redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2]) return true end
         return false",
        &["mine", "9000"],
    ),
    token(
        "take or extend, and fail with an error (aioredlock)",
        "local id = redis.call('get', KEYS[1])
         if not id or id == ARGV[1] then return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2])
         else return redis.error_reply('ERROR') end",
        &["mine", "9000"],
    ),
    token(
        "release, and fail with an error (aioredlock)",
        "local id = redis.call('get', KEYS[1])
         if not id then return redis.status_reply('OK') elseif id == ARGV[1] then return redis.call('del', KEYS[1])
         else return redis.error_reply('ERROR') end",
        &["mine"],
    ),
    token(
        "take, and read for the cache of the client (rueidislock)",
        r#"local taken = redis.call("SET", KEYS[1], ARGV[1], "NX", "PX", ARGV[2]) redis.call("GET", KEYS[1]) return taken"#,
        &["mine", "9000"],
    ),
    token(
        "extend or take again (RedLock.net)",
        "local v = redis.call('get', KEYS[1])
         if v == false then return redis.call('set', KEYS[1], ARGV[1], 'PX', ARGV[2]) and 1
         elseif v == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2]) else return -1 end",
        &["mine", "9000"],
    ),
    token(
        "take if free and allowed, or held (redlock for Ruby)",
        r#"if (redis.call("exists", KEYS[1]) == 0 and ARGV[3] == "yes") or redis.call("get", KEYS[1]) == ARGV[1] then
             return redis.call("set", KEYS[1], ARGV[1], "PX", ARGV[2]) end"#,
        &["mine", "9000", "yes"],
    ),
    token(
        "status of an extension (redlock-universal)",
        "local left = redis.call('PTTL', KEYS[1]) if left == -2 then return {-1, 0} end
         if redis.call('GET', KEYS[1]) ~= ARGV[1] then return {-2, left} end
         if left >= 0 and left < tonumber(ARGV[3]) then return {0, left} end
         redis.call('PEXPIRE', KEYS[1], ARGV[2]) return {1, left}",
        &["mine", "90000", "100"],
    ),
    token(
        "set with a time or without (Laravel)",
        "if redis.call('get', KEYS[1]) == ARGV[1] then
           if tonumber(ARGV[2]) > 0 then return redis.call('expire', KEYS[1], ARGV[2]) else return redis.call('persist', KEYS[1]) end
         end return 0",
        &["mine", "9"],
    ),
    token(
        "SETNX, then EXPIRE (sherlock)",
        "if redis.call('SETNX', KEYS[1], ARGV[1]) == 1 then redis.call('EXPIRE', KEYS[1], ARGV[2]) return 1 else return 0 end",
        &["mine", "9"],
    ),
    token(
        "extend only (elixir)",
        "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('pexpire', KEYS[1], ARGV[2], 'GT') else return 0 end",
        &["mine", "90000"],
    ),
    token(
        "delete and tell (simple-redis-mutex)",
        "if redis.call('get', KEYS[1]) == ARGV[1] then redis.call('del', KEYS[1]) redis.call('publish', ARGV[2], ARGV[1]) return 1 end
         return 0",
        &["mine", "channel"],
    ),
    Script {
        name: "unlock with a signal (python-redis-lock)",
        text: "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 1 else
                 redis.call('del', KEYS[2]) redis.call('lpush', KEYS[2], 1) redis.call('pexpire', KEYS[2], ARGV[2])
                 redis.call('del', KEYS[1]) return 0 end",
        keys: &["lock", "signal"],
        arguments: &["mine", "1000"],
        data: Data::Token,
    },
    Script {
        name: "take all or none (node-redlock)",
        text: "for i, key in ipairs(KEYS) do if redis.call('exists', key) == 1 then return 0 end end
               for i, key in ipairs(KEYS) do redis.call('set', key, ARGV[1], 'PX', ARGV[2]) end
               return #KEYS",
        keys: &["lock", "second"],
        arguments: &["mine", "9000"],
        data: Data::Token,
    },
    Script {
        name: "extend all or none (node-redlock)",
        text: "for i, key in ipairs(KEYS) do if redis.call('get', key) ~= ARGV[1] then return 0 end end
               for i, key in ipairs(KEYS) do redis.call('set', key, ARGV[1], 'PX', ARGV[2]) end
               return #KEYS",
        keys: &["lock", "second"],
        arguments: &["mine", "9000"],
        data: Data::Token,
    },
    Script {
        name: "release what is held (node-redlock)",
        text: "local count = 0
               for i, key in ipairs(KEYS) do
                 if redis.call('get', key) == ARGV[1] then redis.pcall('del', key) count = count + 1 end
               end
               return count",
        keys: &["lock", "second"],
        arguments: &["mine"],
        data: Data::Token,
    },
    Script {
        name: "take several keys at once (bsm/redislock)",
        text: "local new = {}
               for _, key in ipairs(KEYS) do table.insert(new, key) table.insert(new, ARGV[1]) end
               if redis.call('msetnx', unpack(new)) ~= 1 then
                 for _, key in ipairs(KEYS) do
                   if redis.call('getrange', key, 0, tonumber(ARGV[2])) ~= string.sub(ARGV[1], 1, tonumber(ARGV[2]) + 1) then return false end
                 end
                 redis.call('mset', unpack(new))
               end
               for _, key in ipairs(KEYS) do redis.call('pexpire', key, ARGV[3]) end
               return redis.status_reply('OK')",
        keys: &["lock", "second"],
        arguments: &["mine", "3", "9000"],
        data: Data::Token,
    },
    Script {
        name: "release several keys at once (bsm/redislock)",
        text: "for _, value in ipairs(redis.call('mget', unpack(KEYS))) do if value ~= ARGV[1] then return false end end
               redis.call('del', unpack(KEYS)) return redis.status_reply('OK')",
        keys: &["lock", "second"],
        arguments: &["mine"],
        data: Data::Token,
    },
    Script {
        name: "reentrant lock (Redisson)",
        text: "if (redis.call('exists', KEYS[1]) == 0) or (redis.call('hexists', KEYS[1], ARGV[2]) == 1) then
                 redis.call('hincrby', KEYS[1], ARGV[2], 1) redis.call('pexpire', KEYS[1], ARGV[1]) return nil end
               return redis.call('pttl', KEYS[1])",
        keys: &["lock"],
        arguments: &["30000", "mine"],
        data: Data::Holders,
    },
    Script {
        name: "reentrant unlock with a message (Redisson)",
        text: "local latch = redis.call('get', KEYS[3]) if latch ~= false then return tonumber(latch) end
               if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then return nil end
               local counter = redis.call('hincrby', KEYS[1], ARGV[3], -1)
               if counter > 0 then
                 redis.call('pexpire', KEYS[1], ARGV[2]) redis.call('set', KEYS[3], 0, 'px', ARGV[5]) return 0
               else
                 redis.call('del', KEYS[1]) redis.call(ARGV[4], KEYS[2], ARGV[1]) redis.call('set', KEYS[3], 1, 'px', ARGV[5]) return 1
               end",
        keys: &["lock", "channel", "latch"],
        arguments: &["0", "30000", "mine", "publish", "5000"],
        data: Data::Holders,
    },
    Script {
        name: "renewal of several locks (Redisson)",
        text: "local found = {}
               for i = 1, #KEYS, 1 do
                 if redis.call('hexists', KEYS[i], ARGV[i + 1]) == 1 then redis.call('pexpire', KEYS[i], ARGV[1]) table.insert(found, 1)
                 else table.insert(found, 0) end
               end
               return found",
        keys: &["lock"],
        arguments: &["30000", "mine"],
        data: Data::Holders,
    },
    Script {
        name: "read lock (Redisson)",
        text: "local mode = redis.call('hget', KEYS[1], 'mode')
               if mode == false then
                 redis.call('hset', KEYS[1], 'mode', 'read') redis.call('hset', KEYS[1], ARGV[2], 1)
                 redis.call('set', KEYS[2] .. ':1', 1) redis.call('pexpire', KEYS[2] .. ':1', ARGV[1])
                 redis.call('pexpire', KEYS[1], ARGV[1]) return nil
               end
               if mode == 'read' or (mode == 'write' and redis.call('hexists', KEYS[1], ARGV[3]) == 1) then
                 local ind = redis.call('hincrby', KEYS[1], ARGV[2], 1) local key = KEYS[2] .. ':' .. ind
                 redis.call('set', key, 1) redis.call('pexpire', key, ARGV[1])
                 local left = redis.call('pttl', KEYS[1]) redis.call('pexpire', KEYS[1], math.max(left, ARGV[1]))
                 return nil
               end
               return redis.call('pttl', KEYS[1])",
        keys: &["lock", "timeout"],
        arguments: &["30000", "mine", "mine:write"],
        data: Data::Holders,
    },
    Script {
        name: "semaphore of holders with a time (redis-semaphore)",
        text: "redis.call('zremrangebyscore', KEYS[1], '-inf', ARGV[4] - ARGV[3])
               if redis.call('zcard', KEYS[1]) < tonumber(ARGV[1]) then
                 redis.call('zadd', KEYS[1], ARGV[4], ARGV[2]) redis.call('pexpire', KEYS[1], ARGV[3]) return 1
               else return 0 end",
        keys: &["lock"],
        arguments: &["2", "mine", "10000", "1700000000000"],
        data: Data::Permits,
    },
    Script {
        name: "refresh of a permit (redis-semaphore)",
        text: "if redis.call('zscore', KEYS[1], ARGV[1]) then redis.call('zadd', KEYS[1], ARGV[2], ARGV[1]) return 1 end return 0",
        keys: &["lock"],
        arguments: &["mine", "1700000000000"],
        data: Data::Permits,
    },
    Script {
        name: "permits by TIME (Symfony)",
        text: "local key = KEYS[1] local kind = redis.call('TYPE', key).ok
               if kind == 'string' then return false end
               local now = redis.call('TIME') now = now[1] * 1000 + math.floor(now[2] / 1000)
               redis.call('ZREMRANGEBYSCORE', key, '-inf', now)
               if redis.call('ZSCORE', key, ARGV[1]) then return true end
               redis.call('ZADD', key, now + ARGV[2], ARGV[1])
               return true",
        keys: &["lock"],
        arguments: &["mine", "9000"],
        data: Data::Permits,
    },
    Script {
        name: "counting semaphore (Redisson)",
        text: "local value = redis.call('get', KEYS[1])
               if (value ~= false and tonumber(value) >= tonumber(ARGV[1])) then redis.call('decrby', KEYS[1], ARGV[1]) return 1 end
               return 0",
        keys: &["lock"],
        arguments: &["1"],
        data: Data::Number,
    },
    Script {
        name: "fencing token",
        text: "if redis.call('set', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return redis.call('incr', KEYS[2]) else return nil end",
        keys: &["lock", "fence"],
        arguments: &["mine", "9000"],
        data: Data::Token,
    },
    Script {
        name: "limit with cjson and local functions",
        text: "local options = cjson.decode(ARGV[1])
               local function taken(key) return redis.call('exists', key) == 1 end
               if taken(KEYS[1]) then return cjson.encode({ok = false}) end
               redis.call('set', KEYS[1], options.token, 'PX', options.ttl)
               return cjson.encode({ok = true})",
        keys: &["lock"],
        arguments: &[r#"{"token":"mine","ttl":9000}"#],
        data: Data::Token,
    },
    Script {
        name: "arguments in MessagePack (BullMQ)",
        text: "local options = cmsgpack.unpack(ARGV[1])
               if redis.call('GET', KEYS[1]) == options['token'] then
                 if redis.call('SET', KEYS[1], options['token'], 'PX', options['ttl']) then redis.call('SREM', KEYS[2], ARGV[2]) return 1 end
               end
               return 0",
        keys: &["lock", "stalled"],
        arguments: &["\u{2}", "id"],
        data: Data::Token,
    },
];

/// Scripts that give the same reply when they have done different things: taken a lock or extended it, released one key or the
/// other, done all of it just now or before a retry, found a time that the reply does not say.
const REPLY_IS_NOT_ENOUGH: [&str; 7] = [
    "take unless held by another (Spring)",
    "extend or take again (RedLock.net)",
    "release what is held (node-redlock)",
    "take several keys at once (bsm/redislock)",
    "reentrant unlock with a message (Redisson)",
    "read lock (Redisson)",
    "permits by TIME (Symfony)",
];

/// `{token = "mine", ttl = 9000}` in MessagePack.
const PACKED: &[u8] = b"\x82\xa5token\xa4mine\xa3ttl\xcd\x23\x28";

fn words(script: &Script) -> Vec<Vec<u8>> {
    let count = script.keys.len().to_string();
    let all = ["EVAL", script.text, &count].into_iter().chain(script.keys.iter().copied());
    let all = all.chain(script.arguments.iter().copied()).map(|word| word.as_bytes().to_vec());
    all.map(|word| if word == b"\x02" { PACKED.to_vec() } else { word }).collect()
}

/// All of the data in the database that is selected, with deadlines to the second.
fn state(client: &mut Wire) -> Vec<String> {
    let mut keys: Vec<String> = client.ask("KEYS *").items().iter().map(Frame::text).collect();
    keys.sort();
    keys.into_iter()
        .map(|key| {
            let left = client.ask(&format!("PTTL {key}")).integer();
            format!("{key}: {:?}, {}", client.ask(&format!("DUMP {key}")), (left + 999) / 1000)
        })
        .collect()
}

/// A real server, with a connection whose commands it shows.
struct Real {
    _server: ServerProcess,
    client: Wire,
    monitor: Wire,
    address: String,
    reader: MonitorReader,
    scripts: MonitoredScripts,
}

impl Real {
    fn new() -> Self {
        let server = ServerProcess::redis(&["--save", ""]);
        let (mut client, mut monitor) = (Wire::connect(server.address()), Wire::connect(server.address()));
        let address = client.tcp().local_addr().expect("an address").to_string();
        monitor.ask("MONITOR");
        let scripts = MonitoredScripts::default();
        client.ask("PING");
        Self { _server: server, client, monitor, address, reader: MonitorReader::default(), scripts }
    }

    /// Runs a script, and tells its reply and the commands that MONITOR has shown.
    fn run(&mut self, words: &[Vec<u8>], marker: usize) -> (Vec<u8>, Vec<OwnedWords>) {
        self.scripts.watch(self.address.as_bytes());
        let reply = bytes(&self.client.call(words));
        let marker = format!("marker-{marker}");
        self.client.call(&["PING", &marker]);
        let mut is_over = false;
        while !is_over {
            let line = bytes(&self.monitor.expect());
            let scripts = &mut self.scripts;
            self.reader.feed(&line, |line| {
                let line = line.expect("a line of MONITOR");
                is_over = line.words.as_words().get(1) == Some(marker.as_bytes());
                scripts.add(line, |words| words.get(0) == Some(b"EVAL"));
            });
        }
        let request: OwnedWords = words.iter().collect();
        let calls = self.scripts.take(self.address.as_bytes(), &[request.as_words()]);
        (reply, calls.into_iter().flatten().next().expect("the script was shown"))
    }
}

fn shown(words: &[Option<Vec<u8>>]) -> String {
    let text =
        |word: &Option<Vec<u8>>| word.as_ref().map_or("?".into(), |word| String::from_utf8_lossy(word).into_owned());
    words.iter().map(text).collect::<Vec<_>>().join(" ")
}

/// Checks that the commands are among those that ran, and that they make of the same data the same result.
fn check(real: &mut Real, case: &str, run: &ScriptRun, calls: &[OwnedWords], data: &[&str], after: &[String]) -> bool {
    let ScriptRun::Known(commands) = run else { return false };
    let mut left = calls.iter();
    for command in commands {
        let is_this = |call: &OwnedWords| {
            call.as_words().len() == command.words.len()
                && command
                    .words
                    .iter()
                    .zip(call.as_words().iter())
                    .all(|(word, seen)| word.as_deref().is_none_or(|word| word == seen))
        };
        assert!(left.any(is_this), "{case}: {} did not run", shown(&command.words));
    }
    real.client.ask("FLUSHALL");
    data.iter().for_each(|command| drop(real.client.ask(command)));
    for command in commands {
        if let Some(words) = command.words.iter().cloned().collect::<Option<Vec<_>>>() {
            let reply = bytes(&real.client.call(&words));
            let is_time = |reply: &[u8]| words[0].to_ascii_lowercase().ends_with(b"ttl") && reply.len() > 5;
            if let Some(known) = command.reply.as_ref().filter(|known| !is_time(known)) {
                assert_eq!(&reply, known, "{case}: {}", shown(&command.words));
            }
        }
    }
    if commands.iter().all(|command| command.words.iter().all(Option::is_some)) {
        assert_eq!(state(&mut real.client), after, "{case}");
    }
    true
}

#[test]
fn what_lock_libraries_do_is_known_from_their_replies() {
    let mut real = Real::new();
    let mut knowledge = ScriptKnowledge::new(&Profile::default(), command_table());
    let (mut open, mut runs) = (Vec::new(), 0);
    for script in SCRIPTS {
        for data in script.data.states() {
            let case = format!("{} on {data:?}", script.name);
            let words = words(script);
            real.client.ask("FLUSHALL");
            data.iter().for_each(|command| drop(real.client.ask(command)));
            runs += 1;
            let (reply, calls) = real.run(&words, runs);
            let after = state(&mut real.client);
            let request: OwnedWords = words.iter().collect();
            let mut call =
                ScriptCall { words: request.as_words(), db: 0, reply: &reply, protocol: Protocol::Resp2, calls: None };
            let inferred = knowledge.run_of(&call);
            let is_known = check(&mut real, &case, &inferred, &calls, data, &after);
            if !is_known && !reply.starts_with(b"-") && !REPLY_IS_NOT_ENOUGH.contains(&script.name) {
                open.push(format!("{case}: {}", String::from_utf8_lossy(&reply).trim_end()));
            }
            call.calls = Some(&calls);
            let joined = knowledge.run_of(&call);
            let is_known = check(&mut real, &case, &joined, &calls, data, &after);
            // Which command has failed is not shown.
            assert!(is_known || reply.starts_with(b"-"), "{case}: {joined:?} of {} calls", calls.len());
        }
    }
    assert!(open.is_empty(), "{}", open.join("\n"));
}
