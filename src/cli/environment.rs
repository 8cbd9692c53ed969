//! The variables by which the command of `run` and `explore` finds its servers.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use crate::server::{Entrances, Server};

/// What a variable of the user's own is made of, in braces.
const PARTS: [&str; 8] = ["url", "urls", "host", "port", "address", "ca", "cert", "key"];
/// The ends of names that get a part of the URL without asking for it. All others get the URL.
const ENDS: [(&str, &str); 5] =
    [("URLS", "{urls}"), ("HOST", "{host}"), ("PORT", "{port}"), ("ADDR", "{address}"), ("ADDRESS", "{address}")];

/// A variable of the user's own, as `--env` asks for it: `CACHE_URL`, or `CACHE={host}:{port}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Variable {
    name: String,
    /// The value, with its parts in braces.
    format: String,
}

impl Variable {
    /// `None` if there is no name, or an unknown part.
    pub fn parse(text: &str) -> Option<Self> {
        let (name, format) = match text.split_once('=') {
            Some((name, format)) => (name, format),
            None => (text, usual_format(text)),
        };
        let is_known = |part: &str| PARTS.contains(&part);
        let is_valid = !name.is_empty() && parts(format).all(is_known);
        is_valid.then(|| Self { name: name.to_owned(), format: format.to_owned() })
    }
}

/// What a name gets that asks for nothing.
fn usual_format(name: &str) -> &'static str {
    let last = name.rsplit(['_', '.', '-']).next().unwrap_or(name);
    let found = ENDS.iter().find(|(end, _)| last.eq_ignore_ascii_case(end));
    found.map_or("{url}", |(_, format)| format)
}

/// The lower-case words in braces. Other braces, such as those of JSON, are text.
fn parts(format: &str) -> impl Iterator<Item = &str> {
    let inside = format.split('{').skip(1).filter_map(|rest| rest.split_once('}').map(|(word, _)| word));
    inside.filter(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_lowercase()))
}

/// The variables that tell the command where the servers are: the usual ones, then the user's own.
pub(super) fn environment(servers: &[Server], own: &[Variable]) -> Vec<(String, String)> {
    // Without a user name in front of the password, redis-cli sends an empty one.
    let (replicas, servers): (Vec<&Server>, Vec<&Server>) =
        servers.iter().partition(|server| server.is_first_replica());
    let urls: Vec<String> = servers.iter().map(|server| server.url().replacen("://:", "://default:", 1)).collect();
    let address = servers.first().and_then(|server| server.address());
    let address = address.map(|address| SocketAddr::new(reachable_ip(address), address.port()));
    let first = servers.first().copied();
    let tls_files = first.map(TlsFiles::of).unwrap_or_default();
    let part = |name: &str| match (name, address) {
        ("ca", _) => tls_files.authority.clone(),
        ("cert", _) => tls_files.certificate.clone(),
        ("key", _) => tls_files.key.clone(),
        ("urls", _) => urls.join(","),
        ("host", Some(address)) => address.ip().to_string(),
        ("port", Some(address)) => address.port().to_string(),
        ("address", Some(address)) => address.to_string(),
        _ => urls.first().cloned().unwrap_or_default(),
    };
    let mut variables = vec![("REDIS_URLS".to_owned(), part("urls")), ("REDIS_URL".to_owned(), part("url"))];
    if address.is_some() {
        variables.extend([("REDIS_HOST".to_owned(), part("host")), ("REDIS_PORT".to_owned(), part("port"))]);
    }
    let list = |addresses: Vec<SocketAddr>| {
        let reachable =
            addresses.iter().map(|address| SocketAddr::new(reachable_ip(*address), address.port()).to_string());
        reachable.collect::<Vec<_>>().join(",")
    };
    if !replicas.is_empty() {
        let addresses = replicas.iter().filter_map(|replica| replica.address()).collect();
        variables.push(("REDIS_REPLICAS".to_owned(), list(addresses)));
    }
    match first.and_then(Server::entrances) {
        Some(Entrances::Cluster(nodes)) => variables.push(("REDIS_CLUSTER_NODES".to_owned(), list(nodes))),
        Some(Entrances::Sentinels(sentinels, service)) => variables
            .extend([("REDIS_SENTINELS".to_owned(), list(sentinels)), ("REDIS_SENTINEL_SERVICE".to_owned(), service)]),
        None => {}
    }
    if let Some(url) = first.and_then(tls_url) {
        variables.push(("REDIS_TLS_URL".to_owned(), url));
        let files = [("REDIS_CA_CERT_FILE", "ca"), ("REDIS_CERT_FILE", "cert"), ("REDIS_KEY_FILE", "key")];
        let named = files.map(|(name, file)| (name.to_owned(), part(file)));
        variables.extend(named.into_iter().filter(|(_, path)| !path.is_empty()));
    }
    for Variable { name, format } in own {
        let value = PARTS.iter().fold(format.clone(), |value, name| value.replace(&format!("{{{name}}}"), &part(name)));
        variables.push((name.clone(), value));
    }
    variables
}

