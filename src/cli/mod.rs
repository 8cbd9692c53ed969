//! The program: a drop-in `redis-server`, and the words `run`, `explore`, `audit` and `report`.
//!
//! Knows arguments, configuration files, signals, child processes and exit statuses.
//! May use: every floor below it.
//! Begin with [`run`], which does what the command line asks for.

mod arguments;
mod audit;
mod explore;
mod judging;
mod process;
mod recorded;
mod report;
mod report_page;
mod run;
mod verdict;
mod words;

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use crate::base::error::plain;
use crate::base::files::{Room, allow_clients};
use crate::base::log::{Level, Log};
use crate::base::profile::Profile;
use crate::clients::config::{Config, LoadError, Loaded, load};
use crate::server::{Builder, Running};
use arguments::{Request, Sources};
use process::{Notice, Signals};

/// Where Redis puts the pid of a server in the background that was not told where.
const USUAL_PID_FILE: &str = "/var/run/redis.pid";

/// Runs the program; returns once the server has ended.
pub(crate) fn run() -> ExitCode {
    let mut arguments = std::env::args_os();
    let program = arguments.next().unwrap_or_else(|| "redouble".into());
    let arguments: Vec<OsString> = arguments.collect();
    let profile = words::profile_of_name(Path::new(&program));
    if let Some(parent) = process::followed() {
        return run::become_command(&parent, &arguments);
    }
    match arguments::parse(&arguments) {
        Request::Run(run) => Start { program, arguments, profile }.run(run),
        Request::RunHelp => say(words::RUN_HELP.trim_end()),
        Request::Misused(reason) => {
            let _ = complain(format!("redouble run: {reason}").as_bytes());
            ExitCode::from(run::OWN_FAILURE)
        }
        Request::Explore(explore) => Start { program, arguments, profile }.explore(&explore),
        Request::ExploreHelp => say(words::EXPLORE_HELP.trim_end()),
        Request::ExploreMisused(reason) => {
            let _ = complain(format!("redouble explore: {reason}").as_bytes());
            ExitCode::from(run::OWN_FAILURE)
        }
        Request::Audit(recordings) => recordings.audit(),
        Request::AuditHelp => say(words::AUDIT_HELP.trim_end()),
        Request::AuditMisused(reason) => {
            let _ = complain(format!("redouble audit: {reason}").as_bytes());
            ExitCode::from(recorded::CANNOT)
        }
        Request::Report(arguments) => report_page::report(&arguments),
        Request::Help => say(words::help().trim_end()),
        Request::Version => version(&arguments, profile),
        Request::Refused(reason) => complain(reason.as_bytes()),
        Request::Serve(sources) => Start { program, arguments, profile }.serve(sources),
    }
}

fn version(arguments: &[OsString], profile: Profile) -> ExitCode {
    let asked = match arguments {
        [_, name, _] => name.to_string_lossy().parse(),
        _ => Ok(profile),
    };
    match asked {
        Ok(profile) => say(&words::version(&profile)),
        Err(reason) => complain(reason.as_bytes()),
    }
}

