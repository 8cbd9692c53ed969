//! Addresses of hosts by name, without the C library's resolver.
//!
//! A static binary cannot use that resolver: glibc's loads libraries at run time, of the very version that the binary
//! was built with. A test double listens on addresses of its own machine, which `/etc/hosts` names.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;

const HOSTS: &str = "/etc/hosts";

/// A name whose address is not known.
#[derive(Debug, PartialEq, Eq)]
pub struct UnknownHost(String);

impl fmt::Display for UnknownHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(name) = self;
        write!(f, "{name} is neither an IP address nor localhost nor a name in {HOSTS}; other names are not looked up")
    }
}

impl std::error::Error for UnknownHost {}

/// The address that a text is or names. As in Redis, IPv4 comes first: `localhost` is 127.0.0.1.
pub fn resolve(host: &str) -> Result<IpAddr, UnknownHost> {
    resolve_with(host, Path::new(HOSTS))
}

fn resolve_with(host: &str, hosts: &Path) -> Result<IpAddr, UnknownHost> {
    if let Ok(address) = host.parse() {
        return Ok(address);
    }
    if host.eq_ignore_ascii_case("localhost") {
        return Ok(Ipv4Addr::LOCALHOST.into());
    }
    let table = std::fs::read(hosts).unwrap_or_default();
    let addresses: Vec<IpAddr> = String::from_utf8_lossy(&table).lines().filter_map(|line| named(line, host)).collect();
    let address = addresses.iter().find(|address| address.is_ipv4()).or(addresses.first());
    address.copied().ok_or_else(|| UnknownHost(host.to_owned()))
}

/// The address of a line of the table, if it has this name: an address, then names, then perhaps a comment.
fn named(line: &str, host: &str) -> Option<IpAddr> {
    let mut words = line.split('#').next()?.split_whitespace();
    let address = words.next()?.parse().ok()?;
    words.any(|name| name.eq_ignore_ascii_case(host)).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::{named, resolve, resolve_with};
    use std::path::Path;

    #[test]
    fn addresses_and_localhost_need_no_table() {
        let nowhere = Path::new("/nowhere");
        for (host, address) in
            [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("localhost", "127.0.0.1"), ("LOCALHOST", "127.0.0.1")]
        {
            assert_eq!(resolve_with(host, nowhere).unwrap().to_string(), address);
        }
    }

    #[test]
    fn a_line_of_the_table_has_an_address_and_names_of_any_case() {
        assert_eq!(named("10.0.0.7\tdb.example db # the database", "DB").unwrap().to_string(), "10.0.0.7");
        for line in ["", "# 10.0.0.7 db", "10.0.0.7 other # db", "fe80::1%lo0 db", "db"] {
            assert_eq!(named(line, "db"), None, "{line}");
        }
    }

    #[test]
    fn ipv4_is_preferred() {
        let hosts = std::env::temp_dir().join(format!("redouble-hosts-{}", std::process::id()));
        std::fs::write(&hosts, "::7 both six\n10.0.0.7 both\n").unwrap();
        let answers = ["both", "six"].map(|name| resolve_with(name, &hosts).unwrap().to_string());
        std::fs::remove_file(&hosts).unwrap();
        assert_eq!(answers, ["10.0.0.7", "::7"]);
    }

    #[test]
    fn an_unknown_name_is_told_with_what_is_known() {
        let error = resolve("db.invalid").unwrap_err().to_string();
        assert_eq!(
            error,
            "db.invalid is neither an IP address nor localhost nor a name in /etc/hosts; other names are not looked up"
        );
    }
}
