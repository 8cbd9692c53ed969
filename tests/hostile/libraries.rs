//! Numbers and lengths that make one call into a script's library long: each ends at once, with an error, or lets others
//! have their BUSY and SCRIPT KILL.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use redouble::Server;

use crate::support::process::ServerProcess;
use crate::support::wire::{Frame, Wire, request};
use crate::support::{address, start, wait_for};

fn eval(wire: &mut Wire, script: &str) -> Frame {
    wire.call(&["EVAL", script, "0"])
}

/// Numbers that C cuts to 32 bits, or computes with.
const NUMBERS: &[&str] = &[
    "2147483647",
    "2147483648",
    "2147483649",
    "4294967295",
    "4294967296",
    "4294967297",
    "-2147483648",
    "-2147483649",
    "-1e9",
    "1e9",
    "1e15",
    "-1e15",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "1e300",
    "-1e300",
    "1/0",
    "-1/0",
    "0/0",
    "'2147483648'",
    "'-2e9'",
    "2^31",
    "-2^31",
    "2^32",
    "2^53",
    "0",
    "-1",
    "0.5",
];

/// Calls with a number, `@`, at every place where a library function takes one. They run with `t` a small table, `s` a string.
const CALLS: &[&str] = &[
    "table.insert(t, @, 1)",
    "table.insert(t, @, nil)",
    "table.remove(t, @)",
    "table.concat(t, ',', @)",
    "table.concat(t, ',', 1, @)",
    "table.concat(t, ',', @, @)",
    "table.concat({}, ',', @, @)",
    "table.setn(t, @)",
    "unpack(t, @)",
    "unpack(t, 1, @)",
    "unpack(t, @, @)",
    "unpack({}, -1, @)",
    "select(@, 1, 2, 3)",
    "string.rep('', @)",
    "string.rep('x', @)",
    "string.rep(s, @)",
    "string.sub(s, @)",
    "string.sub(s, 1, @)",
    "string.sub(s, @, @)",
    "string.byte(s, @)",
    "string.byte(s, 1, @)",
    "string.byte(s, @, @)",
    "string.char(@)",
    "string.find(s, 'x', @)",
    "string.find(s, '', @)",
    "string.find(s, 'x', @, true)",
    "string.match(s, '.-x', @)",
    "string.gsub(s, '.', 'y', @)",
    "string.gsub(s, '', 'y', @)",
    "string.format('%d %i %u %c', @, @, @, @)",
    "string.format('%99d %99.99f', @, @)",
    "string.format('%s', @)",
    "tostring(@)",
    "tonumber(s, @)",
    "tonumber('10', @)",
    "math.ldexp(1, @)",
    "math.random(@)",
    "math.random(1, @)",
    "math.random(@, @)",
    "math.randomseed(@)",
    "math.fmod(@, @)",
    "math.floor(@)",
    "math.pow(@, @)",
    "collectgarbage('step', @)",
    "collectgarbage('setpause', @)",
    "collectgarbage('setstepmul', @)",
    "cjson.encode({[@] = 1})",
    "cjson.encode(@)",
    "cjson.encode_sparse_array(true, @, @)",
    "(cjson.encode_sparse_array(true, 0, 0) or 1) and cjson.encode({[@] = 1})",
    "cjson.encode_max_depth(@)",
    "cjson.decode_max_depth(@)",
    "cjson.encode_number_precision(@)",
    "cjson.decode(tostring(@))",
    "cmsgpack.pack(@)",
    "cmsgpack.pack({[@] = 1})",
    "cmsgpack.unpack_one(s, @)",
    "cmsgpack.unpack_limit(s, @)",
    "cmsgpack.unpack_limit(s, 1, @)",
    "struct.pack('i8d', @, @)",
    "struct.unpack('i8', s, @)",
    "struct.pack('c' .. string.format('%.0f', @), s)",
    "struct.size('c' .. string.format('%.0f', @))",
    "struct.pack('!' .. string.format('%.0f', @) .. 'i', 1)",
    "struct.size('i' .. string.format('%.0f', @))",
    "bit.lshift(1, @)",
    "bit.tohex(1, @)",
    "bit.tobit(@)",
    "redis.setresp(@)",
    "redis.log(@, 'x')",
    "redis.call('SETRANGE', 'k', @, 'x')",
    "redis.call('SETBIT', 'k', @, 1)",
    "redis.call('GETRANGE', 'k', @, @)",
    "redis.call('LRANGE', 'l', @, @)",
    "redis.call('SRANDMEMBER', 'set', @)",
    "redis.call('SCAN', 0, 'COUNT', @)",
    "redis.call('LPOS', 'l', 'x', 'RANK', @, 'MAXLEN', @)",
    "cmsgpack.unpack('\\221\\255\\255\\255\\255')",
    "cmsgpack.unpack('\\223\\255\\255\\255\\255')",
];

/// The most processor time that one of these calls may take, also in an unoptimised build.
const LONGEST: Duration = Duration::from_secs(8);

