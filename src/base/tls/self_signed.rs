//! Throw-away certificates for tests: an authority, a server and a client.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{Error, RootCertStore};

use super::{Peer, certified_key, pem, provider, server_name};
use crate::base::clock::real_micros;
use crate::base::error::plain;
use crate::base::log::civil;

/// How long the certificates are valid, in days. Some systems accept none of more than 825.
const VALID: i64 = 800;
const MICROS_PER_DAY: i64 = 86_400_000_000;

/// The names by which this machine's programs reach its servers.
const NAMES: [&str; 3] = ["localhost", "127.0.0.1", "::1"];

/// A directory with throw-away certificates and their keys. The authority's own key is nowhere: it signs once.
#[derive(Clone, Debug)]
pub struct SelfSigned {
    directory: PathBuf,
}

impl SelfSigned {
    const FILES: [&str; 5] = ["ca.crt", "server.crt", "server.key", "client.crt", "client.key"];

    /// The files of a directory, which are made if none is there. Returns whether they were. Files that are there are
    /// never overwritten; the error says what is wrong with them.
    pub fn prepare(directory: &Path) -> Result<(Self, bool), String> {
        let failed = |error: io::Error| format!("{}: {}", directory.display(), plain(&error));
        // Programs of other directories are given these paths.
        let files = Self { directory: std::path::absolute(directory).map_err(failed)? };
        let is_made = files.are_absent() && files.make()?;
        files.check().map_err(|reason| {
            let directory = directory.display();
            format!("{reason} (if the certificates in {directory} can be thrown away, remove them; new ones are made)")
        })?;
        Ok((files, is_made))
    }

    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn authority(&self) -> PathBuf {
        self.directory.join("ca.crt")
    }

    pub fn certificate(&self) -> PathBuf {
        self.directory.join("server.crt")
    }

    pub fn key(&self) -> PathBuf {
        self.directory.join("server.key")
    }

    pub fn client_certificate(&self) -> PathBuf {
        self.directory.join("client.crt")
    }

    pub fn client_key(&self) -> PathBuf {
        self.directory.join("client.key")
    }

    fn are_absent(&self) -> bool {
        // A link to nowhere is there, too.
        Self::FILES.iter().all(|name| self.directory.join(name).symlink_metadata().is_err())
    }

    /// Makes the files, all at once: of two processes, one is first, and the other takes what is there. Returns whether
    /// this process was first.
    fn make(&self) -> Result<bool, String> {
        let failed = |error: io::Error| format!("{}: {}", self.directory.display(), plain(&error));
        let files = generate().map_err(|error| format!("certificates cannot be made: {error}"))?;
        let parent = self.directory.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(parent).map_err(failed)?;
        let name = self.directory.file_name().unwrap_or_default().to_string_lossy();
        let draft = parent.join(format!(".{name}-{}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&draft).map_err(failed)?;
        let written = files.iter().try_for_each(|(name, text)| write_new(&draft.join(name), text));
        let moved = written.and_then(|()| match fs::rename(&draft, &self.directory) {
            Ok(()) => Ok(true),
            // There is something in the directory: perhaps these files by now, perhaps only others.
            Err(_) if self.directory.is_dir() && self.are_absent() => {
                Self::FILES.iter().try_for_each(|name| fs::rename(draft.join(name), self.directory.join(name)))?;
                Ok(true)
            }
            Err(_) if !self.are_absent() => Ok(false),
            Err(error) => Err(error),
        });
        if !matches!(moved, Ok(true)) || draft.exists() {
            // What stays is no more than litter.
            let _ = fs::remove_dir_all(&draft);
        }
        moved.map_err(failed)
    }

    /// Checks that the files are whole, fit together and are valid now.
    fn check(&self) -> Result<(), String> {
        let provider = provider();
        let authorities = pem::certificates(&self.authority())?;
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(authorities);
        let chain = pem::certificates(&self.certificate())?;
        let refused = |error: Error| {
            let error = super::described(io::Error::other(error), Peer::Server);
            format!("{}: {}", self.certificate().display(), plain(&error))
        };
        let leaf: &CertificateDer<'_> = chain.first().ok_or("there is no certificate")?;
        let parsed = ParsedCertificate::try_from(leaf).map_err(refused)?;
        let since_1970 = Duration::from_micros(real_micros().unsigned_abs());
        let now = UnixTime::since_unix_epoch(since_1970);
        let algorithms = provider.signature_verification_algorithms.all;
        verify_server_cert_signed_by_trust_anchor(&parsed, &roots, &[], now, algorithms).map_err(refused)?;
        for name in NAMES {
            verify_server_name(&parsed, &server_name(name)?).map_err(refused)?;
        }
        certified_key(chain, &self.key(), &provider)?;
        certified_key(pem::certificates(&self.client_certificate())?, &self.client_key(), &provider)?;
        Ok(())
    }
}

/// The names and the texts of all files.
fn generate() -> Result<[(&'static str, String); 5], rcgen::Error> {
    let mut authority = params("redouble throw-away CA", Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let authority_key = KeyPair::generate()?;
    let authority_certificate = authority.self_signed(&authority_key)?;
    let issuer = Issuer::new(authority, authority_key);
    let mut names: Vec<String> = NAMES.map(str::to_owned).to_vec();
    names.extend(host_name().filter(|name| server_name(name).is_ok() && !NAMES.contains(&name.as_str())));
    let (server, server_key) = leaf("redouble", names, ExtendedKeyUsagePurpose::ServerAuth, &issuer)?;
    let (client, client_key) = leaf("redouble client", Vec::new(), ExtendedKeyUsagePurpose::ClientAuth, &issuer)?;
    Ok([
        ("ca.crt", authority_certificate.pem()),
        ("server.crt", server),
        ("server.key", server_key),
        ("client.crt", client),
        ("client.key", client_key),
    ])
}

/// A certificate and its key, as texts.
fn leaf(
    name: &str,
    names: Vec<String>,
    purpose: ExtendedKeyUsagePurpose,
    issuer: &Issuer<'_, KeyPair>,
) -> Result<(String, String), rcgen::Error> {
    let mut params = params(name, names)?;
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![purpose];
    params.use_authority_key_identifier_extension = true;
    let key = KeyPair::generate()?;
    Ok((params.signed_by(&key, issuer)?.pem(), key.serialize_pem()))
}

fn params(name: &str, names: Vec<String>) -> Result<CertificateParams, rcgen::Error> {
    let mut params = CertificateParams::new(names)?;
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "redouble tests");
    params.distinguished_name.push(DnType::CommonName, name);
    let today = real_micros().div_euclid(MICROS_PER_DAY);
    // Since yesterday: the clocks of containers differ.
    for (instant, day) in [(&mut params.not_before, today - 1), (&mut params.not_after, today + VALID)] {
        let (year, month, day) = civil(day);
        let (month, day) = (u8::try_from(month).unwrap_or(1), u8::try_from(day).unwrap_or(1));
        *instant = date_time_ymd(i32::try_from(year).unwrap_or(1970), month, day);
    }
    Ok(params)
}

fn host_name() -> Option<String> {
    let name = rustix::system::uname().nodename().to_str().ok()?.to_owned();
    Some(name).filter(|name| !name.is_empty())
}

fn write_new(path: &Path, text: &str) -> io::Result<()> {
    let mode = if path.extension().is_some_and(|extension| extension == "key") { 0o600 } else { 0o644 };
    let mut file: File = File::options().write(true).create_new(true).mode(mode).open(path)?;
    file.write_all(text.as_bytes())
}
