//! Files that clients name, and files in the way of those that the operator names: a server writes only where it may,
//! follows no link, and waits for no pipe.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use crate::support::process::{ServerProcess, free_port};
use crate::support::wait_until;
use crate::support::wire::{Frame, Wire};

/// A temporary directory with `in`, where a server may write, and the file `out` beside it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("redouble-hostile-{}-{name}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(path.join("in/deeper")).unwrap();
        fs::write(path.join("out"), "old").unwrap();
        Self(path.canonicalize().unwrap())
    }

    fn text(&self, name: &str) -> String {
        self.0.join(name).display().to_string()
    }

    fn pipe(&self, name: &str) -> String {
        assert!(Command::new("mkfifo").arg(self.text(name)).status().unwrap().success());
        self.text(name)
    }

    fn link(&self, to: &str, name: &str) {
        symlink(self.0.join(to), self.0.join(name)).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap()
    }

    fn names(&self, name: &str) -> Vec<String> {
        let entries = fs::read_dir(self.0.join(name)).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn server(folder: &Folder, more: &[&str]) -> (ServerProcess, Wire) {
    let dir = folder.text("in");
    let server = ServerProcess::redouble(&[&["--dir", &dir, "--journal", "yes"], more].concat());
    let wire = Wire::connect(server.address());
    (server, wire)
}

/// Both commands that write a file with a name from a client.
fn writes(path: &str) -> [Vec<&str>; 2] {
    [vec!["REDOUBLE", "SAVE", path], vec!["REDOUBLE", "JOURNAL", "EXPORT", path]]
}

#[test]
fn clients_cannot_fill_the_directory_with_files_also_through_spaces() {
    let folder = Folder::new("many");
    let (server, mut wire) = server(&folder, &[]);
    for number in 0..999 {
        assert_eq!(wire.ask(&format!("REDOUBLE SAVE file-{number}")), Frame::status("OK"), "{number}");
    }
    let mut beside = Wire::connect(server.address());
    assert_eq!(beside.ask("REDOUBLE SPACE another"), Frame::status("OK"));
    assert_eq!(beside.ask("REDOUBLE SAVE file-of-space"), Frame::status("OK"));
    for wire in [&mut wire, &mut beside] {
        for words in writes("one-more") {
            let refusal = wire.call(&words).text();
            assert!(refusal.contains("as many files as they may (1000)"), "{refusal}");
        }
    }
    assert_eq!(wire.ask("REDOUBLE SAVE file-7"), Frame::status("OK"));
    assert_eq!(folder.names("in").iter().filter(|name| name.starts_with("file")).count(), 1000);
}

#[test]
fn a_client_writes_inside_the_directory_of_the_server_and_nowhere_else() {
    let folder = Folder::new("inside");
    for (to, name) in [("out", "in/link"), ("", "in/up"), ("nowhere", "in/dangling"), ("in/deeper", "in/near")] {
        folder.link(to, name);
    }
    folder.pipe("in/pipe");
    let (_server, mut wire) = server(&folder, &[]);
    wire.ask("SET start rm");
    let absolute = folder.text("out");
    let inside = folder.text("in/file");
    for path in [
        "../out",
        "deeper/../../out",
        "..",
        "",
        ".",
        "/",
        "//",
        &absolute,
        &inside,
        "link",
        "up/out",
        "up/in/file",
        "dangling",
        "near/file",
        ".profile",
        ".ssh/authorized_keys",
        "deeper/.hidden",
        "pipe",
        "/dev/null",
        "/dev/full",
        "deeper",
        "deeper/",
        "file/",
        "missing/file",
        "a\nb/../../out",
        "pipe/x",
    ] {
        for words in writes(path) {
            let reply = wire.call(&words);
            assert!(reply.is_error(), "{words:?}: {reply:?}");
        }
    }
    assert_eq!(folder.read("out"), "old");
    assert_eq!(folder.names(""), ["in", "out"]);
    assert_eq!(folder.names("in"), ["dangling", "deeper", "link", "near", "pipe", "up"]);
    assert!(folder.names("in/deeper").is_empty());
    for (path, index) in [("file", 0), ("file", 1), ("./deeper/file", 0), ("deeper//file", 1)] {
        let reply = wire.call(&writes(path)[index]);
        assert!(!reply.is_error(), "{path}: {reply:?}");
    }
    assert!(folder.read("in/file").starts_with("{\"seq\":1,"));
    assert_eq!(folder.names("in/deeper"), ["file"]);
}

#[test]
fn a_path_that_is_no_text_or_very_long_is_an_error() {
    let folder = Folder::new("odd");
    let (_server, mut wire) = server(&folder, &[]);
    let long = "x".repeat(10_000);
    let deep = "deeper/".repeat(2000);
    for path in [long.as_bytes(), deep.as_bytes(), b"a\0b", b"../\xff"] {
        assert!(wire.call(&[&b"REDOUBLE"[..], b"SAVE", path]).is_error());
        assert!(wire.call(&[&b"REDOUBLE"[..], b"JOURNAL", b"EXPORT", path]).is_error());
    }
    assert_eq!(wire.call(&[&b"REDOUBLE"[..], b"SAVE", b"\xff\xfe"]), Frame::status("OK"));
    assert_eq!(fs::read_dir(folder.text("in")).unwrap().count(), 2);
}

#[test]
fn a_flag_lets_clients_write_anywhere_but_still_only_files() {
    let folder = Folder::new("anywhere");
    folder.link("out", "in/link");
    let pipe = folder.pipe("in/pipe");
    let (_server, mut wire) = server(&folder, &["--enable-paths-outside-dir", "yes"]);
    wire.ask("SET start rm");
    for words in writes(&pipe).iter().chain(&writes("/dev/null")) {
        let reply = wire.call(words).text();
        assert!(reply.ends_with("it is no regular file"), "{words:?}: {reply}");
    }
    let absolute = folder.text("new");
    for path in ["link", "../beside", &absolute] {
        for words in writes(path) {
            assert!(!wire.call(&words).is_error(), "{words:?}");
        }
    }
    assert!(folder.read("out").starts_with("{\"seq\":1,"));
    assert_eq!(folder.names(""), ["beside", "in", "new", "out"]);
    let refused = wire.ask("CONFIG SET enable-paths-outside-dir no").text();
    assert!(refused.contains("can't set immutable config"), "{refused}");
}

/// A server with a configuration file.
fn configured(folder: &Folder, config: &str) -> (Child, Wire) {
    let port = free_port();
    fs::write(config, format!("port {port}\naclfile {}\n", folder.text("users.acl"))).unwrap();
    let child = Command::new(env!("CARGO_BIN_EXE_redouble")).arg(config).stdout(Stdio::null()).spawn().unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    wait_until("the server", || TcpStream::connect(address).is_ok());
    (child, Wire::connect(address))
}

#[test]
fn a_pipe_in_the_way_of_a_file_of_the_server_holds_nobody_up() {
    let folder = Folder::new("pipes");
    let (users, config) = (folder.text("users.acl"), folder.text("redis.conf"));
    fs::write(&users, "user default on nopass ~* &* +@all\n").unwrap();
    let (mut server, mut wire) = configured(&folder, &config);
    for path in [&users, &config] {
        fs::remove_file(path).unwrap();
    }
    folder.pipe("users.acl");
    folder.pipe("redis.conf");
    for line in ["ACL LOAD", "ACL SAVE", "CONFIG REWRITE"] {
        assert!(wire.ask(line).is_error(), "{line}");
    }
    assert_eq!(wire.ask("PING"), Frame::status("PONG"));
    assert!(Command::new("kill").args(["-TERM", &server.id().to_string()]).status().unwrap().success());
    assert!(wire.read().is_err());
    assert!(server.wait().unwrap().success());
}

#[test]
fn a_link_in_the_way_of_a_pid_or_port_file_is_not_followed() {
    let folder = Folder::new("runtime");
    for name in ["pid", "port"] {
        folder.link("out", name);
    }
    let (pid_file, port_file) = (folder.text("pid"), folder.text("port"));
    let (server, _wire) = server(&folder, &["--pidfile", &pid_file, "--port-file", &port_file]);
    wait_until("the port file", || folder.read("port") != "old");
    assert_eq!(folder.read("port"), format!("{}\n", server.address().port()));
    assert_eq!(folder.read("pid"), format!("{}\n", server.id()));
    assert_eq!(folder.read("out"), "old");
}

#[test]
fn a_link_in_the_way_of_a_report_is_not_followed() {
    let folder = Folder::new("reports");
    let flags = ["--report-html", "--journal-out", "--junit", "--sarif"];
    let mut command = Command::new(env!("CARGO_BIN_EXE_redouble"));
    command.args(["run", "--audit"]);
    for flag in flags {
        let name = flag.trim_start_matches('-');
        folder.link("out", name);
        command.args([flag, &folder.text(name)]);
    }
    let output = command.args(["--", "true"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    for flag in flags {
        let name = flag.trim_start_matches('-');
        assert!(!fs::symlink_metadata(folder.text(name)).unwrap().is_symlink(), "{name}");
    }
    assert_eq!(folder.read("out"), "old");
}

#[test]
fn a_log_that_nobody_reads_does_not_stop_the_server() {
    let port = free_port();
    let mut child = Command::new(env!("CARGO_BIN_EXE_redouble"))
        .args(["--port", &port.to_string()])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    wait_until("the server", || TcpStream::connect(address).is_ok());
    let mut wire = Wire::connect(address);
    let script = "for i = 1, 2000 do redis.log(redis.LOG_WARNING, string.rep('x', 1000)) end return 'logged'";
    let reply = wire.call(&["EVAL", script, "0"]);
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(reply, Frame::bulk("logged"));
}
