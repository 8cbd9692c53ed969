//! The log: lines in Redis's format, on standard output or in a file. Each server has its own.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::base::clock::{self, Stopwatch};
use crate::base::sync::MutexExt;
use crate::base::text::printable;

/// The severity of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Level {
    Debug,
    Verbose,
    Notice,
    Warning,
}

impl Level {
    fn mark(self) -> char {
        match self {
            Self::Debug => '.',
            Self::Verbose => '-',
            Self::Notice => '*',
            Self::Warning => '#',
        }
    }
}

enum Sink {
    Nowhere,
    Output,
    Errors,
    File(File),
}

/// The destination of one server's log lines.
pub struct Log {
    sink: Sink,
    least: AtomicU8,
    /// `C` until the server runs in its final process, `M` from then on, as in Redis.
    role: AtomicU8,
    /// The lines that were not written since the last one that was.
    lost: AtomicU64,
}

impl Log {
    /// Discards all lines: the log of a server inside another program.
    pub fn silent() -> Self {
        Self::to(Sink::Nowhere)
    }

    /// Writes to standard output.
    pub fn output() -> Self {
        Self::to(Sink::Output)
    }

    /// Writes warnings to standard error.
    pub fn warnings() -> Self {
        let log = Self::to(Sink::Errors);
        log.set_least(Level::Warning as u8);
        log
    }

    /// Appends to a file.
    pub fn file(path: &Path) -> io::Result<Self> {
        Ok(Self::to(Sink::File(File::options().append(true).create(true).open(path)?)))
    }

    fn to(sink: Sink) -> Self {
        Self { sink, least: AtomicU8::new(Level::Notice as u8), role: AtomicU8::new(b'C'), lost: AtomicU64::new(0) }
    }

    /// Drops lines below a level; `level` is a [`Level`] as a number.
    pub fn set_least(&self, level: u8) {
        self.least.store(level, Ordering::Relaxed);
    }

    /// Marks further lines as those of a serving process.
    pub fn begin_serving(&self) {
        self.role.store(b'M', Ordering::Relaxed);
    }

    pub fn notice(&self, text: impl AsRef<str>) {
        self.write(Level::Notice, text.as_ref());
    }

    pub fn warn(&self, text: impl AsRef<str>) {
        self.write(Level::Warning, text.as_ref());
    }

    pub fn write(&self, level: Level, text: &str) {
        if level as u8 >= self.least.load(Ordering::Relaxed) {
            let role = char::from(self.role.load(Ordering::Relaxed));
            let (pid, time, mark) = (std::process::id(), timestamp(clock::real_micros()), level.mark());
            let cut = (0..=text.len().min(LONGEST)).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            let end = if cut < text.len() { format!("... ({} more bytes)", text.len() - cut) } else { String::new() };
            // Clients have a say in some texts: none of them makes up a line, or has a terminal obey it.
            let text = printable(&text[..cut]);
            self.put(&format!("{pid}:{role} {time} {mark} {text}{end}\n"));
        }
    }

    /// Logs a signal, for which Redis uses another format.
    pub fn signal(&self, text: &str) {
        if Level::Warning as u8 >= self.least.load(Ordering::Relaxed) {
            let seconds = clock::real_micros().div_euclid(1_000_000);
            self.put(&format!("{}:signal-handler ({seconds}) {text}\n", std::process::id()));
        }
    }

    /// Errors are ignored: a log whose reader is gone must not end the server.
    fn put(&self, line: &str) {
        let _ = match &self.sink {
            Sink::Nowhere => Ok(()),
            Sink::Output => {
                let mut output = io::stdout().lock();
                output.flush().and_then(|()| self.write_unless_stuck(output.as_fd(), line))
            }
            Sink::Errors => self.write_unless_stuck(io::stderr().lock().as_fd(), line),
            Sink::File(file) => self.write_unless_stuck(file.as_fd(), line),
        };
    }

