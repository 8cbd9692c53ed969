//! Scripts that do not end, or take all they can get: the server stays up, says that it is busy, and lets others end
//! what may be ended. Whatever can be asked of the real server without losing it is asked there, too.
//!
//! Nothing here waits for a time: a script is known to have become slow when somebody is answered BUSY.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;

use redouble::Server;

use crate::support::process::ServerProcess;
use crate::support::wire::{Frame, PATIENCE, Silence, Wire, request};
use crate::support::{CHECKED_PROFILE, Deadline, address, profile, start, wait_for, wait_until};

const BUSY: &str = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
const UNKILLABLE: &str = "UNKILLABLE Sorry the script already executed write commands against the dataset. You can \
                          either wait the script termination or kill the server in a hard way using the SHUTDOWN NOSAVE \
                          command.";
const FOREVER: &str = "while true do end";

/// What the client of a script is told that SCRIPT KILL has ended.
fn killed(script: &str) -> Frame {
    let sha = sha1_smol::Sha1::from(script).digest();
    Frame::error(&format!("ERR Script killed by user with SCRIPT KILL... script: {sha}, on @user_script:1."))
}

/// A server in this process that calls a script slow after a few milliseconds.
fn impatient(threads: usize) -> Server {
    let server = start(Server::builder().threads(threads).compat(profile(CHECKED_PROFILE)));
    be_impatient(address(&server));
    server
}

fn be_impatient(address: SocketAddr) {
    assert_eq!(Wire::connect(address).ask("CONFIG SET busy-reply-threshold 5"), Frame::status("OK"));
}

/// Tells a story to the real server and to redouble: both must go through with it.
fn on_both(story: impl Fn(SocketAddr)) {
    let redis = ServerProcess::redis(&["--save", ""]);
    be_impatient(redis.address());
    story(redis.address());
    for threads in [1, 2] {
        let server = impatient(threads);
        story(address(&server));
    }
}

/// Has a connection run a script, without waiting for what comes of it.
fn begin(address: SocketAddr, script: &str) -> Wire {
    let mut wire = Wire::connect(address);
    assert!(wire.send(&request(&["EVAL", script, "0"])));
    wire
}

/// Asks until the answer is that the server is busy.
#[track_caller]
fn until_busy(wire: &mut Wire) {
    wait_for("the server to be busy", || match wire.ask("EXISTS whatever") {
        Frame::Error(error) => {
            assert_eq!(String::from_utf8_lossy(&error), BUSY);
            Ok(())
        }
        answer => {
            assert!(matches!(answer, Frame::Integer(_)), "{answer:?}");
            Err(answer)
        }
    });
}

/// Asks until the answer is something else.
#[track_caller]
fn until_idle(wire: &mut Wire) {
    wait_until("the server to be idle", || matches!(wire.ask("EXISTS whatever"), Frame::Integer(_)));
}

/// Everybody is served as if nothing had been the matter, scripts included.
#[track_caller]
fn assert_unaffected(address: SocketAddr) {
    // Enough of them to be served by every thread.
    for _ in 0..4 {
        let mut wire = Wire::connect(address);
        assert_eq!(wire.ask("PING"), Frame::status("PONG"));
        assert_eq!(wire.ask("SET good v"), Frame::status("OK"));
        assert_eq!(wire.call(&["EVAL", "return redis.call('get', KEYS[1])", "1", "good"]), Frame::bulk("v"));
        assert_eq!(wire.ask("SCRIPT KILL"), Frame::error("NOTBUSY No scripts in execution right now."));
    }
}

/// Ends the running script, and sees to it that its client hears of it.
#[track_caller]
fn end(other: &mut Wire, runner: &mut Wire, script: &str) {
    assert_eq!(other.ask("SCRIPT KILL"), Frame::status("OK"));
    assert_eq!(runner.expect(), killed(script));
    assert_eq!(runner.ask("PING"), Frame::status("PONG"));
}

/// Fails the test if something does not end by itself.
fn within_patience(what: &str, run: impl FnOnce() + Send + 'static) {
    let (done, wait) = mpsc::channel();
    thread::spawn(move || {
        run();
        let _ = done.send(());
    });
    assert!(wait.recv_timeout(PATIENCE).is_ok(), "{what} does not end");
}

