//! What an operator's client reads: INFO, SLOWLOG, LATENCY, MEMORY STATS, CLIENT LIST, COMMAND DOCS. Typed clients read
//! these into records, so the names, their order and the form of each value must be those of the real server. The tests
//! compare with it; that values are plausible is told in stories.

use std::collections::BTreeMap;

use crate::support::process::ServerProcess;
use crate::support::wire::{Frame, Wire, request};
use crate::support::{CHECKED_PROFILE, wait_until};

fn redouble() -> ServerProcess {
    ServerProcess::redouble(&["--compat", CHECKED_PROFILE, "--enable-debug-command", "yes"])
}

fn redis() -> ServerProcess {
    ServerProcess::redis(&["--save", "", "--enable-debug-command", "yes"])
}

/// A connection to each server.
struct Both {
    servers: (ServerProcess, ServerProcess),
    ours: Wire,
    real: Wire,
}

impl Both {
    fn start() -> Self {
        let servers = (redouble(), redis());
        let (ours, real) = (Wire::connect(servers.0.address()), Wire::connect(servers.1.address()));
        Self { servers, ours, real }
    }

    /// One more connection to each.
    fn connect(&self) -> (Wire, Wire) {
        (Wire::connect(self.servers.0.address()), Wire::connect(self.servers.1.address()))
    }

    fn ask(&mut self, line: &str) -> (Frame, Frame) {
        (self.ours.ask(line), self.real.ask(line))
    }

    /// Both answer with the same names, in the same order, and values of the same form.
    #[track_caller]
    fn same(&mut self, line: &str, form: impl Fn(&Frame) -> Vec<String>) {
        let (ours, real) = self.ask(line);
        assert_eq!(form(&ours), form(&real), "{line}");
    }
}

/// The form of a value in a text: whether it is a number, and how many decimals it has.
fn form(value: &str) -> String {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let unsigned = value.strip_prefix('-').unwrap_or(value);
    let (number, unit) = match unsigned.char_indices().last() {
        Some((last, unit)) if "%BKMGTP".contains(unit) => (&unsigned[..last], if unit == '%' { "%" } else { "bytes" }),
        _ => (unsigned, ""),
    };
    match number.split_once('.') {
        None if is_number(number) => format!("integer{unit}"),
        Some((whole, part)) if is_number(whole) && is_number(part) && unit != "bytes" => {
            format!("{} decimals{unit}", part.len())
        }
        Some((whole, part)) if is_number(whole) && is_number(part) => format!("integer{unit}"),
        _ => "text".to_owned(),
    }
}

/// The lines of INFO: the name of each field, and the form of its value.
fn info_fields(info: &Frame) -> Vec<String> {
    let text = info.text();
    let line = |line: &str| match line.split_once(':') {
        None => line.to_owned(),
        Some((name, value)) => format!("{name}: {}", form(value)),
    };
    text.split("\r\n").filter(|line| !line.is_empty()).map(line).collect()
}

/// Whether a line of INFO is about one command: those come in the order of a hash table.
fn is_of_command(line: &str) -> bool {
    line.starts_with("cmdstat_") || line.starts_with("latency_percentiles_usec_")
}

/// The kinds and names in a reply; numbers are left out, and of texts only those that are names of fields stay.
fn shape(frame: &Frame) -> Vec<String> {
    match frame {
        Frame::Array(items) => items.iter().flat_map(shape).collect(),
        Frame::Map(items) => {
            items.chunks(2).flat_map(|pair| [vec![pair[0].text()], shape(&pair[1])].concat()).collect()
        }
        Frame::Set(items) => std::iter::once("set".to_owned()).chain(items.iter().flat_map(shape)).collect(),
        Frame::Integer(_) => vec!["integer".to_owned()],
        Frame::Double(_) => vec!["double".to_owned()],
        Frame::Bulk(text) | Frame::Verbatim(text) => {
            let text = String::from_utf8_lossy(text);
            vec![if text.parse::<f64>().is_ok() { "number".to_owned() } else { text.into_owned() }]
        }
        other => vec![format!("{other:?}")],
    }
}

#[test]
fn info_has_the_fields_of_the_real_server_in_its_order_and_form() {
    let mut both = Both::start();
    for line in ["SET a 1 EX 1000", "RPUSH list 1 2", "NONSENSE", "GET a", "EVAL return 0", "CLIENT ID"] {
        both.ask(line);
    }
    both.same("INFO", info_fields);
    both.same("INFO default", info_fields);
    both.same("INFO replication cpu nonsense", info_fields);
    let without_commands = |info: &Frame| info_fields(info).into_iter().filter(|line| !is_of_command(line)).collect();
    both.same("INFO everything", without_commands);
    both.same("INFO all memory", without_commands);
    let commands = |info: &Frame| {
        let text = info.text();
        let mut lines: Vec<String> =
            text.split("\r\n").filter(|line| is_of_command(line)).map(digits_left_out).collect();
        lines.sort();
        lines
    };
    both.same("INFO commandstats latencystats", commands);
}