/// The files that a client over TLS needs; empty if there is none.
#[derive(Default)]
struct TlsFiles {
    /// The authority to trust.
    authority: String,
    /// A certificate that the server accepts, and its key.
    certificate: String,
    key: String,
}

impl TlsFiles {
    fn of(server: &Server) -> Self {
        let Some(instance) = server.instances().into_iter().next().filter(|_| server.tls_address().is_some()) else {
            return Self::default();
        };
        // The command runs in another directory.
        let text = |path: PathBuf| std::path::absolute(&path).unwrap_or(path).to_string_lossy().into_owned();
        let directory = instance.config.path("tls-self-signed");
        let in_directory =
            |name: &str| directory.as_ref().map(|directory| text(directory.join(name))).unwrap_or_default();
        Self {
            authority: instance.config.path("tls-ca-cert-file").map(text).unwrap_or_default(),
            certificate: in_directory("client.crt"),
            key: in_directory("client.key"),
        }
    }
}

/// The URL for TLS, which is the server's only one if there is no plain port.
fn tls_url(server: &Server) -> Option<String> {
    let (address, main) = (server.tls_address()?, server.address()?);
    let url = server.url();
    let rest = url.strip_prefix("redis://").or_else(|| url.strip_prefix("rediss://"))?;
    let secrets = rest.strip_suffix(&main.to_string())?;
    Some(format!("rediss://{}{address}", secrets.replacen(':', "default:", usize::from(secrets.starts_with(':')))))
}

/// An address under which a server is reached that may listen on every interface.
fn reachable_ip(address: SocketAddr) -> IpAddr {
    match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(text: &str) -> Option<String> {
        Variable::parse(text).map(|variable| variable.format)
    }

    #[test]
    fn a_name_gets_the_url_or_what_it_says_that_it_is() {
        for (name, expected) in [
            ("CACHE", "{url}"),
            ("CACHE_URL", "{url}"),
            ("CACHE_URLS", "{urls}"),
            ("SPRING_DATA_REDIS_HOST", "{host}"),
            ("SPRING_DATA_REDIS_PORT", "{port}"),
            ("spring.data.redis.port", "{port}"),
            ("REDIS_ADDR", "{address}"),
            ("SUPPORT", "{url}"),
        ] {
            assert_eq!(format(name).as_deref(), Some(expected), "{name}");
        }
    }

    #[test]
    fn only_known_parts_are_taken_and_other_braces_are_text() {
        assert_eq!(format("A={url}/3").as_deref(), Some("{url}/3"));
        assert_eq!(format("A=").as_deref(), Some(""));
        assert_eq!(format(r#"A={"host":"{host}"}"#).as_deref(), Some(r#"{"host":"{host}"}"#));
        for wrong in ["", "=x", "A={hosts}", "A={url}{nonsense}"] {
            assert_eq!(format(wrong), None, "{wrong}");
        }
    }
}
