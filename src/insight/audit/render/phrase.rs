//! Phrases that several formats share: places, keys, times, and text without control characters.

use std::sync::Arc;

use crate::base::log::civil;
use crate::base::text::{printable, time_of_day, utf8_or_escaped};
use crate::insight::audit::finding::{Evidence, Finding};
use crate::insight::audit::finding_groups::FindingGroup;

/// The place of a finding's lock: "lock `a`, database 1, server 2, space `b`", without the defaults.
pub fn lock_place(space: &str, finding: &Finding) -> String {
    let mut place = match finding.key.is_empty() {
        true => "the lock whose key is empty".to_owned(),
        false => format!("lock `{}`", readable(&finding.key)),
    };
    if finding.db != 0 {
        place.push_str(&format!(", database {}", finding.db));
    }
    if finding.server > 1 {
        place.push_str(&format!(", server {}", finding.server));
    }
    if !space.is_empty() {
        place.push_str(&format!(", space `{}`", printable(space)));
    }
    place
}

/// A command of the evidence: its client and node, what it shows, and the command itself.
pub fn evidence_line(evidence: &Evidence) -> String {
    let source = &evidence.source;
    let (what, command) = (printable(&evidence.what), printable(&source.line));
    let actor = source.placed_name();
    let actor = printable(&actor);
    // An event stands in parentheses, and `what` says the same.
    match (source.client == 0, command.starts_with('(')) {
        (true, true) => what.into_owned(),
        (true, false) => format!("{what}: {command}"),
        (false, true) => format!("{actor}: {what}"),
        (false, false) => format!("{actor} {what}: {command}"),
    }
}

/// How often a mistake was made: "12 times, under 9 keys like `lock:order:*`; this is the first"; `None` for once.
pub fn repeated<S>(group: &FindingGroup<(S, &Arc<Finding>)>) -> Option<String> {
    let times = group.times(|(_, finding)| finding);
    let mut keys: Vec<&[u8]> = group.findings.iter().map(|(_, finding)| &*finding.key).collect();
    keys.sort_unstable();
    keys.dedup();
    let like = match keys.len() {
        1 => String::new(),
        count => format!(", under {count} keys like `{}`", readable(&group.keys)),
    };
    let which = if group.findings.len() > 1 { "; this is the first" } else { "" };
    (times > 1).then(|| format!("{times} times{like}{which}"))
}

/// A key as text. Bytes that are no UTF-8 are escaped, so that no two keys look alike.
pub fn readable(key: &[u8]) -> String {
    printable(&utf8_or_escaped(key)).into_owned()
}

/// `2026-11-20T12:00:01.250Z`, of microseconds since 1970.
pub fn date_and_time(micros: i64) -> String {
    let (year, month, day) = civil(micros.div_euclid(86_400_000_000));
    format!("{year:04}-{month:02}-{day:02}T{}Z", time_of_day(micros))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::insight::audit::finding::JournalRef;

    #[test]
    fn times_are_told_in_utc() {
        assert_eq!(date_and_time(1_700_000_000_250_999), "2023-11-14T22:13:20.250Z");
        assert_eq!(date_and_time(-1), "1969-12-31T23:59:59.999Z");
    }

    #[test]
    fn a_command_is_told_with_its_node_if_it_has_one() {
        let source = |node: Option<&str>| JournalRef {
            server: 1,
            seq: 3,
            at: 0,
            real: 0,
            earliest: 0,
            place: 3,
            node: node.map(Arc::from),
            client: 7,
            name: "worker".into(),
            process: None,
            line: "GET lock".into(),
        };
        let line = |node: Option<&str>| evidence_line(&source(node).shows("read it"));
        assert_eq!(line(None), "worker (client 7) read it: GET lock");
        assert_eq!(line(Some("10.0.0.1:7001")), "worker (client 7) on 10.0.0.1:7001 read it: GET lock");
    }

    #[test]
    fn nothing_reaches_a_terminal_that_it_would_obey() {
        assert_eq!(printable("lock:ä`<&"), "lock:ä`<&");
        assert_eq!(readable(b"a\xff\x1b"), "a\\xff\\x1b");
        assert_eq!(printable("a\x1b[2J\nb\u{202e}"), "a\\u{1b}[2J\\nb\\u{202e}");
    }
}
