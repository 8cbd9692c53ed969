//! The texts of LATENCY DOCTOR and LATENCY GRAPH.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use crate::base::profile::Family;
use crate::clients::latency::{LatencyEvent, LatencySeries};
use crate::commands::Call;

/// The height of a graph, and how many values each line can tell apart.
const LINES: usize = 4;
const STEPS: &[u8] = b"_o#";
/// The most samples of a graph side by side.
const COLUMNS: usize = 80;

/// What LATENCY DOCTOR says where Redis and Valkey differ.
struct Wording {
    server: &'static str,
    site: &'static str,
    disabled: &'static str,
    quiet: &'static str,
    observed: &'static str,
    advice: &'static str,
}

const REDIS: Wording = Wording {
    server: "Redis",
    site: "redis.io",
    disabled: "I'm sorry, Dave, I can't do that. Latency monitoring is disabled in this Redis instance. You may use \
               \"CONFIG SET latency-monitor-threshold <milliseconds>.\" in order to enable it. If we weren't in a deep \
               space mission I'd suggest to take a look at https://redis.io/topics/latency-monitor.\n",
    quiet: "Dave, no latency spike was observed during the lifetime of this Redis instance, not in the slightest bit. I \
            honestly think you ought to sit down calmly, take a stress pill, and think things over.\n",
    observed: "Dave, I have observed latency spikes in this Redis instance. You don't mind talking about it, do you \
               Dave?\n\n",
    advice: "\nI have a few advices for you:\n\n",
};

const VALKEY: Wording = Wording {
    server: "Valkey",
    site: "valkey.io",
    disabled: "I'm sorry, Dave, I can't do that. Latency monitoring is disabled in this Valkey instance. You may use \
               \"CONFIG SET latency-monitor-threshold <milliseconds>.\" in order to enable it.\n",
    quiet: "No latency spike was observed during the lifetime of this Valkey instance, not in the slightest bit.\n",
    observed: "Latency spikes are observed in this Valkey instance.\n\n",
    advice: "\nHere is some advice for you:\n\n",
};

const SCHEDULER: &str = "\
    1) Lower the system load.\n  \
    2) Use a computer / VM just for @ if you are running other software in the same system.\n  \
    3) Check if you have a \"noisy neighbour\" problem.\n  \
    4) Check with '@-cli --intrinsic-latency 100' what is the intrinsic latency in your system.\n  \
    5) Check if the problem is allocator-related by recompiling @ with MALLOC=libc, if you are using Jemalloc. However \
    this may create fragmentation problems.\n";

const LARGE_OBJECTS: &str = "- Deleting, expiring or evicting (because of maxmemory policy) large objects is a blocking \
    operation. If you have very large objects that are often deleted, expired, or evicted, try to fragment those objects \
    into multiple smaller objects.\n";

const MASS_EVICTION: &str = "- Sudden changes to the 'maxmemory' setting via 'CONFIG SET', or allocation of large \
    objects via sets or sorted sets intersections, STORE option of SORT, @ Cluster large keys migrations (RESTORE \
    command), may create sudden memory pressure forcing the server to block trying to evict keys. \n";

