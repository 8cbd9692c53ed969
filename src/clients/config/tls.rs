//! TLS for clients: the directives `tls-…` as one context, and its changes while the server runs.

use std::sync::Arc;

use rustls::ServerConfig;

use super::{Config, Values, table, value_of_name};
use crate::base::tls::{ClientAuth, SelfSigned, ServerSettings};

/// The directives of which the context is made. Setting one reads the files again, also if its value is the same.
pub(super) const CONTEXT: &[&str] = &[
    "tls-auth-clients",
    "tls-ca-cert-dir",
    "tls-ca-cert-file",
    "tls-cert-file",
    "tls-ciphersuites",
    "tls-key-file",
    "tls-prefer-server-ciphers",
    "tls-protocols",
    "tls-session-cache-size",
    "tls-session-caching",
];

/// Reads the certificates that these settings name.
pub(super) fn context(values: &Values) -> Result<Arc<ServerConfig>, String> {
    let value = |name: &str| value_of_name(values, name);
    let text = |name: &str| String::from_utf8_lossy(&value(name)).into_owned();
    let path = |name: &str| Some(value(name)).filter(|value| !value.is_empty()).map(|value| table::path(&value));
    let settings = ServerSettings {
        certificate: path("tls-cert-file"),
        key: path("tls-key-file"),
        ca_file: path("tls-ca-cert-file"),
        ca_directory: path("tls-ca-cert-dir"),
        client_auth: match value("tls-auth-clients").as_slice() {
            b"no" => ClientAuth::Off,
            b"optional" => ClientAuth::Optional,
            _ => ClientAuth::Required,
        },
        protocols: text("tls-protocols"),
        cipher_suites: text("tls-ciphersuites"),
        prefers_own_ciphers: value("tls-prefer-server-ciphers") == b"yes",
        sessions: match value("tls-session-caching").as_slice() {
            b"no" => 0,
            // As in OpenSSL, 0 is no limit. A session takes few bytes, but the library reserves its table.
            _ => match table::number(&value("tls-session-cache-size")) {
                0 => MOST_SESSIONS,
                size => size.min(MOST_SESSIONS),
            },
        },
    };
    settings.load()
}

/// The most sessions that are kept for shorter handshakes.
const MOST_SESSIONS: usize = 20_480;

impl Config {
    /// Whether clients can connect with TLS. Without a port for it, TLS has a free one, where Redis would listen nowhere,
    /// or where the certificates are made for this server.
    pub fn serves_tls(&self) -> bool {
        let port = |name: &str| self.number::<u16>(name);
        let listens_nowhere = port("port") == 0 && self.path("unixsocket").is_none();
        port("tls-port") != 0
            || self.path("tls-self-signed").is_some()
            || listens_nowhere && self.path("tls-cert-file").is_some()
    }

    /// Makes or finds the throw-away certificates that `tls-self-signed` asks for, and has the server use them. Clients
    /// need no certificate of their own, unless `tls-auth-clients` says so.
    pub fn use_self_signed(&self) -> Result<Option<(SelfSigned, bool)>, String> {
        let Some(directory) = self.path("tls-self-signed") else { return Ok(None) };
        for name in ["tls-cert-file", "tls-key-file"] {
            if self.path(name).is_some() {
                return Err(format!("tls-self-signed makes its own certificates, so {name} cannot be given, too"));
            }
        }
        let (files, is_made) =
            SelfSigned::prepare(&directory).map_err(|reason| format!("tls-self-signed: {reason}"))?;
        let bytes = |path: std::path::PathBuf| path.into_os_string().into_encoded_bytes();
        self.assign("tls-cert-file", bytes(files.certificate()));
        self.assign("tls-key-file", bytes(files.key()));
        if self.path("tls-ca-cert-file").is_none() {
            self.assign("tls-ca-cert-file", bytes(files.authority()));
        }
        if !self.is_named("tls-auth-clients") {
            self.assign("tls-auth-clients", "optional");
        }
        Ok(Some((files, is_made)))
    }

    /// Reads the certificates, from which on connections over TLS can be accepted.
    pub fn start_tls(&self) -> Result<(), String> {
        self.live.set_tls(context(&self.values())?);
        Ok(())
    }
}
