//! The way to a real server: its address, how to log in there, and a connection to it.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use percent_encoding::percent_decode_str;
use rustls::pki_types::ServerName;
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio_rustls::TlsConnector;

use crate::base::clock::{Clock, Stopwatch};
use crate::base::duration::spell_duration;
use crate::base::error::plain;
use crate::base::host;
use crate::base::tls::{Checks, ClientCredentials, ClientSettings, Peer, described, server_name};
use crate::clients::config::Config;
use crate::server::listener::keep_alive;
use crate::server::stream::Stream;
use crate::server::tls_stream::TlsStream;

const DEFAULT_PORT: u16 = 6379;

/// What holds for every server behind the front, whatever its URL says.
#[derive(Clone, Debug)]
pub(in crate::server) struct TargetSettings {
    /// The longest time for one connection: look-up of the name, TCP and TLS together.
    pub timeout: Duration,
    /// Seconds of silence until the server is probed; 0 for never.
    pub keepalive: u32,
    pub tls: ClientSettings,
    /// The name that the server's certificate must have, and that the server is asked for; by default the host of the
    /// URL.
    pub sni: Option<String>,
}

impl TargetSettings {
    pub fn from_config(config: &Config) -> Self {
        let insecure = config.is_on("upstream-insecure");
        Self {
            timeout: config.duration("upstream-timeout"),
            keepalive: config.number("tcp-keepalive"),
            tls: ClientSettings {
                ca_file: config.path("upstream-ca-cert-file"),
                ca_directory: None,
                certificate: config.path("upstream-cert-file"),
                key: config.path("upstream-key-file"),
                checks: if insecure { Checks::Nothing } else { Checks::AuthorityAndName },
            },
            sni: Some(config.text("upstream-sni")).filter(|name| !name.is_empty()),
        }
    }

    /// The same for a server without TLS.
    pub fn without_tls(&self) -> Self {
        Self { tls: ClientSettings::default(), sni: None, ..self.clone() }
    }

    fn sets_tls(&self) -> bool {
        self.tls != ClientSettings::default() || self.sni.is_some()
    }
}

/// A real server: where it is, and who connects to it.
#[derive(Clone)]
pub(in crate::server) struct Target {
    address: Address,
    user: Option<Vec<u8>>,
    password: Option<Vec<u8>>,
    database: Option<u32>,
    tls: Option<Tls>,
    timeout: Duration,
    keepalive: u32,
}

#[derive(Clone)]
enum Address {
    Port { host: String, port: u16 },
    Socket(PathBuf),
}

#[derive(Clone)]
struct Tls {
    name: ServerName<'static>,
    /// Whether that name was asked for, whatever the host is.
    is_named: bool,
    credentials: ClientCredentials,
    is_insecure: bool,
}

impl Target {
    /// Reads a URL, and the files that the settings name if it asks for TLS. The error never shows the password.
    pub fn new(url: &str, settings: &TargetSettings) -> Result<Self, String> {
        Self::with_default_port(url, settings, DEFAULT_PORT)
    }

    /// The same with another port for a URL that has none.
    pub fn with_default_port(url: &str, settings: &TargetSettings, port: u16) -> Result<Self, String> {
        let parsed = Url::parse(url, port).map_err(|reason| format!("{}: {reason}", without_secrets(url)))?;
        let tls = match &parsed.address {
            Address::Port { host, .. } if parsed.is_tls => {
                let name = server_name(settings.sni.as_ref().unwrap_or(host))?;
                let is_insecure = settings.tls.checks == Checks::Nothing;
                let is_named = settings.sni.is_some();
                Some(Tls { name, is_named, credentials: settings.tls.load()?, is_insecure })
            }
            _ if settings.sets_tls() => {
                let url = without_secrets(url);
                return Err(format!("{url}: settings of TLS are given, and TLS is for rediss:// only"));
            }
            _ => None,
        };
        let Url { address, user, password, database, .. } = parsed;
        Ok(Self { address, user, password, database, tls, timeout: settings.timeout, keepalive: settings.keepalive })
    }

    /// Another server, with which everything but its place is the same.
    pub fn at(&self, host: &str, port: u16) -> Self {
        let mut other = Self { address: Address::Port { host: host.to_owned(), port }, ..self.clone() };
        if let Some(tls) = &mut other.tls
            && !tls.is_named
            && let Ok(name) = server_name(host)
        {
            tls.name = name;
        }
        other
    }

