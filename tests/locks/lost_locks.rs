//! Plays the tables of `docs/failover.md`: what lock libraries do when a failover loses a lock, and what helps.
//!
//! The master dies after it has given a lock to client A, and before a replica has that. Clients find the masters by Sentinels,
//! or, if their library cannot, at addresses that always lead to them.

use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use redouble::{Server, Servers};

use super::install::{Installed, install};
use super::packages::{NodePackages, Requirements, node_modules, python, said, write};
use super::shows;
use super::suites::{SUITES, Source};
use super::support::wire::Wire;

const PAGE: &str = include_str!("../../docs/failover.md");

const PYTHON: Requirements = Requirements { name: "lost-locks", text: include_str!("lost_locks/requirements.txt") };

const NODE: NodePackages = NodePackages {
    name: "lost-locks",
    package: include_str!("lost_locks/package.json"),
    lock: include_str!("lost_locks/package-lock.json"),
};

/// The crates, and what each takes locks with.
const CRATES: [(&str, &str); 2] =
    [("rslock", include_str!("lost_locks/rslock.rs")), ("redlock-rs", include_str!("lost_locks/redlock_rs.rs"))];

/// What the Sentinels call the masters.
const SERVICES: [&str; 3] = ["mymaster", "mymaster2", "mymaster3"];

/// Whether the page says what happens. `Err` if the programs cannot run.
pub fn page_is_right() -> Result<bool, String> {
    let mut programs = vec![python_program()?, node_program()?];
    for (library, program) in CRATES {
        programs.push(rust_program(library, program)?);
    }
    let mut happened = Vec::new();
    for program in &mut programs {
        happened.extend(play(program)?);
    }
    // The measures stand behind the libraries.
    happened.sort_by_key(|line| line.matches(" | ").count() < 7);
    let shown: Vec<&str> = ["| library |", "| measure |"].into_iter().flat_map(rows).collect();
    Ok(shows("docs/failover.md", &shown, &happened))
}

/// The rows of the table that begins with this.
fn rows(head: &str) -> impl Iterator<Item = &'static str> {
    PAGE.lines().skip_while(move |line| !line.starts_with(head)).skip(2).take_while(|line| line.starts_with('|'))
}

/// Runs a program with servers of its own, and returns the rows that it prints.
fn play(program: &mut Command) -> Result<Vec<String>, String> {
    let builder = Server::builder().instances(SERVICES.len()).replicas(2).sentinels(3).audit();
    let servers = builder.spawn_all().map_err(|error| error.to_string())?;
    let sentinels = servers[0].sentinels();
    let endpoints = |client| {
        let all = SERVICES.map(|service| follow(sentinels[0], service, client));
        let urls = all.into_iter().collect::<io::Result<Vec<_>>>().map_err(|error| error.to_string());
        urls.map(|urls| urls.join(","))
    };
    let list = |addresses: &[SocketAddr]| addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(",");
    program
        .env("REDIS_URLS", masters(&servers).join(","))
        .env("REDIS_SENTINELS", list(&sentinels))
        .env("REDIS_SENTINEL_SERVICE", SERVICES[0])
        .env("REDIS_ENDPOINTS_OF_A", endpoints("a")?)
        .env("REDIS_ENDPOINTS_OF_B", endpoints("b")?);
    Ok(said(program)?.lines().map(|line| format!("| {line} |")).collect())
}

fn masters(servers: &Servers) -> Vec<String> {
    servers.urls().into_iter().take(SERVICES.len()).collect()
}

/// Opens an address that leads to whichever server is the master, as providers of servers give one. Returns its URL. All who
/// come from here look like one process; so this names them.
fn follow(sentinel: SocketAddr, service: &'static str, name: &'static str) -> io::Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let url = format!("redis://{}", listener.local_addr()?);
    std::thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            let answer = Wire::connect(sentinel).ask(&format!("SENTINEL GET-MASTER-ADDR-BY-NAME {service}"));
            let [host, port] = [0, 1].map(|index| answer.items()[index].text());
            // A master that has just died refuses; the client comes again.
            let Ok(mut server) = TcpStream::connect(format!("{host}:{port}")) else { continue };
            let mut answer = [0; 5];
            let named = server.write_all(format!("CLIENT SETNAME {name}\r\n").as_bytes());
            if named.and_then(|()| server.read_exact(&mut answer)).is_err() {
                continue;
            }
            let both = client.try_clone().and_then(|other| Ok((other, server.try_clone()?)));
            let Ok((client_too, server_too)) = both else { continue };
            std::thread::spawn(move || forward(&client, &server));
            std::thread::spawn(move || forward(&server_too, &client_too));
        }
    });
    Ok(url)
}

fn forward(mut from: &TcpStream, mut to: &TcpStream) {
    let _ = io::copy(&mut from, &mut to);
    // Whichever end closes, the other one hears of it.
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

fn program(name: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/locks/lost_locks").join(name)
}

fn python_program() -> Result<Command, String> {
    let mut command = Command::new(python(PYTHON)?);
    command.arg(program("python_locks.py"));
    Ok(command)
}

fn node_program() -> Result<Command, String> {
    let mut command = Command::new("node");
    command.arg(program("node_locks.js")).env("NODE_PATH", node_modules(NODE)?);
    Ok(command)
}

/// Builds the program beside the crate's own source and shares its build.
fn rust_program(library: &str, program: &str) -> Result<Command, String> {
    let suite = SUITES.iter().find(|suite| suite.library == library);
    let suite = suite.ok_or_else(|| format!("no suite is called {library}"))?;
    let Source::Rust { features, .. } = suite.source else { return Err(format!("{library} is no crate")) };
    let Installed { directory, program: cargo } = install(suite)?;
    write(&directory.join("examples/lost_lock.rs"), &[include_str!("lost_locks/in_rust.rs"), program].concat())?;
    let target = directory.join("target");
    let mut command = Command::new(cargo);
    command.args(["run", "--quiet", "--example", "lost_lock", "--features", &features.join(",")]);
    command.arg("--target-dir").arg(target).current_dir(directory);
    command.env("CARGO_PROFILE_DEV_DEBUG", "0").env("CARGO_INCREMENTAL", "0");
    Ok(command)
}
