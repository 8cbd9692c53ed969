//! TLS: certificates and keys from files, what each side of a connection checks, and what went wrong in plain words.
//!
//! The protocol is rustls's, with ring's cryptography (docs/decisions/0023-tls.md). Nothing here is done unless TLS is
//! asked for: without it, no certificate is read and no key is made.

mod client;
mod pem;
mod reason;

use std::sync::Arc;

use rustls::crypto::CryptoProvider;

pub use client::{Checks, ClientCredentials, ClientSettings, server_name};
pub use reason::{Peer, described};

/// The cryptography of every connection.
fn provider() -> Arc<CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}