fn say(text: &str) -> ExitCode {
    match writeln!(io::stdout(), "{text}") {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn complain(text: &[u8]) -> ExitCode {
    // There is nobody left to tell when this fails.
    let _ = io::stderr().write_all(&[text, b"\n"].concat());
    ExitCode::FAILURE
}

/// How the program was started.
struct Start {
    program: OsString,
    arguments: Vec<OsString>,
    profile: Profile,
}

impl Start {
    fn serve(self, sources: Sources) -> ExitCode {
        let file = match sources.file.as_deref().map(std::path::absolute).transpose() {
            Ok(file) => file,
            Err(error) => return complain(plain(&error).as_bytes()),
        };
        let mut text = Vec::new();
        if let Some(file) = &file {
            match std::fs::read(file) {
                Ok(content) => text = content,
                Err(error) => {
                    let reason = plain(&error);
                    Log::output().warn(format!("Fatal error, can't open config file '{}': {reason}", file.display()));
                    return ExitCode::FAILURE;
                }
            }
        }
        let mut standard_input = Vec::new();
        if sources.standard_input {
            if let Err(error) = io::stdin().read_to_end(&mut standard_input) {
                return complain(plain(&error).as_bytes());
            }
            text.extend_from_slice(&standard_input);
        }
        if !sources.flags.is_empty() {
            text.push(b'\n');
            text.extend_from_slice(&sources.flags);
        }
        let configured = file.is_some() || sources.standard_input || !sources.flags.is_empty();
        let Loaded { config, profile } = match load(&text, file, self.profile) {
            Ok(loaded) => loaded,
            Err(error) => return complain(words::fatal(&error).trim_ascii_end()),
        };
        // The process in the background reads the same arguments, so it has to start from here too.
        let directory = std::env::current_dir().unwrap_or_default();
        let log = match enter_directory(&config).and_then(|()| open_log(&config)) {
            Ok(log) => log,
            Err(reason) => {
                let error = LoadError { line: None, reason: reason.into(), profile };
                return complain(words::fatal(&error).trim_ascii_end());
            }
        };
        if process::is_in_background() {
            process::detach();
        } else if config.is_on("daemonize") {
            return match process::go_into_background(&self.program, &self.arguments, &directory, &standard_input) {
                Ok(()) => ExitCode::SUCCESS,
                Err(error) => complain(format!("Can't go into the background: {}", plain(&error)).as_bytes()),
            };
        }
        self.greet(&log, &profile, configured);
        make_room(&config, &log);
        serve(config, profile, log)
    }

    /// The first lines, some of which programs wait for.
    fn greet(&self, log: &Log, profile: &Profile, configured: bool) {
        let (product, version) = (words::product(profile), profile.version());
        let say = |text: &str| log.write(usual_level(profile), text);
        say(&format!("oO0OoO0OoO0Oo {product} is starting oO0OoO0OoO0Oo"));
        let (bits, pid) = (usize::BITS, std::process::id());
        say(&format!("{product} version={version}, bits={bits}, commit=00000000, modified=0, pid={pid}, just started"));
        say(&format!("This is redouble {}, a test double.", env!("CARGO_PKG_VERSION")));
        if configured {
            say("Configuration loaded");
        } else {
            let program = Path::new(&self.program).display();
            log.warn(format!(
                "Warning: no config file specified, using the default config. In order to specify a config file use \
                 {program} /path/to/redis.conf"
            ));
        }
        log.begin_serving();
    }
}

/// Makes `dir` the directory that other paths are relative to.
fn enter_directory(config: &Config) -> Result<(), String> {
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
        Some(path) => Log::file(&path).map_err(|error| format!("Can't open the log file: {}", plain(&error)))?,
        None => Log::output(),
    };
    log.set_least(config.live().log_level.load(std::sync::atomic::Ordering::Relaxed));
    Ok(log)
}

/// Sees that there can be as many connections as `maxclients` promises.
fn make_room(config: &Config, log: &Log) {
    let wanted: usize = config.number("maxclients");
    match allow_clients(wanted) {
        Ok(Room::Enough) => {}
        Ok(Room::Raised { to, from }) => {
            log.notice(format!("Increased maximum number of open files to {to} (it was originally set to {from})."));
        }
        Err(possible) => {
            config.assign("maxclients", possible.to_string());
            log.warn(format!(
                "Too few open files for maxclients {wanted}, so it has been reduced to {possible}. If you need higher \
                 maxclients increase 'ulimit -n'."
            ));
        }
    }
}

/// What Redis found worth a warning until 7.2 is only a notice since.
fn usual_level(profile: &Profile) -> Level {
    if profile.since_redis(7, 2) { Level::Notice } else { Level::Warning }
}

fn serve(config: Config, profile: Profile, log: Log) -> ExitCode {
    if process::is_in_background() && config.path("pidfile").is_none() {
        config.assign("pidfile", USUAL_PID_FILE);
    }
    let pid_file = config.path("pidfile");
    let (port, port_file) = (config.number::<u16>("port"), config.path("port-file"));
    let follows_parent = config.is_on("exit-with-parent");
    let log = Arc::new(log);
    let running = match Builder::from_config(config, profile, Arc::clone(&log)).start() {
        Ok(running) => running,
        Err(error) => {
            log.warn(words::cannot_listen(&error, port, &profile));
            return ExitCode::FAILURE;
        }
    };
    let instance = Arc::clone(running.instance());
    let signals = {
        let _inside = running.event_loop().enter();
        match Signals::catch() {
            Ok(signals) => signals,
            Err(error) => {
                log.warn(format!("Signals cannot be caught: {}", plain(&error)));
                return ExitCode::FAILURE;
            }
        }
    };
    running.event_loop().spawn(signals.answer(Arc::clone(&instance)));
    if follows_parent && let Err(error) = process::follow_parent(Arc::clone(&instance)) {
        log.warn(format!("exit-with-parent: {}", plain(&error)));
        return ExitCode::FAILURE;
    }
    let pid_file = pid_file.and_then(|path| match Notice::put_up(path.clone(), [std::process::id()]) {
        Ok(file) => Some(file),
        // As in Redis, no reason not to serve: the usual place is closed to most users.
        Err(error) => {
            log.warn(format!("Failed to write PID file {}: {}", path.display(), plain(&error)));
            None
        }
    });
    tell_ready(&running, &profile, port == 0, &log);
    let ports = running.ports().into_iter().map(u32::from);
    let ended = match port_file.map(|path| Notice::put_up(path, ports)).transpose() {
        Ok(port_file) => {
            let served = running.serve();
            if let Some(file) = port_file {
                file.take_down();
            }
            served.map_err(|error| error.to_string())
        }
        Err(error) => Err(format!("Failed to write the port file: {}", plain(&error))),
    };
    if let Some(file) = pid_file {
        log.notice("Removing the pid file.");
        file.take_down();
    }
    if let Err(reason) = ended {
        log.warn(reason);
        return ExitCode::FAILURE;
    }
    log.warn(format!("{} is now ready to exit, bye bye...", words::product(&profile)));
    ExitCode::SUCCESS
}

fn first_port(running: &Running) -> u16 {
    running.ports().first().copied().unwrap_or(0)
}

/// The lines that programs wait for. Which words they wait for differs with the version of Redis they know.
fn tell_ready(running: &Running, profile: &Profile, chosen: bool, log: &Log) {
    log.notice(format!("Running mode=standalone, port={}.", first_port(running)));
    log.write(usual_level(profile), "Server initialized");
    let newer = profile.since_redis(7, 2);
    let addresses = running.addresses();
    if !addresses.is_empty() {
        if chosen || addresses.len() > 1 {
            addresses.iter().for_each(|address| log.notice(format!("Listening on {address}")));
        }
        log.notice(if newer { "Ready to accept connections tcp" } else { "Ready to accept connections" });
    }
    if let Some(path) = running.instance().config.live().unix_socket() {
        log.notice(format!("The server is now ready to accept connections at {}", path.display()));
        if newer || addresses.is_empty() {
            log.notice("Ready to accept connections unix");
        }
    }
}