/// A line with `0` for each number, but with its decimals.
fn digits_left_out(line: &str) -> String {
    let mut shown = String::new();
    let mut decimals = false;
    for character in line.chars() {
        match character {
            '0'..='9' if decimals => shown.push('0'),
            '0'..='9' if shown.ends_with('0') => {}
            '0'..='9' => shown.push('0'),
            other => {
                decimals = other == '.';
                shown.push(other);
            }
        }
    }
    shown
}

#[test]
fn memory_stats_has_the_fields_of_the_real_server_in_its_order_and_form() {
    let mut both = Both::start();
    both.ask("SET a 1 EX 1000");
    both.same("MEMORY STATS", shape);
    both.ask("HELLO 3");
    both.same("MEMORY STATS", shape);
    for line in ["MEMORY DOCTOR", "MEMORY PURGE", "MEMORY HELP"] {
        both.same(line, shape);
    }
}

#[test]
fn client_list_has_the_fields_of_the_real_server_in_its_order_and_form() {
    let mut both = Both::start();
    both.ask("CLIENT SETNAME someone");
    let fields = |list: &Frame| {
        let text = list.text();
        let field = |field: &str| field.split_once('=').map(|(name, value)| format!("{name}={}", form(value)));
        text.split_whitespace().filter_map(field).collect::<Vec<_>>()
    };
    both.same("CLIENT LIST", fields);
    both.same("CLIENT INFO", fields);
}

#[test]
fn the_docs_of_commands_have_the_history_and_the_releases_of_the_real_server() {
    /// The releases in the documentation of each command: `history`, and those of arguments with the words in front.
    fn releases(docs: &Frame, found: &mut BTreeMap<String, Vec<String>>) {
        for pair in docs.items().chunks(2) {
            let name = pair[0].text();
            let mut own = Vec::new();
            for field in pair[1].items().chunks(2) {
                match field[0].text().as_str() {
                    "history" => {
                        let changes =
                            field[1].items().iter().map(|change| format!("changed {}", change.items()[0].text()));
                        own.extend(changes);
                    }
                    "arguments" => argument_releases(&field[1], &mut own),
                    "subcommands" => releases(&field[1], found),
                    _ => {}
                }
            }
            found.insert(name, own);
        }
    }
    fn argument_releases(arguments: &Frame, found: &mut Vec<String>) {
        for argument in arguments.items() {
            let field = |wanted: &str| {
                let mut pairs = argument.items().chunks(2);
                pairs.find(|pair| pair[0].text() == wanted).map(|pair| &pair[1])
            };
            if let Some(since) = field("since") {
                let word = field("token").map_or_else(String::new, Frame::text);
                found.push(format!("{word} since {}", since.text()));
            }
            if let Some(inner) = field("arguments") {
                argument_releases(inner, found);
            }
        }
    }
    let mut both = Both::start();
    both.ask("HELLO 3");
    let (ours, real) = both.ask("COMMAND DOCS");
    let (mut our_releases, mut real_releases) = (BTreeMap::new(), BTreeMap::new());
    releases(&ours, &mut our_releases);
    releases(&real, &mut real_releases);
    let mut compared = 0;
    for (command, mut real) in real_releases {
        let Some(mut ours) = our_releases.remove(&command) else { continue };
        // Where arguments form groups, redouble draws some of them differently.
        ours.sort();
        real.sort();
        compared += real.len();
        assert_eq!(ours, real, "{command}");
    }
    assert!(compared > 100, "{compared}");
}

/// How often each command ran, was refused and failed, as INFO tells it.
fn counts(wire: &mut Wire) -> BTreeMap<String, String> {
    let info = wire.ask("INFO commandstats").text();
    let lines = info.split("\r\n").filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(':'));
    lines
        .map(|(command, stats)| {
            let wanted = ["calls=", "rejected_calls=", "failed_calls="];
            let kept = stats.split(',').filter(|field| wanted.iter().any(|name| field.starts_with(name)));
            (command.to_owned(), kept.collect::<Vec<_>>().join(","))
        })
        .collect()
}

