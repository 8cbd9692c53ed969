//! The help texts. What they say of flags comes from [`super::flags`].

use super::flags::{Flag, Takes, flags_of};
use super::subcommand::Subcommand;
use super::terminal::Screen;
use crate::base::markdown;
use crate::base::profile::{PROFILES, Profile};

/// The column in which explanations begin, and the last column.
const INDENT: usize = 24;
const WIDTH: usize = 90;

/// The last line of every help text.
const MORE: &str = "Every exit status: redouble help exit-statuses\n";
const EXIT_STATUSES: &str = include_str!("../../docs/exit-statuses.md");

const SERVER_USAGE: &str = "\
redouble: a Redis test double. Speaks the Redis protocol, keeps everything in memory.

Usage:
  redouble [FILE | -] [--DIRECTIVE VALUE ...]
";

const SERVER: &str = "
  FILE is a configuration file as redis-server reads it; - reads one from standard input.
  Every directive of redis-server is a flag, also as --DIRECTIVE=VALUE. Those without a
  meaning here are accepted and come back from CONFIG GET; unknown ones are refused.

Most used:
  --port N              TCP port, 6379 by default; 0 with --unixsocket: no TCP;
                        0 alone: a free port, named in the log
  --port-file PATH      writes the port there once it can be connected to
  --instances N         so many servers, on ports in a row from --port on, or
                        free ones; the port file lists them, one per line
  --replicas N          so many replicas of each server, on the ports behind those of the
                        servers (REDOUBLE LINK, REDOUBLE FAILOVER)
  --sentinel [N]        N Sentinels (3) of the masters mymaster, mymaster2 and so on, on
                        ports in a row from 20000 above --port on, or free ones, which
                        the log names
  --tls-self-signed DIR serves TLS with throw-away certificates, made in DIR if there are
                        none; with --port 0, nothing else is served
  --tls-port N          serves TLS there, with --tls-cert-file, --tls-key-file,
                        --tls-ca-cert-file and --tls-auth-clients, as redis-server does
  --tls-port-file PATH  as --port-file, of the ports for TLS
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
  --load FILE           data to begin with: a dump.rdb, an append-only file, or commands,
                        one a line; may be given more than once
  --persist             keeps data: loads dbfilename of dir, writes it on SAVE, BGSAVE,
                        save points and at the end; without it, nothing is kept
  --enable-paths-outside-dir yes
                        clients' REDOUBLE SAVE and JOURNAL EXPORT write anywhere
  --exit-with-parent yes
                        end when the process that started this one ends
  --journal yes         keeps a journal of every command (REDOUBLE JOURNAL)
  --journal-size BYTES  what it may take; 64mb by default
  --journal-memory BYTES
                        what the journals of all servers and spaces may take together;
                        16 times that by default
  --audit yes           watches who holds which lock, and what is done wrong
                        (REDOUBLE AUDIT); keeps a journal, too
  --audit-memory BYTES  what the auditors of all servers and spaces may know together;
                        1gb by default
  --locks GLOB          keys that are locks whatever is done with them; --not-locks GLOB:
                        keys that are none
  --resources GLOB      keys with data that must not be lost
  --audit-allow 'CODE GLOB REASON'
                        a finding that is known; may be given more than once
  --identify-clients machine|children|no
                        whose processes to look up, to tell clients apart
  --no-control          without the test powers: no REDOUBLE commands
  --gate-timeout DURATION
                        the longest a gate holds a command; 1m by default, 0: for ever
  -v, --version         the version, as redis-server words it, then that of redouble
  -h, --help            this text

Profiles:
  ";

const RUN: &str = "\
The server listens on a free port of this machine, and the command finds it by its
environment:
  REDIS_URL             redis://127.0.0.1:PORT, with the password if there is one
  REDIS_HOST, REDIS_PORT
  REDIS_URLS            the URLs of all servers, with commas between
  REDIS_TLS_URL, REDIS_CA_CERT_FILE, REDIS_CERT_FILE, REDIS_KEY_FILE
                        with TLS: its URL, and the files that a client needs
  REDIS_CLUSTER_NODES   with --upstream-cluster: its nodes, host:port with commas between
  REDIS_SENTINELS, REDIS_SENTINEL_SERVICE
                        with --sentinel or --upstream-sentinel: the Sentinels, in the
                        same way, and the name of the master; REDIS_URL is the master's