#[test]
fn a_script_that_never_ends_is_ended_by_script_kill_whatever_it_does_about_it() {
    on_both(|address| {
        let mut other = Wire::connect(address);
        for script in [
            FOREVER,
            "while true do pcall(error) end",
            "while true do pcall(function() while true do end end) end",
            "local f = coroutine.wrap(function() while true do pcall(function() while true do end end) end end) f()",
            "while true do coroutine.resume(coroutine.create(function() for i = 1, 40000 do end end)) end",
            "while true do pcall(coroutine.wrap(function() while true do end end)) end",
            "while true do redis.pcall('get') end",
            "return setmetatable({}, {__index = function() while true do end end}).field",
            "redis.call('get', 'k') repeat until false",
        ] {
            let mut runner = begin(address, script);
            until_busy(&mut other);
            end(&mut other, &mut runner, script);
        }
        assert_unaffected(address);
    });
}

#[test]
fn a_reply_without_end_is_ended_like_a_script() {
    // The real server would fill all memory.
    let server = impatient(1);
    let mut other = Wire::connect(address(&server));
    for script in [
        "local t = {} t[1] = t t[2] = t return t",
        "local t = {} for i = 1, 100 do t = {t, t} end return t",
        "local t = {} for i = 1, 100 do t = {map = {t, t}} end return t",
        "local t = {'x'} for i = 1, 100 do t = {set = {[t] = 1, [{t}] = 1}} end return t",
    ] {
        let mut runner = begin(address(&server), script);
        until_busy(&mut other);
        assert_eq!(other.ask("SCRIPT KILL"), Frame::status("OK"));
        assert_eq!(runner.expect(), Frame::error("ERR Script killed by user with SCRIPT KILL..."));
        assert_eq!(runner.ask("PING"), Frame::status("PONG"));
    }
    assert_unaffected(address(&server));
}

#[test]
fn a_slow_script_sends_its_own_client_messages_in_that_clients_protocol() {
    on_both(|address| {
        let mut runner = Wire::connect(address);
        runner.ask("HELLO 3");
        runner.ask("SUBSCRIBE news");
        // Long enough to be slow, and then over by itself.
        let script = "for i = 1, 3000000 do end redis.call('PUBLISH', 'news', 'hi') return 1";
        assert!(runner.send(&request(&["EVAL", script, "0"])));
        let answers = [runner.expect(), runner.expect()];
        assert!(answers.contains(&Frame::Push(["message", "news", "hi"].map(Frame::bulk).to_vec())), "{answers:?}");
    });
}

#[test]
fn a_script_that_catches_its_end_in_an_error_handler_is_ended_all_the_same() {
    // The real server never gets rid of this one.
    let server = impatient(1);
    let mut other = Wire::connect(address(&server));
    let script = "while true do xpcall(function() while true do end end, function() while true do end end) end";
    let mut runner = begin(address(&server), script);
    until_busy(&mut other);
    assert_eq!(other.ask("SCRIPT KILL"), Frame::status("OK"));
    assert!(runner.expect().is_error());
    assert_unaffected(address(&server));
}

#[test]
fn many_short_coroutines_do_not_hide_a_script_that_never_ends() {
    let server = impatient(1);
    let mut other = Wire::connect(address(&server));
    // Each level runs too few instructions of its own to be asked whether it may go on.
    let script = "local function level(n) for i = 1, 3000 do if n > 0 then coroutine.wrap(level)(n - 1) end end end
                  coroutine.wrap(level)(12)";
    let mut runner = begin(address(&server), script);
    until_busy(&mut other);
    assert_eq!(other.ask("SCRIPT KILL"), Frame::status("OK"));
    assert!(runner.expect().is_error());
    assert_unaffected(address(&server));
}