    /// The same server with another user and password. An empty password means none.
    pub fn with_login(self, user: &[u8], password: &[u8]) -> Result<Self, String> {
        if password.is_empty() && !user.is_empty() {
            return Err("there is a user without a password".to_owned());
        }
        let said = |text: &[u8]| Some(text.to_vec()).filter(|text| !text.is_empty());
        Ok(Self { user: said(user), password: said(password), ..self })
    }

    /// The host, or the path of the socket.
    pub fn host(&self) -> &str {
        match &self.address {
            Address::Port { host, .. } => host,
            Address::Socket(path) => path.to_str().unwrap_or_default(),
        }
    }

    /// The port; 0 for a socket.
    pub fn port(&self) -> u16 {
        match &self.address {
            Address::Port { port, .. } => *port,
            Address::Socket(_) => 0,
        }
    }

    /// Host and port, or the path of the socket.
    pub fn address(&self) -> String {
        self.address.to_string()
    }

    /// The words of AUTH, if the URL has a password.
    pub fn authentication(&self) -> Option<Vec<&[u8]>> {
        let password = self.password()?;
        Some([Some(&b"AUTH"[..]), self.user(), Some(password)].into_iter().flatten().collect())
    }

    /// The user of AUTH; without one, it takes the password alone.
    pub fn user(&self) -> Option<&[u8]> {
        self.user.as_deref()
    }

    /// The password of AUTH.
    pub fn password(&self) -> Option<&[u8]> {
        self.password.as_deref()
    }

    /// The database to SELECT, if the URL names one.
    pub fn database(&self) -> Option<u32> {
        self.database
    }

    /// Whether it is reached by TLS.
    pub fn is_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Whether it is a unix socket.
    pub fn is_socket(&self) -> bool {
        matches!(self.address, Address::Socket(_))
    }

    /// Whether anybody could stand between this program and the server: TLS without a look at the certificate.
    pub fn is_insecure(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_insecure)
    }

    /// Connects, within the time-out. The error names the server and what is wrong.
    pub async fn connect(&self) -> io::Result<Stream> {
        match Clock::within(self.timeout, self.connect_patiently()).await {
            Some(Ok(stream)) => Ok(stream),
            Some(Err(error)) => Err(io::Error::new(error.kind(), format!("{}: {}", self.address, plain(&error)))),
            None => {
                let timeout = spell_duration(self.timeout);
                let hint = match &self.tls {
                    Some(_) => " (perhaps it does not speak TLS there)",
                    None => "",
                };
                let text = format!("{}: no connection within {timeout}{hint}", self.address);
                Err(io::Error::new(io::ErrorKind::TimedOut, text))
            }
        }
    }

    async fn connect_patiently(&self) -> io::Result<Stream> {
        let (host, port) = match &self.address {
            Address::Socket(path) => return UnixStream::connect(path).await.map(Stream::Unix),
            Address::Port { host, port } => (host.as_str(), *port),
        };
        let socket = self.connect_to_one(&resolve(host, port).await?).await?;
        socket.set_nodelay(true)?;
        keep_alive(&socket, self.keepalive);
        match &self.tls {
            None => Ok(Stream::Tcp(socket)),
            Some(tls) => tls.handshake(socket).await,
        }
    }

    /// Tries one address after the other, each for its share of the time that is left.
    async fn connect_to_one(&self, addresses: &[SocketAddr]) -> io::Result<TcpStream> {
        let since = Stopwatch::start();
        let mut failures = Vec::new();
        for (address, left) in addresses.iter().zip((1..=addresses.len()).rev()) {
            let share = self.timeout.saturating_sub(since.elapsed()) / u32::try_from(left).unwrap_or(u32::MAX);
            match within(share, TcpStream::connect(address)).await {
                Ok(socket) => return Ok(socket),
                Err(error) => failures.push((address.ip(), error)),
            }
        }
        let several = failures.len() > 1;
        let texts: Vec<String> = failures
            .iter()
            .map(|(ip, error)| if several { format!("{ip}: {}", plain(error)) } else { plain(error) })
            .collect();
        let kind = failures.first().map_or(io::ErrorKind::NotFound, |(_, error)| error.kind());
        Err(io::Error::new(kind, texts.join(", ")))
    }
}

async fn within<T>(limit: Duration, future: impl Future<Output = io::Result<T>>) -> io::Result<T> {
    let timed_out = || io::Error::new(io::ErrorKind::TimedOut, "no answer in time");
    Clock::within(limit, future).await.unwrap_or_else(|| Err(timed_out()))
}

