//! TLS for clients: directives as redis-server has them, throw-away certificates, and `redouble cli` as a client.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use crate::support::certificates::Certificates;
use crate::support::process::{ServerProcess, free_port};
use crate::support::wait_until;

const BINARY: &str = env!("CARGO_BIN_EXE_redouble");

fn output(program: &str, arguments: &[&str]) -> Output {
    let output = Command::new(program).args(arguments).stdin(Stdio::null()).output();
    output.unwrap_or_else(|error| panic!("{program}: {error}"))
}

/// What a program prints, errors behind the rest.
fn said(program: &str, arguments: &[&str]) -> String {
    let output = output(program, arguments);
    let text = [output.stdout, output.stderr].concat();
    String::from_utf8_lossy(&text).trim_end().to_owned()
}

/// A server with TLS on a port of its own, and a plain port for questions.
struct Tls {
    server: ServerProcess,
    port: String,
    certificates: Certificates,
}

impl Tls {
    fn start(program: &str, name: &str, arguments: &[&str]) -> Self {
        let certificates = Certificates::new(name);
        let port = free_port().to_string();
        let directives = certificates.directives();
        let mut all = vec!["--tls-port", &port];
        all.extend(directives.iter().map(String::as_str));
        all.extend(arguments);
        let server = ServerProcess::program(program, &all).unwrap();
        Self { server, port, certificates }
    }

    fn redouble(name: &str, arguments: &[&str]) -> Self {
        Self::start(BINARY, name, &[&["--compat", "redis-7.0"], arguments].concat())
    }

    /// The answer to a command on the plain port.
    fn ask(&self, words: &[&str]) -> String {
        let port = self.server.address().port().to_string();
        said("redis-cli", &[&["-p", &port], words].concat())
    }

    /// What a program that is like `redis-cli` says over TLS.
    fn over_tls(&self, program: &[&str], options: &[&str]) -> String {
        let ca = self.certificates.path("ca.crt");
        let (program, front) = program.split_first().unwrap();
        said(program, &[front, &["-p", &self.port, "--tls", "--cacert", &ca], options].concat())
    }

    fn shown(&self, name: &str) -> [String; 4] {
        let file = |end: &str| self.certificates.path(&format!("{name}.{end}"));
        ["--cert".to_owned(), file("crt"), "--key".to_owned(), file("key")]
    }
}

fn texts(words: &[String]) -> Vec<&str> {
    words.iter().map(String::as_str).collect()
}

#[test]
fn redis_cli_and_redouble_cli_are_let_in_as_the_server_asks_for_certificates() {
    for (auth, without, stranger) in [("yes", false, false), ("optional", true, false), ("no", true, true)] {
        for server in ["redis-server", BINARY] {
            let tls = Tls::start(server, &format!("auth-{auth}"), &["--tls-auth-clients", auth]);
            for program in [vec!["redis-cli"], vec![BINARY, "cli"]] {
                let ask = |options: &[String]| {
                    let options: Vec<&str> = texts(options).into_iter().chain(["ping"]).collect();
                    tls.over_tls(&program, &options) == "PONG"
                };
                assert_eq!(ask(&[]), without, "{server} {auth} {program:?}");
                assert!(ask(&tls.shown("client")), "{server} {auth} {program:?}");
                assert_eq!(ask(&tls.shown("stranger")), stranger, "{server} {auth} {program:?}");
            }
        }
    }
}

#[test]
fn settings_of_tls_are_changed_and_refused_at_run_time_as_by_redis() {
    let servers = ["redis-server", BINARY].map(|server| Tls::start(server, "set", &["--tls-auth-clients", "no"]));
    let answers = |words: &[&str]| {
        let words = |tls: &Tls| -> Vec<String> {
            words
                .iter()
                .map(|word| word.strip_prefix('@').map_or((*word).to_owned(), |file| tls.certificates.path(file)))
                .collect()
        };
        servers.each_ref().map(|tls| tls.ask(&texts(&words(tls))))
    };
    for words in [
        "CONFIG SET tls-cert-file /nowhere",
        "CONFIG SET tls-key-file /nowhere",
        "CONFIG SET tls-ca-cert-file /nowhere",
        "CONFIG SET tls-cert-file @client.crt",
        "CONFIG SET tls-cert-file @client.crt tls-key-file @client.key",
        "CONFIG SET tls-cert-file @server.crt tls-key-file @server.key",
        "CONFIG SET tls-cert-file @server.crt",
        "CONFIG SET tls-cert-file ",
        "CONFIG SET tls-auth-clients perhaps",
        "CONFIG SET tls-auth-clients yes",
        "CONFIG SET tls-ca-cert-file ",
        "CONFIG SET tls-auth-clients no",
        "CONFIG SET tls-protocols TLSv9",
        "CONFIG SET tls-protocols TLSv1.3",
        "CONFIG GET tls-protocols",
        "CONFIG SET tls-ciphersuites nonsense",
        "CONFIG SET tls-ciphersuites TLS_CHACHA20_POLY1305_SHA256",
        "CONFIG SET tls-prefer-server-ciphers yes",
        "CONFIG SET tls-session-caching no",
        "CONFIG SET tls-session-cache-size -1",
        "CONFIG GET tls-auth-clients",
        "CONFIG GET tls-session-cache-timeout",
    ] {
        let [redis, redouble] = answers(&words.split(' ').collect::<Vec<_>>());
        assert_eq!(redouble, redis, "{words}");
    }
    for tls in &servers {
        assert_eq!(tls.over_tls(&["redis-cli"], &["ping"]), "PONG");
        assert_eq!(tls.ask(&["CONFIG", "GET", "tls-port"]), format!("tls-port\n{}", tls.port));
    }
}