/// LATENCY DOCTOR.
pub(super) fn doctor(call: &Call<'_>) -> String {
    let wording = if call.server.profile.family() == Family::Valkey { &VALKEY } else { &REDIS };
    let live = call.server.config.live();
    let threshold = live.latency_threshold.load(Ordering::Relaxed);
    let slower_than = live.slow_threshold.load(Ordering::Relaxed);
    let events = call.server.latency.all();
    if events.is_empty() {
        return if threshold == 0 { wording.disabled } else { wording.quiet }.to_owned();
    }
    let now = call.now().div_euclid(1000);
    let mut text = wording.observed.to_owned();
    for (number, (event, series)) in (1..).zip(&events) {
        let (average, deviation) = series.average();
        let oldest = series.samples.first().map_or(now, |sample| sample.time);
        let period = (now - oldest).max(1) as f64 / series.samples.len().max(1) as f64;
        let _ = writeln!(
            text,
            "{number}. {}: {} latency spikes (average {average}ms, mean deviation {deviation}ms, period {period:.2} sec). \
             Worst all time event {}ms.",
            event.name(),
            series.samples.len(),
            series.worst
        );
    }
    text += wording.advice;
    let has = |wanted: LatencyEvent| events.iter().any(|(event, _)| *event == wanted);
    let Wording { server, site, .. } = wording;
    if has(LatencyEvent::Command) {
        let micros = threshold.saturating_mul(1000);
        if slower_than < 0 {
            let _ = writeln!(
                text,
                "- There are latency issues with potentially slow commands you are using. Try to enable the Slow Log \
                 {server} feature using the command 'CONFIG SET slowlog-log-slower-than {micros}'. If the Slow log is \
                 disabled {server} is not able to log slow commands execution for you."
            );
        } else if slower_than.unsigned_abs() / 1000 > threshold {
            let _ = writeln!(
                text,
                "- Your current Slow Log configuration only logs events that are slower than your configured latency \
                 monitor threshold. Please use 'CONFIG SET slowlog-log-slower-than {micros}'."
            );
        }
        let _ = writeln!(
            text,
            "- Check your Slow Log to understand what are the commands you are running which are too slow to execute. \
             Please check https://{site}/commands/slowlog for more information."
        );
    }
    if has(LatencyEvent::FastCommand) {
        let _ = writeln!(
            text,
            "- The system is slow to execute {server} code paths not containing system calls. This usually means the \
             system does not provide {server} CPU time to run for long periods. You should try to:"
        );
        let lines = SCHEDULER.replace("@-cli", &format!("{}-cli", server.to_ascii_lowercase())).replace('@', server);
        text += "  ";
        text += &lines;
    }
    if has(LatencyEvent::ExpireCycle) && call.server.config.number::<u32>("hz") < 100 {
        let _ = writeln!(
            text,
            "- In order to make the {server} keys expiring process more incremental, try to set the 'hz' configuration \
             parameter to 100 using 'CONFIG SET hz 100'."
        );
    }
    if has(LatencyEvent::Command) || has(LatencyEvent::ExpireCycle) || has(LatencyEvent::EvictionDel) {
        text += LARGE_OBJECTS;
    }
    if has(LatencyEvent::EvictionCycle) {
        text += &MASS_EVICTION.replace('@', server);
    }
    text
}

/// LATENCY GRAPH: a bar for each sample, labelled with how long ago it was.
pub(super) fn graph(event: &str, series: &LatencySeries, now: i64) -> String {
    let (high, low) = series.range();
    let mut text = format!("{event} - high {high} ms, low {low} ms (all time high {} ms)\n", series.worst);
    text += &"-".repeat(COLUMNS);
    text.push('\n');
    for (at, samples) in series.samples.chunks(COLUMNS).enumerate() {
        if at > 0 {
            text.push('\n');
        }
        let height = |millis: u64| {
            let steps = (LINES * STEPS.len()) as u64;
            ((millis - low) * steps / (high - low).max(1)).min(steps - 1) as usize
        };
        for line in (0..LINES).rev() {
            let below = line * STEPS.len();
            let bar = |millis: u64| match height(millis).checked_sub(below) {
                None => ' ',
                Some(step) => STEPS.get(step).map_or('|', |&step| char::from(step)),
            };
            text.extend(samples.iter().map(|sample| bar(sample.millis)));
            text.push('\n');
        }
        text += &" ".repeat(samples.len());
        text.push('\n');
        let labels: Vec<String> = samples.iter().map(|sample| ago(now - sample.time)).collect();
        for line in 0..labels.iter().map(String::len).max().unwrap_or(0) {
            text.extend(labels.iter().map(|label| label.as_bytes().get(line).map_or(' ', |&byte| char::from(byte))));
            text.push('\n');
        }
    }
    text
}

fn ago(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::latency::LatencyMonitor;

    #[test]
    fn a_graph_is_drawn_as_a_real_server_draws_it() {
        let monitor = LatencyMonitor::default();
        for (time, millis) in [(97, 3), (98, 20), (99, 8)] {
            monitor.add(LatencyEvent::Command, time, millis);
        }
        let line = "-".repeat(80);
        assert_eq!(
            graph("command", &monitor.all()[0].1, 100),
            format!(
                "command - high 20 ms, low 3 ms (all time high 20 ms)\n{line}\n # \n | \n |_\n_||\n   \n321\nsss\n"
            )
        );
    }
}