The command has this program's input and output, and gets the signals that this program
gets. The status is the command's: 128 and the number of the signal that has ended it; 127
if there is no such command, 126 if it cannot be run; 125 if the server cannot.
";

const EXPLORE: &str = "\
The command finds its server as with redouble run: REDIS_URL, REDIS_HOST, REDIS_PORT. The
server is empty again in front of every run. While clients of the test are connected at
the same time, only one command runs at a time; which client is next is what differs from
run to run. A status other than 0 is a failure, and so is a run that takes too long.

The status is that of the first run that fails, 124 if it took too long, 0 if none fails;
125 if the server cannot be started.
";

const RECORD: &str = "\
Stands in front of a server (--upstream) and writes what its clients do to a file, as the
journal of redouble. Point your program at the address that is printed; with -- COMMAND,
the command finds it in REDIS_URL. It ends with the command, after --for, at --max-size, or
with SIGINT or SIGTERM. By default no value gets into the file, only keyed hashes of them.

The status is the command's; without one, it is 0 when the recording has ended as it
should; 125 if the server cannot be reached or the file cannot be written.
";

const AUDIT: &str = "  \
  FILE is a journal: lines of JSON, as redouble run --journal-out and REDOUBLE JOURNAL
  EXPORT write them; - is standard input. Several files are the journals of several
  servers that ran at the same time.

The status is 0 if nothing was found that is bad enough, 3 if something was, 2 if a file
cannot be read or flags are not understood.
";

const REPORT: &str = "  \
  FILE is a journal as redouble run --journal-out and REDOUBLE JOURNAL EXPORT write it; -
  is standard input. Several files are the journals of several servers, numbered in this
  order.

It writes one HTML file that stands by itself and asks nobody for anything; any browser
shows it. The status is 0 whatever was found, 1 if there is no report.
";

const EXPLAIN: &str = "  \
  CODE is what a finding begins with, such as two-holders. Without one, all codes are
  listed. FILE is a journal, as for redouble audit.

It tells what is wrong and why it matters, with an example; when the auditor reports it
and when it does not; and what to do instead. Of a key it tells what was seen that
speaks for a lock, by which commands, and how to say that it is otherwise. The status
is 2 if there is no such code, or a journal cannot be read.
";

const VALUES: &str = "  \
  A value may also stand behind a =, as in --FLAG=VALUE. Directories of files that are
  written are made.
";

const SERVER_FLAGS: &str = "Every other flag is the server's, such as --load FILE: see redouble --help.";

/// The help text of the program, or of a subcommand.
pub(super) fn help(subcommand: Option<Subcommand>) -> String {
    match subcommand {
        None => program_help(),
        Some(subcommand) => subcommand_help(subcommand),
    }
}

/// The page about exit statuses.
pub(super) fn exit_statuses(screen: Screen) -> String {
    markdown::rendered(EXIT_STATUSES, screen.ink, screen.page_width())
}

fn program_help() -> String {
    let mut text = SERVER_USAGE.to_owned();
    for subcommand in Subcommand::ALL {
        text.push_str(&format!("  {}\n", usage(subcommand)));
        push_wrapped(&mut text, "", summary(subcommand).1);
    }
    let names = Subcommand::ALL.map(Subcommand::name).join(" | ");
    text.push_str("  redouble cli [OPTIONS] [COMMAND ...]\n");
    push_wrapped(&mut text, "", "a small redis-cli; also as redis-cli, by a link of that name");
    text.push_str(&format!("  redouble help [{names} | exit-statuses]\n"));
    let profiles: Vec<_> = PROFILES.iter().map(Profile::name).collect();
    format!("{text}{SERVER}{}\n\n{MORE}", profiles.join(" "))
}