#[test]
fn while_a_script_is_slow_others_may_do_what_needs_no_data() {
    on_both(|address| {
        let (mut watching, mut queueing, mut discarding) =
            (Wire::connect(address), Wire::connect(address), Wire::connect(address));
        watching.ask("WATCH before");
        for wire in [&mut queueing, &mut discarding] {
            wire.ask("MULTI");
            wire.ask("SET never 1");
        }
        let mut other = Wire::connect(address);
        let mut runner = begin(address, FOREVER);
        until_busy(&mut other);

        for line in ["PING", "GET k", "SET k v", "CLIENT PAUSE 10000", "CLIENT ID", "INFO", "TIME", "SELECT 1"] {
            assert_eq!(Wire::connect(address).ask(line), Frame::error(BUSY), "{line}");
        }
        for line in ["SCRIPT FLUSH", "SCRIPT EXISTS x", "SCRIPT LOAD x", "EVAL x 0", "CONFIG GET save", "SHUTDOWN"] {
            assert_eq!(Wire::connect(address).ask(line), Frame::error(BUSY), "{line}");
        }
        for line in ["WATCH k", "UNWATCH", "MULTI", "QUIT"] {
            assert_eq!(Wire::connect(address).ask(line), Frame::status("OK"), "{line}");
        }
        let aborted = Frame::error(&format!("EXECABORT Transaction discarded because of: {BUSY}"));
        assert_eq!(Wire::connect(address).ask("RESET"), Frame::status("RESET"));
        assert_eq!(Wire::connect(address).ask("EXEC"), aborted);
        assert_eq!(Wire::connect(address).ask("DISCARD"), Frame::error("ERR DISCARD without MULTI"));
        assert_eq!(Wire::connect(address).ask("HELLO 2").items().len(), 14);
        assert_eq!(Wire::connect(address).ask("SHUTDOWN ABORT"), Frame::error("ERR No shutdown in progress."));
        assert_eq!(
            Wire::connect(address).ask("GET"),
            Frame::error("ERR wrong number of arguments for 'get' command"),
            "what is wrong anyway is said first"
        );

        assert_eq!(queueing.ask("EXEC"), aborted, "a transaction from before");
        assert_eq!(queueing.ask("EXEC"), aborted);
        assert_eq!(discarding.ask("DISCARD"), Frame::status("OK"));
        assert_eq!(watching.ask("MULTI"), Frame::status("OK"));
        assert_eq!(watching.ask("SET inside 1"), Frame::error(BUSY), "nothing is queued");
        assert_eq!(watching.ask("EXEC"), aborted);
        let mut late = Wire::connect(address);
        assert_eq!(late.ask("WATCH late"), Frame::status("OK"));

        end(&mut other, &mut runner, FOREVER);
        assert_eq!(other.ask("EXISTS never inside"), Frame::Integer(0));
        other.ask("SET late 1");
        assert_eq!(late.ask("MULTI"), Frame::status("OK"));
        assert_eq!(late.ask("EXEC"), Frame::NullArray, "a key that is watched while the server is busy is watched");
        assert_unaffected(address);
    });
}

#[test]
fn everybody_hears_that_the_server_is_busy_on_every_thread_and_even_those_who_wait_for_the_key() {
    let server = start(Server::builder().threads(2));
    Wire::connect(address(&server)).ask("CONFIG SET busy-reply-threshold 50");
    let mut others: Vec<Wire> = (0..6).map(|_| Wire::connect(address(&server))).collect();
    let script = "redis.call('get', KEYS[1]) while true do end";
    for _ in 0..5 {
        let mut runner = Wire::connect(address(&server));
        runner.send(&request(&["EVAL", script, "1", "k"]));
        // Some of these arrive before the script, some find the key locked, some come after it has become slow.
        let deadline = Deadline::start();
        loop {
            deadline.check("everybody to be told");
            for other in &mut others {
                other.send(&request(&["GET", "k"]));
            }
            let answers: Vec<Frame> = others.iter_mut().map(Wire::expect).collect();
            assert!(answers.iter().all(|answer| *answer == Frame::NullBulk || *answer == Frame::error(BUSY)));
            if answers.iter().all(Frame::is_error) {
                break;
            }
        }
        for _ in 0..4 {
            assert_eq!(Wire::connect(address(&server)).ask("PING"), Frame::error(BUSY), "a new connection");
        }
        assert_eq!(others[0].ask("SCRIPT KILL"), Frame::status("OK"));
        assert_eq!(runner.expect(), killed(script));
        for other in &mut others {
            assert_eq!(other.ask("GET k"), Frame::NullBulk);
        }
    }
    assert_unaffected(address(&server));
}

#[test]
fn a_script_that_wrote_is_not_ended_and_what_it_wrote_is_seen_when_it_has() {
    on_both(|address| {
        let mut other = Wire::connect(address);
        // Long enough to be slow, and then it ends by itself.
        let script = "redis.call('set', 'k', 'v') for i = 1, 30000000 do end return redis.call('incr', 'n')";
        let mut runner = begin(address, script);
        until_busy(&mut other);
        assert_eq!(other.ask("SCRIPT KILL"), Frame::error(UNKILLABLE));
        assert_eq!(other.ask("GET k"), Frame::error(BUSY));
        assert_eq!(runner.expect(), Frame::Integer(1));
        until_idle(&mut other);
        assert_eq!(other.ask("GET k"), Frame::bulk("v"));
        assert_unaffected(address);
    });
}

