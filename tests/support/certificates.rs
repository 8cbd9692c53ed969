//! Certificates for tests of TLS: an authority and what it signs, valid and not, in a folder of their own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, date_time_ymd};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// `ca`, `server` for localhost and its addresses, `other-name` for another host, `expired`, `client`, `other-ca` and
/// `stranger`, a client of that one; each as NAME.crt and NAME.key.
pub struct Certificates {
    folder: PathBuf,
}

impl Certificates {
    pub fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("redouble-tls-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).expect("a folder");
        let made = Self { folder };
        let (ca, other_ca) = (made.authority("ca"), made.authority("other-ca"));
        let here = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).to_vec();
        made.leaf("server", &here, &ca, 2100);
        made.leaf("expired", &here, &ca, 2020);
        made.leaf("other-name", &["db.example".to_owned()], &ca, 2100);
        made.leaf("client", &[], &ca, 2100);
        made.leaf("stranger", &[], &other_ca, 2100);
        made
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.join(name).to_str().expect("a path that is text").to_owned()
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn params(name: &str, names: &[String]) -> CertificateParams {
        let mut params = CertificateParams::new(names).expect("valid names");
        params.distinguished_name.push(DnType::CommonName, name);
        params.not_before = date_time_ymd(2000, 1, 1);
        params
    }

    fn write(&self, name: &str, certificate: &str, key: &KeyPair) {
        fs::write(self.path(&format!("{name}.crt")), certificate).expect("a file");
        fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).expect("a file");
    }

    fn authority(&self, name: &str) -> Issuer<'static, KeyPair> {
        let mut params = Self::params(name, &[]);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        self.write(name, &params.self_signed(&key).expect("a certificate").pem(), &key);
        Issuer::new(params, key)
    }

    fn leaf(&self, name: &str, names: &[String], issuer: &Issuer<'_, KeyPair>, until: i32) {
        let mut params = Self::params(name, names);
        params.not_after = date_time_ymd(until, 1, 1);
        let key = KeyPair::generate().expect("a key");
        self.write(name, &params.signed_by(&key, issuer).expect("a certificate").pem(), &key);
    }

    /// The directives of a server that shows `server`.
    pub fn directives(&self) -> Vec<String> {
        let files = [("cert", "server.crt"), ("key", "server.key"), ("ca-cert", "ca.crt")];
        files.iter().flat_map(|(name, file)| [format!("--tls-{name}-file"), self.path(file)]).collect()
    }

    /// A client that trusts `ca`, and shows a certificate if it has a name.
    pub fn client(&self, shown: Option<&str>) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path("ca.crt")).expect("a certificate")).expect("an authority");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        Arc::new(match shown {
            None => builder.with_no_client_auth(),
            Some(name) => {
                let chain = vec![CertificateDer::from_pem_file(self.path(&format!("{name}.crt"))).expect("a file")];
                let key = PrivateKeyDer::from_pem_file(self.path(&format!("{name}.key"))).expect("a key");
                builder.with_client_auth_cert(chain, key).expect("a pair")
            }
        })
    }
}

impl Drop for Certificates {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
