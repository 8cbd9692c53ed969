//! How findings are told: as a story for people, and in the forms that CI systems read.

use std::sync::Arc;

use redouble::internals::render::{self, Artifact, WorldFindings};
use redouble::{Code, Evidence, Finding, JournalRef, Severity, describe_findings};
use serde_json::Value;

/// Noon of 14 November 2023.
const NOON: i64 = 1_699_963_200_000_000;

fn mark(seq: u64, client: u64, name: &str, line: &str) -> JournalRef {
    let at = NOON + i64::try_from(seq).unwrap() * 250_000;
    JournalRef {
        server: 1,
        seq,
        at,
        real: at,
        earliest: at,
        place: seq,
        node: None,
        client,
        name: Arc::from(name),
        process: None,
        line: Arc::from(line),
    }
}

fn finding(code: Code, key: &str) -> Finding {
    let shows = |source: JournalRef, what: &str| Evidence { source, what: what.to_owned() };
    Finding {
        code,
        severity: code.severity(),
        server: 1,
        db: 0,
        key: Arc::from(key.as_bytes()),
        sentence: format!("A (client 3) and client 14 both held `{key}`"),
        evidence: vec![
            shows(mark(7, 3, "A", &format!("SET {key} a NX PX 1000")), "took the lock"),
            shows(mark(12, 14, "", &format!("DEL {key}")), "deleted the lock while it was held"),
            shows(mark(13, 0, "", "(the lock expired)"), "its time was over"),
        ],
        times: 1,
        seq: 12,
        last_seq: 12,
        at: NOON,
        culprit: 14,
        mark: None,
        allowed: None,
    }
}

fn world(findings: Vec<Finding>) -> Vec<WorldFindings> {
    vec![WorldFindings { findings: findings.into_iter().map(Arc::new).collect(), locks: 2, ..WorldFindings::default() }]
}

fn allowed(code: Code, key: &str, reason: &str) -> Finding {
    Finding { allowed: Some(reason.to_owned()), ..finding(code, key) }
}

/// What a terminal, an attribute, a property and a line would each take for more than text.
const NASTY: &str = "a\"<&>'\n\r\t\x1b[2J]]>,:%\u{202e}\u{fffe}ä";

// ---- the story

#[test]
fn a_story_says_what_was_done_by_whom_when_and_what_to_do_instead() {
    let told = describe_findings(&[Arc::new(finding(Code::TwoHolders, "lock:a"))]);
    let expected = "\
lock `lock:a`
  error two-holders: A (client 3) and client 14 both held `lock:a`
    #7  12:00:01.750 A (client 3) took the lock: SET lock:a a NX PX 1000
    #12 12:00:03.000 client 14 deleted the lock while it was held: DEL lock:a
    #13 12:00:03.250 its time was over
    instead: Delete a lock only while it has your token, in one step: a script, DELEX IFEQ or DELIFEQ. By its key alone everybody deletes everybody's.
    more: redouble explain two-holders
    no lock? --not-locks lock:a; why: redouble explain --key lock:a journal.jsonl
";
    assert_eq!(told, expected);
    assert_eq!(describe_findings(&[]), "");
}

#[test]
fn the_lock_with_the_worst_finding_comes_first_and_what_is_allowed_last() {
    let worlds = world(vec![
        finding(Code::NoExpiry, "quiet"),
        allowed(Code::TwoHolders, "known", "one day"),
        finding(Code::CloseToExpiry, "loud"),
        Finding { times: 3, ..finding(Code::TwoHolders, "loud") },
    ]);
    let told = render::report(&worlds);
    let heads: Vec<&str> =
        told.lines().filter(|line| !line.starts_with("    ")).map(|line| line.split(':').next().unwrap()).collect();
    assert_eq!(
        heads,
        [
            "lock `loud`",
            "  error two-holders",
            "  note close-to-expiry",
            "lock `quiet`",
            "  warning no-expiry",
            "allowed"
        ]
    );
    assert!(told.contains("both held `loud` (3 times)\n"), "{told}");
    assert!(told.ends_with("allowed: two-holders, lock `known`: one day\n"), "{told}");
    assert_eq!(
        render::summary_line(&worlds),
        "1 error, 1 warning and 1 note in 2 locks (2 locks watched; 1 finding allowed)"
    );
}

