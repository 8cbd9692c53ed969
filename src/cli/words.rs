//! What the program says of itself: help, version, banner.

use std::path::Path;

use crate::base::error::{Error, plain};
use crate::base::profile::{Family, PROFILES, Profile};
use crate::clients::config::LoadError;

const HELP: &str = "\
redouble: a Redis test double. Speaks the Redis protocol, keeps everything in memory.

Usage:
  redouble [FILE | -] [--DIRECTIVE VALUE ...]
  redouble run [FLAGS] -- COMMAND [ARGUMENTS]
                        runs a command with a server of its own; see run --help
  redouble explore [FLAGS] -- COMMAND [ARGUMENTS]
                        runs it again and again, its clients' commands in every order
  redouble audit [FLAGS] FILE ...
                        tells of locks that were misused, from journals in files
  redouble report FILE ...
                        draws what exported journals tell of locks; see report --help

  FILE is a configuration file as redis-server reads it; - reads one from standard input.
  Every directive of redis-server is a flag. Those without a meaning here are accepted
  and come back from CONFIG GET; unknown ones are refused.

Most used:
  --port N              TCP port, 6379 by default; 0 with --unixsocket: no TCP;
                        0 alone: a free port, named in the log
  --port-file PATH      writes the port there once it can be connected to
  --instances N         so many servers, on ports in a row from --port on, or
                        free ones; the port file lists them, one per line
  --spaces-by-database yes
                        SELECT N goes to a private world of its own
  --bind ADDRESS ...    addresses to listen on; 127.0.0.1 and ::1 by default
  --unixsocket PATH     also listens on a unix socket
  --requirepass SECRET  clients must give this password
  --databases N         16 by default
  --logfile PATH        log there and not on standard output
  --daemonize yes       go into the background (see --pidfile)
  --enable-debug-command yes
  --compat PROFILE      which server to behave as; redis-7.2 by default
  --threads N           threads that serve connections; 1 by default
  --load PATH           data to begin with: a dump.rdb, an append-only file, or commands,
                        one a line; may be given more than once
  --exit-with-parent yes
                        end when the process that started this one ends
  --journal yes         keeps a journal of every command (REDOUBLE JOURNAL)
  --journal-size BYTES  what it may take; 64mb by default
  --audit yes           watches who holds which lock, and what is done wrong
                        (REDOUBLE AUDIT); keeps a journal, too
  --locks GLOB          keys that are locks whatever is done with them; --not-locks GLOB:
                        keys that are none
  --audit-allow 'CODE GLOB REASON'
                        a finding that is known; may be given more than once
  --no-control          without the test powers: no REDOUBLE commands
  --gate-timeout TIME   the longest a gate holds a command; 1m by default, 0: for ever
  -v, --version         the version, as redis-server words it
  -h, --help            this text

Profiles:
  ";

pub(super) const RUN_HELP: &str = "\
Runs a command with a Redis server of its own, which ends with the command.

Usage:
  redouble run [FLAGS] -- COMMAND [ARGUMENTS]

The server listens on a free port of this machine, and the command finds it by its
environment:
  REDIS_URL             redis://127.0.0.1:PORT, with the password if there is one
  REDIS_HOST, REDIS_PORT
  REDIS_URLS            the URLs of all servers, with commas between

The command has this program's input and output, and gets the signals that this program
gets. The status is the command's: 128 and the number of the signal that has ended it; 127
if there is no such command, 126 if it cannot be run; 125 if the server cannot.

Flags:
  --report              says on standard error what has happened: commands, connections,
                        locks taken; commands that are not supported, faults that never
                        fired, gates that were never reached
  --strict              fails with status 1 if there are any of the last three
  --audit[=warn]        says on standard error which locks were misused, and by which
                        commands; fails with status 3 for errors, with =warn for
                        warnings, too
  --locks GLOB          keys that are locks whatever is done with them; --not-locks GLOB:
                        keys that are none. Both can be said more than once
  --allow FILE          what the audit is to accept: lines CODE GLOB REASON
  --junit PATH          the findings as JUnit XML; --sarif PATH: as SARIF
  --journal-out PATH    every command that came, as lines of JSON, for redouble audit
  --report-html PATH    a page with a picture of it
  --load PATH           data to begin with; can be said more than once
  --logfile PATH        the server's log, which is not kept otherwise
  Every other flag is the server's: see redouble --help.

Example:
  redouble run --report --load tests/seed.txt -- npm test
";

pub(super) const AUDIT_HELP: &str = "\
Tells which locks were misused, by whom, and by which commands that is proved.

Usage:
  redouble audit [FLAGS] FILE ...

  FILE is a journal: lines of JSON, as redouble run --journal-out and REDOUBLE JOURNAL
  EXPORT write them; - is standard input. Several files are the journals of several
  servers that ran at the same time.

The status is 0 if nothing was found that is bad enough, 3 if something was, 2 if a file
cannot be read or flags are not understood.