fn subcommand_help(subcommand: Subcommand) -> String {
    let (title, _) = summary(subcommand);
    let (about, example) = match subcommand {
        Subcommand::Run => (RUN, "redouble run --report --load tests/seed.txt -- npm test"),
        Subcommand::Explore => (EXPLORE, "redouble explore --clients 2 -- python3 tests/lock_race.py"),
        Subcommand::Record => {
            (RECORD, "redouble record --upstream redis://staging:6379 --port 6380 --for 10m -o staging.jsonl")
        }
        Subcommand::Audit => (AUDIT, "redouble audit --audit=warn journal.jsonl"),
        Subcommand::Report => (REPORT, "redouble report journal.jsonl -o report.html"),
        Subcommand::Explain => (EXPLAIN, "redouble explain two-holders"),
    };
    let mut text = format!("{title}\n\nUsage:\n  {}\n\n{about}\nFlags:\n", usage(subcommand));
    for flag in flags_of(subcommand).filter(|flag| !flag.help.is_empty()) {
        push_wrapped(&mut text, &format!("  {}", with_placeholder(flag)), flag.help);
    }
    push_wrapped(&mut text, "  -h, --help", "this text");
    if subcommand.runs_command() {
        text.push_str(&format!("  {SERVER_FLAGS}\n"));
    }
    if flags_of(subcommand).next().is_some() {
        text.push_str(VALUES);
    }
    text.push_str(&format!("\nExample:\n  {example}\n\n{MORE}"));
    text
}

fn usage(subcommand: Subcommand) -> String {
    let arguments = match subcommand {
        Subcommand::Run | Subcommand::Explore => "[FLAGS] -- COMMAND [ARGUMENTS]",
        Subcommand::Record => "--upstream URL -o FILE [FLAGS] [-- COMMAND [ARGUMENTS]]",
        Subcommand::Audit | Subcommand::Report => "[FLAGS] FILE ...",
        Subcommand::Explain => "[CODE ...] | --key KEY [FLAGS] FILE ...",
    };
    format!("redouble {} {arguments}", subcommand.name())
}

/// The first line of the subcommand's own help text, and the words that the program's help text has for it.
fn summary(subcommand: Subcommand) -> (&'static str, &'static str) {
    match subcommand {
        Subcommand::Run => (
            "Runs a command with a Redis server of its own, which ends with the command.",
            "runs a command with a server of its own",
        ),
        Subcommand::Explore => (
            "Runs a test again and again, each time with the commands of its clients in another order.",
            "runs it again and again, its clients' commands in every order",
        ),
        Subcommand::Record => (
            "Records what clients do to a real server, for redouble audit and redouble report.",
            "records what clients do to a real server, without its data",
        ),
        Subcommand::Audit => (
            "Reports which locks were misused, by whom, and the commands that prove it.",
            "reports which locks were misused, from journals in files",
        ),
        Subcommand::Report => (
            "Draws what journals tell of locks: who held which when, and what was done wrong.",
            "draws what exported journals tell of locks",
        ),
        Subcommand::Explain => (
            "Explains findings of the lock auditor, and why a key is taken for a lock.",
            "explains a finding of the lock auditor, or a key",
        ),
    }
}

fn with_placeholder(flag: &Flag) -> String {
    match &flag.takes {
        Takes::Nothing(_) => flag.name.to_owned(),
        Takes::Value { placeholder, .. } => format!("{} {placeholder}", flag.name),
        Takes::OptionalLevel(_) => format!("{}[=LEVEL]", flag.name),
    }
}

/// Adds an explanation, in its column, beside or below what it explains.
fn push_wrapped(text: &mut String, head: &str, explanation: &str) {
    let mut line = match head.len() < INDENT {
        true => format!("{head:INDENT$}"),
        false => {
            text.push_str(head);
            text.push('\n');
            " ".repeat(INDENT)
        }
    };
    for word in explanation.split(' ') {
        if line.len() + word.len() > WIDTH {
            text.push_str(line.trim_end());
            text.push('\n');
            line = " ".repeat(INDENT);
        }
        line.push_str(word);
        line.push(' ');
    }
    text.push_str(line.trim_end());
    text.push('\n');
}
