//! Direct scripts do what Lua does. Lua is the oracle.

use std::cell::RefCell;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::DirectScript;
use crate::base::error::CommandError;
use crate::base::log::Level;
use crate::base::profile::Profile;
use crate::protocol::{OwnedWords, Protocol, Words};
use crate::script::eval::{EvalInterpreter, Origin};
use crate::script::host::{Host, Invocation, ScratchBuffers};
use crate::script::random::Random;

/// A server whose replies depend on the command alone.
struct Server {
    profile: Profile,
    scratch: RefCell<ScratchBuffers>,
    /// What it was called with, and which errors it was told of.
    seen: RefCell<Vec<String>>,
}

/// The reply to each command. `refused` is refused before its run.
const REPLIES: &[(&[u8], &[u8])] = &[
    (b"text", b"$3\r\nabc\r\n"),
    (b"empty", b"$0\r\n\r\n"),
    (b"digits", b"$2\r\n12\r\n"),
    (b"binary", b"$5\r\n\0\r\n-1\r\n"),
    (b"absent", b"$-1\r\n"),
    (b"one", b":1\r\n"),
    (b"large", b":9223372036854775807\r\n"),
    (b"ok", b"+OK\r\n"),
    (b"wrong", b"-WRONGTYPE of value\r\n"),
    (b"bare", b"-oops\r\n"),
    (b"nothing", b"*-1\r\n"),
    (b"none", b"*0\r\n"),
    (b"silent", b"-\r\n"),
    (b"many", b"*6\r\n:-3\r\n$1\r\nx\r\n$-1\r\n*2\r\n+fine\r\n*-1\r\n-ERR in it\r\n:9223372036854775807\r\n"),
];

/// The reply to `long`: a string of a million bytes.
fn long_reply() -> Vec<u8> {
    [&b"$1000000\r\n"[..], &vec![b'x'; 1_000_000], b"\r\n"].concat()
}

impl Host for Server {
    fn tick(&self) -> Result<(), &'static str> {
        Ok(())
    }

    fn call(&self, words: Words<'_>, reply: &mut Vec<u8>) -> Result<(), CommandError> {
        let words: Vec<_> = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        let found = REPLIES.iter().find(|(name, _)| *name == words[0].as_bytes());
        self.seen.borrow_mut().push(format!("{words:?}"));
        if words[0] == "long" {
            reply.extend_from_slice(&long_reply());
            return Ok(());
        }
        reply.extend_from_slice(found.ok_or(CommandError::fixed("ERR refused"))?.1);
        Ok(())
    }

    fn protocol(&self) -> Protocol {
        Protocol::Resp2
    }

    fn set_protocol(&self, _: Protocol) {
        unreachable!("no direct script changes the protocol")
    }

    fn may_run(&self, _: Words<'_>) -> Option<bool> {
        None
    }

    fn log(&self, _: Level, _: &str) {}

    fn profile(&self) -> &Profile {
        &self.profile
    }

    fn scratch(&self) -> &RefCell<ScratchBuffers> {
        &self.scratch
    }

    fn random(&self) -> &Random {
        unreachable!("no direct script asks for random numbers")
    }

    fn answer_error(&self, line: &[u8], is_counted: bool) {
        self.seen.borrow_mut().push(format!("{} {is_counted}", String::from_utf8_lossy(line)));
    }
}

/// What a script does, directly or in Lua.
fn traces(source: &str, protocol: Protocol) -> Option<[(String, Vec<String>); 2]> {
    let mut interpreter = EvalInterpreter::new(&Profile::default());
    let mut script = interpreter.load(source.as_bytes(), Origin::Eval).ok()?.clone();
    script.direct.as_ref()?;
    let keys: OwnedWords = ["key", "7"].iter().collect();
    let arguments: OwnedWords = ["abc", "12", " 0x10 ", "1e2", "", "-9", "123456789012345678"].iter().collect();
    Some([(); 2].map(|()| {
        let server = Server { profile: Profile::default(), scratch: RefCell::default(), seen: RefCell::default() };
        let mut out = Vec::new();
        let invocation =
            Invocation { keys: keys.as_words(), arguments: arguments.as_words(), host: &server, client: protocol };
        interpreter.run(&script, invocation, &mut out);
        // The second run is in Lua.
        script.direct = None;
        (String::from_utf8_lossy(&out).into_owned(), server.seen.take())
    }))
}

/// Writes a script, led by numbers.
struct Writer<'c> {
    choices: &'c mut dyn Iterator<Item = u8>,
    text: String,
    locals: Vec<&'static str>,
    depth: usize,
}

const NAMES: &[&str] = &["a", "b", "token"];

