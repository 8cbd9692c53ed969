//! What a report says, and what `redouble report` does.

mod browser;
mod journals;
mod page;

use redouble::Code;
use redouble::internals::{Scope, audit, auditor, command_table, report_html, report_text};
use serde_json::Value;

use journals::{Journals, audited, failover, hostile, long, lost_lock, race};

fn page(journals: &Journals) -> String {
    report_html(journals, &audited(journals))
}

fn text(journals: &Journals) -> String {
    report_text(journals, &audited(journals), false)
}

/// What the page's script reads.
fn data(page: &str) -> Value {
    let behind = page.split_once(r#"<script type="application/json" id="data">"#).expect("the data").1;
    serde_json::from_str(behind.split_once("</script>").expect("its end").0).expect("JSON")
}

#[test]
fn the_page_has_all_that_happened_and_all_that_was_found() {
    let journals = race();
    let auditor = audited(&journals);
    let data = data(&report_html(&journals, &auditor));
    assert_eq!(auditor.findings().len(), 1);
    let finding = &data["findings"][0];
    let found = &auditor.findings()[0];
    assert_eq!(found.code, Code::TwoHolders);
    assert_eq!(finding["sentence"], found.sentence.as_str());
    assert_eq!((finding["code"].as_str(), finding["severity"].as_str()), (Some("two-holders"), Some("error")));
    assert_eq!(finding["instead"], found.instead());
    let steps: Vec<_> =
        finding["evidence"].as_array().unwrap().iter().map(|step| step["what"].as_str().unwrap()).collect();
    let told: Vec<_> = found.evidence.iter().map(|shown| shown.what.as_str()).collect();
    assert_eq!(steps, told);
    let names: Vec<_> =
        data["clients"].as_array().unwrap().iter().map(|client| client["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["C3", "C1", "C2"]);
    let kinds: Vec<_> =
        data["moments"].as_array().unwrap().iter().filter_map(|moment| moment["kind"].as_str()).collect();
    assert_eq!(kinds, ["took", "read", "read", "released", "took", "foreign", "took"]);
    // C1 still believes that it holds what C2 has deleted.
    let stretches = data["stretches"].as_array().unwrap();
    let lost: Vec<_> = stretches.iter().filter(|stretch| !stretch["lost"].is_null()).collect();
    assert_eq!(lost.len(), 1);
    assert_eq!((lost[0]["client"].as_u64(), lost[0]["lost"][1].as_str()), (Some(1), Some("C2 deleted it")));
}

#[test]
fn nodes_stand_at_their_clients_and_a_promotion_is_marked() {
    let journals = failover();
    let auditor = audit(failover(), auditor(Scope::default(), command_table()).with_timeline());
    let data = data(&report_html(&journals, &auditor));
    let nodes: Vec<_> = data["clients"].as_array().unwrap().iter().map(|client| client["node"].as_str()).collect();
    assert_eq!(nodes, [Some("10.0.0.1:7001"), Some("10.0.0.1:7001"), Some("10.0.0.2:7002")]);
    let moments = data["moments"].as_array().unwrap();
    let promoted = moments.iter().find(|moment| moment["event"] == "promoted").expect("the promotion");
    assert_eq!((promoted["node"].as_str(), promoted["line"].as_str()), (Some("10.0.0.2:7002"), Some("10.0.0.1:7001")));
    let text = report_text(&journals, &auditor, false);
    assert!(text.contains("10.0.0.2:7002 is master now instead of 10.0.0.1:7001"), "{text}");
    assert!(text.lines().any(|line| line.contains("10.0.0.1:7001") && line.contains("   10.0.0.2:7002")), "{text}");
}

#[test]
fn the_page_has_who_was_master_what_links_held_and_what_a_replica_never_got() {
    let journals = lost_lock();
    let auditor = audit(lost_lock(), auditor(Scope::default(), command_table()).with_timeline());
    let codes: Vec<_> = auditor.findings().iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [Code::LostInFailover]);
    let data = data(&report_html(&journals, &auditor));
    let instances = data["instances"].as_array().unwrap();
    let parts = |at: usize| -> Vec<_> {
        let spans = instances[at]["spans"].as_array().unwrap();
        spans.iter().map(|span| (span["since"].as_u64(), span["part"].as_str().unwrap())).collect()
    };
    let names: Vec<_> = instances.iter().map(|one| (one["name"].as_str().unwrap(), one["server"].as_u64())).collect();
    assert_eq!(names, [("127.0.0.1:7000", Some(1)), ("127.0.0.1:7001", Some(2)), ("127.0.0.1:7002", None)]);
    assert_eq!(parts(0), [(None, "master"), (Some(6), "replica")]);
    assert_eq!(parts(1), [(None, "replica"), (Some(0), "held"), (Some(4), "master")]);
    assert_eq!(parts(2), [(None, "replica"), (Some(1), "late")]);
    assert_eq!(instances[2]["spans"][1]["lag"], "200ms");
    let losses = instances[1]["losses"].as_array().unwrap();
    let told: Vec<_> = losses.iter().map(|loss| (loss["written"].as_u64(), loss["key"].as_str().unwrap())).collect();
    assert_eq!(told, [(Some(2), "order:lock")], "the command that was lost");
    // What the first server had is gone with the failover, and its client does not know.
    let mut ends: Vec<_> = data["stays"].as_array().unwrap().iter().map(|stay| stay["end"].as_str().unwrap()).collect();
    ends.sort_unstable();
    assert_eq!(ends, ["deleted", "lost"]);
    let lost: Vec<_> = data["stretches"].as_array().unwrap().iter().filter_map(|one| one["lost"][1].as_str()).collect();
    assert_eq!(lost, ["lost in the failover"]);
    let text = report_text(&journals, &auditor, false);
    assert!(text.contains("the link to 127.0.0.1:7001: held"), "{text}");
    assert!(text.contains("127.0.0.1:7001 has not got the last change of order:lock"), "{text}");
    assert!(data["instances"][0]["losses"].as_array().unwrap().is_empty());
}

#[test]
fn a_journal_without_replicas_has_no_rows_of_masters() {
    for journals in [race(), failover(), hostile()] {
        let instances = data(&page(&journals))["instances"].as_array().map(Vec::len);
        assert_eq!(instances, Some(0));
    }
}

#[test]
fn what_strangers_send_is_never_markup() {
    let page = page(&hostile());
    assert_eq!(page.matches("</script>").count(), 2, "the data's end and the script's");
    assert_eq!(page.matches("<script").count(), 2);
    assert!(
        !page.contains("<img") && !page.contains('\u{2028}') && !page.contains('\u{202e}') && !page.contains('\x1b')
    );
    let data = data(&page);
    assert_eq!(data["clients"][0]["name"], "</script><img/src=x/onerror=hacked=1>");
    assert!(data["locks"][0]["name"].as_str().unwrap().starts_with("lock:\\u{1b}[2J</script>"), "{}", data["locks"]);
    let text = text(&hostile());
    let unseen =
        text.chars().find(|letter| letter.is_control() && *letter != '\n' || matches!(letter, '\u{202e}' | '\u{2028}'));
    assert_eq!(unseen, None, "a terminal would obey it");
}

#[test]
fn the_page_asks_nobody_for_anything() {
    let page = page(&race());
    for outside in ["http:", "https:", "//cdn", "@import", "url(", "<link", "src="] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn the_same_journal_gives_the_same_report() {
    for journals in [race(), hostile(), long(3000)] {
        assert_eq!(page(&journals), page(&journals));
        assert_eq!(text(&journals), text(&journals));
    }
}

#[test]
fn the_race_reads_as_a_story() {
    assert_eq!(text(&race()), include_str!("race.txt"));
}

#[test]
fn a_story_is_no_wider_than_a_terminal() {
    for journals in [race(), hostile(), long(3000)] {
        for line in text(&journals).lines() {
            assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
        }
    }
}

#[test]
fn a_journal_without_anything_makes_a_report_too() {
    let journals = vec![(1, Vec::new())];
    assert_eq!(text(&journals), "nothing found; 0 commands of 0 clients, 0 locks\n");
    assert_eq!(data(&page(&journals))["moments"], Value::Array(Vec::new()));
}

#[test]
fn only_a_terminal_sees_colours() {
    let journals = race();
    let auditor = audited(&journals);
    assert!(report_text(&journals, &auditor, true).contains("\x1b[1;31m"));
    assert!(!report_text(&journals, &auditor, false).contains('\x1b'));
}