    /// Writes a line, but does not wait for ever for somebody to read a pipe: lines are lost instead, and counted.
    fn write_unless_stuck(&self, output: BorrowedFd<'_>, line: &str) -> io::Result<()> {
        let lost = self.lost.load(Ordering::Relaxed);
        let told = if lost > 0 {
            format!("({lost} lines of the log were lost: nobody read them in time)\n")
        } else {
            String::new()
        };
        let patience = if lost > 0 { Duration::ZERO } else { PATIENCE };
        let patience = Timespec::try_from(patience).map_err(|_| io::ErrorKind::InvalidInput)?;
        // A pipe that is ready has room for this much.
        for piece in told.as_bytes().chunks(PIECE).chain(line.as_bytes().chunks(PIECE)) {
            if poll(&mut [PollFd::from_borrowed_fd(output, PollFlags::OUT)], Some(&patience))? == 0 {
                self.lost.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            }
            let mut rest = piece;
            while !rest.is_empty() {
                rest = &rest[rustix::io::write(output, rest)?..];
            }
        }
        self.lost.fetch_sub(lost, Ordering::Relaxed);
        Ok(())
    }
}

/// Lines that clients can cause as often as they like: at most one a second. Those between are counted.
#[derive(Default)]
pub struct SparingLog {
    last: Mutex<Option<Stopwatch>>,
    withheld: AtomicU64,
}

impl SparingLog {
    const INTERVAL: Duration = Duration::from_secs(1);

    pub fn warn(&self, log: &Log, text: &str) {
        let mut last = self.last.lock_ignoring_poison();
        if last.is_some_and(|last| last.elapsed() < Self::INTERVAL) {
            self.withheld.fetch_add(1, Ordering::Relaxed);
            return;
        }
        *last = Some(Stopwatch::start());
        drop(last);
        match self.withheld.swap(0, Ordering::Relaxed) {
            0 => log.warn(text),
            count => log.warn(format!("{text} ({count} such lines before this one were left out)")),
        }
    }
}

/// The longest text of a line, in bytes.
const LONGEST: usize = 64 * 1024;
/// How long a line waits for room in a pipe.
const PATIENCE: Duration = Duration::from_secs(1);
/// What a pipe takes at once on every system.
const PIECE: usize = 512;

/// `20 Nov 2026 21:22:25.454`, in UTC.
fn timestamp(micros: i64) -> String {
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let millis = micros.div_euclid(1000);
    let (days, in_day) = (millis.div_euclid(86_400_000), millis.rem_euclid(86_400_000));
    let (year, month, day) = civil(days);
    let (seconds, millis) = (in_day / 1000, in_day % 1000);
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    format!("{day:02} {} {year} {hours:02}:{minutes:02}:{seconds:02}.{millis:03}", MONTHS[month - 1])
}

/// The date of a number of days after 1 January 1970, in the Gregorian calendar.
///
/// Years begin in March, so that a leap day is the last day of its year; 400 such years always have the same number of
/// days.
pub fn civil(days: i64) -> (i64, usize, i64) {
    const ERA: i64 = 146_097;
    let days = days + 719_468;
    let (era, day) = (days.div_euclid(ERA), days.rem_euclid(ERA));
    let year = (day - day / 1_460 + day / 36_524 - day / (ERA - 1)) / 365;
    let in_year = day - (365 * year + year / 4 - year / 100);
    let from_march = (5 * in_year + 2) / 153;
    let day = in_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year + i64::from(month <= 2);
    (year, usize::try_from(month).unwrap_or(1), day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_as_redis_writes_them() {
        assert_eq!(timestamp(0), "01 Jan 1970 00:00:00.000");
        assert_eq!(timestamp(1_795_209_745_454_321), "20 Nov 2026 21:22:25.454");
        assert_eq!(timestamp(951_782_400_000_000), "29 Feb 2000 00:00:00.000");
        assert_eq!(timestamp(4_107_542_399_999_000), "28 Feb 2100 23:59:59.999");
        assert_eq!(timestamp(4_107_542_400_000_000), "01 Mar 2100 00:00:00.000");
    }
}