#[test]
fn calls_refusals_and_failures_are_counted_as_on_the_real_server() {
    let mut both = Both::start();
    let (mut our_other, mut real_other) = both.connect();
    both.ask("CONFIG RESETSTAT");
    for line in [
        "SET a 1",
        "GET a",
        "GET",
        "LPUSH a 1",
        "NONSENSE",
        "CLIENT NONSENSE",
        "CLIENT KILL",
        "MULTI",
        "SET b 2",
        "INCR list",
        "LPUSH a 1",
        "GET",
        "EXEC",
        "MULTI",
        "SET b 2",
        "LPUSH a 1",
        "AUTH wrong",
        "EXEC",
        "EXEC",
        "MULTI",
        "EVAL return{redis.call('get',KEYS[1]),redis.pcall('lpush',KEYS[1],1)} 1 a",
        "EVAL error('no') 0",
        "EXEC",
        "EVAL return 0",
        "EVAL return(redis.call('lpush',KEYS[1],1)) 1 a",
        "EVAL return(redis.pcall('lpush',KEYS[1],1)) 1 a",
        "EVAL return(redis.error_reply('own')) 0",
        "EVAL redis.call('get') 0",
        "EVAL redis.pcall('nonsense') 0",
        "EVAL redis.pcall('multi') 0",
        "EVALSHA nonsense 0",
        "FCALL nonsense 0",
        // A script's error has a code only if a space ends it, and within 31 bytes.
        r"EVAL return{err='alone'} 0",
        r"EVAL return{err='-MINUS'} 0",
        r"EVAL return{err='MINE\32what'} 0",
        r"EVAL return{err='a23456789012345678901234567890\32x'} 0",
        r"EVAL return{err='b234567890123456789012345678901\32x'} 0",
        r"EVAL error({err='raised'}) 0",
        "OBJECT ENCODING a",
        "OBJECT ENCODING none",
        "XGROUP CREATECONSUMER s g c",
        "DEBUG SLEEP 0",
        "SELECT 99",
        "WATCH a",
        "UNWATCH",
        "DISCARD",
        "SUBSCRIBE channel",
    ] {
        both.ask(line);
    }
    both.ask("UNSUBSCRIBE channel");
    // Commands that wait: one is served, one is unblocked with an error, one times out.
    for other in [&mut our_other, &mut real_other] {
        other.send(&request(&["BLPOP", "list", "0"]));
    }
    for wire in [&mut both.ours, &mut both.real] {
        wait_until("a blocked client", || wire.ask("INFO clients").text().contains("blocked_clients:1"));
        wire.ask("RPUSH list 1");
    }
    assert_eq!(our_other.expect(), real_other.expect());
    for wire in [&mut our_other, &mut real_other] {
        wire.ask("BLPOP nothing 0.001");
    }
    let (mut ours, mut real) = (counts(&mut both.ours), counts(&mut both.real));
    // It was asked as often as it took until the other client was blocked.
    for counts in [&mut ours, &mut real] {
        counts.remove("info");
    }
    assert_eq!(ours, real);
    assert!(ours.len() > 20, "{ours:?}");
    let errors = |info: &Frame| info_fields(info);
    both.same("INFO errorstats", errors);
}

#[test]
fn commands_of_one_pipeline_are_counted_when_the_last_of_them_asks() {
    let server = redouble();
    let mut wire = Wire::connect(server.address());
    let lines =
        ["CONFIG RESETSTAT", "SET a 1", "SET a 2", "GET a", "PING", "PING", "MULTI", "SET a 3", "EXEC", "SET a 4"];
    let requests: Vec<u8> = lines.iter().flat_map(|line| request(&line.split(' ').collect::<Vec<_>>())).collect();
    wire.send(&[requests, request(&["INFO", "commandstats"])].concat());
    lines.iter().for_each(|_| drop(wire.expect()));
    let info = wire.expect().text();
    for expected in [
        "config|resetstat:calls=1,",
        "set:calls=4,",
        "get:calls=1,",
        "ping:calls=2,",
        "multi:calls=1,",
        "exec:calls=1,",
    ] {
        assert!(info.contains(&format!("cmdstat_{expected}")), "{expected}: {info}");
    }
}

/// The words of the newest commands of the slow log, the oldest of them first.
fn slow_commands(wire: &mut Wire) -> Vec<String> {
    let log = wire.ask("SLOWLOG GET 100");
    let words = |entry: &Frame| entry.items()[3].items().iter().map(Frame::text).collect::<Vec<_>>().join(" ");
    log.items().iter().rev().map(words).collect()
}

