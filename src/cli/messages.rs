//! The texts of a server's start that programs wait for or look at: version, banner, refusals.

use std::path::Path;

use super::suggestions;
use crate::base::error::{Error, plain};
use crate::base::profile::{Family, PROFILES, Profile};
use crate::clients::config::LoadError;

/// The name of the server that a profile imitates.
pub(super) fn product(profile: &Profile) -> &'static str {
    match profile.family() {
        Family::Redis => "Redis",
        Family::Valkey => "Valkey",
    }
}

/// One line; programs look for ` v=` and for the first number.
pub(super) fn version(profile: &Profile) -> String {
    let (product, version) = (product(profile), profile.version());
    let build = env!("CARGO_PKG_VERSION");
    format!("{product} server v={version} sha=00000000:0 malloc=libc bits={} build=redouble-{build}", usize::BITS)
}

/// The line below it, which says what this program is. Under a server's own name it is left out: scripts take a field of
/// every line.
pub(super) fn build(profile: &Profile, is_static: bool) -> String {
    let (version, profile) = (env!("CARGO_PKG_VERSION"), profile.name());
    let system = match std::env::consts::OS {
        "macos" => "darwin",
        other => other,
    };
    let linked = if is_static { " static" } else { "" };
    // The release workflow tells the commit; anywhere else each commit would mean another build.
    let commit = option_env!("REDOUBLE_COMMIT").map(|commit| format!(", commit {commit}")).unwrap_or_default();
    format!("redouble {version} {}-{system}{linked}{commit}, profile {profile}", std::env::consts::ARCH)
}

/// Whether a program's name is that of a server which it stands in for.
pub(super) fn is_server_name(program: &Path) -> bool {
    let name = program.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    ["redis-server", "valkey-server"].iter().any(|server| name.contains(server))
}

/// The text with which Redis refuses a configuration. `flag_lines` are the lines of it that came as flags.
pub(super) fn fatal(error: &LoadError, flag_lines: &[u8]) -> Vec<u8> {
    let version = error.profile.version();
    let name = match error.profile.family() {
        Family::Redis => "Redis",
        Family::Valkey => "Version",
    };
    let mut text = format!("\n*** FATAL CONFIG FILE ERROR ({name} {version}) ***\n").into_bytes();
    if let Some((number, line)) = &error.line {
        text.extend(format!("Reading the configuration file, at line {number}\n>>> '").bytes());
        text.extend(line);
        text.extend(b"'\n");
    }
    text.extend(error.reason.bytes());
    text.push(b'\n');
    if let Some(hint) = hint(error, flag_lines) {
        let mut letters = hint.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        text.extend(first.into_iter().chain(letters).chain(['\n']).collect::<String>().bytes());
    }
    text
}

/// What was probably meant by a directive that does not exist.
fn hint(error: &LoadError, flag_lines: &[u8]) -> Option<String> {
    let (name, is_flag) = unknown_directive(error, flag_lines)?;
    if is_flag { suggestions::for_server_flag(&format!("--{name}")) } else { suggestions::for_file(&name) }
}

/// The name in a refused line that is no directive's, and whether the line came as a flag.
pub(super) fn unknown_directive(error: &LoadError, flag_lines: &[u8]) -> Option<(String, bool)> {
    let (_, line) = error.line.as_ref()?;
    let name = line.split(u8::is_ascii_whitespace).next()?.escape_ascii().to_string();
    let is_flag = flag_lines.split(|byte| *byte == b'\n').any(|flag| flag.trim_ascii() == line.trim_ascii());
    (!suggestions::is_directive(&name)).then_some((name, is_flag))
}

/// The profile that a program's name asks for: whoever starts `valkey-server` or `valkey-cli` wants a Valkey.
pub(super) fn profile_of_name(program: &Path) -> Profile {
    let name = program.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    if name.contains("valkey-server") || name == "valkey-cli" {
        PROFILES.into_iter().rfind(|profile| profile.family() == Family::Valkey).unwrap_or_default()
    } else {
        Profile::default()
    }
}

/// The ports that the configuration asks for.
pub(super) struct Ports {
    pub plain: u16,
    pub tls: u16,
    pub instances: usize,
}

/// Why a server cannot start. That a TCP address is taken was told already; this line names the port once more.
pub(super) fn cannot_listen(error: &Error, ports: &Ports, profile: &Profile) -> String {
    match error {
        Error::Bind { address, .. } => {
            // Of several instances, it need not be the first one's.
            let port: u16 = address.rsplit(':').next().and_then(|port| port.parse().ok()).unwrap_or(ports.plain);
            let is_tls = ports.tls != 0 && (ports.tls..).take(ports.instances).any(|tls| tls == port);
            let kind = match (is_tls, profile.since_redis(7, 2)) {
                (true, true) => "tls",
                (true, false) => "TLS",
                (false, true) => "tcp",
                (false, false) => "TCP",
            };
            format!("Failed listening on port {port} ({kind}), aborting.")
        }
        Error::Socket { path, source } => {
            format!("Failed opening Unix socket: bind: {} ({})", plain(source), path.display())
        }
        other => format!("{other}, exiting."),
    }
}