#[test]
fn what_is_wrong_with_the_certificates_is_said_at_the_start_as_by_redis() {
    let certificates = Certificates::new("start");
    let file = |name: &str| certificates.path(name);
    let (cert, key, ca) = (file("server.crt"), file("server.key"), file("ca.crt"));
    let nowhere = "/nowhere".to_owned();
    let rows: &[(&[&String], &str)] = &[
        (&[], "No tls-cert-file configured!"),
        (&[&cert], "No tls-key-file configured!"),
        (
            &[&cert, &key],
            "Either tls-ca-cert-file or tls-ca-cert-dir must be specified when tls-cluster, tls-replication or tls-auth-clients are enabled!",
        ),
        (&[&nowhere, &key, &ca], "Failed to load certificate: /nowhere: "),
        (&[&cert, &nowhere, &ca], "Failed to load private key: /nowhere: "),
        (&[&cert, &cert, &ca], &format!("Failed to load private key: {cert}: ")),
        (&[&cert, &file("client.key"), &ca], &format!("Failed to load private key: {}: ", file("client.key"))),
        (&[&cert, &key, &nowhere], "Failed to configure CA certificate(s) file/directory: "),
    ];
    for (files, reason) in rows {
        for server in ["redis-server", BINARY] {
            let port = free_port().to_string();
            let mut arguments = vec!["--port", "0", "--tls-port", &port];
            for (name, file) in ["--tls-cert-file", "--tls-key-file", "--tls-ca-cert-file"].into_iter().zip(*files) {
                arguments.extend([name, file]);
            }
            let output = output(server, &arguments);
            let log = String::from_utf8_lossy(&output.stdout);
            assert!(log.contains(reason), "{server} {files:?}: {log}");
            assert!(log.contains("Failed to configure TLS"), "{server} {files:?}: {log}");
            assert_eq!(output.status.code(), Some(1), "{server} {files:?}: {log}");
        }
    }
}

#[test]
fn a_setting_that_would_do_nothing_for_safety_is_refused() {
    let certificates = Certificates::new("refused");
    let directives = certificates.directives();
    for (name, value, reason) in [
        ("tls-key-file-pass", "secret", "only keys without a passphrase can be read"),
        ("tls-protocols", "TLSv1.1", "this server speaks none; it has TLSv1.2 and TLSv1.3"),
        ("tls-replication", "yes", "it speaks TLS with its clients only"),
    ] {
        let (port, flag) = (free_port().to_string(), format!("--{name}"));
        let mut arguments = vec!["--port", "0", "--tls-port", &port, &flag, value];
        arguments.extend(directives.iter().map(String::as_str));
        let said = said(BINARY, &arguments);
        assert!(said.contains(reason), "{name}: {said}");
    }
}

#[test]
fn the_next_client_sees_the_new_certificate_and_those_connected_stay() {
    let tls = Tls::redouble("rotate", &["--tls-auth-clients", "no"]);
    let mut connected = crate::support::wire::Wire::connect_tls(
        format!("127.0.0.1:{}", tls.port).parse().unwrap(),
        &tls.certificates.client(None),
    );
    assert_eq!(connected.ask("PING").text(), "PONG");
    // The files are replaced, and the same names are set again.
    for end in ["crt", "key"] {
        let name = |name: &str| tls.certificates.path(&format!("{name}.{end}"));
        fs::copy(name("other-name"), name("server")).unwrap();
    }
    let (cert, key) = (tls.certificates.path("server.crt"), tls.certificates.path("server.key"));
    assert_eq!(tls.ask(&["CONFIG", "SET", "tls-cert-file", &cert, "tls-key-file", &key]), "OK");
    let shown = said("openssl", &["s_client", "-connect", &format!("127.0.0.1:{}", tls.port), "-brief"]);
    assert!(shown.contains("CN = other-name"), "{shown}");
    assert_eq!(connected.ask("PING").text(), "PONG");
}