#[test]
fn what_is_lost_is_told_before_what_could_be_whatever_came_first() {
    let at = |code: Code, severity: Severity, key: &str, at: i64| Finding { severity, at, ..finding(code, key) };
    let worlds = world(vec![
        at(Code::CloseToExpiry, Severity::Note, "a", NOON),
        at(Code::UncheckedRelease, Severity::Warning, "b", NOON + 1),
        at(Code::GetThenDelete, Severity::Error, "c", NOON + 2),
        at(Code::ForeignRelease, Severity::Error, "d", NOON + 3),
        at(Code::TwoHolders, Severity::Error, "e", NOON + 5),
        at(Code::WorkAfterExpiry, Severity::Error, "f", NOON + 4),
        at(Code::LostUpdate, Severity::Error, "g", NOON + 6),
        at(Code::LostUpdate, Severity::Note, "h", NOON + 7),
    ]);
    let codes = [
        "lost-update",
        "work-after-expiry",
        "two-holders",
        "foreign-release",
        "get-then-delete",
        "unchecked-release",
        "close-to-expiry",
        "lost-update",
    ];
    let told = render::report(&worlds);
    let told: Vec<&str> = told
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split([' ', ':']).nth(1))
        .filter(|word| codes.contains(word))
        .collect();
    assert_eq!(told, codes);
    let results = sarif(&worlds)["runs"][0]["results"].clone();
    let told: Vec<&str> = results.as_array().unwrap().iter().map(|result| result["ruleId"].as_str().unwrap()).collect();
    assert_eq!(told, codes);
}

#[test]
fn a_thousand_of_a_kind_do_not_bury_the_rest() {
    let many = (0..1000).map(|number| finding(Code::NoExpiry, &format!("job:{number}")));
    let told = render::report(&world(many.chain([finding(Code::LateRelease, "other")]).collect()));
    assert!(told.contains("warning late-release") && told.contains("\nlock `other`\n"), "{told}");
    assert!(told.contains(" (1000 times, under 1000 keys like `job:*`; this is the first)\n"), "{told}");
    assert!(told.contains("lock `job:0`") && !told.contains("job:1") && told.lines().count() < 20, "{told}");
    let kinds = (b'a'..=b'z').map(|letter| finding(Code::NoExpiry, &format!("{}:a", char::from(letter))));
    assert!(render::report(&world(kinds.collect())).contains("21 more findings of no-expiry: lock `f:a`;"));
}

#[test]
fn a_clean_audit_says_how_many_locks_it_has_seen_and_if_it_has_seen_none() {
    assert_eq!(render::summary_line(&world(Vec::new())), "no lock was misused (2 locks watched)");
    let allowed = world(vec![allowed(Code::Leaked, "a", "b")]);
    assert_eq!(render::summary_line(&allowed), "no lock was misused (2 locks watched; 1 finding allowed)");
    assert!(render::summary_line(&[WorldFindings::default()]).contains("none was seen"));
}

#[test]
fn where_a_lock_is_is_said_as_far_as_it_must_be() {
    let findings = vec![Arc::new(Finding { db: 3, server: 2, ..finding(Code::Leaked, "a") })];
    let told =
        render::report(&[WorldFindings { space: "w1".to_owned(), findings, locks: 1, ..WorldFindings::default() }]);
    assert!(told.starts_with("lock `a`, database 3, server 2, space `w1`\n"), "{told}");
}

#[test]
fn a_story_cannot_be_told_so_that_a_terminal_obeys() {
    let told = describe_findings(&[Arc::new(finding(Code::TwoHolders, NASTY))]);
    assert!(told.chars().all(|letter| letter == '\n' || !letter.is_control()), "{told:?}");
    assert_eq!(told.lines().count(), 8, "{told}");
}

// ---- GitHub

#[test]
fn annotations_are_one_line_each_and_escaped_as_githubs_runner_reads_them() {
    let told = render::annotations(&world(vec![finding(Code::NoExpiry, NASTY), finding(Code::TwoHolders, "a,b:c")]));
    let lines: Vec<&str> = told.lines().collect();
    assert_eq!(lines.len(), 2, "{told}");
    assert!(lines[0].starts_with("::error title=two-holders%3A lock `a%2Cb%3Ac`::A (client 3) and"), "{told}");
    assert!(lines[0].contains("%0A#12 12:00:03.000 client 14 deleted"), "{told}");
    assert!(lines[0].ends_with("%0AMore: redouble explain two-holders"), "{told}");
    assert!(lines[1].starts_with("::warning title=no-expiry%3A lock `a\"<&>'\\n"), "{told}");
    assert!(lines[1].contains("%25"), "{told}");
}

#[test]
fn annotations_leave_out_what_is_allowed_and_what_there_is_no_room_for() {
    let many = (0..30).map(|number| finding(Code::CloseToExpiry, &number.to_string()));
    let told = render::annotations(&world(many.chain([allowed(Code::TwoHolders, "a", "b")]).collect()));
    assert_eq!(told.lines().count(), 10);
    assert!(told.lines().all(|line| line.starts_with("::notice ")), "{told}");
}

