//! Random scripts on random data. Whatever is said to be known of a run is done to the same data on a second server, which must
//! then be the same as the one that ran the script.

use redouble::Profile;
use redouble::Server;
use redouble::internals::{OwnedWords, Protocol, ScriptCall, ScriptKnowledge, ScriptRun, command_table};

use crate::bytes;
use crate::support::wire::{Frame, Wire, request};
use crate::support::{Dice, address, spawn_frozen};

/// The keys that scripts get, and those that they only name.
const KEYS: [&str; 3] = ["k1", "k2", "k3"];
const ARGUMENTS: [&str; 3] = ["a", "b", "5"];

/// The text of a random script.
struct Script<'r> {
    random: &'r mut Dice,
    text: String,
    variables: usize,
    depth: usize,
}

impl Script<'_> {
    fn pick<'t>(&mut self, choices: &[&'t str]) -> &'t str {
        choices[self.random.below(choices.len())]
    }

    fn key(&mut self) -> &'static str {
        self.pick(&["KEYS[1]", "KEYS[1]", "KEYS[1]", "KEYS[1]", "KEYS[2]", "'k3'"])
    }

    fn value(&mut self) -> String {
        if self.variables > 0 && self.random.below(8) == 0 {
            return format!("tostring({})", self.variable());
        }
        self.pick(&["ARGV[1]", "ARGV[2]", "ARGV[3]", "'a'", "7"]).to_owned()
    }

    fn variable(&mut self) -> String {
        if self.variables == 0 { "KEYS[9]".to_owned() } else { format!("v{}", self.random.below(self.variables) + 1) }
    }

    fn caller(&mut self) -> &'static str {
        self.pick(&["redis.call", "redis.call", "redis.call", "redis.pcall"])
    }

    fn read(&mut self) -> String {
        let (caller, key, other, value) = (self.caller(), self.key(), self.key(), self.value());
        let form = self.pick(&[
            "get K",
            "get K",
            "get K",
            "exists K",
            "exists K L",
            "ttl K",
            "pttl K",
            "type K",
            "hget K V",
            "hexists K V",
            "hlen K",
            "sismember K V",
            "scard K",
            "zscore K V",
            "zcard K",
            "llen K",
            "lindex K 0",
            "strlen K",
            "mget K L",
            "lrange K 0 -1",
            "smembers K",
            "hgetall K",
            "getrange K 0 -1",
            "zrange K 0 -1",
            "hmget K V a",
            "echo V",
        ]);
        call(caller, form, [key, other, &value])
    }

    fn write(&mut self) -> String {
        let (caller, key, other, value) = (self.caller(), self.key(), self.key(), self.value());
        let form = self.pick(&[
            "set K V",
            "set K V NX",
            "set K V XX",
            "set K V NX PX 5000",
            "set K V GET",
            "setnx K V",
            "setex K 10 V",
            "getset K V",
            "getdel K",
            "del K",
            "del K L",
            "unlink K",
            "expire K 10",
            "pexpire K 10",
            "expire K 0",
            "pexpire K 9 XX",
            "persist K",
            "incr K",
            "incrby K 5",
            "append K x",
            "hset K V 1",
            "hset K a 1 b 2",
            "hincrby K V 1",
            "hdel K V",
            "sadd K V a",
            "srem K V",
            "zadd K 1 V",
            "zadd K XX 1 V",
            "zadd K CH 2 V",
            "zrem K V",
            "zincrby K 1 V",
            "lpush K V",
            "rpush K V",
            "lpop K",
            "lrem K 0 V",
            "mset K V",
            "msetnx K V L V",
            "rename K L",
            "publish c V",
            "zremrangebyscore K 0 1",
            "ltrim K 0 0",
            "hsetnx K V 1",
            "set K V KEEPTTL",
            "set K V PXAT 1",
        ]);
        call(caller, form, [key, other, &value])
    }

    fn condition(&mut self) -> String {
        let (variable, value, read) = (self.variable(), self.value(), self.read());
        let number = self.pick(&["0", "1", "-1", "2", "tonumber(ARGV[3])"]);
        match self.random.below(14) {
            0 | 1 => format!("{variable} == {value}"),
            2 => format!("{variable} ~= {value}"),
            3 => format!("not {variable}"),
            4 => variable,
            5 => format!("(tonumber({variable}) or 0) > {number}"),
            6 => format!("{read} == {number}"),
            7 => format!("{read} == {value}"),
            8 => format!("type({variable}) == 'string' and #{variable} > 1"),
            9 => format!("{variable} and tostring({variable}) == ARGV[1]"),
            10 => format!("(tonumber({variable}) or 1) % 2 == 1"),
            11 => format!("type({variable}) == 'string' and {variable} .. 'x' == 'ax'"),
            12 => format!("type({variable}) == 'string' and string.sub({variable}, 1, 1) == 'a'"),
            _ => format!("type({variable}) == 'table' and {variable}[1] == {value}"),
        }
    }

    fn block(&mut self) {
        for _ in 0..=self.random.below(2) {
            self.statement();
        }
    }

    fn statement(&mut self) {
        match self.random.below(if self.depth > 2 { 4 } else { 7 }) {
            0 | 1 => {
                let write = self.write();
                self.text.push_str(&format!("{write}\n"));
            }
            2 | 3 => {
                let value = if self.random.below(4) == 0 { self.write() } else { self.read() };
                self.variables += 1;
                self.text.push_str(&format!("local v{} = {value}\n", self.variables));
            }
            4 => {
                let loops = self.pick(&["for _, key in ipairs(KEYS) do", "for i = 1, #KEYS do", "while true do"]);
                let outer = (self.variables, self.depth);
                self.text.push_str(&format!("{loops}\n"));
                self.depth += 2;
                self.block();
                self.text.push_str(if loops.starts_with("while") { "if true then break end\nend\n" } else { "end\n" });
                (self.variables, self.depth) = outer;
            }
            _ => {
                let condition = self.condition();
                let outer = (self.variables, self.depth);
                self.text.push_str(&format!("if {condition} then\n"));
                self.depth += 1;
                self.block();
                if self.random.below(2) == 0 {
                    self.variables = outer.0;
                    let result = self.result();
                    self.text.push_str(&format!("if true then return {result} end\nelse\n"));
                    self.block();
                }
                self.text.push_str("end\n");
                (self.variables, self.depth) = outer;
            }
        }
    }

    fn result(&mut self) -> String {
        let (variable, write, read) = (self.variable(), self.write(), self.read());
        match self.random.below(10) {
            0 => "0".to_owned(),
            1 => "1".to_owned(),
            2 => variable,
            3 | 4 => write,
            5 => read,
            6 => format!("{{1, {variable}}}"),
            7 => "redis.status_reply('OK')".to_owned(),
            8 => "redis.error_reply('NO no')".to_owned(),
            _ => "false".to_owned(),
        }
    }
}