#[test]
fn each_slow_command_of_a_pipeline_is_logged_with_its_own_words() {
    let server = redouble();
    let mut wire = Wire::connect(server.address());
    wire.ask("CONFIG SET slowlog-log-slower-than 0");
    wire.ask("SLOWLOG RESET");
    let lines = [
        "SET a 1",
        "SET b 2",
        "GET a",
        "PING",
        "MULTI",
        "SET c 3",
        "EXEC",
        "GET c",
        "EVAL return(redis.call('get','a')) 0",
        "INCR a",
    ];
    let requests: Vec<u8> = lines.iter().flat_map(|line| request(&line.split(' ').collect::<Vec<_>>())).collect();
    wire.send(&requests);
    lines.iter().for_each(|_| drop(wire.expect()));
    let logged = slow_commands(&mut wire);
    let expected = [
        "SLOWLOG RESET",
        "SET a 1",
        "SET b 2",
        "GET a",
        "PING",
        "MULTI",
        "SET c 3",
        "GET c",
        "get a",
        "EVAL return(redis.call('get','a')) 0",
        "INCR a",
    ];
    assert_eq!(logged, expected, "EXEC itself is never logged");
}

#[test]
fn the_slow_log_tells_how_long_a_command_ran_although_the_clock_stands_still() {
    let server = redouble();
    let mut wire = Wire::connect(server.address());
    wire.ask("REDOUBLE CLOCK FREEZE");
    wire.ask("DEBUG SLEEP 0.02");
    let log = wire.ask("SLOWLOG GET");
    let entry = log.items().first().expect("a slow command").items();
    assert!(entry[2].integer() >= 20_000, "{entry:?}");
    let now = wire.ask("TIME").items()[0].text();
    assert_eq!(entry[1].integer().to_string(), now, "when it was, the server's clock tells");
}

#[test]
fn secrets_stay_out_of_the_slow_log() {
    let server = redouble();
    let mut wire = Wire::connect(server.address());
    wire.ask("CONFIG SET slowlog-log-slower-than 0");
    for line in [
        "ACL SETUSER somebody on >hunter2 +@all",
        "CONFIG SET masterauth hunter2",
        "AUTH somebody hunter2",
        "HELLO 3 AUTH somebody hunter2",
        "HELLO 2 AUTH somebody hunter2 SETNAME me",
    ] {
        assert!(!wire.ask(line).is_error(), "{line}");
    }
    let logged = slow_commands(&mut wire).join("\n");
    assert!(!logged.contains("hunter2") && logged.contains("(redacted)"), "{logged}");
}

#[test]
fn a_blocked_command_is_logged_when_it_has_its_reply_and_without_its_wait() {
    let server = redouble();
    let (mut wire, mut blocked) = (Wire::connect(server.address()), Wire::connect(server.address()));
    wire.ask("CONFIG SET slowlog-log-slower-than 0");
    blocked.send(&request(&["BLPOP", "list", "0"]));
    wait_until("a blocked client", || wire.ask("INFO clients").text().contains("blocked_clients:1"));
    assert!(!slow_commands(&mut wire).contains(&"BLPOP list 0".to_owned()));
    wire.ask("RPUSH list 1");
    blocked.expect();
    assert!(slow_commands(&mut wire).contains(&"BLPOP list 0".to_owned()));
    assert!(wire.ask("INFO commandstats").text().contains("cmdstat_blpop:calls=1,"));
}

#[test]
fn the_latency_monitor_tells_commands_apart_and_forgets_what_it_is_told_to() {
    let server = redouble();
    let mut wire = Wire::connect(server.address());
    wire.ask("DEBUG SLEEP 0.003");
    assert_eq!(wire.ask("LATENCY LATEST"), Frame::Array(Vec::new()), "nothing before there is a threshold");
    wire.ask("CONFIG SET latency-monitor-threshold 2");
    wire.ask("DEBUG SLEEP 0.003");
    let latest = wire.ask("LATENCY LATEST");
    let [event] = latest.items() else { panic!("{latest:?}") };
    assert_eq!(event.items()[0].text(), "command");
    assert!((3..1000).contains(&event.items()[2].integer()), "{event:?}");
    assert!(wire.ask("LATENCY DOCTOR").text().starts_with("Dave, I have observed latency spikes"));
    assert!(wire.ask("LATENCY GRAPH command").text().starts_with("command - high "));
    assert_eq!(wire.ask("LATENCY RESET nothing COMMAND"), Frame::Integer(1));
    assert_eq!(wire.ask("LATENCY HISTORY command"), Frame::Array(Vec::new()));
}

#[test]
fn the_rates_per_second_follow_what_clients_do() {
    let server = redouble();
    let mut wire = Wire::connect(server.address());
    let field = |info: &str, name: &str| {
        let line = info.split("\r\n").find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.and_then(|value| value.parse::<f64>().ok()).unwrap_or_else(|| panic!("{name} in {info}"))
    };
    wait_until("a rate", || {
        for _ in 0..50 {
            wire.ask("SET key value");
        }
        let info = wire.ask("INFO stats").text();
        field(&info, "instantaneous_ops_per_sec") > 0.0
            && field(&info, "instantaneous_input_kbps") > 0.0
            && field(&info, "instantaneous_output_kbps") > 0.0
    });
}