impl Tls {
    async fn handshake(&self, socket: TcpStream) -> io::Result<Stream> {
        let connector = TlsConnector::from(Arc::clone(&self.credentials.config));
        match connector.connect(self.name.clone(), socket).await {
            Ok(stream) => Ok(Stream::Tls(TlsStream::connected(stream))),
            Err(error) => {
                let kind = error.kind();
                let error = described(error, Peer::Server);
                let text = match kind {
                    io::ErrorKind::UnexpectedEof => "the server closed the connection in the TLS handshake".to_owned(),
                    _ => plain(&error),
                };
                // Until TLS 1.3, no alert says that a certificate is missing.
                let hint = match self.credentials.lacks_certificate() {
                    true => "; it asks for a client certificate, and none is set",
                    false => "",
                };
                Err(io::Error::new(kind, format!("TLS: {text}{hint}")))
            }
        }
    }
}

/// The addresses of a host, IPv4 first, as Redis's own client library has them.
///
/// What this machine knows itself needs no C library. Other names are asked of its resolver: a server elsewhere has names
/// of DNS. In a static binary that works where names come from files and DNS, as in the image.
async fn resolve(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    if let Ok(address) = host::resolve(host) {
        return Ok(vec![(address, port).into()]);
    }
    let mut found: Vec<SocketAddr> = lookup_host((host, port)).await.map_err(unknown_host)?.collect();
    found.sort_by_key(SocketAddr::is_ipv6);
    Ok(found)
}

fn unknown_host(error: io::Error) -> io::Error {
    let text = plain(&error);
    let reason = text.strip_prefix("failed to lookup address information: ").unwrap_or(&text);
    io::Error::new(error.kind(), format!("the host's address is unknown: {reason}"))
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port { host, port } if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Port { host, port } => write!(f, "{host}:{port}"),
            Self::Socket(path) => write!(f, "{}", path.display()),
        }
    }
}

/// The URL without its secrets.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.address, &self.tls) {
            (Address::Socket(_), _) => write!(f, "unix:{}", self.address)?,
            (Address::Port { .. }, None) => write!(f, "redis://{}", self.address)?,
            (Address::Port { .. }, Some(_)) => write!(f, "rediss://{}", self.address)?,
        }
        match (&self.address, self.database) {
            (_, None) => Ok(()),
            (Address::Socket(_), Some(database)) => write!(f, "?db={database}"),
            (Address::Port { .. }, Some(database)) => write!(f, "/{database}"),
        }
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

/// `redis://[[USER]:PASSWORD@]HOST[:PORT][/DATABASE]`, `rediss://…` or `unix:PATH`, each with `?db=`, `?username=` and
/// `?password=` behind it, as client libraries write them.
struct Url {
    address: Address,
    is_tls: bool,
    user: Option<Vec<u8>>,
    password: Option<Vec<u8>>,
    database: Option<u32>,
}

const SCHEMES: &str = "a URL begins with redis://, rediss:// or unix:";