/// A call of a form such as `set K V NX`.
fn call(caller: &str, form: &str, [key, other, value]: [&str; 3]) -> String {
    let words = form.split(' ').map(|word| match word {
        "K" => key.to_owned(),
        "L" => other.to_owned(),
        "V" => value.to_owned(),
        word => format!("'{word}'"),
    });
    format!("{caller}({})", words.collect::<Vec<_>>().join(", "))
}

fn random_script(random: &mut Dice) -> String {
    let mut script = Script { random, text: String::new(), variables: 0, depth: 0 };
    script.block();
    let result = script.result();
    format!("{}return {result}", script.text)
}

/// Commands that prepare the data.
fn random_data(random: &mut Dice) -> Vec<String> {
    let forms = [
        "SET K V",
        "SET K V PX 9000",
        "SET K 5",
        "HSET K V 1",
        "SADD K V b",
        "ZADD K 1 V",
        "RPUSH K V a b",
        "DEL K",
        "SET K ax",
    ];
    let mut commands = Vec::new();
    for key in KEYS {
        let value = ARGUMENTS[random.below(3)];
        commands.push(forms[random.below(forms.len())].replace('K', key).replace('V', value));
    }
    commands
}

struct World {
    _server: Server,
    client: Wire,
}

impl World {
    fn new() -> Self {
        let server = spawn_frozen();
        let client = Wire::connect(address(&server));
        Self { _server: server, client }
    }

    fn prepare(&mut self, commands: &[String]) {
        self.client.ask("FLUSHALL");
        for command in commands {
            self.client.ask(command);
        }
    }

    /// All of the data.
    fn state(&mut self) -> Vec<Frame> {
        KEYS.iter()
            .flat_map(|key| [format!("PTTL {key}"), format!("TYPE {key}"), format!("DUMP {key}")])
            .map(|question| self.client.ask(&question))
            .collect()
    }
}

#[test]
fn what_is_said_to_be_known_of_a_script_is_what_it_did() {
    // REDOUBLE_SCRIPTS tries more of them, or others.
    let rounds = std::env::var("REDOUBLE_SCRIPTS").map_or(1_000, |rounds| rounds.parse().expect("a number of scripts"));
    let mut random = Dice::new(0x5c21 ^ rounds);
    let (mut real, mut copy) = (World::new(), World::new());
    let mut knowledge = ScriptKnowledge::new(&Profile::default(), command_table());
    let (mut known, mut ambiguous, mut unknown, mut written) = (0_u64, 0, 0, 0);
    for round in 0..rounds {
        let (script, data) = (random_script(&mut random), random_data(&mut random));
        let words: Vec<&str> = ["EVAL", &script, "2", KEYS[0], KEYS[1]].into_iter().chain(ARGUMENTS).collect();
        real.prepare(&data);
        let before = real.state();
        real.client.send(&request(&words));
        let reply = bytes(&real.client.expect());
        if reply.starts_with(b"-ERR Error compiling") {
            panic!("{script}\n{}", String::from_utf8_lossy(&reply));
        }
        let words: OwnedWords = words.iter().collect();
        let call = ScriptCall { words: words.as_words(), db: 0, reply: &reply, protocol: Protocol::Resp2, calls: None };
        match knowledge.run_of(&call) {
            ScriptRun::Known(commands) => {
                known += 1;
                let after = real.state();
                written += u64::from(before != after);
                copy.prepare(&data);
                for command in &commands {
                    // A read of which not all is known does not change anything.
                    if let Some(words) = command.words.iter().cloned().collect::<Option<Vec<_>>>() {
                        let reply = copy.client.call(&words);
                        if let Some(known) = &command.reply {
                            assert_eq!(&bytes(&reply), known, "{round}: {words:?} in\n{data:?}\n{script}");
                        }
                    }
                }
                assert_eq!(copy.state(), after, "{round}: {commands:#?} of\n{data:?}\n{script}");
            }
            ScriptRun::Ambiguous { .. } => ambiguous += 1,
            ScriptRun::Unknown => unknown += 1,
        }
    }
    eprintln!("{known} known ({written} of them wrote), {ambiguous} ambiguous, {unknown} unknown");
    assert!(known * 4 > rounds && written * 20 > rounds, "{known} known, {written} of them wrote");
}
