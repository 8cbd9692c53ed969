//! The options of `redis-cli`, as far as this program has them.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;
use std::time::Duration;

use percent_encoding::percent_decode;

use super::format::Layout;
use crate::base::tls::{Checks, ClientSettings};

/// Where the server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Address {
    Port { host: String, port: u16 },
    Socket(PathBuf),
}

/// How TLS is spoken.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TlsOptions {
    pub settings: ClientSettings,
    /// The name that the server hears.
    pub sni: Option<String>,
}

/// Which argument of the command comes from standard input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum FromInput {
    #[default]
    Nothing,
    /// `-x`: one more behind the others.
    Last,
    /// `-X TAG`: the one that is this word.
    Tag(Vec<u8>),
}

/// What is done with the connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// The command on the command line.
    Command(Vec<Vec<u8>>),
    /// The lines of standard input.
    Lines,
    /// `--eval FILE KEY ... , ARGUMENT ...`
    Script { file: PathBuf, words: Vec<Vec<u8>> },
    /// `--scan`: every key that matches the pattern.
    Scan { pattern: Option<Vec<u8>> },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub address: Address,
    pub tls: Option<TlsOptions>,
    pub user: Option<Vec<u8>>,
    pub password: Option<Vec<u8>>,
    pub database: i64,
    /// `-3`: switch to RESP3.
    pub resp3: bool,
    pub layout: Layout,
    /// Between the elements of a list, in raw layout.
    pub element_delimiter: Vec<u8>,
    /// Behind a reply, in raw layout.
    pub reply_delimiter: Vec<u8>,
    pub shows_pushes: bool,
    /// `-e`: an error reply is a failure.
    pub fails_on_error: bool,
    /// How often the command is sent; for ever if below zero.
    pub repeat: i64,
    pub interval: Duration,
    pub from_input: FromInput,
    pub task: Task,
    /// Whether a password stands on the command line, where others can read it.
    pub warns_of_password: bool,
}

/// What a command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Request {
    Session(Box<Options>),
    Help,
    Version,
}

/// Options of Redis's `redis-cli` that this program does not have.
const ABSENT: [&str; 20] = [
    "--askpass",
    "--bigkeys",
    "--cluster",
    "--csv",
    "--functions-rdb",
    "--hotkeys",
    "--intrinsic-latency",
    "--json",
    "--latency",
    "--latency-dist",
    "--latency-history",
    "--ldb",
    "--lru-test",
    "--memkeys",
    "--pipe",
    "--quoted-json",
    "--rdb",
    "--stat",
    "--tls-ciphers",
    "--tls-ciphersuites",
];

/// The option that was read last, and the arguments behind it.
struct Arguments<'a> {
    option: &'a OsString,
    rest: &'a [OsString],
}

impl Arguments<'_> {
    fn value(&mut self) -> Result<Vec<u8>, String> {
        let Some((value, rest)) = self.rest.split_first() else { return Err(unrecognized(self.option)) };
        self.rest = rest;
        Ok(value.as_bytes().to_vec())
    }

    fn text(&mut self) -> Result<String, String> {
        Ok(String::from_utf8_lossy(&self.value()?).into_owned())
    }

    fn number(&mut self) -> Result<i64, String> {
        Ok(leading_number(&self.value()?))
    }

    fn path(&mut self) -> Result<PathBuf, String> {
        Ok(OsString::from_vec(self.value()?).into())
    }
}

