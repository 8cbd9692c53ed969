//! A small `redis-cli`: what the program is under that name, and as `redouble cli`.
//!
//! Images, health checks and scripts ask a server with `redis-cli ping`; where this program is the only one, it answers
//! that itself. Output, error texts and statuses are those of `redis-cli` 7.0.15. It has no editing of lines, no history
//! and no help on commands.

mod connection;
mod format;
mod options;
mod value;

use std::ffi::OsString;
use std::io::{self, BufRead, IsTerminal, Read, Write};
use std::process::ExitCode;

use connection::{Connection, describe};
use format::Layout;
use options::{Address, FromInput, Options, Request, Task, leading_number};
use value::Value;

use crate::base::clock::Clock;
use crate::base::error::plain;
use crate::base::profile::Profile;
use crate::protocol::{parse_integer, quote, split_line};

use super::{messages, print_error, print_line};

/// The word behind `redouble` for those who have no program of the name.
pub(super) const SUBCOMMAND: &str = "cli";

pub(super) const HELP: &str = "\
Usage: redis-cli [OPTIONS] [COMMAND [ARGUMENT ...]]

  -h HOST            127.0.0.1 by default
  -p PORT            6379 by default
  -s SOCKET          a unix socket in place of host and port
  -u URL             redis://USER:PASSWORD@HOST:PORT/DATABASE; rediss:// is with TLS
  --tls              speaks TLS
  --cacert FILE, --cacertdir DIR
                     the authorities to trust; without them, those of the system
  --cert FILE, --key FILE
                     the client's own certificate and its key
  --sni NAME         the name that the server hears
  --insecure         takes any certificate of the server
  -a, --pass SECRET  the password; REDISCLI_AUTH in the environment says it, too
  --user NAME        the user whose password it is
  --no-auth-warning  no warning of passwords on the command line
  -n NUMBER          the database
  -2, -3             the version of the protocol: RESP2 (the default), RESP3
  -r N, -i SECONDS   sends the command N times, for ever if N is negative, so far apart
  -x                 takes the last argument from standard input
  -X TAG             takes the argument that is TAG from standard input
  -e                 fails with status 1 if the reply is an error
  --raw, --no-raw    replies as they are; replies with types and quotes, as on a terminal
  -d, -D DELIMITER   between elements, behind replies, in raw replies
  --show-pushes Y|N  whether messages beside the replies are shown
  --eval FILE [KEY ...] , [ARGUMENT ...]
                     runs a Lua script
  --scan [--pattern GLOB]
                     lists keys
  -c                 accepted; redirections of a cluster are not followed
  --version, --help

Without a command, the lines of standard input are commands. The status is 0 also if a
reply is an error (see -e), and 1 if the server cannot be reached.";

/// Why a command has no reply. The reason was printed.
enum Failure {
    /// The connection is gone; a person or a list of commands goes on with a new one.
    Lost,
    /// Nothing more can be done.
    Fatal,
}