Flags:
  --level error|warn    how bad a finding must be to fail (error)
  --locks GLOB          keys that are locks whatever is done with them
  --not-locks GLOB      keys that are none; both can be said more than once
  --allow FILE          what is to be accepted: lines CODE GLOB REASON
  --junit PATH          the findings as JUnit XML
  --sarif PATH          the findings as SARIF 2.1.0
  --json                prints the findings as lines of JSON

Example:
  redouble audit --level warn journal.jsonl
";

pub(super) const EXPLORE_HELP: &str = "\
Runs a test again and again, each time with the commands of its clients in another order.

Usage:
  redouble explore [FLAGS] -- COMMAND [ARGUMENTS]

The command finds its server as with redouble run: REDIS_URL, REDIS_HOST, REDIS_PORT. The
server is empty again in front of every run. While clients of the test are connected at the
same time, only one command runs at a time; which client is next is what differs from run to
run. A status other than 0 is a failure, and so is a run that takes too long.

The status is that of the first run that fails, 0 if none does, 125 if the server cannot be
started.

Flags:
  --runs N              tries at most N orders, one after the other (1000)
  --random N            if there are more, tries N random ones, too (100)
  --seed N              where chance begins (0)
  --settle DURATION     how long a client may be silent before the others go on (10ms)
  --client GLOB         only clients with such names race; the others are never held
  --clients N           so many clients are to have come before the first turn
  --every-order         also tries orders that differ only in commands that commute
  --replay TOKEN        goes through this order only
  --limit DURATION      how long one run may take (60s)
  --keep-going          goes on after an order that fails
  --verbose             shows the output of every run, not only of those that fail
  Every other flag is the server's: see redouble --help.

Example:
  redouble explore --clients 2 -- python3 tests/lock_race.py
";

pub(super) const REPORT_HELP: &str = "\
Draws what journals tell of locks: who held which when, and what was done wrong.

Usage:
  redouble report FILE [FILE ...] [FLAGS]

  FILE is a journal as REDOUBLE JOURNAL EXPORT writes it; - is standard input. Several
  files are the journals of several servers, numbered in this order.

It writes one HTML file that stands by itself and asks nobody for anything; any browser
shows it. The status is 0 whatever was found, 1 if there is no report.

Flags:
  -o PATH               where to; report.html by default, - is standard output
  --text                tells the same story as text, on standard output without -o
  --locks GLOB          keys that are locks, whatever clients do with them
  --not-locks GLOB      keys that are none; both can be said more than once
  --allow FILE          findings that are known, one a line: CODE GLOB REASON, where the
                        code * stands for every kind; empty lines and those that begin
                        with # are passed over

Example:
  redis-cli REDOUBLE JOURNAL EXPORT /tmp/journal.jsonl
  redouble report /tmp/journal.jsonl -o report.html
";

/// The help text, with the profiles there are.
pub(super) fn help() -> String {
    let names: Vec<_> = PROFILES.iter().map(Profile::name).collect();
    format!("{HELP}{}\n", names.join(" "))
}

/// The name of the server that a profile imitates.
pub(super) fn product(profile: &Profile) -> &'static str {
    match profile.family() {
        Family::Redis => "Redis",
        Family::Valkey => "Valkey",
    }
}

/// One line; programs look for ` v=` and for the first number.
pub(super) fn version(profile: &Profile) -> String {
    let (product, version) = (product(profile), profile.version());
    let build = env!("CARGO_PKG_VERSION");
    format!("{product} server v={version} sha=00000000:0 malloc=libc bits={} build=redouble-{build}", usize::BITS)
}

/// How Redis tells of a configuration that it cannot use.
pub(super) fn fatal(error: &LoadError) -> Vec<u8> {
    let version = error.profile.version();
    let name = match error.profile.family() {
        Family::Redis => "Redis",
        Family::Valkey => "Version",
    };
    let mut text = format!("\n*** FATAL CONFIG FILE ERROR ({name} {version}) ***\n").into_bytes();
    if let Some((number, line)) = &error.line {
        text.extend(format!("Reading the configuration file, at line {number}\n>>> '").bytes());
        text.extend(line);
        text.extend(b"'\n");
    }
    text.extend(error.reason.bytes());
    text.push(b'\n');
    text
}

/// The profile that a program's name asks for: whoever starts `valkey-server` wants a Valkey.
pub(super) fn profile_of_name(program: &Path) -> Profile {
    let name = program.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    if name.contains("valkey-server") {
        PROFILES.into_iter().rfind(|profile| profile.family() == Family::Valkey).unwrap_or_default()
    } else {
        Profile::default()
    }
}

/// Why a server cannot start. That a TCP address is taken was told already; this line names the port once more.
pub(super) fn cannot_listen(error: &Error, port: u16, profile: &Profile) -> String {
    match error {
        Error::Bind { address, .. } => {
            // Of several instances, it need not be the first one's.
            let port = address.rsplit(':').next().map_or_else(|| port.to_string(), str::to_owned);
            let kind = if profile.since_redis(7, 2) { "tcp" } else { "TCP" };
            format!("Failed listening on port {port} ({kind}), aborting.")
        }
        Error::Socket { path, source } => {
            format!("Failed opening Unix socket: bind: {} ({})", plain(source), path.display())
        }
        other => format!("{other}, exiting."),
    }
}
