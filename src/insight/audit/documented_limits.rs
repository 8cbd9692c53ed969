//! The numbers on the guide pages are those of the code.

use super::client_state::{MAX_ACCESSED, MAX_LOCKS as MAX_LOCKS_OF_CLIENT};
use super::finding_collector::{MAX_FINDINGS, MAX_PENDING, MIN_FINDINGS};
use super::guesses::{MAX_GUESSED, MAX_READ};
use super::key_versions::{READS, WRITES};
use super::live_state::{BACKLOG, MAX_BACKLOG};
use super::lock::{MAX_PAST_HOLDS, MAX_WAITERS};
use super::lock_table::MAX_LOCKS;
use super::lock_tracker::{MAX_HOLDS, MAX_MEMBERS};
use super::lost_update::{MAX_IDLE_READS, MAX_NOTES};
use super::presumed_locks::MAX_FRUITLESS_ALIKE;
use super::rules::documented_limits::{
    EQUAL_PAUSES, MAX_ATTEMPTS, MAX_IDLE_RENEWALS, MAX_IN_A_SECOND, MAX_WITHOUT_PAUSE, ROUNDS,
};

/// Fails for a phrase that a page does not have; line breaks do not count.
fn says(page: &str, phrases: &[String]) {
    let text = page.split_whitespace().collect::<Vec<_>>().join(" ");
    for phrase in phrases {
        assert!(text.contains(phrase.as_str()), "the page does not say {phrase:?}");
    }
}

/// `10,000`
fn number(value: usize) -> String {
    let digits = value.to_string();
    let first = digits.len() % 3;
    let (head, rest) = digits.split_at(first);
    let groups = rest.as_bytes().chunks(3).map(|group| String::from_utf8_lossy(group).into_owned());
    let all: Vec<String> = Some(head.to_owned()).filter(|head| !head.is_empty()).into_iter().chain(groups).collect();
    all.join(",")
}

#[test]
fn the_page_about_the_audit_has_the_limits_of_the_code() {
    let page = include_str!("../../../docs/audit.md");
    says(
        page,
        &[
            format!("newest {} entries", number(BACKLOG)),
            format!("up to {} are", number(MAX_BACKLOG)),
            format!("At most {} findings are listed", number(MAX_FINDINGS)),
            format!("Each auditor lists {MIN_FINDINGS} however"),
            format!("At most {} other keys", number(MAX_LOCKS)),
            format!("at most {} holders ({} of a semaphore)", number(MAX_HOLDS), number(MAX_MEMBERS)),
            format!("{} waiters", number(MAX_WAITERS)),
            format!("the last {} holds", number(MAX_PAST_HOLDS)),
            format!("{} findings that wait", number(MAX_PENDING)),
            format!("{} locks and the last {} keys", number(MAX_LOCKS_OF_CLIENT), number(MAX_ACCESSED)),
            format!("{} attempts", number(MAX_ATTEMPTS)),
            format!("the last {READS} readers and {WRITES} writers"),
            format!("reads {} values in a row", number(usize::from(MAX_IDLE_READS))),
            format!("Where {MAX_READ} such keys"),
            format!("or {} were set", number(MAX_GUESSED)),
            format!("when {MAX_FRUITLESS_ALIKE} keys like each other"),
        ],
    );
}

#[test]
fn the_page_about_findings_has_the_limits_of_the_code() {
    let page = include_str!("../../../docs/findings.md");
    const IN_WORDS: [&str; 10] = ["no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"];
    says(
        page,
        &[
            format!("the last {} keys", number(MAX_ACCESSED)),
            format!("the last {READS} readers and {WRITES} writers"),
            format!("at most {} of them", number(MAX_NOTES)),
            format!("at least {} times in a row", MAX_IDLE_RENEWALS),
            format!("refused {} times in a row", MAX_WITHOUT_PAUSE + 1),
            format!("{} times within a second", MAX_IN_A_SECOND + 1),
            format!("{} times in a row, at least 10 ms apart", IN_WORDS[ROUNDS as usize]),
            format!("makes {} attempts or more", IN_WORDS[EQUAL_PAUSES as usize + 1]),
        ],
    );
}