/// Runs `redis-cli`; `profile` says which server's it is.
pub(super) fn run(arguments: &[OsString], profile: &Profile) -> ExitCode {
    let is_terminal = io::stdout().is_terminal() || std::env::var_os("FAKETTY").is_some();
    let options = match options::parse(arguments, is_terminal, std::env::var_os("REDISCLI_AUTH")) {
        Ok(Request::Session(options)) => *options,
        Ok(Request::Help) => return print_line(HELP),
        Ok(Request::Version) => {
            let name = messages::product(profile).to_lowercase();
            return print_line(&format!("{name}-cli {}", profile.version()));
        }
        Err(reason) => return print_error(reason.as_bytes()),
    };
    if options.warns_of_password {
        print_error(
            b"Warning: Using a password with '-a' or '-u' option on the command line interface may not be safe.",
        );
    }
    let task = options.task.clone();
    let mut session = Session {
        product: messages::product(profile),
        wanted_database: options.database,
        options,
        connection: None,
        database: 0,
        before_multi: None,
        is_interactive: false,
    };
    let ended = match task {
        Task::Command(words) => session.run_command(words),
        Task::Lines => session.run_lines(),
        Task::Script { file, words } => match std::fs::read(&file) {
            Ok(script) => session.run_script(script, words),
            Err(error) => {
                let (file, reason) = (file.display(), plain(&error));
                return print_error(format!("Can't open file '{file}': {reason}").as_bytes());
            }
        },
        Task::Scan { pattern } => session.scan(pattern.as_deref()),
    };
    if ended.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

struct Session {
    options: Options,
    product: &'static str,
    connection: Option<Connection>,
    /// The database that a new connection selects.
    wanted_database: i64,
    /// The database of the connection.
    database: i64,
    /// The database from before MULTI, inside a transaction.
    before_multi: Option<i64>,
    /// Whether commands come line by line.
    is_interactive: bool,
}

impl Session {
    fn run_command(&mut self, mut words: Vec<Vec<u8>>) -> Result<(), Failure> {
        if self.options.from_input != FromInput::Nothing {
            let mut input = Vec::new();
            if let Err(error) = io::stdin().read_to_end(&mut input) {
                print_error(format!("Reading from standard input: {}", plain(&error)).as_bytes());
                return Err(Failure::Fatal);
            }
            match &self.options.from_input {
                FromInput::Nothing => {}
                FromInput::Last => words.push(input),
                FromInput::Tag(tag) => match words.iter_mut().find(|word| *word == tag) {
                    Some(word) => *word = input,
                    None => {
                        print_error(b"Using -X option but stdin tag not match.");
                        return Err(Failure::Fatal);
                    }
                },
            }
        }
        self.issue(&words, self.options.repeat)
    }

    /// Runs the lines of standard input as commands, behind a prompt if a person types them.
    fn run_lines(&mut self) -> Result<(), Failure> {
        self.is_interactive = true;
        let has_prompt = io::stdin().is_terminal();
        // What fails is tried again for every command.
        let _ = self.connect();
        let mut input = io::stdin().lock();
        loop {
            if has_prompt {
                print(self.prompt().as_bytes())?;
            }
            let mut line = Vec::new();
            match input.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return Ok(()),
                Ok(_) => {}
            }
            let Some(mut words) = split_line(line.trim_ascii_end()) else {
                print(b"Invalid argument(s)\n")?;
                continue;
            };
            let Some(first) = words.first().map(|first| first.to_ascii_lowercase()) else { continue };
            let mut repeat = 1;
            if words.len() > 1
                && let Some(number) = parse_integer(&first)
            {
                if number <= 0 {
                    print(b"Invalid redis-cli repeat command option value.\n")?;
                    continue;
                }
                (repeat, _) = (number, words.remove(0));
            }
            let ended = match (first.as_slice(), words.as_slice()) {
                (b"quit" | b"exit", _) => return Ok(()),
                (b"help" | b"?", _) => print(HELP.as_bytes()).and_then(|()| print(b"\n")),
                (b"clear", [_]) => print(b"\x1b[H\x1b[2J"),
                (b"connect", [_, host, port]) => {
                    let host = String::from_utf8_lossy(host).into_owned();
                    let port = u16::try_from(leading_number(port)).unwrap_or_default();
                    self.options.address = Address::Port { host, port };
                    // The reason was printed, and the next command tries again.
                    let _ = self.connect();
                    Ok(())
                }
                (_, words) => self.issue(words, repeat),
            };
            if let Err(Failure::Fatal) = ended {
                return Err(Failure::Fatal);
            }
        }
    }

    fn run_script(&mut self, script: Vec<u8>, words: Vec<Vec<u8>>) -> Result<(), Failure> {
        let comma = words.iter().position(|word| word == b",");
        let keys = comma.unwrap_or(words.len());
        let mut command = vec![b"EVAL".to_vec(), script, keys.to_string().into_bytes()];
        command.extend(words.into_iter().enumerate().filter(|(at, _)| Some(*at) != comma).map(|(_, word)| word));
        self.connect()?;
        self.issue(&command, self.options.repeat)
    }

    /// Lists the keys that match a pattern.
    fn scan(&mut self, pattern: Option<&[u8]>) -> Result<(), Failure> {
        self.connect()?;
        let mut cursor = b"0".to_vec();
        loop {
            let command: &[&[u8]] = &[b"SCAN", &cursor, b"MATCH", pattern.unwrap_or(b"*")];
            let reply = match self.connection.as_mut().map(|connection| connection.ask(command)) {
                Some(Ok(reply)) => reply,
                Some(Err(error)) => return Err(lost(&error)),
                None => return Err(Failure::Fatal),
            };
            let Value::Array(parts) = &reply else {
                let mut text = b"ERROR: ".to_vec();
                format::raw(&reply, b"\n", &mut text);
                print_error(text.trim_ascii_end());
                return Err(Failure::Fatal);
            };
            let [Value::Text(next), Value::Array(keys)] = parts.as_slice() else {
                print_error(b"Non ARRAY response from SCAN!");
                return Err(Failure::Fatal);
            };
            for key in keys {
                let mut line = Vec::new();
                match (key, self.options.layout) {
                    (Value::Text(key), Layout::Terminal) => line = quote(key),
                    _ => format::raw(key, b"\n", &mut line),
                }
                line.push(b'\n');
                print(&line)?;
            }
            Clock::block_thread(self.options.interval);
            if next == b"0" {
                return Ok(());
            }
            cursor.clone_from(next);
        }
    }

    /// Opens a connection and makes it the user's and the database's. The connection stays if the server refuses that.
    fn connect(&mut self) -> Result<(), Failure> {
        (self.connection, self.database, self.before_multi) = (None, 0, None);
        let mut connection = match Connection::open(&self.options.address, self.options.tls.as_ref()) {
            Ok(connection) => connection,
            Err(error) => {
                let place = match &self.options.address {
                    Address::Port { host, port } => format!("{host}:{port}"),
                    Address::Socket(path) => path.display().to_string(),
                };
                let (product, reason) = (self.product, describe(&error));
                print_error(format!("Could not connect to {product} at {place}: {reason}").as_bytes());
                return Err(Failure::Lost);
            }
        };
        let greeted = self.greet(&mut connection);
        self.connection = Some(connection);
        greeted
    }

    fn greet(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        if let Some(password) = self.options.password.as_deref() {
            let refused = match self.options.user.as_deref() {
                Some(user) => refusal(connection, &[b"AUTH", user, password]),
                None => refusal(connection, &[b"AUTH", password]),
            };
            if let Some(reason) = refused? {
                print_error(&[b"AUTH failed: ", reason.as_slice()].concat());
                return Err(Failure::Lost);
            }
        }
        self.select(connection)?;
        if self.options.resp3
            && let Some(reason) = refusal(connection, &[b"HELLO", b"3"])?
        {
            print_error(&[b"HELLO 3 failed: ", reason.as_slice()].concat());
            return Err(Failure::Lost);
        }
        Ok(())
    }

    fn select(&mut self, connection: &mut Connection) -> Result<(), Failure> {
        if self.wanted_database == self.database {
            return Ok(());
        }
        let number = self.wanted_database.to_string();
        if let Some(reason) = refusal(connection, &[b"SELECT", number.as_bytes()])? {
            print_error(&[format!("SELECT {number} failed: ").as_bytes(), &reason].concat());
            return Err(Failure::Lost);
        }
        self.database = self.wanted_database;
        Ok(())
    }

    fn prompt(&self) -> String {
        if self.connection.is_none() {
            return "not connected> ".to_owned();
        }
        let place = match &self.options.address {
            Address::Port { host, port } if host.contains(':') => format!("[{host}]:{port}"),
            Address::Port { host, port } => format!("{host}:{port}"),
            Address::Socket(path) => format!("{} {}", self.product.to_lowercase(), path.display()),
        };
        let database = if self.database == 0 { String::new() } else { format!("[{}]", self.database) };
        let transaction = if self.before_multi.is_some() { "(TX)" } else { "" };
        format!("{place}{database}{transaction}> ")
    }

    /// Sends a command as often as asked for, and prints its replies.
    fn issue(&mut self, words: &[Vec<u8>], repeat: i64) -> Result<(), Failure> {
        if self.connection.is_none() {
            // A refused password does not keep the command from being tried.
            let connected = self.connect();
            if self.connection.is_none() || self.is_interactive {
                connected?;
            }
        }
        let command = words.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
        let is_raw = is_text_for_people(&command, words);
        let mut left = repeat;
        while left != 0 {
            left = if left < 0 { left } else { left - 1 };
            if let Some(Err(error)) = self.connection.as_mut().map(|connection| connection.send(words)) {
                return Err(self.lose(&error));
            }
            match command.as_slice() {
                b"monitor" => return self.follow(is_raw),
                b"subscribe" | b"psubscribe" | b"ssubscribe" => {
                    if self.options.layout == Layout::Terminal {
                        print(b"Reading messages... (press Ctrl-C to quit)\n")?;
                    }
                    self.follow(is_raw)?;
                    continue;
                }
                _ => {}
            }
            match self.read_reply() {
                Ok(reply) => {
                    self.show(&reply, is_raw)?;
                    self.note(&command, words, &reply);
                }
                Err(_) if command == b"shutdown" => {
                    self.connection = None;
                    return Ok(());
                }
                Err(error) => return Err(self.lose(&error)),
            }
            Clock::block_thread(self.options.interval);
        }
        Ok(())
    }

    /// Prints everything that comes until the server says an error.
    fn follow(&mut self, is_raw: bool) -> Result<(), Failure> {
        loop {
            let message = match self.connection.as_mut().map(Connection::read) {
                Some(Ok(message)) => message,
                Some(Err(error)) => {
                    lost(&error);
                    return Err(Failure::Fatal);
                }
                None => return Err(Failure::Fatal),
            };
            self.show(&message, is_raw)?;
            if matches!(message, Value::Error(_)) {
                return Ok(());
            }
        }
    }

    fn read_reply(&mut self) -> io::Result<Value> {
        loop {
            let Some(connection) = self.connection.as_mut() else { return Err(io::ErrorKind::NotConnected.into()) };
            let reply = connection.read()?;
            if !matches!(reply, Value::Push(_)) {
                return Ok(reply);
            }
            if self.options.shows_pushes {
                let text = match format::invalidation(&reply).filter(|_| self.options.layout == Layout::Terminal) {
                    Some(text) => text,
                    None => self.text(&reply, false),
                };
                io::stdout().write_all(&text)?;
            }
        }
    }

    fn show(&self, reply: &Value, is_raw: bool) -> Result<(), Failure> {
        if let Value::Error(text) = reply
            && self.options.fails_on_error
            && !self.is_interactive
        {
            print_error(text);
            return Err(Failure::Fatal);
        }
        print(&self.text(reply, is_raw))
    }

    fn text(&self, reply: &Value, is_raw: bool) -> Vec<u8> {
        let mut text = Vec::new();
        match self.options.layout {
            _ if is_raw => format::raw(reply, &self.options.element_delimiter, &mut text),
            Layout::Terminal => format::terminal(reply, "", &mut text),
            Layout::Raw => {
                format::raw(reply, &self.options.element_delimiter, &mut text);
                text.extend(&self.options.reply_delimiter);
            }
        }
        text
    }

    /// Follows what a command changed about the connection.
    fn note(&mut self, command: &[u8], words: &[Vec<u8>], reply: &Value) {
        let is_error = matches!(reply, Value::Error(_));
        match (command, words) {
            (b"select", [_, number]) if !is_error => {
                self.wanted_database = leading_number(number);
                self.database = self.wanted_database;
            }
            (b"auth", [_, _] | [_, _, _]) => {
                if let Some(mut connection) = self.connection.take() {
                    // The reason was printed; the commands that follow are sent all the same.
                    let _ = self.select(&mut connection);
                    self.connection = Some(connection);
                }
            }
            (b"multi", [_]) if !is_error => self.before_multi = Some(self.database),
            (b"exec", [_]) => {
                let before = self.before_multi.take();
                if is_error || *reply == Value::Nil {
                    self.go_back_to(before);
                }
            }
            (b"discard", [_]) if !is_error => {
                let before = self.before_multi.take();
                self.go_back_to(before);
            }
            (b"reset", [_]) if !is_error => {
                (self.database, self.wanted_database, self.before_multi) = (0, 0, None);
                self.options.resp3 = false;
            }
            _ => {}
        }
    }

    fn go_back_to(&mut self, database: Option<i64>) {
        if let Some(database) = database {
            (self.database, self.wanted_database) = (database, database);
        }
    }

    /// Drops the connection, and says why.
    fn lose(&mut self, error: &io::Error) -> Failure {
        self.connection = None;
        lost(error);
        match error.kind() {
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => Failure::Lost,
            _ => Failure::Fatal,
        }
    }
}

