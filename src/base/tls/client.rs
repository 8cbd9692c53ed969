//! The side that connects: whom it trusts, and the certificate that it shows.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::WebPkiSupportedAlgorithms;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

use super::{authorities_of_directory, certified_key, pem, provider};

/// What is checked of a server's certificate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checks {
    /// A trusted authority has signed it, and it names the server.
    #[default]
    AuthorityAndName,
    /// A trusted authority has signed it, whatever it names: what `redis-cli` checks.
    Authority,
    /// Anybody may stand behind the connection.
    Nothing,
}

/// Whom a client trusts, and what it shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientSettings {
    /// Certificates of authorities. Without file and directory, those of the system are trusted.
    pub ca_file: Option<PathBuf>,
    pub ca_directory: Option<PathBuf>,
    pub certificate: Option<PathBuf>,
    /// The key of the certificate. By default the certificate's file holds it, too.
    pub key: Option<PathBuf>,
    pub checks: Checks,
}

/// Settings with the files behind them, for any number of connections.
#[derive(Clone)]
pub struct ClientCredentials {
    pub config: Arc<ClientConfig>,
    shown: Arc<ShownCertificate>,
}

impl ClientSettings {
    /// Reads the files. The error names the file and what is wrong with it.
    pub fn load(&self) -> Result<ClientCredentials, String> {
        let provider = provider();
        let trusted = match self.checks {
            Checks::Nothing => Vec::new(),
            Checks::AuthorityAndName | Checks::Authority => self.authorities()?,
        };
        let mut roots = RootCertStore::empty();
        // Like other programs, this one passes over certificates of a bundle that no server can be checked with.
        roots.add_parsable_certificates(trusted.iter().cloned());
        let algorithms = provider.signature_verification_algorithms;
        let verifier = Verifier { roots, trusted, algorithms, checks: self.checks };
        let certified = match (&self.certificate, &self.key) {
            (None, None) => None,
            (None, Some(key)) => {
                return Err(format!("{}: the key has no certificate beside it", key.display()));
            }
            (Some(file), key) => {
                let chain = pem::certificates(file)?;
                Some(Arc::new(certified_key(chain, key.as_ref().unwrap_or(file), &provider)?))
            }
        };
        let shown = Arc::new(ShownCertificate { certified, was_asked: AtomicBool::new(false) });
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_client_cert_resolver(Arc::<ShownCertificate>::clone(&shown));
        Ok(ClientCredentials { config: Arc::new(config), shown })
    }

    /// The certificates of the authorities that are trusted, of which there is at least one.
    fn authorities(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let mut found = match &self.ca_file {
            Some(file) => pem::certificates(file)?,
            None => Vec::new(),
        };
        if let Some(directory) = &self.ca_directory {
            found.extend(authorities_of_directory(directory)?);
        }
        if self.ca_file.is_none() && self.ca_directory.is_none() {
            found = rustls_native_certs::load_native_certs().certs;
            if found.is_empty() {
                return Err("this system has no certificates of authorities (SSL_CERT_FILE and SSL_CERT_DIR can name \
                            them), and none were given"
                    .to_owned());
            }
        }
        Ok(found)
    }
}

impl ClientCredentials {
    /// Whether a server has asked for a certificate, and none is there to be shown.
    pub fn lacks_certificate(&self) -> bool {
        self.shown.certified.is_none() && self.shown.was_asked.load(Ordering::Relaxed)
    }
}

/// The name of a server for its certificate, or why it can be none.
pub fn server_name(host: &str) -> Result<ServerName<'static>, String> {
    ServerName::try_from(host.to_owned()).map_err(|_| format!("'{host}' is neither a host name nor an IP address"))
}

#[derive(Debug)]
struct ShownCertificate {
    certified: Option<Arc<CertifiedKey>>,
    was_asked: AtomicBool,
}

impl ResolvesClientCert for ShownCertificate {
    fn resolve(&self, _authorities: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.was_asked.store(true, Ordering::Relaxed);
        self.certified.clone().filter(|certified| certified.key.choose_scheme(schemes).is_some())
    }

    fn has_certs(&self) -> bool {
        // Also without one, so that the question is noticed.
        true
    }
}

#[derive(Debug)]
struct Verifier {
    roots: RootCertStore,
    /// The certificates behind the roots, one of which can be the server's own.
    trusted: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
    checks: Checks,
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        _ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if self.checks == Checks::Nothing {
            return Ok(ServerCertVerified::assertion());
        }
        let parsed = ParsedCertificate::try_from(certificate)?;
        let signed =
            verify_server_cert_signed_by_trust_anchor(&parsed, &self.roots, intermediates, now, self.algorithms.all);
        match signed {
            // A self-signed certificate is its own authority, which rustls does not let stand for a server.
            Err(Error::InvalidCertificate(CertificateError::Other(_))) if self.trusted.contains(certificate) => {}
            signed => signed?,
        }
        if self.checks == Checks::AuthorityAndName {
            verify_server_name(&parsed, name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.checks {
            Checks::Nothing => Ok(HandshakeSignatureValid::assertion()),
            Checks::AuthorityAndName | Checks::Authority => {
                rustls::crypto::verify_tls12_signature(message, certificate, signed, &self.algorithms)
            }
        }
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        match self.checks {
            Checks::Nothing => Ok(HandshakeSignatureValid::assertion()),
            Checks::AuthorityAndName | Checks::Authority => {
                rustls::crypto::verify_tls13_signature(message, certificate, signed, &self.algorithms)
            }
        }
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