#[test]
fn no_number_makes_a_library_function_run_for_seconds() {
    let server = ServerProcess::redouble(&[]);
    let mut wire = Wire::connect(server.address());
    wire.ask("SADD set a b c");
    wire.ask("RPUSH l a b c");
    for call in CALLS {
        let numbers = if call.contains('@') { NUMBERS } else { &NUMBERS[..1] };
        for number in numbers {
            let call = call.replace('@', &format!("({number})"));
            let before = "local t, s = {1, 2, 3}, string.rep('xyz', 1000)";
            let begun = server.processor_time();
            let reply = eval(&mut wire, &format!("{before} return type(pcall(function() return {call} end))"));
            let taken = server.processor_time() - begun;
            assert!(taken < LONGEST, "{call} took {taken:?}");
            assert!(matches!(reply, Frame::Bulk(_) | Frame::Error(_)), "{call}: {reply:?}");
        }
        wire.ask("DEL k");
    }
    let info = wire.ask("INFO redouble").text();
    assert!(info.contains("handler_panics:0\r\n"), "{info}");
}

/// Loops whose single steps are long. Each must come to a tick, so that the script can be killed.
const SLOW_STEPS: &[&str] = &[
    "local t = {} for i = 1, 300000 do t[i] = i end while true do table.insert(t, 1, 0) end",
    "local t = {} for i = 1, 300000 do t[i] = i end while true do table.insert(t, 1, table.remove(t, 1)) end",
    "local t = {} for i = 1, 100000 do t[i] = 'x' end while true do table.concat(t) end",
    "local t = {} for i = 1, 100000 do t[i] = i % 77 end while true do table.sort(t, function(a, b) return a < b end) end",
    "local s = string.rep('x', 2^26) while true do local a = s .. 'y' end",
    "local s = string.rep('x', 2^26) while true do local a = s:reverse() end",
    "local s = string.rep('x', 2^26) while true do local a = s:upper() end",
    "local s = string.rep('x', 2^26) while true do local a = s:find('y', 1, true) end",
    "local a, b = string.rep('x', 2^25) .. 'a', string.rep('x', 2^25) .. 'b' while true do local c = a < b end",
    "while true do local a = string.rep('x', 2^26) end",
    "local t = {} for i = 1, 1000000 do t[i] = {} end while true do collectgarbage() end",
    "redis.call('SETRANGE', 'big', 2^26, 'x') while true do redis.call('GET', 'big') end",
    "redis.call('SETRANGE', 'big', 2^26, 'x') while true do redis.call('BITCOUNT', 'big') end",
    "local s = string.rep('x', 2^24) while true do redis.sha1hex(s) end",
];

#[test]
fn a_script_of_long_steps_can_be_ended_like_any_other() {
    for script in SLOW_STEPS {
        let server = start(Server::builder().threads(2));
        let mut driver = Wire::connect(address(&server));
        assert_eq!(driver.ask("CONFIG SET busy-reply-threshold 100"), Frame::status("OK"));
        let mut running = Wire::connect(address(&server));
        running.send(&request(&["EVAL", script, "0"]));
        let (sender, receiver) = mpsc::channel();
        let writes = script.contains("SETRANGE");
        thread::spawn(move || {
            let reply = running.read();
            let _ = sender.send(reply.map_err(|error| error.to_string()));
        });
        if writes {
            wait_for(format_args!("BUSY of {script}"), || {
                let reply = driver.ask("EXISTS a");
                if reply.is_error() { Ok(()) } else { Err(reply) }
            });
            drop(server);
            continue;
        }
        wait_for(format_args!("SCRIPT KILL of {script}"), || {
            let reply = driver.ask("SCRIPT KILL");
            if reply == Frame::status("OK") { Ok(()) } else { Err(reply) }
        });
        let reply = receiver.recv_timeout(Duration::from_secs(30)).unwrap_or_else(|_| panic!("{script} goes on"));
        assert!(matches!(&reply, Ok(Frame::Error(_))), "{script}: {reply:?}");
    }
}

#[test]
fn replies_that_a_script_keeps_count_against_its_memory() {
    let server = start(Server::builder());
    let mut wire = Wire::connect(address(&server));
    let script = "local kept = {}
        for i = 1, 40 do
          redis.call('SET', 'k', i)
          redis.call('SETRANGE', 'k', 2^26, i)
          kept[i] = redis.call('GET', 'k')
        end
        return #kept";
    let reply = eval(&mut wire, script);
    assert!(reply.is_error() && reply.text().contains("not enough memory"), "{reply:?}");
    assert_eq!(eval(&mut wire, "return 1"), Frame::Integer(1));
}

#[test]
fn escapes_do_not_take_more_memory_than_a_script_may_have() {
    let server = start(Server::builder());
    let mut wire = Wire::connect(address(&server));
    let reply = eval(&mut wire, "return #cjson.encode(string.rep('\\1', 2^27))");
    assert!(reply.is_error() && reply.text().contains("not enough memory"), "{reply:?}");
}