impl Url {
    fn parse(text: &str, default_port: u16) -> Result<Self, String> {
        let (scheme, rest) = text.split_once(':').ok_or(SCHEMES)?;
        let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut url = match scheme.to_ascii_lowercase().as_str() {
            "redis" | "valkey" => Self::of_server(rest, false, default_port)?,
            "rediss" | "valkeys" => Self::of_server(rest, true, default_port)?,
            "unix" | "redis+unix" => Self::of_socket(rest)?,
            _ => return Err(SCHEMES.to_owned()),
        };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match name {
                "db" => url.set_database(value)?,
                "user" | "username" => url.user = Some(decoded(value)),
                "pass" | "password" => url.password = Some(decoded(value)),
                name => return Err(format!("'{name}' is unknown; db, username and password can stand behind the ?")),
            }
        }
        url.user = url.user.filter(|user| !user.is_empty());
        url.password = url.password.filter(|password| !password.is_empty());
        if url.user.is_some() && url.password.is_none() {
            return Err("there is a user without a password; a password alone stands behind a colon, as in \
                        redis://:PASSWORD@HOST"
                .to_owned());
        }
        Ok(url)
    }

    fn at(address: Address) -> Self {
        Self { address, is_tls: false, user: None, password: None, database: None }
    }

    fn of_server(rest: &str, is_tls: bool, default_port: u16) -> Result<Self, String> {
        let rest = rest.strip_prefix("//").ok_or("// is missing behind the scheme")?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let (secrets, place) = match authority.rsplit_once('@') {
            Some((secrets, place)) => (Some(secrets), place),
            None => (None, authority),
        };
        let (host, port) = match place.strip_prefix('[') {
            Some(bracketed) => {
                let (host, port) = bracketed.split_once(']').ok_or("the bracket in front of the host is not closed")?;
                if host.parse::<std::net::Ipv6Addr>().is_err() {
                    return Err(format!("'{host}' is no IPv6 address"));
                }
                (host.to_owned(), port)
            }
            None if place.matches(':').count() > 1 => {
                return Err("an IPv6 address stands in brackets, as in redis://[::1]:6379".to_owned());
            }
            None => {
                let end = place.find(':').unwrap_or(place.len());
                let host = percent_decode_str(&place[..end]).decode_utf8_lossy().into_owned();
                (host, &place[end..])
            }
        };
        if host.is_empty() {
            return Err("there is no host".to_owned());
        }
        if host.contains(|c: char| c.is_whitespace() || c.is_control()) {
            return Err(format!("'{}' is no host", host.escape_debug()));
        }
        let port = match port.strip_prefix(':') {
            None if port.is_empty() => default_port,
            None => return Err("there is more than a port behind the host".to_owned()),
            // It is not quoted: it is the password of a URL that lacks its @.
            Some(digits) => unsigned(digits).filter(|&port| port > 0).ok_or("a port is a number from 1 to 65535")?,
        };
        let mut url = Self { is_tls, ..Self::at(Address::Port { host, port }) };
        url.set_secrets(secrets);
        if !path.is_empty() {
            url.set_database(path)?;
        }
        Ok(url)
    }

    fn of_socket(rest: &str) -> Result<Self, String> {
        // Behind two slashes, a user and a password can stand in front of the path.
        let (secrets, path) = match rest.strip_prefix("//") {
            None => (None, rest),
            Some(rest) => {
                let (authority, _) = rest.split_once('/').unwrap_or((rest, ""));
                let secrets = authority.strip_suffix('@');
                if secrets.is_none() && !authority.is_empty() {
                    return Err("the path of a unix socket is absolute, as in unix:/run/redis.sock".to_owned());
                }
                (secrets, &rest[authority.len()..])
            }
        };
        if !Path::new(path).is_absolute() {
            return Err("the path of a unix socket is absolute, as in unix:/run/redis.sock".to_owned());
        }
        let path = {
            use std::os::unix::ffi::OsStringExt;
            PathBuf::from(std::ffi::OsString::from_vec(decoded(path)))
        };
        let mut url = Self::at(Address::Socket(path));
        url.set_secrets(secrets);
        Ok(url)
    }

    fn set_secrets(&mut self, secrets: Option<&str>) {
        let Some(secrets) = secrets else { return };
        let (user, password) = secrets.split_once(':').unwrap_or((secrets, ""));
        (self.user, self.password) = (Some(decoded(user)), Some(decoded(password)));
    }

    fn set_database(&mut self, text: &str) -> Result<(), String> {
        let number = unsigned(text.strip_suffix('/').unwrap_or(text));
        self.database = Some(number.ok_or_else(|| format!("'{text}' is no number of a database"))?);
        Ok(())
    }
}

