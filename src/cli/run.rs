//! `redouble run`: a server for as long as a command runs.
//!
//! The server is in this very process, so that it cannot outlive it. The command is this process's child and ends with it,
//! even if this process is killed.

use std::io;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Signal, kill_process};

use super::child::{child_command, shell_status, wait};
use super::command_line::CommandRun;
use super::environment::environment;
use super::outputs::{RuntimeFile, open_log, write_port_files};
use super::run_audit::NumberedInstance;
use super::run_results::RunResults;
use super::serve::{check_renames, enter_directory, raise_file_limit};
use super::signals::ForwardedSignals;
use super::subcommand::Subcommand;
use super::verbose::CommandPrinter;
use super::{Program, fail, messages, process, suggestions};
use crate::base::clock::Clock;
use crate::base::error::plain;
use crate::base::log::Log;
use crate::base::profile::Profile;
use crate::clients::config::{Config, LoadError, Loaded, load_over};
use crate::server::{Builder, Server};

impl Program {
    /// Runs a server and a command; returns the command's status.
    pub(super) fn run(self, run: CommandRun) -> ExitCode {
        match self.try_run(run) {
            Ok(status) => ExitCode::from(status),
            Err(reason) => fail(Subcommand::Run, &reason),
        }
    }

    /// Loads the configuration, enters the server's directory and opens the log. Without `--logfile` it is silent but for
    /// the warnings of `record`.
    pub(super) fn prepare_server(
        &self,
        subcommand: Subcommand,
        run: &CommandRun,
    ) -> Result<(Config, Profile, Arc<Log>), String> {
        let Loaded { config, profile } = self.load_config(subcommand, run)?;
        enter_directory(&config)?;
        let log = match config.path("logfile") {
            Some(path) => open_log(&path).map_err(|reason| format!("can't open the log file: {reason}"))?,
            // What happens to the server that is recorded must be known.
            None if subcommand == Subcommand::Record => Log::warnings(),
            None => Log::silent(),
        };
        self.log_start(&log, &config, &profile, true);
        Ok((config, profile, Arc::new(log)))
    }

    fn try_run(&self, mut run: CommandRun) -> Result<u8, String> {
        // The command runs here, and paths of the subcommand's flags are relative to here, whatever `--dir` says.
        let here = std::env::current_dir().map_err(|error| plain(&error))?;
        let results = RunResults::prepare(&run.options)?;
        if let Some(audit) = &results.audit {
            run.config.flag_lines.extend(audit.directives());
        }
        let (config, profile, log) = self.prepare_server(Subcommand::Run, &run)?;
        let is_verbose = run.options.verbose;
        if results.needs_journal() || is_verbose {
            config.assign("journal", "yes");
        }
        let (pid_file, port_file) = (config.path("pidfile"), config.path("port-file"));
        let tls_port_file = config.path("tls-port-file");
        let ends_with_parent = config.is_on("exit-with-parent");
        let events = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let events = events.map_err(|error| plain(&error))?;
        let _inside = events.enter();
        let mut signals = ForwardedSignals::catch()?;
        let builder = Builder::for_command(config, profile, Arc::clone(&log));
        let servers = builder.spawn_all().map_err(|error| error.to_string())?;
        let ports = servers.iter().flat_map(|server| server.ports(false)).collect();
        let tls_ports = servers.iter().flat_map(|server| server.ports(true)).collect();
        let pid_file = pid_file.map(|path| RuntimeFile::write(path, [std::process::id()])).transpose();
        let port_files = write_port_files([(port_file, ports), (tls_port_file, tls_ports)]);
        let refused = |error: io::Error| format!("a file cannot be written: {}", plain(&error));
        let (pid_file, port_files) = (pid_file.map_err(refused)?, port_files.map_err(refused)?);
        let runtime_files = pid_file.into_iter().chain(port_files);
        if ends_with_parent {
            end_with_parent().map_err(|error| format!("exit-with-parent: {}", plain(&error)))?;
        }
        let printer = is_verbose.then(|| CommandPrinter::start(&servers)).transpose();
        let printer = printer.map_err(|error| format!("a thread cannot be started: {}", plain(&error)))?;
        let variables = environment(&servers, &run.options.variables);
        let child =
            child_command(&run.command).and_then(|mut command| command.current_dir(here).envs(variables).spawn());
        let child = child.map_err(|error| format!("the command cannot be started: {}", plain(&error)))?;
        // Not before the command is started, which inherits the limit of open files.
        numbered_instances(&servers).iter().for_each(|(_, instance)| raise_file_limit(&instance.config, &log));
        let status = events.block_on(wait(child, &mut signals)).map_err(|error| plain(&error))?;
        let numbered = numbered_instances(&servers);
        for (_, instance) in numbered.iter().filter(|(_, instance)| instance.space.is_empty()) {
            // A failure stands in the log, and the command's status counts.
            let _ = instance.save_at_end(None);
        }
        if results.audit.is_some() || results.needs_journal() || is_verbose {
            events.block_on(wait_for_disconnects(&numbered));
        }
        if let Some(printer) = printer {
            printer.finish();
        }
        drop(servers);
        runtime_files.for_each(RuntimeFile::remove);
        let (command_status, own_status) = (shell_status(status), results.finish(&numbered));
        // The command's own failure goes first.
        Ok(if command_status == 0 { own_status } else { command_status })
    }