/// The error with which the server answers a command, if it does.
fn refusal(connection: &mut Connection, words: &[&[u8]]) -> Result<Option<Vec<u8>>, Failure> {
    match connection.ask(words) {
        Ok(Value::Error(reason)) => Ok(Some(reason)),
        Ok(_) => Ok(None),
        Err(_) => {
            print_error(b"\nI/O error");
            Err(Failure::Lost)
        }
    }
}

/// Whether a reply is a text for people, which is shown as it is also on a terminal.
fn is_text_for_people(command: &[u8], words: &[Vec<u8>]) -> bool {
    let subcommand = words.get(1).map(|word| word.to_ascii_lowercase()).unwrap_or_default();
    match (command, subcommand.as_slice()) {
        (b"info" | b"lolwut", _)
        | (b"debug", b"htstats" | b"htstats-key" | b"client-eviction")
        | (b"memory", b"malloc-stats" | b"doctor")
        | (b"client", b"list" | b"info") => true,
        (b"cluster", b"nodes" | b"info") | (b"latency", b"doctor") => words.len() == 2,
        (b"latency", b"graph") => words.len() == 3,
        _ => false,
    }
}

fn lost(error: &io::Error) -> Failure {
    print_error(format!("Error: {}", describe(error)).as_bytes());
    Failure::Fatal
}

/// Writes on standard output at once, so that whoever reads a pipe sees each reply when it comes.
fn print(text: &[u8]) -> Result<(), Failure> {
    let mut output = io::stdout().lock();
    output.write_all(text).and_then(|()| output.flush()).map_err(|_| Failure::Fatal)
}
