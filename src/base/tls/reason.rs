//! Why a TLS connection fails, in words for people.

use std::io;

use rustls::pki_types::UnixTime;
use rustls::{AlertDescription, CertificateError, Error};

use crate::base::log::civil;

/// The other side of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    Client,
    Server,
}

impl Peer {
    fn name(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }

    fn other(self) -> &'static str {
        match self {
            Self::Client => "server",
            Self::Server => "client",
        }
    }
}

/// The error of a connection over TLS, with what rustls says of it in plain words.
#[cold]
pub fn described(error: io::Error, peer: Peer) -> io::Error {
    let kind = error.kind();
    match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
        Some(reason) => io::Error::new(kind, explain(reason, peer)),
        None => error,
    }
}

fn explain(error: &Error, peer: Peer) -> String {
    let (name, other) = (peer.name(), peer.other());
    match error {
        Error::InvalidCertificate(reason) => format!("the {name}'s certificate {}", explain_certificate(reason)),
        Error::NoCertificatesPresented => format!("the {name} shows no certificate"),
        Error::InvalidMessage(_) => format!("the {name} does not speak TLS on this port"),
        Error::PeerIncompatible(reason) => {
            format!("the {name} offers nothing of TLS that the {other} accepts: {reason:?}")
        }
        Error::AlertReceived(alert) => explain_alert(*alert, peer),
        error => error.to_string(),
    }
}

fn explain_alert(alert: AlertDescription, peer: Peer) -> String {
    let (name, other) = (peer.name(), peer.other());
    let refused = |reason: &str| format!("the {name} refuses the {other}'s certificate: {reason}");
    match alert {
        AlertDescription::CertificateRequired => format!("the {name} asks for a certificate of the {other}"),
        AlertDescription::UnknownCA => refused("its authority is unknown there"),
        AlertDescription::CertificateExpired => refused("it has expired"),
        AlertDescription::CertificateRevoked => refused("it is revoked"),
        AlertDescription::BadCertificate
        | AlertDescription::CertificateUnknown
        | AlertDescription::UnsupportedCertificate => refused("it is not accepted there"),
        AlertDescription::ProtocolVersion => format!("the {name} accepts no TLS version that the {other} offers"),
        AlertDescription::UnrecognisedName => format!("the {name} does not know the name that the {other} asks for"),
        alert => format!("the {name} ends the handshake with the alert {alert:?}"),
    }
}

fn explain_certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::UnknownIssuer => "is signed by an unknown authority".to_owned(),
        CertificateError::Expired => "has expired".to_owned(),
        CertificateError::ExpiredContext { not_after, .. } => format!("has expired on {}", date(*not_after)),
        CertificateError::NotValidYet => "is not valid yet".to_owned(),
        CertificateError::NotValidYetContext { not_before, .. } => {
            format!("is not valid before {}", date(*not_before))
        }
        CertificateError::NotValidForName => "does not name this server".to_owned(),
        CertificateError::NotValidForNameContext { expected, presented } => {
            let names = match presented.is_empty() {
                true => "it names no host at all (without subjectAltName, a common name does not count)".to_owned(),
                false => format!("it names {}", presented.iter().map(|name| bare(name)).collect::<Vec<_>>().join(", ")),
            };
            format!("is not for {}: {names}", expected.to_str())
        }
        CertificateError::InvalidPurpose | CertificateError::InvalidPurposeContext { .. } => {
            "is made for another purpose (extendedKeyUsage)".to_owned()
        }
        CertificateError::BadSignature => "has a wrong signature".to_owned(),
        CertificateError::Other(reason) => format!("cannot be checked: {reason}"),
        error => format!("is not accepted: {error}"),
    }
}

/// A name of a certificate as rustls shows it, `DnsName("localhost")`, without what is around it.
fn bare(name: &str) -> &str {
    let inner = name.split_once('(').map_or(name, |(_, inner)| inner.trim_end_matches(')'));
    inner.trim_matches('"')
}

fn date(time: UnixTime) -> String {
    let (year, month, day) = civil(i64::try_from(time.as_secs() / 86_400).unwrap_or_default());
    format!("{year}-{month:02}-{day:02}")
}
