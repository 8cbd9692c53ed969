//! TLS: certificates and keys from files, what each side of a connection checks, and what went wrong in plain words.
//!
//! The protocol is rustls's, with ring's cryptography (docs/decisions/0023-tls.md). Nothing here is done unless TLS is
//! asked for: without it, no certificate is read and no key is made.

mod client;
mod pem;
mod reason;
mod self_signed;
mod server;

use std::path::Path;
use std::sync::Arc;

use rustls::crypto::CryptoProvider;
use rustls::pki_types::CertificateDer;
use rustls::sign::CertifiedKey;
use rustls::{Error, InconsistentKeys};

pub use client::{Checks, ClientCredentials, ClientSettings, server_name};
pub use reason::{Peer, described};
pub use self_signed::SelfSigned;
pub use server::{ClientAuth, ServerSettings};

/// The cryptography of every connection.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

/// A certificate and its key, which have to fit together.
fn certified_key(
    chain: Vec<CertificateDer<'static>>,
    key: &Path,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, String> {
    let unusable = |error: Error| format!("{}: the key cannot be used: {error}", key.display());
    let private = provider.key_provider.load_private_key(pem::private_key(key)?).map_err(unusable)?;
    let certified = CertifiedKey::new(chain, private);
    // Other errors are about certificates of an old form, which this side need not understand itself.
    if let Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) = certified.keys_match() {
        return Err(format!("{}: the key is not that of the certificate", key.display()));
    }
    Ok(certified)
}

/// The certificates of all files in a directory, of which there is at least one.
fn authorities_of_directory(directory: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let loaded = rustls_native_certs::load_certs_from_paths(None, Some(directory));
    if loaded.certs.is_empty() {
        let reason = loaded.errors.first().map_or("it holds no certificate".to_owned(), ToString::to_string);
        return Err(format!("{}: {reason}", directory.display()));
    }
    Ok(loaded.certs)
}