// ---- JUnit

/// What the schema of JUnit's reports that CI systems agree on lets stand in each element.
fn check_junit(text: &str) -> roxmltree::Document<'_> {
    let document = roxmltree::Document::parse(text).unwrap_or_else(|error| panic!("{error}: {text}"));
    for element in document.descendants().filter(roxmltree::Node::is_element) {
        let (parents, required, optional): (&[&str], &[&str], &[&str]) = match element.tag_name().name() {
            "testsuites" => (&[], &["name", "tests", "failures", "errors", "time"], &[]),
            "testsuite" => (&["testsuites"], &["name", "tests", "failures", "errors", "skipped", "time"], &[]),
            "testcase" => (&["testsuite"], &["name", "classname", "time"], &[]),
            "failure" => (&["testcase"], &["type", "message"], &[]),
            "skipped" => (&["testcase"], &["message"], &[]),
            "system-out" => (&["testcase"], &[], &[]),
            other => panic!("no element of a report: {other}"),
        };
        let parent = element.parent_element().map(|parent| parent.tag_name().name());
        assert!(parent.is_none_or(|parent| parents.contains(&parent)), "{element:?} in {parent:?}");
        for name in required {
            assert!(element.has_attribute(*name), "{element:?} without {name}");
        }
        for attribute in element.attributes() {
            let name = attribute.name();
            assert!(required.contains(&name) || optional.contains(&name), "{element:?} with {name}");
        }
    }
    let suite = document.root_element().first_element_child().expect("a suite");
    let count = |name: &str| document.descendants().filter(|node| node.has_tag_name(name)).count().to_string();
    for (attribute, name) in [("tests", "testcase"), ("failures", "failure"), ("skipped", "skipped")] {
        assert_eq!(suite.attribute(attribute), Some(count(name).as_str()), "{attribute}");
    }
    document
}

fn case<'a>(document: &'a roxmltree::Document<'_>, code: Code) -> roxmltree::Node<'a, 'a> {
    let name = format!("{}: {}", code.name(), code.title());
    let is_it = |node: &roxmltree::Node<'_, '_>| node.has_tag_name("testcase") && node.attribute("name") == Some(&name);
    document.descendants().find(is_it).expect("a case for each code")
}

#[test]
fn a_junit_report_has_a_case_for_each_code_whatever_was_found() {
    let text = render::junit(&world(Vec::new()), Severity::Error);
    let document = check_junit(&text);
    assert_eq!(document.descendants().filter(|node| node.has_tag_name("testcase")).count(), Code::ALL.len());
}

#[test]
fn in_a_junit_report_findings_fail_from_the_level_on_and_allowed_ones_are_skipped() {
    let worlds = world(vec![
        finding(Code::TwoHolders, "a"),
        allowed(Code::TwoHolders, "b", "known"),
        finding(Code::NoExpiry, "a"),
        allowed(Code::Leaked, "a", "one leader"),
    ]);
    let text = render::junit(&worlds, Severity::Error);
    let document = check_junit(&text);
    let outcome = |code| case(&document, code).first_element_child().map(|child| child.tag_name().name());
    assert_eq!(outcome(Code::TwoHolders), Some("failure"));
    assert_eq!(outcome(Code::NoExpiry), Some("system-out"));
    assert_eq!(outcome(Code::Leaked), Some("skipped"));
    assert_eq!(outcome(Code::BlindDelete), None);
    let failure = case(&document, Code::TwoHolders).first_element_child().expect("a failure");
    assert_eq!(failure.attribute("message"), Some("A (client 3) and client 14 both held `a`"));
    assert!(failure.text().is_some_and(|text| text.contains("    #7  12:00:01.750 A (client 3) took")), "{text}");
    let skipped = case(&document, Code::Leaked).first_element_child().expect("a skipped test");
    assert_eq!(skipped.attribute("message"), Some("lock `a`: one leader"));
    let stricter = render::junit(&worlds, Severity::Warning);
    let document = check_junit(&stricter);
    assert_eq!(document.descendants().filter(|node| node.has_tag_name("failure")).count(), 2);
}

#[test]
fn a_junit_report_is_xml_whatever_keys_are_called() {
    let text = render::junit(&world(vec![finding(Code::TwoHolders, NASTY)]), Severity::Error);
    let document = check_junit(&text);
    let failure = case(&document, Code::TwoHolders).first_element_child().expect("a failure");
    let message = failure.attribute("message").expect("a message");
    assert!(message.contains("a\"<&>'\n") && message.contains("\\u{1b}[2J]]>"), "{message:?}");
}

