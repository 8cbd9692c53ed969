//! Certificates and keys in PEM files.

use std::path::Path;

use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::base::error::plain;

/// The certificates of a file, of which there is at least one.
pub(super) fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&read(path)?).collect();
    let found = found.map_err(|error| refused(path, &error))?;
    if found.is_empty() {
        return Err(format!("{}: it holds no certificate in PEM form", path.display()));
    }
    Ok(found)
}

/// The first private key of a file.
pub(super) fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let text = read(path)?;
    PrivateKeyDer::from_pem_slice(&text).map_err(|error| match error {
        pem::Error::NoItemsFound if is_encrypted(&text) => {
            format!("{}: the key is encrypted; only keys without a passphrase can be read", path.display())
        }
        pem::Error::NoItemsFound => format!("{}: it holds no private key in PEM form", path.display()),
        error => refused(path, &error),
    })
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    std::fs::read(path).map_err(|error| format!("{}: {}", path.display(), plain(&error)))
}

fn refused(path: &Path, error: &pem::Error) -> String {
    format!("{}: it is no valid PEM file: {error}", path.display())
}

fn is_encrypted(text: &[u8]) -> bool {
    let has = |word: &[u8]| text.windows(word.len()).any(|window| window == word);
    has(b"BEGIN ENCRYPTED PRIVATE KEY") || has(b"Proc-Type: 4,ENCRYPTED")
}
