//! INFO about the process: server, tls, threads, cpu, modules.

use std::fs::read_to_string;
use std::path::Path;

use super::{Fields, VALKEY_9_1};
use crate::base::profile::{Family, Since};
use crate::commands::Call;
use crate::data::keyspace::hash_of;

pub(super) fn server(call: &Call<'_>, fields: &mut Fields) {
    let (instance, profile) = (call.server, fields.profile);
    let is_valkey = profile.family() == Family::Valkey;
    fields.add("redis_version", profile.redis_version());
    if is_valkey {
        fields.add("server_name", "valkey");
        fields.add("valkey_version", profile.version());
        fields.add("valkey_release_stage", "ga");
    }
    fields.add("redis_git_sha1", "00000000");
    fields.add("redis_git_dirty", 0);
    fields.add("redis_build_id", format!("{:x}", hash_of(env!("CARGO_PKG_VERSION").as_bytes())));
    let mode = if instance.sentinel.is_some() { "sentinel" } else { "standalone" };
    fields.add(if is_valkey { "server_mode" } else { "redis_mode" }, mode);
    let uname = rustix::system::uname();
    let system = match std::env::consts::OS {
        "linux" => "Linux",
        "macos" => "Darwin",
        other => other,
    };
    fields.add("os", format!("{system} {} {}", uname.release().to_string_lossy(), std::env::consts::ARCH));
    fields.add("arch_bits", usize::BITS);
    // In two parts: the text is no call.
    fields.add("monotonic_clock", concat!("POSIX clock", "_gettime"));
    fields.add("multiplexing_api", if cfg!(target_os = "linux") { "epoll" } else { "kqueue" });
    if !is_valkey {
        fields.add("atomicvar_api", "c11-builtin");
    }
    // As Redis says if another compiler than GCC made it.
    fields.add("gcc_version", "0.0.0");
    fields.add("process_id", std::process::id());
    fields.add("process_supervised", "no");
    fields.add("run_id", instance.identity.run_id());
    let port = instance.identity.port.get().copied().unwrap_or(0);
    fields.add("tcp_port", port);
    let micros = fields.micros;
    fields.add("server_time_usec", micros);
    let uptime = instance.clock.uptime().as_secs();
    fields.add("uptime_in_seconds", uptime);
    fields.add("uptime_in_days", uptime / 86_400);
    let hz = instance.config.text("hz");
    fields.add("hz", &hz);
    fields.add("configured_hz", &hz);
    fields.add_since(VALKEY_9_1, "clients_hz", &hz);
    fields.add("lru_clock", micros.div_euclid(1_000_000) & 0xff_ffff);
    let executable = std::env::current_exe().unwrap_or_default();
    fields.add("executable", executable.display());
    fields.add("config_file", instance.config.file().unwrap_or(Path::new("")).display());
    fields.add("io_threads_active", 0);
    fields.add_since(Since::valkey(8, 0, 0), "availability_zone", instance.config.text("availability-zone"));
    if profile.since_redis(7, 2) {
        let addresses: String =
            instance.config.text("bind").split_whitespace().map(|address| format!(",bind={address}")).collect();
        // The number is that of the kind. A kind that is not served has no line.
        let port = |name: &str| Some(instance.config.number::<u16>(name)).filter(|port| *port != 0);
        if let Some(port) = port("port") {
            fields.add("listener0", format!("name=tcp{addresses},port={port}"));
        }
        if let Some(path) = instance.config.live().unix_socket() {
            fields.add("listener1", format!("name=unix,bind={}", path.display()));
        }
        if let Some(port) = port("tls-port") {
            fields.add("listener2", format!("name=tls{addresses},port={port}"));
        }
    }
}

/// A server without certificates.
pub(super) fn tls(_: &Call<'_>, fields: &mut Fields) {
    for certificate in ["server_cert", "client_cert", "ca_cert"] {
        fields.add(&format!("tls_{certificate}_serial"), "none");
        fields.add(&format!("tls_{certificate}_expires_in_seconds"), 0);
    }
}

/// Redis has its main thread and those of `io-threads`; here all connections count for the main thread.
pub(super) fn threads(call: &Call<'_>, fields: &mut Fields) {
    let totals = call.server.stats.totals();
    let clients = call.server.clients.len();
    fields.add("io_thread_0", format!("clients={clients},reads={},writes={}", totals.reads, totals.writes));
}

pub(super) fn cpu(call: &Call<'_>, fields: &mut Fields) {
    /// The kernel's unit in `/proc` is 1/100 s, whatever its timer frequency.
    const TICKS: f64 = 100.0;
    let seconds = |file: &str| ticks(file).unwrap_or_default().map(|ticks| ticks as f64 / TICKS);
    let [user, system, children_user, children_system] = seconds("/proc/self/stat");
    let [main_user, main_system, ..] = seconds(&format!("/proc/self/task/{}/stat", std::process::id()));
    for (name, seconds) in [
        ("used_cpu_sys", system),
        ("used_cpu_user", user),
        ("used_cpu_sys_children", children_system),
        ("used_cpu_user_children", children_user),
        ("used_cpu_sys_main_thread", main_system),
        ("used_cpu_user_main_thread", main_user),
    ] {
        fields.add(name, format!("{seconds:.6}"));
    }
    if fields.profile.has(VALKEY_9_1) {
        let active = call.server.stats.call_micros() as f64 / 1e6;
        fields.add("used_active_time_main_thread", format!("{active:.6}"));
    }
}

/// The user and system time of the process and of its children.
fn ticks(file: &str) -> Option<[u64; 4]> {
    let text = read_to_string(file).ok()?;
    // The second field is the program's name in brackets, which may contain any bytes.
    let (_, rest) = text.rsplit_once(") ")?;
    let mut times = rest.split_whitespace().skip(11).map(|field| field.parse().unwrap_or(0));
    Some([times.next()?, times.next()?, times.next()?, times.next()?])
}

/// Lua is a module of Valkey.
pub(super) fn modules(_: &Call<'_>, fields: &mut Fields) {
    let module = "name=lua,ver=1,api=1,filters=0,usedby=[],using=[],\
                  options=[handle-repl-async-load|handle-atomic-slot-migration]";
    fields.add_since(VALKEY_9_1, "module", module);
}

pub(super) fn engines(call: &Call<'_>, fields: &mut Fields) {
    let stats = call.server.scripts.stats();
    let (memory, overhead) = (stats.eval_memory + stats.function_memory, 64);
    fields.add("engines_count", 1);
    fields.add("engines_total_used_memory", memory);
    fields.add("engines_total_memory_overhead", overhead);
    fields
        .add("engine_0", format!("name=LUA,module=lua,abi_version=4,used_memory={memory},memory_overhead={overhead}"));
}