/// Reads the arguments behind the program's name. `is_terminal` is whether standard output is one; `password` is that of
/// the environment.
pub(super) fn parse(arguments: &[OsString], is_terminal: bool, password: Option<OsString>) -> Result<Request, String> {
    let mut options = Options {
        address: Address::Port { host: "127.0.0.1".to_owned(), port: 6379 },
        tls: None,
        user: None,
        password: None,
        database: 0,
        resp3: false,
        layout: if is_terminal { Layout::Terminal } else { Layout::Raw },
        element_delimiter: b"\n".to_vec(),
        reply_delimiter: b"\n".to_vec(),
        shows_pushes: is_terminal,
        fails_on_error: false,
        repeat: 1,
        interval: Duration::ZERO,
        from_input: FromInput::Nothing,
        task: Task::Lines,
        warns_of_password: false,
    };
    let (mut host, mut port, mut socket) = ("127.0.0.1".to_owned(), 6379, None);
    let (mut warns, mut resp2, mut follows, mut script, mut scans, mut pattern) =
        (true, false, false, None, false, None);
    let (mut uses_tls, mut tls) = (false, TlsOptions::default());
    tls.settings.checks = Checks::Authority;
    let mut rest = arguments;
    while let Some((option, behind)) = rest.split_first() {
        if !option.as_bytes().starts_with(b"-") {
            break;
        }
        let mut arguments = Arguments { option, rest: behind };
        match option.as_bytes() {
            b"-h" if behind.is_empty() => return Ok(Request::Help),
            b"--help" => return Ok(Request::Help),
            b"-v" | b"--version" => return Ok(Request::Version),
            b"-h" => host = arguments.text()?,
            b"-p" => port = arguments.number()?,
            b"-s" => socket = Some(arguments.path()?),
            b"-n" => options.database = arguments.number()?,
            b"-a" | b"--pass" => options.password = Some(arguments.value()?),
            b"--user" => options.user = Some(arguments.value()?),
            b"-u" => {
                let url = Url::parse(&arguments.text()?)?;
                options.user = url.user.or(options.user);
                options.password = url.password.or(options.password);
                host = url.host.unwrap_or(host);
                port = url.port.unwrap_or(port);
                options.database = url.database.unwrap_or(options.database);
                uses_tls |= url.is_tls;
            }
            b"--tls" => uses_tls = true,
            b"--sni" => tls.sni = Some(arguments.text()?),
            b"--cacert" => tls.settings.ca_file = Some(arguments.path()?),
            b"--cacertdir" => tls.settings.ca_directory = Some(arguments.path()?),
            b"--cert" => tls.settings.certificate = Some(arguments.path()?),
            b"--key" => tls.settings.key = Some(arguments.path()?),
            b"--insecure" => tls.settings.checks = Checks::Nothing,
            b"--no-auth-warning" => warns = false,
            b"-r" => options.repeat = arguments.number()?,
            b"-i" => options.interval = seconds(&arguments.text()?),
            b"-x" => options.from_input = FromInput::Last,
            b"-X" => options.from_input = FromInput::Tag(arguments.value()?),
            b"-d" => options.element_delimiter = arguments.value()?,
            b"-D" => options.reply_delimiter = arguments.value()?,
            b"-e" => options.fails_on_error = true,
            b"-2" => resp2 = true,
            b"-3" => options.resp3 = true,
            // No server of this program redirects, so there is nothing to follow.
            b"-c" => follows = true,
            b"--raw" => options.layout = Layout::Raw,
            b"--no-raw" => options.layout = Layout::Terminal,
            b"--show-pushes" => options.shows_pushes = arguments.value()?.to_ascii_lowercase().starts_with(b"y"),
            b"--eval" => script = Some(arguments.path()?),
            b"--scan" => scans = true,
            b"--pattern" => pattern = Some(arguments.value()?),
            name if ABSENT.iter().any(|absent| absent.as_bytes() == name) => {
                let name = option.to_string_lossy();
                return Err(format!("redouble has no redis-cli {name}; Redis's own redis-cli has it"));
            }
            _ => return Err(unrecognized(option)),
        }
        rest = arguments.rest;
    }
    if follows && socket.is_some() {
        return Err("Options -c and -s are mutually exclusive.".to_owned());
    }
    if options.resp3 && resp2 {
        return Err("Options -2 and -3 are mutually exclusive.".to_owned());
    }
    options.address = match socket {
        Some(path) => Address::Socket(path),
        None => Address::Port { host, port: u16::try_from(port).map_err(|_| format!("Invalid port: {port}"))? },
    };
    options.tls = uses_tls.then_some(tls);
    options.warns_of_password = warns && options.password.is_some();
    options.password = options.password.or(password.map(OsString::into_vec));
    let words: Vec<Vec<u8>> = rest.iter().map(|word| word.as_bytes().to_vec()).collect();
    options.task = match script {
        Some(file) => Task::Script { file, words },
        None if scans => Task::Scan { pattern },
        None if words.is_empty() => Task::Lines,
        None => Task::Command(words),
    };
    Ok(Request::Session(Box::new(options)))
}

