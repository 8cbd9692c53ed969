//! In front of a server that speaks TLS: whom redouble trusts, what it shows, and what it says if that fails.

use std::fs;

use crate::support::certificates::Certificates;
use crate::support::process::{ServerProcess, free_port};
use crate::support::upstream::Front;
use crate::support::wire::{Frame, Wire};

/// A real server with TLS, and the certificates around it.
struct Tls {
    _server: ServerProcess,
    port: u16,
    certificates: Certificates,
}

impl Tls {
    /// A server that shows the certificate of this name.
    fn showing(shown: &str, story: &str, auth: &str) -> Self {
        let certificates = Certificates::new(story);
        for end in ["crt", "key"] {
            let name = |name: &str| certificates.path(&format!("{name}.{end}"));
            if shown != "server" {
                fs::copy(name(shown), name("server")).unwrap();
            }
        }
        let (port, directives) = (free_port(), certificates.directives());
        let port_text = port.to_string();
        let mut arguments = vec!["--tls-port", &port_text, "--tls-auth-clients", auth, "--save", ""];
        arguments.extend(directives.iter().map(String::as_str));
        Self { _server: ServerProcess::redis(&arguments), port, certificates }
    }

    fn front(&self, host: &str, flags: &[&str]) -> Front {
        let flags: Vec<String> = flags
            .iter()
            .map(|flag| flag.strip_prefix('@').map_or((*flag).to_owned(), |file| self.certificates.path(file)))
            .collect();
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        Front::start(&[&format!("rediss://{host}:{}", self.port)], &flags)
    }

    /// A client of a front is served.
    #[track_caller]
    fn serves(&self, host: &str, flags: &[&str]) -> Front {
        let front = self.front(host, flags);
        let mut wire = Wire::connect(front.address());
        assert_eq!(wire.ask("SET k v"), Frame::status("OK"), "{}", front.log());
        assert_eq!(wire.ask("GET k"), Frame::bulk("v"));
        front
    }

    /// A client of a front is closed, and the log says why.
    #[track_caller]
    fn fails(&self, host: &str, flags: &[&str], reason: &str) {
        let front = self.front(host, flags);
        let mut wire = Wire::connect(front.address());
        wire.send(b"PING\r\n");
        assert!(wire.is_closed(), "{}", front.log());
        front.until_logged(&[reason]);
    }
}

#[test]
fn a_server_is_trusted_if_its_authority_and_its_name_are_right() {
    let tls = Tls::showing("server", "trusted", "no");
    for host in ["localhost", "127.0.0.1"] {
        tls.serves(host, &["--upstream-ca-cert-file", "@ca.crt"]);
    }
    tls.fails("localhost", &["--upstream-ca-cert-file", "@other-ca.crt"], "signed by an unknown authority");
    tls.fails("localhost", &[], "signed by an unknown authority");
    let sni = ["--upstream-ca-cert-file", "@ca.crt", "--upstream-sni", "db.example"];
    tls.fails("localhost", &sni, "is not for db.example: it names localhost, 127.0.0.1");
}

#[test]
fn a_wrong_name_and_an_expired_certificate_are_named_and_taken_only_if_told_to() {
    let tls = Tls::showing("other-name", "other", "no");
    tls.fails("localhost", &["--upstream-ca-cert-file", "@ca.crt"], "is not for localhost: it names db.example");
    tls.serves("localhost", &["--upstream-ca-cert-file", "@ca.crt", "--upstream-sni", "db.example"]);
    let insecure = tls.serves("localhost", &["--upstream-insecure", "yes"]);
    insecure.until_logged(&["upstream-insecure is on, so nobody checks who the server is"]);
    let tls = Tls::showing("expired", "expired", "no");
    tls.fails("localhost", &["--upstream-ca-cert-file", "@ca.crt"], "has expired on 2020-01-01");
    tls.serves("localhost", &["--upstream-insecure", "yes"]);
}

#[test]
fn a_server_that_asks_for_a_certificate_gets_one_or_the_log_says_that_it_asks() {
    let tls = Tls::showing("server", "asks", "yes");
    let shown = |name: &str| {
        let files = ["crt", "key"].map(|end| format!("@{name}.{end}"));
        [
            "--upstream-ca-cert-file".to_owned(),
            "@ca.crt".to_owned(),
            "--upstream-cert-file".to_owned(),
            files[0].clone(),
            "--upstream-key-file".to_owned(),
            files[1].clone(),
        ]
    };
    let client = shown("client");
    tls.serves("localhost", &client.each_ref().map(String::as_str));
    tls.fails("localhost", &["--upstream-ca-cert-file", "@ca.crt"], "asks for a certificate");
    let stranger = shown("stranger");
    tls.fails("localhost", &stranger.each_ref().map(String::as_str), "refuses the client's certificate");
}

#[test]
fn a_client_over_tls_meets_a_server_over_tls() {
    let tls = Tls::showing("server", "both", "no");
    let own = tls.certificates.path("throw-away");
    let front = tls.front("localhost", &["--upstream-ca-cert-file", "@ca.crt", "--tls-self-signed", &own]);
    let ca = format!("{own}/ca.crt");
    let port = front.address().port().to_string();
    let ask = |words: &[&str]| {
        let mut client = std::process::Command::new("redis-cli");
        let output = client.args(["-p", &port, "--tls", "--cacert", &ca]).args(words).output().unwrap();
        String::from_utf8_lossy(&output.stdout).trim_end().to_owned()
    };
    let large = "v".repeat(100_000);
    assert_eq!(ask(&["SET", "large", &large]), "OK");
    assert_eq!(ask(&["GET", "large"]), large);
}