impl Writer<'_> {
    /// One of so many possibilities; the first, once there are no numbers left.
    fn choose(&mut self, of: usize) -> usize {
        self.choices.next().map_or(0, usize::from) % of
    }

    /// A token, and what separates it from the next one.
    fn put(&mut self, token: &str) {
        self.text.push_str(token);
        let blank = [" ", " ", " ", "\n", "\r\n", "\t", " --x\n", " --[[ \n ]] "];
        let blank = blank[self.choose(blank.len())];
        self.text.push_str(blank);
    }

    fn deeper(&mut self, write: impl FnOnce(&mut Self)) {
        self.depth += 1;
        write(self);
        self.depth -= 1;
    }

    fn block(&mut self) {
        let outer = self.locals.len();
        for _ in 0..self.choose(4) {
            self.statement();
        }
        if self.choose(3) > 0 {
            self.put("return");
            match self.choose(6) {
                0 => {}
                1 => {
                    self.put("{");
                    for _ in 0..self.choose(4) {
                        self.expression();
                        self.put(",");
                    }
                    self.put("}");
                }
                _ => self.expression(),
            }
        }
        self.locals.truncate(outer);
    }

    fn statement(&mut self) {
        let nests = self.depth < 3;
        match self.choose(5) {
            0 | 1 => {
                let name = NAMES[self.choose(NAMES.len())];
                self.put("local");
                self.put(name);
                if self.choose(5) > 0 {
                    self.put("=");
                    self.expression();
                }
                self.locals.push(name);
            }
            2 if nests => self.deeper(|writer| {
                writer.put("if");
                writer.expression();
                writer.put("then");
                writer.block();
                if writer.choose(3) == 0 {
                    writer.put("elseif");
                    writer.expression();
                    writer.put("then");
                    writer.block();
                }
                if writer.choose(2) == 0 {
                    writer.put("else");
                    writer.block();
                }
                writer.put("end");
            }),
            3 if nests => self.deeper(|writer| {
                writer.put("do");
                writer.block();
                writer.put("end");
            }),
            4 if !self.locals.is_empty() => {
                let at = self.choose(self.locals.len());
                let name = self.locals[at];
                self.put(name);
                self.put("=");
                self.expression();
            }
            _ => self.call(),
        }
        if self.choose(3) == 0 {
            self.put(";");
        }
    }

    fn call(&mut self) {
        let calls = ["redis.call(", "redis.pcall(", "redis . call("];
        let function = calls[self.choose(calls.len())];
        self.put(function);
        // Without a word that could be a command once in a while.
        if self.choose(12) > 0 {
            let name = REPLIES.get(self.choose(REPLIES.len() + 1)).map_or(&b"refused"[..], |(name, _)| name);
            self.put(&format!("'{}'", String::from_utf8_lossy(name)));
            for _ in 0..self.choose(3) {
                self.put(",");
                self.deeper(Self::expression);
            }
        }
        self.put(")");
    }

    fn expression(&mut self) {
        let binary = ["==", "~=", "and", "or", "..", "+", "-", "*", "/", "%", "<", "<=", ">", ">="];
        match self.choose(if self.depth > 4 { 9 } else { 14 }) {
            0 => self.put("KEYS[1]"),
            1 => {
                let index = self.choose(9) + 1;
                self.put(&format!("ARGV[{index}]"));
            }
            2 => {
                let numbers =
                    ["0", "1", "2.50", "99999999999999", "1e14", "1e15", "1e100", "007", "-3", "9007199254740993"];
                let number = numbers[self.choose(numbers.len())];
                self.put(number);
            }
            3 => {
                let texts = ["'abc'", "\"12\"", r"'\065\n\\\'\0z'", "''", "'it\\\"s'"];
                let text = texts[self.choose(texts.len())];
                self.put(text);
            }
            4 => {
                let others = ["nil", "true", "false", "#KEYS", "# ARGV"];
                let other = others[self.choose(others.len())];
                self.put(other);
            }
            5..=7 if !self.locals.is_empty() => {
                let at = self.choose(self.locals.len());
                let name = self.locals[at];
                self.put(name);
            }
            5..=8 => self.deeper(Self::call),
            9 => self.deeper(|writer| {
                writer.put("not");
                writer.expression();
            }),
            10 => self.deeper(|writer| {
                writer.put("tonumber(");
                writer.expression();
                writer.put(")");
            }),
            11 => self.deeper(|writer| {
                writer.put("(");
                writer.expression();
                writer.put(")");
            }),
            _ => self.deeper(|writer| {
                writer.expression();
                let operator = binary[writer.choose(binary.len())];
                writer.put(operator);
                writer.expression();
            }),
        }
    }
}

fn written(choices: &[u8]) -> String {
    let mut writer =
        Writer { choices: &mut choices.iter().copied(), text: String::new(), locals: Vec::new(), depth: 0 };
    writer.block();
    writer.text
}

