//! Servers as processes, what they cost, and connections to them: for the benchmarks in front of real servers.

use std::error::Error;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, setrlimit};

pub type Outcome<T> = Result<T, Box<dyn Error>>;

pub fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Raises the limit of open files as far as possible, for this process and those that it starts.
pub fn allow_files() -> Outcome<u64> {
    let limit = getrlimit(Resource::Nofile);
    let most = limit.maximum.unwrap_or(1 << 20);
    setrlimit(Resource::Nofile, Rlimit { current: Some(most), maximum: limit.maximum })?;
    Ok(most)
}

pub const PING: &[u8] = b"*1\r\n$4\r\nPING\r\n";

pub fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

pub fn connect(port: u16) -> Outcome<TcpStream> {
    let client = TcpStream::connect(("127.0.0.1", port))?;
    client.set_nodelay(true)?;
    Ok(client)
}

/// Sends a request and reads the reply, which is short and arrives at once.
pub fn exchange(client: &mut TcpStream, bytes: &[u8]) -> Outcome<Vec<u8>> {
    client.write_all(bytes)?;
    let mut answer = vec![0; 256];
    let length = client.read(&mut answer)?;
    if length == 0 {
        return Err("the connection was closed".into());
    }
    answer.truncate(length);
    Ok(answer)
}

/// A process that serves a port, killed when it is dropped.
pub struct Process(Child);

impl Process {
    pub fn start(words: &[&str], port: u16) -> Outcome<Self> {
        let began = Instant::now();
        let child = Command::new(words[0])
            .args(&words[1..])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut process = Self(child);
        while !connect(port).is_ok_and(|mut client| exchange(&mut client, PING).is_ok()) {
            if let Some(status) = process.0.try_wait()? {
                return Err(format!("{} ended with {status} before it answered", words[0]).into());
            }
            if began.elapsed() > Duration::from_secs(20) {
                return Err(format!("{} did not answer in 20 s", words[0]).into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(process)
    }

    pub fn processor_seconds(&self) -> Outcome<f64> {
        /// Linux's unit of processor time in `/proc`, on every architecture.
        const TICKS_PER_SECOND: f64 = 100.0;
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        Ok((fields[11].parse::<f64>()? + fields[12].parse::<f64>()?) / TICKS_PER_SECOND)
    }

    #[allow(dead_code, reason = "not every benchmark looks there itself")]
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Ends it by SIGTERM. Returns how long that takes.
    #[allow(dead_code, reason = "not every benchmark waits for it")]
    pub fn end(mut self) -> Outcome<Duration> {
        let began = Instant::now();
        kill_process(Pid::from_child(&self.0), Signal::TERM)?;
        self.0.wait()?;
        Ok(began.elapsed())
    }

    pub fn resident(&self) -> Outcome<f64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.0.id()))?;
        let line = status.lines().find(|line| line.starts_with("VmRSS")).ok_or("no VmRSS")?;
        let kilobytes: f64 = line.split_whitespace().nth(1).ok_or("no figure in VmRSS")?.parse()?;
        Ok(kilobytes * 1024.0)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What `redis-benchmark` has measured: requests per second, and microseconds from a trip's first byte to its last reply.
pub struct Measured {
    pub per_second: f64,
    /// The median.
    pub half: f64,
    /// The 99th percentile.
    pub most: f64,
}

/// Runs `redis-benchmark` for one kind of command.
pub fn redis_benchmark(benchmark: &mut Command) -> Outcome<Measured> {
    let output = benchmark.output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().last().unwrap_or_default();
    // "test","rps","avg_latency_ms","min_latency_ms","p50_latency_ms","p95_latency_ms","p99_latency_ms","max_latency_ms"
    let figures: Vec<f64> = line.split(',').filter_map(|field| field.trim_matches('"').parse().ok()).collect();
    let [per_second, _, _, half, _, most, _] = figures[..] else {
        return Err(format!("redis-benchmark said: {text} {}", String::from_utf8_lossy(&output.stderr)).into());
    };
    Ok(Measured { per_second, half: half * 1e3, most: most * 1e3 })
}
