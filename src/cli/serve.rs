//! A plain server: the program as a drop-in for `redis-server`.

use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use super::directives::ConfigSources;
use super::messages::Ports;
use super::outputs::{self, RuntimeFile};
use super::signals::ShutdownSignals;
use super::{Program, messages, print_error, process, shell_quoted, suggestions};
use crate::base::error::plain;
use crate::base::files::{DescriptorLimit, allow_clients};
use crate::base::log::{Level, Log};
use crate::base::profile::Profile;
use crate::clients::config::{Config, LoadError, Loaded, load_over};
use crate::server::{BoundServers, Builder};

/// Set by the container image.
const IN_CONTAINER: &str = "REDOUBLE_IN_CONTAINER";

/// Where Redis puts the pid of a server in the background by default.
const DEFAULT_PID_FILE: &str = "/var/run/redis.pid";

impl Program {
    /// Serves until the server is shut down.
    pub(super) fn serve(self, sources: ConfigSources) -> ExitCode {
        let file = match sources.file.as_deref().map(std::path::absolute).transpose() {
            Ok(file) => file,
            Err(error) => return print_error(plain(&error).as_bytes()),
        };
        let mut text = Vec::new();
        if let Some(file) = &file {
            match std::fs::read(file) {
                Ok(content) => text = content,
                Err(error) => return no_config_file(&sources, file, &error),
            }
        }
        let mut standard_input = Vec::new();
        if sources.standard_input {
            if let Err(error) = io::stdin().read_to_end(&mut standard_input) {
                return print_error(plain(&error).as_bytes());
            }
            text.extend_from_slice(&standard_input);
        }
        let flag_lines = sources.flag_lines.as_slice();
        if !flag_lines.is_empty() {
            text.push(b'\n');
            text.extend_from_slice(flag_lines);
        }
        let is_configured = file.is_some() || sources.standard_input || !flag_lines.is_empty();
        let loaded = load_over(default_config(), &text, file, self.profile).and_then(check_renames);
        let Loaded { config, profile } = match loaded {
            Ok(loaded) => loaded,
            Err(error) => return print_error(messages::fatal(&error, flag_lines).trim_ascii_end()),
        };
        // The process in the background reads the same arguments, so it has to start in the same directory.
        let directory = std::env::current_dir().unwrap_or_default();
        let log = match enter_directory(&config).and_then(|()| open_log(&config)) {
            Ok(log) => log,
            Err(reason) => {
                let error = LoadError { line: None, reason: reason.into(), profile };
                return print_error(messages::fatal(&error, flag_lines).trim_ascii_end());
            }
        };
        if process::is_in_background() {
            process::detach();
        } else if config.is_on("daemonize") && process::supervisor(&config.text("supervised")).is_none() {
            return match process::go_into_background(&self.name, &self.arguments, &directory, &standard_input) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => print_error(format!("Can't go into the background: {}", plain(&error)).as_bytes()),
            };
        }
        self.log_start(&log, &config, &profile, is_configured);
        raise_file_limit(&config, &log);
        serve(config, profile, log)
    }

    /// Writes the first lines of the log, some of which programs wait for.
    pub(super) fn log_start(&self, log: &Log, config: &Config, profile: &Profile, is_configured: bool) {
        let (product, version) = (messages::product(profile), profile.version());
        let write = |text: &str| log.write(start_level(profile), text);
        write(&format!("oO0OoO0OoO0Oo {product} is starting oO0OoO0OoO0Oo"));
        let (bits, pid) = (usize::BITS, std::process::id());
        write(&format!(
            "{product} version={version}, bits={bits}, commit=00000000, modified=0, pid={pid}, just started"
        ));
        write(&format!("This is redouble {}, a test double.", env!("CARGO_PKG_VERSION")));
        if is_configured {
            write("Configuration loaded");
        } else {
            let program = Path::new(&self.name).display();
            log.warn(format!(
                "Warning: no config file specified, using the default config. In order to specify a config file use \
                 {program} /path/to/redis.conf"
            ));
        }
        if config.asks_to_keep_data() && !config.is_on("persist") {
            write(
                "No data is kept: save and appendonly have no effect without --persist, which keeps data in dbfilename.",
            );
        }
        config.without_effect().iter().for_each(|line| write(line));
        log.begin_serving();
    }
}

