//! The side that is connected to: its certificate, and which clients it lets in. The errors are in Redis's words where it
//! has any.

use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{
    ClientHello, NoServerSessionStorage, ResolvesServerCert, ServerSessionMemoryCache, WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use rustls::{
    CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig, SignatureScheme,
    SupportedProtocolVersion,
};

use super::{authorities_of_directory, certified_key, pem, provider};

/// Whether clients show a certificate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientAuth {
    Required,
    /// One that is shown is checked.
    Optional,
    Off,
}

/// The settings of a server, as the directives `tls-…` have them.
#[derive(Clone, Debug)]
pub struct ServerSettings {
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
    pub ca_file: Option<PathBuf>,
    pub ca_directory: Option<PathBuf>,
    pub client_auth: ClientAuth,
    /// Names of versions with blanks between; empty for all.
    pub protocols: String,
    /// Names of TLS 1.3's cipher suites with colons between; empty for all.
    pub cipher_suites: String,
    pub prefers_own_ciphers: bool,
    /// How many sessions are kept so that their clients reconnect with a shorter handshake.
    pub sessions: usize,
}

impl ServerSettings {
    /// Reads the files. The error says which setting is wrong, and why.
    pub fn load(&self) -> Result<Arc<ServerConfig>, String> {
        let certificate = self.certificate.as_deref().ok_or("No tls-cert-file configured!")?;
        let key = self.key.as_deref().ok_or("No tls-key-file configured!")?;
        let has_authorities = self.ca_file.is_some() || self.ca_directory.is_some();
        if self.client_auth != ClientAuth::Off && !has_authorities {
            return Err(
                "Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-cluster, tls-replication \
                        or tls-auth-clients are enabled!"
                    .to_owned(),
            );
        }
        let mut provider = provider();
        self.choose_cipher_suites(Arc::make_mut(&mut provider))?;
        let versions = self.versions()?;
        let chain = pem::certificates(certificate).map_err(|reason| format!("Failed to load certificate: {reason}"))?;
        let certified =
            certified_key(chain, key, &provider).map_err(|reason| format!("Failed to load private key: {reason}"))?;
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&versions)
            .map_err(|error| format!("Failed to configure TLS: {error}"))?;
        // Redis reads the authorities even if no client has to show a certificate.
        let trusted = self
            .authorities()
            .map_err(|reason| format!("Failed to configure CA certificate(s) file/directory: {reason}"))?;
        let builder = match self.client_auth {
            ClientAuth::Off => builder.with_no_client_auth(),
            ClientAuth::Required | ClientAuth::Optional => {
                builder.with_client_cert_verifier(Arc::new(self.verifier(trusted, &provider)?))
            }
        };
        let mut config = builder.with_cert_resolver(Arc::new(OwnCertificate(Arc::new(certified))));
        config.ignore_client_order = self.prefers_own_ciphers;
        if self.sessions == 0 {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        } else {
            config.session_storage = ServerSessionMemoryCache::new(self.sessions);
        }
        Ok(Arc::new(config))
    }

    fn versions(&self) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
        let mut found: Vec<&'static SupportedProtocolVersion> = Vec::new();
        for name in self.protocols.split_whitespace() {
            match name.to_ascii_lowercase().as_str() {
                "tlsv1.3" => found.push(&TLS13),
                "tlsv1.2" => found.push(&TLS12),
                // Broken versions, which are never offered.
                "tlsv1" | "tlsv1.1" => {}
                _ => {
                    return Err(
                        "Invalid tls-protocols specified. Use a combination of 'TLSv1', 'TLSv1.1', 'TLSv1.2' and \
                                'TLSv1.3'."
                            .to_owned(),
                    );
                }
            }
        }
        match (found.is_empty(), self.protocols.trim().is_empty()) {
            (true, true) => Ok(vec![&TLS13, &TLS12]),
            (true, false) => Err(format!(
                "Invalid tls-protocols specified: of '{}', this server speaks none; it has TLSv1.2 and TLSv1.3.",
                self.protocols
            )),
            (false, _) => Ok(found),
        }
    }

    /// Leaves the suites of TLS 1.3 that the setting names, in its order.
    fn choose_cipher_suites(&self, provider: &mut CryptoProvider) -> Result<(), String> {
        if self.cipher_suites.is_empty() {
            return Ok(());
        }
        let mut chosen = Vec::new();
        for name in self.cipher_suites.split(':').filter(|name| !name.is_empty()) {
            let named = |suite: &&rustls::SupportedCipherSuite| {
                // TLS_AES_128_GCM_SHA256 is rustls's TLS13_AES_128_GCM_SHA256.
                let own = suite.suite().as_str().unwrap_or_default();
                own.strip_prefix("TLS13_").is_some_and(|own| name.strip_prefix("TLS_") == Some(own))
            };
            let suite = provider.cipher_suites.iter().find(named);
            chosen.push(*suite.ok_or_else(|| format!("Failed to configure ciphersuites: {}", self.cipher_suites))?);
        }
        let others = provider.cipher_suites.iter().filter(|suite| suite.tls13().is_none());
        chosen.extend(others.copied());
        provider.cipher_suites = chosen;
        Ok(())
    }

    fn authorities(&self) -> Result<Vec<CertificateDer<'static>>, String> {
        let mut found = match &self.ca_file {
            Some(file) => pem::certificates(file)?,
            None => Vec::new(),
        };
        if let Some(directory) = &self.ca_directory {
            found.extend(authorities_of_directory(directory)?);
        }
        Ok(found)
    }

    fn verifier(
        &self,
        trusted: Vec<CertificateDer<'static>>,
        provider: &Arc<CryptoProvider>,
    ) -> Result<ClientVerifier, String> {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(trusted.iter().cloned());
        let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
        let builder = match self.client_auth {
            ClientAuth::Optional => builder.allow_unauthenticated(),
            ClientAuth::Required | ClientAuth::Off => builder,
        };
        let inner = builder
            .build()
            .map_err(|error| format!("Failed to configure CA certificate(s) file/directory: {error}"))?;
        Ok(ClientVerifier { inner, trusted })
    }
}

#[derive(Debug)]
struct OwnCertificate(Arc<CertifiedKey>);

impl ResolvesServerCert for OwnCertificate {
    fn resolve(&self, _hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

/// rustls's check, and beside it: a certificate that is itself among the trusted ones is as good as signed by one.
#[derive(Debug)]
struct ClientVerifier {
    inner: Arc<dyn ClientCertVerifier>,
    trusted: Vec<CertificateDer<'static>>,
}

impl ClientCertVerifier for ClientVerifier {
    fn client_auth_mandatory(&self) -> bool {
        self.inner.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.inner.verify_client_cert(certificate, intermediates, now) {
            Err(Error::InvalidCertificate(CertificateError::Other(_))) if self.trusted.contains(certificate) => {
                Ok(ClientCertVerified::assertion())
            }
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner.verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