#[test]
fn shutdown_nosave_ends_even_a_script_that_wrote() {
    for real in [true, false] {
        let server = if real {
            ServerProcess::redis(&["--save", ""])
        } else {
            ServerProcess::redouble(&["--compat", CHECKED_PROFILE, "--threads", "2"])
        };
        be_impatient(server.address());
        let mut other = Wire::connect(server.address());
        let mut runner = begin(server.address(), "redis.call('set', 'k', 'v') while true do pcall(error) end");
        until_busy(&mut other);
        assert_eq!(other.ask("SCRIPT KILL"), Frame::error(UNKILLABLE));
        assert_eq!(other.ask("SHUTDOWN"), Frame::error(BUSY), "only with NOSAVE");
        assert_eq!(other.ask("SHUTDOWN SAVE"), Frame::error(BUSY), "only with NOSAVE");
        other.send(&request(&["SHUTDOWN", "NOSAVE"]));
        assert!(other.is_closed());
        assert!(runner.is_closed());
    }
}

#[test]
fn a_server_that_is_dropped_takes_its_scripts_with_it() {
    for (threads, wrote) in [(1, false), (1, true), (2, false), (2, true)] {
        let server = impatient(threads);
        let script = if wrote { "redis.call('set', 'k', 'v') while true do pcall(error) end" } else { FOREVER };
        let mut other = Wire::connect(address(&server));
        let mut runner = begin(address(&server), script);
        until_busy(&mut other);
        within_patience("a dropped server", move || drop(server));
        assert!(other.is_closed());
        let answer = runner.read();
        assert!(matches!(answer, Err(Silence::Closed) | Ok(Frame::Error(_))), "{answer:?}");
    }
}

#[test]
fn a_server_that_is_dropped_before_its_script_is_slow_ends_as_well() {
    for threads in [1, 2] {
        // The default: five seconds.
        let server = start(Server::builder().threads(threads));
        let runner = begin(address(&server), FOREVER);
        within_patience("a dropped server", move || drop(server));
        drop(runner);
    }
}

#[test]
fn a_script_goes_on_without_its_client_until_somebody_ends_it() {
    on_both(|address| {
        let mut other = Wire::connect(address);
        let runner = begin(address, FOREVER);
        until_busy(&mut other);
        drop(runner);
        for _ in 0..100 {
            assert_eq!(other.ask("PING"), Frame::error(BUSY));
        }
        assert_eq!(other.ask("SCRIPT KILL"), Frame::status("OK"));
        until_idle(&mut other);
        other.ask_until("CLIENT LIST", |list| list.lines().count() == 1);
        assert_unaffected(address);
    });
}

#[test]
fn a_transaction_whose_script_is_ended_is_carried_through() {
    on_both(|address| {
        let mut other = Wire::connect(address);
        let mut runner = Wire::connect(address);
        runner.ask("MULTI");
        runner.ask("SET before 1");
        assert_eq!(runner.call(&["EVAL", FOREVER, "0"]), Frame::status("QUEUED"));
        runner.ask("SET after 1");
        runner.send(&request(&["EXEC"]));
        until_busy(&mut other);
        assert_eq!(other.ask("SCRIPT KILL"), Frame::status("OK"));
        let expected = [Frame::status("OK"), killed(FOREVER), Frame::status("OK")];
        assert_eq!(runner.expect(), Frame::Array(expected.to_vec()));
        assert_eq!(other.ask("EXISTS before after"), Frame::Integer(2));
        assert_unaffected(address);
    });
}

#[test]
fn requests_behind_a_slow_script_are_answered_in_their_order() {
    on_both(|address| {
        let mut other = Wire::connect(address);
        let mut runner = Wire::connect(address);
        let mut requests = request(&["EVAL", FOREVER, "0"]);
        requests.extend(request(&["SET", "k", "v"]));
        requests.extend(request(&["GET", "k"]));
        runner.send(&requests);
        until_busy(&mut other);
        assert_eq!(other.ask("SCRIPT KILL"), Frame::status("OK"));
        assert_eq!(runner.expect(), killed(FOREVER));
        assert_eq!(runner.expect(), Frame::status("OK"));
        assert_eq!(runner.expect(), Frame::bulk("v"));
    });
}

