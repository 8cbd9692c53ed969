//! The time and the memory to audit a journal file of a million entries.
//!
//! `cargo bench --features internals --bench audit [-- entries]`

use std::fs::File;
use std::io::{BufReader, BufWriter, Write};
use std::time::Instant;

use redouble::internals::{Item, JournalLine, Scope, auditor, command_table, read_journal};

const BEGIN: u64 = 1_700_000_000_000_000;
const CLIENTS: u64 = 50;
const LOCKS: u64 = 1000;

#[allow(clippy::disallowed_methods, reason = "a benchmark measures real time")]
fn main() -> std::io::Result<()> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let entries = std::env::args().skip(1).find_map(|argument| argument.parse().ok()).unwrap_or(if quick {
        100_000
    } else {
        1_000_000
    });
    let path = std::env::temp_dir().join(format!("redouble-audit-{}.jsonl", std::process::id()));
    write(&path, entries)?;
    let size = std::fs::metadata(&path)?.len();
    let began = Instant::now();
    let mut read = 0_u64;
    read_journal(BufReader::with_capacity(1 << 20, File::open(&path)?), |_| read += 1)?;
    let reading = began.elapsed();
    let began = Instant::now();
    let mut auditor = auditor(Scope::default(), command_table());
    read_journal(BufReader::with_capacity(1 << 20, File::open(&path)?), |item: Item| {
        auditor.process_line(&JournalLine::item(1, &item));
    })?;
    auditor.finish();
    let elapsed = began.elapsed();
    println!(
        "{read} entries ({} MB): {:.2} s, of which {:.2} s to read the file; {} findings; at most {} MB of memory",
        size >> 20,
        elapsed.as_secs_f64(),
        reading.as_secs_f64(),
        auditor.findings().len(),
        peak_memory() >> 10
    );
    std::fs::remove_file(path)
}

/// A journal of clients that take, await and release locks, among other traffic.
fn write(path: &std::path::Path, entries: u64) -> std::io::Result<()> {
    let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let mut seq = 0;
    while seq < entries {
        let round = seq / 10;
        let (client, other) = (2 + round % CLIENTS, 2 + (round + 1) % CLIENTS);
        let (lock, token) =
            (round % LOCKS, format!("{:032x}", u128::from(round).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c)));
        let set = format!(r#"["SET","lock:{lock}","{token}","NX","PX","30000"]"#);
        let wait = format!(r#"["SET","lock:{lock}","other{token}","NX","PX","30000"]"#);
        let work = |value: u64| format!(r#"["SET","data:{lock}","{value}"]"#);
        let release = format!(r#"["EVALSHA","c3f8721cbb97f72bc19e972846bd7aaf91901658","1","lock:{lock}","{token}"]"#);
        let children = format!(
            r#"{{"db":0,"command":["get","lock:{lock}"],"command_missing":0,"reply":"","raw":"$32\r\n{token}\r\n","reply_length":39,"fault":null,"children":[]}},{{"db":0,"command":["del","lock:{lock}"],"command_missing":0,"reply":"","raw":":1\r\n","reply_length":4,"fault":null,"children":[]}}"#
        );
        let read = format!(r#"["GET","user:{}"]"#, round % 7919);
        for (client, command, raw, children) in [
            (client, set.as_str(), r"+OK\r\n", ""),
            (other, &wait, r"$-1\r\n", ""),
            (client, &read, r"$2\r\nab\r\n", ""),
            (client, &work(1), r"+OK\r\n", ""),
            (other, &wait, r"$-1\r\n", ""),
            (client, &work(2), r"+OK\r\n", ""),
            (other, &read, r"$2\r\nab\r\n", ""),
            (client, &release, r":1\r\n", &children),
            (other, &read, r"$2\r\nab\r\n", ""),
            (other, &work(3), r"+OK\r\n", ""),
        ] {
            seq += 1;
            let time = BEGIN + seq * 100;
            writeln!(
                out,
                r#"{{"seq":{seq},"time_us":{time},"real_time_us":{time},"duration_us":20,"client":{client},"name":"worker-{client}","address":"127.0.0.1:{client}","db":0,"command":{command},"command_missing":0,"reply":"OK","raw":"{raw}","reply_length":5,"fault":null,"children":[{children}],"outcome":"answered","gates":[],"children_missing":0}}"#
            )?;
        }
    }
    out.flush()
}

/// The peak memory of this process in kilobytes; 0 where the system does not report it.
fn peak_memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse().ok()).unwrap_or(0)
}