fn unsigned<N: std::str::FromStr>(text: &str) -> Option<N> {
    // `parse` takes a sign, too.
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn decoded(text: &str) -> Vec<u8> {
    percent_decode_str(text).collect()
}

/// A URL for an error text: nothing of one that could hold a password, however wrong it is.
fn without_secrets(url: &str) -> String {
    match url.split_once(':') {
        Some((scheme, _)) if url.contains(['@', '?']) => format!("{scheme}://…"),
        _ => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings() -> TargetSettings {
        TargetSettings {
            timeout: Duration::from_secs(5),
            keepalive: 300,
            tls: ClientSettings { checks: Checks::Nothing, ..ClientSettings::default() },
            sni: None,
        }
    }

    fn plain_settings() -> TargetSettings {
        TargetSettings { tls: ClientSettings::default(), ..settings() }
    }

    fn refusal(url: &str) -> String {
        Target::new(url, &plain_settings()).unwrap_err()
    }

    #[test]
    fn a_password_is_shown_nowhere() {
        let urls = [
            "redis://me:hunter2@staging:7000/3",
            "rediss://:hunter2@staging",
            "redis://staging?password=hunter2",
            "unix:///run/redis.sock?user=me&pass=hunter2",
            "redis://me:hunter2@staging:port",
            "redis://me:hunt@er2@staging/x",
            "http://me:hunter2@staging",
            "redis://me:hunter2?@staging",
            "unix:hunter2@run",
        ];
        for url in urls {
            let settings = if url.starts_with("rediss") { settings() } else { plain_settings() };
            let shown = match Target::new(url, &settings) {
                Ok(target) => format!("{target} {target:?}"),
                Err(reason) => reason,
            };
            assert!(!shown.contains("hunt"), "{url}: {shown}");
        }
    }

    #[test]
    fn a_url_says_where_and_who() {
        let rows = [
            ("redis://staging", "redis://staging:6379", None, None, None),
            ("REDIS://staging:7000/3", "redis://staging:7000/3", None, None, Some(3)),
            ("valkey://staging/", "redis://staging:6379", None, None, None),
            ("redis://me:p%40s%3As@[::1]:7000/", "redis://[::1]:7000", Some("me"), Some("p@s:s"), None),
            ("redis://:a@b@staging", "redis://staging:6379", None, Some("a@b"), None),
            ("redis://default:s@staging?db=5", "redis://staging:6379/5", Some("default"), Some("s"), Some(5)),
            ("redis://staging/1?username=u&password=p%26q", "redis://staging:6379/1", Some("u"), Some("p&q"), Some(1)),
            ("unix:/run/redis.sock", "unix:/run/redis.sock", None, None, None),
            ("unix:///run/redis.sock?db=2", "unix:/run/redis.sock?db=2", None, None, Some(2)),
            ("unix://:s@/run/a%20b.sock", "unix:/run/a b.sock", None, Some("s"), None),
        ];
        for (url, shown, user, password, database) in rows {
            let target = Target::new(url, &plain_settings()).unwrap();
            assert_eq!(target.to_string(), shown, "{url}");
            let (user, password) = (user.map(str::as_bytes), password.map(str::as_bytes));
            assert_eq!((target.user(), target.password(), target.database()), (user, password, database), "{url}");
        }
        let target = Target::new("rediss://staging:7000/3", &settings()).unwrap();
        assert_eq!((target.to_string().as_str(), target.is_insecure()), ("rediss://staging:7000/3", true));
    }

    #[test]
    fn what_is_wrong_with_a_url_is_said() {
        let rows = [
            ("staging:6379", "a URL begins with redis://, rediss:// or unix:"),
            ("redis:staging", "// is missing behind the scheme"),
            ("redis://", "there is no host"),
            ("redis://:7000", "there is no host"),
            ("redis://staging:", "a port is a number from 1 to 65535"),
            ("redis://staging:0", "a port is a number from 1 to 65535"),
            ("redis://staging:+1", "a port is a number from 1 to 65535"),
            ("redis://staging:65536", "a port is a number from 1 to 65535"),
            ("redis://::1:6379", "an IPv6 address stands in brackets, as in redis://[::1]:6379"),
            ("redis://[::1", "the bracket in front of the host is not closed"),
            ("redis://[staging]", "'staging' is no IPv6 address"),
            ("redis://[::1]7000", "there is more than a port behind the host"),
            ("redis://staging/orders", "'orders' is no number of a database"),
            ("redis://staging/-1", "'-1' is no number of a database"),
            ("redis://staging?database=1", "'database' is unknown; db, username and password can stand behind the ?"),
            ("redis://me@staging", "there is a user without a password"),
            ("redis://sta ging", "'sta ging' is no host"),
            ("unix:run/redis.sock", "the path of a unix socket is absolute, as in unix:/run/redis.sock"),
            ("unix://run/redis.sock", "the path of a unix socket is absolute, as in unix:/run/redis.sock"),
        ];
        for (url, reason) in rows {
            let refusal = refusal(url);
            assert!(refusal.contains(reason), "{url}: {refusal}");
        }
    }

    #[test]
    fn settings_of_tls_are_no_decoration_of_a_plain_url() {
        let settings = TargetSettings { sni: Some("staging".to_owned()), ..plain_settings() };
        let refusal = Target::new("redis://staging", &settings).unwrap_err();
        assert_eq!(refusal, "redis://staging: settings of TLS are given, and TLS is for rediss:// only");
    }
}