#[test]
fn a_script_that_eats_memory_gets_an_error_and_starves_nobody_after_it() {
    let server = start(Server::builder());
    let mut wire = Wire::connect(address(&server));
    for script in [
        "return string.rep('x', 1000000000)",
        "local s = 'x' while true do s = s .. s end",
        "local t = {} for i = 1, 1e9 do t[i] = {i} end",
        "local t = {} while true do t[#t + 1] = string.rep('x', 1e6) .. #t end",
    ] {
        let answer = wire.call(&["EVAL", script, "0"]);
        assert!(answer.is_error() && answer.text().contains("not enough memory"), "{script}: {answer:?}");
        assert_unaffected(address(&server));
    }
    let caught = "local t = {} pcall(function() while true do t[#t + 1] = string.rep('x', 1e6) .. #t end end) return 7";
    assert_eq!(wire.call(&["EVAL", caught, "0"]), Frame::Integer(7));
    assert_unaffected(address(&server));
}

#[test]
fn garbage_is_collected_although_a_script_would_not_have_it() {
    let server = start(Server::builder());
    let mut wire = Wire::connect(address(&server));
    let script = "collectgarbage('stop') for i = 1, 2000000 do local s = 'some more of it ' .. i end \
                  return collectgarbage('count') < 100000";
    assert_eq!(wire.call(&["EVAL", script, "0"]), Frame::Integer(1));
    assert_unaffected(address(&server));
}

#[test]
fn what_recurses_too_deeply_is_an_error() {
    let server = start(Server::builder().compat(profile(CHECKED_PROFILE)));
    let mut wire = Wire::connect(address(&server));
    for (script, part) in [
        ("local function f() return 1 + f() end return f()", "stack overflow"),
        ("local f f = function() return coroutine.wrap(f)() end return f()", "C stack overflow"),
        ("return string.find(string.rep('a', 100000), string.rep('a?', 100000) .. 'b')", "pattern too complex"),
        ("return unpack({}, 1, 1e7)", "too many results to unpack"),
        ("return loadstring('return ' .. string.rep('(', 5000) .. '1' .. string.rep(')', 5000))()", "attempt to call"),
    ] {
        let answer = wire.call(&["EVAL", script, "0"]);
        assert!(answer.is_error() && answer.text().contains(part), "{script}: {answer:?}");
        assert_unaffected(address(&server));
    }
    let deepest = "return string.find(string.rep('x', 19000), string.rep('x?', 19000))";
    assert_eq!(wire.call(&["EVAL", deepest, "0"]), Frame::Integer(1));
    assert_unaffected(address(&server));
}

#[test]
fn a_reply_may_be_nested_deeply_but_not_without_end() {
    let server = start(Server::builder().compat(profile(CHECKED_PROFILE)));
    let mut wire = Wire::connect(address(&server));
    // Such a reply is not for people, nor for clients that recurse; it is looked at as bytes.
    for depth in [10, 1000, 10_000] {
        let script = format!("local t = {{}} for i = 1, {depth} do t = {{t}} end return t");
        wire.send(&request(&["EVAL", &script, "0"]));
        wire.send(&request(&["ECHO", "the-end"]));
        let end = b"$7\r\nthe-end\r\n";
        let mut bytes = Vec::new();
        while !bytes.ends_with(end) {
            bytes.extend(wire.read_bytes(1));
        }
        bytes.truncate(bytes.len() - end.len());
        let whole = [b"*1\r\n".repeat(depth), b"*0\r\n".to_vec()].concat();
        let cut = b"-ERR reached lua stack limit\r\n";
        assert!(bytes == whole || bytes.ends_with(cut), "{depth}: {}", String::from_utf8_lossy(&bytes[..60]));
        assert_unaffected(address(&server));
    }
    wire.send(&request(&["EVAL", "local t = {} t[1] = t return t", "0"]));
    wire.finish_sending();
    wire.read_to_end();
    assert_unaffected(address(&server));
}

#[test]
fn a_script_may_be_ten_megabytes_long() {
    let server = start(Server::builder());
    let mut wire = Wire::connect(address(&server));
    for text in [
        format!("--{}\nreturn 7", "x".repeat(10 << 20)),
        format!("local t = {{{}}} return 7", "1,".repeat(5 << 20)),
        format!("local s = '{}' return 7", "x".repeat(10 << 20)),
    ] {
        let sha = sha1_smol::Sha1::from(&text).digest().to_string();
        assert_eq!(wire.call(&["SCRIPT", "LOAD", &text]), Frame::bulk(&sha));
        assert_eq!(wire.call(&["EVALSHA", &sha, "0"]), Frame::Integer(7));
    }
    let answer = wire.call(&["SCRIPT", "LOAD", &"x = ".repeat(3 << 20)]);
    assert!(answer.is_error(), "{answer:?}");
    assert_eq!(wire.ask("SCRIPT FLUSH"), Frame::status("OK"));
    assert_unaffected(address(&server));
}