proptest! {
    #![proptest_config(ProptestConfig { rng_seed: RngSeed::Fixed(1), failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_direct_script_does_what_it_does_in_lua(choices in proptest::collection::vec(any::<u8>(), 0..200)) {
        let source = written(&choices);
        for protocol in [Protocol::Resp2, Protocol::Resp3] {
            if let Some([direct, lua]) = traces(&source, protocol) {
                prop_assert_eq!(direct, lua, "{}", source);
            }
        }
    }
}

#[test]
fn an_error_of_a_concatenation_over_lines_names_the_line_that_lua_names() {
    for source in
        ["return ARGV[9] .. ('x' .. 'y'\n)", "return ('x' .. ARGV[9]\n) .. 'y'", "return 1 ..\nKEYS[9] ..\n'y'"]
    {
        let [direct, lua] = traces(source, Protocol::Resp2).unwrap();
        assert_eq!(direct, lua, "{source}");
    }
}

#[test]
fn a_script_keeps_only_what_its_variables_hold() {
    let overwritten =
        format!("local a local b = redis.call('text') {} return a .. b", "a = redis.call('long') ".repeat(20));
    let asked = "if redis.call('long') == ARGV[1] then return 1 end ".repeat(20);
    let converted = "local a = tonumber(redis.call('long')) ".repeat(20);
    let shared = "local a = redis.call('long') local b = a a = redis.call('long') local c = redis.call('many')
        local d = c b = redis.call('text') a = redis.call('long') return {a, b, c == d, d}";
    for source in [overwritten.as_str(), &asked, &converted, shared] {
        let mut interpreter = EvalInterpreter::new(&Profile::default());
        let script = interpreter.load(source.as_bytes(), Origin::Eval).unwrap().clone();
        assert!(script.is_direct(), "{source}");
        let server = Server { profile: Profile::default(), scratch: RefCell::default(), seen: RefCell::default() };
        let words = OwnedWords::default();
        let (keys, arguments) = (words.as_words(), words.as_words());
        let invocation = Invocation { keys, arguments, host: &server, client: Protocol::Resp2 };
        interpreter.run(&script, invocation, &mut Vec::new());
        let kept = server.scratch.borrow().reply.len();
        assert!(kept < 3_500_000, "{kept} bytes: {source}");
        let [direct, lua] = traces(source, Protocol::Resp2).unwrap();
        assert!(direct == lua, "{source}");
    }
}

#[test]
fn scripts_of_lock_libraries_need_no_lua() {
    let scripts = [
        "if redis.call(\"get\",KEYS[1]) == ARGV[1] then return redis.call(\"del\",KEYS[1]) else return 0 end",
        "if redis.call('get', KEYS[1]) == ARGV[1] then\n  return redis.call('pexpire', KEYS[1], ARGV[2])\nend\nreturn 0",
        "local token = redis.call('get', KEYS[1])\nif not token or token ~= ARGV[1] then return 0 end
        local expiration = redis.call('pttl', KEYS[1])\nif not expiration then expiration = 0 end
        if expiration < 0 then return 0 end\nlocal newttl = ARGV[2]
        if ARGV[3] == \"0\" then newttl = ARGV[2] + expiration end
        redis.call('pexpire', KEYS[1], newttl)\nreturn 1",
        "local current = redis.call('INCR', KEYS[1]); if tonumber(current) == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end; \
         return {current, redis.call('pttl', KEYS[1])}",
    ];
    for script in scripts {
        assert!(DirectScript::parse(script.as_bytes()).is_some(), "{script}");
    }
}

#[test]
fn a_script_that_can_take_long_or_is_unclear_runs_in_lua() {
    let many_calls = "redis.call('ping') ".repeat(33);
    let nested = format!("return {}1{}", "(".repeat(40), ")".repeat(40));
    let long = format!("return '{}'", "x".repeat(5000));
    let deep = format!("local x = 1 return x{}", "+x".repeat(1000));
    let scripts = [
        many_calls.as_str(),
        &nested,
        &long,
        &deep,
        "for i = 1, 2 do redis.call('ping') end",
        "while true do end",
        "local function f() end",
        "return KEYS[0]",
        "return KEYS[i]",
        "return ARGV",
        "local redis = {} return redis.call('get')",
        "local KEYS = 1 return #KEYS",
        "return redis.call('time')[1]",
        "return undefined",
        "undefined = 1",
        "return 1, 2",
        "return {ok = 'x'}",
        "return 2 ^ 3",
        "return 0x10",
        "return [[long]]",
        "return 1 / 0",
        "return -0",
        "return (KEYS[1] or ARGV[1]) + 1",
    ];
    for script in scripts {
        assert!(DirectScript::parse(script.as_bytes()).is_none(), "{script}");
    }
}