    /// The configuration of the file and the flags. The default port is any free one.
    fn load_config(&self, subcommand: Subcommand, run: &CommandRun) -> Result<Loaded, String> {
        let path = |path: &Path| std::path::absolute(path).map_err(|error| plain(&error));
        let file = run.config.file.as_deref().map(path).transpose()?;
        let mut text = Vec::new();
        if let Some(file) = &file {
            text = std::fs::read(file)
                .map_err(|error| format!("can't open config file '{}': {}", file.display(), plain(&error)))?;
        }
        text.push(b'\n');
        text.extend_from_slice(&run.config.flag_lines);
        let config = Config::default();
        config.assign("port", "0");
        let loaded = load_over(config, &text, file, self.profile).and_then(check_renames);
        let loaded = loaded.map_err(|error| config_error(subcommand, &error, &run.config.flag_lines))?;
        if loaded.config.is_on("daemonize") {
            return Err("with --daemonize there would be nobody to wait for the command".to_owned());
        }
        Ok(loaded)
    }
}

/// The error text for a configuration that the server refuses, with a hint if a name is unknown.
fn config_error(subcommand: Subcommand, error: &LoadError, flag_lines: &[u8]) -> String {
    let Some((_, line)) = &error.line else { return error.reason.to_string() };
    let hint = messages::unknown_directive(error, flag_lines).and_then(|(name, is_flag)| match is_flag {
        true => Some(suggestions::for_flag(subcommand, &format!("--{name}"))),
        false => suggestions::for_file(&name),
    });
    let hint = hint.map(|hint| format!("; {hint}")).unwrap_or_default();
    format!("{}, in '{}'{hint}", error.reason, String::from_utf8_lossy(line).trim_end())
}

/// The servers with all their spaces.
pub(super) fn numbered_instances(servers: &[Server]) -> Vec<NumberedInstance> {
    (1..)
        .zip(servers)
        .flat_map(|(number, server)| server.instances().into_iter().map(move |instance| (number, instance)))
        .collect()
}

/// Ends this process, as SIGTERM does, when its parent ends.
fn end_with_parent() -> io::Result<()> {
    let this_process = rustix::process::getpid();
    process::watch_parent(move || {
        // A process may always send itself a signal.
        let _ = kill_process(this_process, Signal::TERM);
    })
}

/// Waits until the servers have read everything that the command has sent and seen its connections end. Gives up after half
/// a second, because others may be connected.
pub(super) async fn wait_for_disconnects(servers: &[NumberedInstance]) {
    const STEP: Duration = Duration::from_millis(1);
    const STEPS: usize = 500;
    for _ in 0..STEPS {
        if servers.iter().all(|(_, instance)| instance.clients.is_empty()) {
            break;
        }
        Clock::sleep(STEP).await;
    }
}