fn unrecognized(option: &OsString) -> String {
    format!("Unrecognized option or bad number of args for: '{}'", option.to_string_lossy())
}

/// The number that a word begins with, as C's `atoi` reads it; zero if there is none.
pub(super) fn leading_number(word: &[u8]) -> i64 {
    let word = word.trim_ascii_start();
    let (is_negative, digits) = match word {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let digits = digits.iter().map_while(|byte| byte.is_ascii_digit().then(|| i64::from(byte - b'0')));
    let number = digits.fold(0_i64, |number, digit| number.saturating_mul(10).saturating_add(digit));
    if is_negative { -number } else { number }
}

fn seconds(word: &str) -> Duration {
    word.trim().parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).unwrap_or_default()
}

/// `redis://USER:PASSWORD@HOST:PORT/DATABASE`, or `rediss://` for TLS.
#[derive(Default)]
struct Url {
    is_tls: bool,
    user: Option<Vec<u8>>,
    password: Option<Vec<u8>>,
    host: Option<String>,
    port: Option<i64>,
    database: Option<i64>,
}

impl Url {
    fn parse(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").unwrap_or_default();
        let is_tls = match scheme.to_ascii_lowercase().as_str() {
            "redis" | "valkey" => false,
            "rediss" | "valkeys" => true,
            _ => return Err("Invalid URI scheme".to_owned()),
        };
        let decode = |text: &str| Some(percent_decode(text.as_bytes()).collect::<Vec<u8>>());
        let mut url = Self { is_tls, ..Self::default() };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let place = match authority.rsplit_once('@') {
            Some((secrets, place)) => {
                match secrets.split_once(':') {
                    Some((user, password)) => (url.user, url.password) = (decode(user), decode(password)),
                    None => url.password = decode(secrets),
                }
                // `redis://:PASSWORD@HOST` is about the default user.
                url.user = url.user.filter(|user| !user.is_empty());
                place
            }
            None => authority,
        };
        let (host, port) = match place.rsplit_once(':').filter(|(host, _)| !host.contains(':') || host.ends_with(']')) {
            Some((host, port)) => (host, Some(port)),
            None => (place, None),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        url.host = (!host.is_empty()).then(|| host.to_owned());
        url.port = port.map(|port| leading_number(port.as_bytes()));
        url.database = (!path.is_empty()).then(|| leading_number(path.as_bytes()));
        Ok(url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(arguments: &[&str]) -> Options {
        let arguments: Vec<OsString> = arguments.iter().map(OsString::from).collect();
        match parse(&arguments, false, Some("env".into())).unwrap() {
            Request::Session(options) => *options,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_url_says_user_password_host_port_and_database() {
        let options = session(&["-u", "redis://me:p%40ss@[::1]:7000/3", "ping"]);
        assert_eq!(options.address, Address::Port { host: "::1".to_owned(), port: 7000 });
        assert_eq!((options.user, options.password), (Some(b"me".to_vec()), Some(b"p@ss".to_vec())));
        assert_eq!(options.database, 3);
        let options = session(&["-u", "redis://:secret@cache"]);
        assert_eq!(options.address, Address::Port { host: "cache".to_owned(), port: 6379 });
        assert_eq!((options.user, options.password), (None, Some(b"secret".to_vec())));
    }

    #[test]
    fn the_password_of_the_environment_is_the_last_choice_and_no_reason_to_warn() {
        let options = session(&["ping"]);
        assert_eq!((options.password, options.warns_of_password), (Some(b"env".to_vec()), false));
        let options = session(&["-a", "pw", "ping"]);
        assert_eq!((options.password, options.warns_of_password), (Some(b"pw".to_vec()), true));
    }

    #[test]
    fn what_stands_behind_the_command_is_no_option() {
        assert_eq!(
            session(&["-n", "1", "set", "-p", "x"]).task,
            Task::Command(vec![b"set".into(), b"-p".into(), b"x".into()])
        );
    }
}