/// The settings that files and flags override.
///
/// A container has a network of its own, whose ports are reached only if they are published. So its server listens on
/// every address there, and without protected mode, as the server of Redis's own image does.
fn default_config() -> Config {
    let config = Config::default();
    if std::env::var_os(IN_CONTAINER).is_some() {
        config.assign("bind", "* -::*");
        config.assign("protected-mode", "no");
    }
    config
}

/// Checks `rename-command` against the commands of the profile.
pub(super) fn check_renames(loaded: Loaded) -> Result<Loaded, LoadError> {
    let mut table = crate::commands::table(loaded.profile);
    for rename in loaded.config.renames() {
        table = table.rename(&rename.name, &rename.new).map_err(|error| LoadError {
            line: Some(rename.line.clone()),
            reason: error.text().into(),
            profile: loaded.profile,
        })?;
    }
    Ok(loaded)
}

/// Says that the configuration file cannot be read, as Redis does, and which subcommand may have been meant.
fn no_config_file(sources: &ConfigSources, file: &Path, error: &io::Error) -> ExitCode {
    let reason = plain(error);
    Log::output().warn(format!("Fatal error, can't open config file '{}': {reason}", file.display()));
    let name = sources.file.as_deref().and_then(Path::to_str).unwrap_or_default();
    if error.kind() == io::ErrorKind::NotFound
        && let Some(meant) = suggestions::subcommand_like(name)
    {
        print_error(format!("redouble: there is no file '{name}'; did you mean redouble {meant}?").as_bytes());
    }
    ExitCode::FAILURE
}

/// Makes `dir` the directory that other paths are relative to.
pub(super) fn enter_directory(config: &Config) -> Result<(), String> {
    match config.path("dir") {
        Some(directory) => std::env::set_current_dir(directory).map_err(|error| plain(&error)),
        None => {
            let here = std::env::current_dir().unwrap_or_default();
            config.assign("dir", here.into_os_string().into_encoded_bytes());
            Ok(())
        }
    }
}

fn open_log(config: &Config) -> Result<Log, String> {
    let log = match config.path("logfile") {
        Some(path) => outputs::open_log(&path).map_err(|reason| format!("Can't open the log file: {reason}"))?,
        None => Log::output(),
    };
    log.set_least(config.live().log_level.load(std::sync::atomic::Ordering::Relaxed));
    Ok(log)
}

/// So many clients are enough, unless somebody asks for more.
const ENOUGH: usize = 400;

/// Sees that there can be as many connections as `maxclients` promises.
pub(super) fn raise_file_limit(config: &Config, log: &Log) {
    let wanted: usize = config.number("maxclients");
    match allow_clients(wanted, config.sockets_of_a_client()) {
        Ok(DescriptorLimit::Enough) => {}
        Ok(DescriptorLimit::Raised { to, from }) => {
            log.notice(format!("Increased maximum number of open files to {to} (it was originally set to {from})."));
        }
        Err(possible) => {
            config.assign("maxclients", possible.to_string());
            // In front of a real server a client takes two, and the usual limits are not made for that.
            let is_usual = config.sockets_of_a_client() > 1 && !config.is_named("maxclients") && possible >= ENOUGH;
            log.write(
                if is_usual { Level::Notice } else { Level::Warning },
                &format!(
                    "Too few open files for maxclients {wanted}, so it has been reduced to {possible}. If you need higher \
                     maxclients increase 'ulimit -n'."
                ),
            );
        }
    }
}

/// The level of the lines about the start: warnings in Redis until 7.2, notices since.
fn start_level(profile: &Profile) -> Level {
    if profile.since_redis(7, 2) { Level::Notice } else { Level::Warning }
}