#[test]
fn only_the_protocols_that_are_set_are_spoken() {
    for (protocols, spoken) in [("TLSv1.2", "TLSv1.2"), ("TLSv1.3", "TLSv1.3"), ("tlsv1.1 tlsv1.2", "TLSv1.2")] {
        let tls = Tls::redouble("protocols", &["--tls-auth-clients", "no", "--tls-protocols", protocols]);
        let address = format!("127.0.0.1:{}", tls.port);
        for (flag, version) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
            let shown = said("openssl", &["s_client", "-connect", &address, "-brief", flag]);
            let is_spoken = shown.contains(&format!("Protocol version: {version}"));
            assert_eq!(is_spoken, version == spoken, "{protocols} {flag}: {shown}");
        }
    }
}

/// A process that ends with its test.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A temporary directory for one test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("redouble-self-signed-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn text(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }

    fn mode(&self, name: &str) -> u32 {
        fs::metadata(self.0.join(name)).unwrap().permissions().mode() & 0o777
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_command_of_run_finds_its_server_over_tls_by_its_environment() {
    let folder = Folder::new("run");
    let script = "echo $REDIS_URL $REDIS_TLS_URL $1; redis-cli -u $REDIS_URL --cacert $REDIS_CA_CERT_FILE ping; \
                  redis-cli -u $REDIS_TLS_URL --cacert $REDIS_CA_CERT_FILE --cert $REDIS_CERT_FILE --key $REDIS_KEY_FILE ping; \
                  echo $SSL_CERT_FILE";
    let certificates = folder.text("certificates");
    let words = ["run", "--tls-self-signed", &certificates, "--env", "SSL_CERT_FILE={ca}", "--", "sh", "-c", script];
    let said = said(BINARY, &words);
    let lines: Vec<&str> = said.lines().collect();
    let [urls, "PONG", "PONG", ca] = lines.as_slice() else { panic!("{said}") };
    assert!(urls.starts_with("rediss://127.0.0.1:"), "{said}");
    assert_eq!(*ca, folder.text("certificates/ca.crt"));
    assert_eq!(folder.mode("certificates"), 0o700);
    for (file, mode) in [("server.key", 0o600), ("client.key", 0o600)] {
        assert_eq!(folder.mode(&format!("certificates/{file}")), mode, "{file}");
    }
}

#[test]
fn throw_away_certificates_are_made_once_and_never_overwritten() {
    let folder = Folder::new("once");
    let certificates = folder.text("certificates");
    let run = || output(BINARY, &["run", "--tls-self-signed", &certificates, "--", "true"]);
    assert!(run().status.success());
    let before = fs::read(folder.text("certificates/ca.crt")).unwrap();
    assert!(run().status.success());
    assert_eq!(fs::read(folder.text("certificates/ca.crt")).unwrap(), before);
    // A file that is gone or broken is no reason to replace the others.
    let lost = Certificates::new("lost");
    for (file, content) in [("server.crt", lost.path("server.crt")), ("client.key", lost.path("ca.crt"))] {
        let path = folder.text(&format!("certificates/{file}"));
        let good = fs::read(&path).unwrap();
        fs::copy(content, &path).unwrap();
        let output = run();
        assert_eq!(output.status.code(), Some(125));
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(text.contains(&path) && text.contains("remove them; new ones are made"), "{text}");
        fs::remove_file(&path).unwrap();
        assert_eq!(run().status.code(), Some(125));
        fs::write(&path, good).unwrap();
    }
    assert!(run().status.success());
    assert_eq!(fs::read(folder.text("certificates/ca.crt")).unwrap(), before);
}

#[test]
fn processes_that_start_at_once_share_one_directory_of_certificates() {
    let folder = Folder::new("race");
    let certificates = folder.text("certificates");
    let script = "redis-cli -u $REDIS_URL --cacert $REDIS_CA_CERT_FILE ping";
    let words = ["run", "--tls-self-signed", &certificates, "--", "sh", "-c", script];
    let children: Vec<_> =
        (0..8).map(|_| Command::new(BINARY).args(words).stdout(Stdio::piped()).spawn().unwrap()).collect();
    for child in children {
        assert_eq!(String::from_utf8_lossy(&child.wait_with_output().unwrap().stdout), "PONG\n");
    }
    let files: Vec<_> = fs::read_dir(&folder.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(files, ["certificates"]);
}

#[test]
fn with_tls_alone_the_port_files_name_its_ports_and_the_log_says_how_to_connect() {
    let folder = Folder::new("ports");
    let log = folder.text("log");
    let (certificates, ports, tls_ports) = (folder.text("c"), folder.text("ports"), folder.text("tls-ports"));
    let arguments = [
        "--port",
        "0",
        "--instances",
        "3",
        "--tls-self-signed",
        &certificates,
        "--port-file",
        &ports,
        "--tls-port-file",
        &tls_ports,
        "--logfile",
        &log,
    ];
    let _server = Ending(Command::new(BINARY).args(arguments).stdout(Stdio::null()).spawn().unwrap());
    wait_until("the port files", || fs::read_to_string(&tls_ports).is_ok());
    let text = fs::read_to_string(&tls_ports).unwrap();
    assert_eq!(fs::read_to_string(&ports).unwrap(), text);
    let numbers: Vec<&str> = text.lines().collect();
    assert_eq!(numbers.len(), 3);
    let ca = folder.text("c/ca.crt");
    for port in &numbers {
        let ask = |words: &[&str]| said("redis-cli", &[&["-p", port, "--tls", "--cacert", &ca], words].concat());
        assert_eq!(ask(&["config", "get", "tls-port"]), format!("tls-port\n{port}"));
        assert_eq!(ask(&["config", "get", "port"]), "port\n0");
        assert!(ask(&["info", "server"]).contains(&format!("tcp_port:{port}\r\n")));
        assert!(ask(&["info", "server"]).contains(&format!("listener2:name=tls,bind=127.0.0.1,bind=-::1,port={port}")));
        assert_eq!(ask(&["set", "k", "v"]), "OK");
    }
    let first = |words: &[&str]| said("redis-cli", &[&["-p", numbers[0], "--tls", "--cacert", &ca], words].concat());
    assert_eq!(first(&["redouble", "instance", "stop", "2"]), "OK");
    assert!(said("redis-cli", &["-p", numbers[1], "--tls", "--cacert", &ca, "ping"]).contains("Connection refused"));
    assert_eq!(first(&["redouble", "instance", "start", "2"]), "OK");
    assert_eq!(said("redis-cli", &["-p", numbers[1], "--tls", "--cacert", &ca, "get", "k"]), "v");
    let log = fs::read_to_string(&log).unwrap();
    assert!(log.contains(&format!("To connect: redis-cli --tls --cacert {ca} -p {}", numbers[0])), "{log}");
    assert!(log.contains("Ready to accept connections tls"), "{log}");
}

#[test]
fn redouble_cli_says_why_it_does_not_trust_a_server() {
    let tls = Tls::redouble("cli", &["--tls-auth-clients", "no"]);
    let url = format!("rediss://127.0.0.1:{}", tls.port);
    let (ca, other) = (tls.certificates.path("ca.crt"), tls.certificates.path("other-ca.crt"));
    let cli = |words: &[&str]| said(BINARY, &[&["cli", "-u", &url], words, &["ping"]].concat());
    assert_eq!(cli(&["--cacert", &ca]), "PONG");
    assert_eq!(cli(&["--insecure"]), "PONG");
    assert_eq!(cli(&["--cacert", &ca, "--sni", "db.example"]), "PONG");
    for options in [vec!["--cacert", other.as_str()], vec![]] {
        let said = cli(&options);
        assert!(said.contains("the server's certificate is signed by an unknown authority"), "{options:?}: {said}");
    }
    assert!(cli(&["--cacert", "/nowhere"]).contains("/nowhere: No such file or directory"));
    for end in ["crt", "key"] {
        let name = |name: &str| tls.certificates.path(&format!("{name}.{end}"));
        fs::copy(name("expired"), name("server")).unwrap();
    }
    let (cert, key) = (tls.certificates.path("server.crt"), tls.certificates.path("server.key"));
    assert_eq!(tls.ask(&["CONFIG", "SET", "tls-cert-file", &cert, "tls-key-file", &key]), "OK");
    assert!(cli(&["--cacert", &ca]).contains("the server's certificate has expired on 2020-01-01"));
}

#[test]
fn the_lines_of_the_page_go_as_shown() {
    let folder = Folder::new("page");
    std::os::unix::fs::symlink(BINARY, folder.0.join("redouble")).unwrap();
    let path = format!("{}:{}", folder.0.display(), std::env::var("PATH").unwrap());
    let page = include_str!("../../docs/tls.md");
    let sessions = page.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut played = 0;
    for step in sessions.flat_map(|session| session.split("$ ").skip(1)) {
        let (command, expected) = step.split_once('\n').unwrap();
        let output =
            Command::new("sh").args(["-c", command]).current_dir(&folder.0).env("PATH", &path).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!(text, expected, "{command}: {}", String::from_utf8_lossy(&output.stderr));
        played += 1;
    }
    assert_eq!(played, 4);
}