// ---- SARIF

fn sarif(worlds: &[WorldFindings]) -> Value {
    let line = |_: &str, _: u16, seq: u64, _: i64| {
        Some(Artifact { uri: "j.jsonl".to_owned(), line: (seq != 13).then_some(seq) })
    };
    serde_json::from_str(&render::sarif(worlds, line)).expect("it is JSON")
}

#[test]
fn a_sarif_log_has_what_the_standard_wants() {
    let log = sarif(&world(vec![finding(Code::NoExpiry, "a"), finding(Code::OneServer, NASTY)]));
    assert_eq!((&log["version"], log["runs"].as_array().map(Vec::len)), (&Value::from("2.1.0"), Some(1)));
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().expect("rules");
    assert_eq!(rules.len(), Code::ALL.len());
    for (rule, code) in rules.iter().zip(Code::ALL) {
        assert_eq!(rule["id"], code.name());
        assert!(rule["shortDescription"]["text"].as_str().is_some_and(|text| text.ends_with('.')));
        // Readers cut off longer ones.
        let full = rule["fullDescription"]["text"].as_str().expect("a description");
        assert!(!full.is_empty() && full.len() < 1024 && !full.contains('\n'), "{full}");
        let help = |format: &str| rule["help"][format].as_str().expect("a help text");
        assert!(help("text").starts_with(code.instead()) && help("text").contains("\nSeen when "), "{}", help("text"));
        assert!(
            help("markdown").contains("```text") && help("markdown").contains("**Seen when**"),
            "{}",
            help("markdown")
        );
        assert_eq!(rule["defaultConfiguration"]["level"], code.severity().name());
        // Only a package that says where its sources are has pages on the web.
        match env!("CARGO_PKG_REPOSITORY") {
            "" => assert!(rule.get("helpUri").is_none()),
            sources => {
                let uri = rule["helpUri"].as_str().expect("an address");
                assert!(
                    uri.starts_with(sources) && uri.ends_with(&format!("/docs/findings.md#{}", code.name())),
                    "{uri}"
                );
            }
        }
    }
    for result in run["results"].as_array().expect("results") {
        let rule = &rules[usize::try_from(result["ruleIndex"].as_u64().expect("an index")).unwrap()];
        assert_eq!(rule["id"], result["ruleId"]);
        assert!(["error", "warning", "note"].contains(&result["level"].as_str().expect("a level")));
        assert_eq!(result["locations"][0]["logicalLocations"][0]["kind"], "resource");
    }
}

#[test]
fn a_sarif_result_shows_the_evidence_in_order_and_where_it_stands() {
    let log = sarif(&world(vec![finding(Code::TwoHolders, "a")]));
    let result = &log["runs"][0]["results"][0];
    let told = result["message"]["text"].as_str().unwrap();
    assert!(told.starts_with("A (client 3) and client 14 both held `a`. Delete a lock only while"), "{told}");
    assert_eq!(result["locations"][0]["physicalLocation"]["region"]["startLine"], 12);
    let steps = result["codeFlows"][0]["threadFlows"][0]["locations"].as_array().expect("steps");
    assert_eq!(steps.len(), 3);
    assert_eq!(steps[1]["executionOrder"], 2);
    assert_eq!(steps[1]["executionTimeUtc"], "2023-11-14T12:00:03.000Z");
    assert_eq!(steps[1]["location"]["message"]["text"], "client 14 deleted the lock while it was held: DEL a");
    assert_eq!(steps[0]["location"]["physicalLocation"]["artifactLocation"]["uri"], "j.jsonl");
    assert!(steps[2]["location"]["physicalLocation"].get("region").is_none());
}

#[test]
fn in_a_sarif_log_what_is_allowed_is_suppressed_with_the_reason() {
    let log = sarif(&world(vec![finding(Code::TwoHolders, "a"), allowed(Code::Leaked, "a", "one leader")]));
    let results = &log["runs"][0]["results"];
    assert_eq!(results[0]["suppressions"], serde_json::json!([]));
    assert_eq!(results[1]["suppressions"][0]["justification"], "one leader");
}

#[test]
fn a_sarif_log_says_what_the_audit_has_not_seen() {
    let mut worlds = world(Vec::new());
    (worlds[0].missed, worlds[0].unlisted) = (7, 9);
    let log = sarif(&worlds);
    let notices = log["runs"][0]["invocations"][0]["toolExecutionNotifications"].as_array().expect("notices");
    assert!(notices[0]["message"]["text"].as_str().is_some_and(|text| text.starts_with("7 entries")));
    assert!(notices[1]["message"]["text"].as_str().is_some_and(|text| text.contains("9 more findings")));
}