fn serve(config: Config, profile: Profile, log: Log) -> ExitCode {
    if process::is_in_background() && config.path("pidfile").is_none() {
        config.assign("pidfile", DEFAULT_PID_FILE);
    }
    let pid_file = config.path("pidfile");
    let ports = Ports {
        plain: config.number("port"),
        tls: config.number("tls-port"),
        instances: config.number::<usize>("instances") * (1 + config.number::<usize>("replicas")),
    };
    let (port_file, tls_port_file) = (config.path("port-file"), config.path("tls-port-file"));
    let ends_with_parent = config.is_on("exit-with-parent");
    let log = Arc::new(log);
    let running = match Builder::from_config(config, profile, Arc::clone(&log)).start() {
        Ok(running) => running,
        Err(error) => {
            log.warn(messages::cannot_listen(&error, &ports, &profile));
            return ExitCode::FAILURE;
        }
    };
    let instance = Arc::clone(running.instance());
    let signals = {
        let _inside = running.event_loop().enter();
        match ShutdownSignals::catch() {
            Ok(signals) => signals,
            Err(error) => {
                log.warn(format!("Signals cannot be caught: {}", plain(&error)));
                return ExitCode::FAILURE;
            }
        }
    };
    running.event_loop().spawn(signals.answer(Arc::clone(&instance)));
    if ends_with_parent && let Err(error) = process::end_with_parent(Arc::clone(&instance)) {
        log.warn(format!("exit-with-parent: {}", plain(&error)));
        return ExitCode::FAILURE;
    }
    let pid_file = pid_file.and_then(|path| match RuntimeFile::write(path.clone(), [std::process::id()]) {
        Ok(file) => Some(file),
        // Redis serves all the same: most users cannot write to the default place.
        Err(error) => {
            log.warn(format!("Failed to write PID file {}: {}", path.display(), plain(&error)));
            None
        }
    });
    log_ready(&running, &profile, &ports, &log);
    if let Some(socket) = process::supervisor(&running.instance().config.text("supervised"))
        && let Err(error) = process::notify_supervisor(&socket)
    {
        log.warn(format!("systemd cannot be told that the server is ready: {}", plain(&error)));
    }
    let port_files = outputs::write_port_files([(port_file, running.ports()), (tls_port_file, running.tls_ports())]);
    let ended = match port_files {
        Ok(files) => {
            running.leave_data_to_the_system();
            let served = running.serve();
            files.into_iter().for_each(RuntimeFile::remove);
            served.map_err(|error| error.to_string())
        }
        Err(error) => Err(format!("Failed to write the port file: {}", plain(&error))),
    };
    if let Some(file) = pid_file {
        log.notice("Removing the pid file.");
        file.remove();
    }
    if let Err(reason) = ended {
        log.warn(reason);
        return ExitCode::FAILURE;
    }
    log.warn(format!("{} is now ready to exit, bye bye...", messages::product(&profile)));
    ExitCode::SUCCESS
}

fn first_port(running: &BoundServers) -> u16 {
    running.ports().first().copied().unwrap_or(0)
}

/// Writes the lines that programs wait for. Which words they wait for depends on the version of Redis that they know.
fn log_ready(running: &BoundServers, profile: &Profile, asked: &Ports, log: &Log) {
    log.notice(format!("Running mode=standalone, port={}.", first_port(running)));
    log.write(start_level(profile), "Server initialized");
    let names_kind = profile.since_redis(7, 2);
    let (addresses, tls_addresses) = (running.addresses(), running.tls_addresses());
    if asked.plain == 0 || addresses.len() > 1 {
        addresses.iter().for_each(|address| log.notice(format!("Listening on {address}")));
    }
    if asked.tls == 0 || tls_addresses.len() > 1 {
        tls_addresses.iter().for_each(|address| log.notice(format!("Listening on {address} for TLS")));
    }
    running.sentinels().iter().for_each(|address| log.notice(format!("Listening on {address} as a Sentinel")));
    if let Some(address) = tls_addresses.first() {
        log_tls_client(&running.instance().config, *address, log);
    }
    let socket = running.instance().config.live().unix_socket();
    let serves_tcp = !addresses.is_empty() || !tls_addresses.is_empty();
    if !names_kind && serves_tcp {
        log.notice("Ready to accept connections");
    }
    if let Some(path) = &socket {
        log.notice(format!("The server is now ready to accept connections at {}", path.display()));
    }
    if names_kind || !serves_tcp {
        let kinds = [("tcp", !addresses.is_empty()), ("unix", socket.is_some()), ("tls", !tls_addresses.is_empty())];
        let served = kinds.iter().filter(|(_, is_served)| *is_served);
        served.for_each(|(kind, _)| log.notice(format!("Ready to accept connections {kind}")));
    }
}

/// Writes how a client connects with the throw-away certificates.
fn log_tls_client(config: &Config, address: std::net::SocketAddr, log: &Log) {
    let Some(directory) = config.path("tls-self-signed") else { return };
    let directory = std::path::absolute(&directory).unwrap_or(directory);
    let file = |name: &str| shell_quoted(directory.join(name).as_os_str());
    let shown = match config.value("tls-auth-clients").as_slice() {
        b"yes" => format!(" --cert {} --key {}", file("client.crt"), file("client.key")),
        _ => String::new(),
    };
    log.notice(format!("To connect: redis-cli --tls --cacert {}{shown} -p {}", file("ca.crt"), address.port()));
}
