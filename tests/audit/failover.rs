//! Locks that were held while the node that had them was replaced, and what replicas answer.

use redouble::internals::{Item, Scope, audit, auditor, command_table, read_journal};
use redouble::{Code, Finding, Severity};

use super::story::{Pair, found, judge, nothing_is_found};

const OLD: &str = "10.0.0.1:6379";
const NEW: &str = "10.0.0.2:6379";
const A: &str = "5f0c9a83b1d24e67";
const B: &str = "91e7c2d40a8b36f5";

/// A journal in front of a deployment, line by line, each a second after the one before.
#[derive(Default)]
struct Lines(Vec<String>);

impl Lines {
    fn at(&self) -> usize {
        (self.0.len() + 1) * 1_000_000
    }

    /// `A` and `B` are clients 1 and 2; other names are further connections.
    fn say(mut self, client: &str, node: &str, command: &str, reply: &str) -> Self {
        let words: Vec<String> = command.split(' ').map(|word| format!("{word:?}")).collect();
        let id = client.bytes().map(u32::from).sum::<u32>();
        let name = &client[..1];
        self.0.push(format!(
            r#"{{"seq":{},"time_us":{at},"sent_us":{},"order":"interval","client":{id},"name":"{name}","node":"{node}","command":[{}],"raw":"{reply}\r\n","children":[]}}"#,
            self.0.len() + 1,
            self.at() - 500,
            words.join(","),
            at = self.at(),
        ));
        self
    }

    fn happen(mut self, event: &str, client: &str, node: &str, detail: &str) -> Self {
        let id = client.bytes().map(u32::from).sum::<u32>();
        self.0.push(format!(
            r#"{{"seq":{},"time_us":{},"event":"{event}","client":{id},"name":"{client}","node":"{node}","detail":"{detail}"}}"#,
            self.0.len() + 1,
            self.at(),
        ));
        self
    }

    /// A takes the lock from the first node, where B is refused, so that it is known for a lock.
    fn taken() -> Self {
        Self::default().say("A", OLD, &format!("SET lock {A} NX PX 60000"), "+OK").say(
            "B",
            OLD,
            &format!("SET lock {B} NX PX 60000"),
            "$-1",
        )
    }

    fn promoted(self) -> Self {
        self.happen("promoted", "", NEW, OLD)
    }

    fn findings(&self) -> Vec<Finding> {
        let mut items: Vec<Item> = Vec::new();
        read_journal(self.0.join("\n").as_bytes(), |item| items.push(item)).expect("lines of a journal");
        let audited = audit(vec![(1, items)], auditor(Scope::default(), command_table()));
        audited.findings().iter().map(|finding| (**finding).clone()).collect()
    }

    #[track_caller]
    fn told(&self) -> Finding {
        let findings = self.findings();
        let told = findings.iter().find(|finding| finding.code == Code::HeldThroughFailover);
        told.unwrap_or_else(|| panic!("in {findings:?}")).clone()
    }

    #[track_caller]
    fn is_silent(&self) {
        let findings = self.findings();
        assert!(findings.iter().all(|finding| finding.code != Code::HeldThroughFailover), "{findings:?}");
    }
}

fn bulk(value: &str) -> String {
    format!("${}\\r\\n{value}", value.len())
}

#[test]
fn another_client_gets_the_lock_from_the_new_master_while_the_first_one_works() {
    judge(&Pair {
        code: Code::HeldThroughFailover,
        wrong: "
            ! A: SET lock {a} NX PX 10000
            B: SET lock {b} NX PX 10000
            ! failover without lock
            ! B: SET lock {b} NX PX 10000
        ",
        right: "
            A: SET lock {a} NX PX 10000
            failover
            B: SET lock {b} NX PX 10000
            A: RELEASE lock {a}
        ",
    });
    let double = "A: SET lock {a} NX PX 10000\nfailover without lock\nB: SET lock {b} NX PX 10000\nB: RELEASE lock {b}";
    let told = found(Code::HeldThroughFailover, double).expect("it is found");
    assert_eq!(told.severity, Severity::Error);
    assert_eq!(
        told.sentence,
        "A (client 2) and B (client 4) both held `lock`: 10.0.0.1:6379 had it and was replaced by 10.0.0.2:6379, which \
         had not got it"
    );
    let both = found(Code::TwoHolders, double).expect("it is found");
    assert_eq!(both.severity, Severity::Error);
    assert!(both.sentence.ends_with("because the node that had it was replaced"), "{}", both.sentence);
}

#[test]
fn of_a_lock_that_nobody_has_looked_at_since_it_is_said_that_it_may_be_lost() {
    let told = Lines::taken().promoted().told();
    assert_eq!(told.severity, Severity::Warning);
    assert_eq!(
        told.sentence,
        "`lock` may be lost: A (client 65) had it for another 58s when 10.0.0.1:6379 was replaced by 10.0.0.2:6379, which \
         may not have got it"
    );
    let proof: Vec<_> = told.evidence.iter().map(|evidence| evidence.source.seq).collect();
    assert_eq!(proof, [1, 3]);
    assert_eq!(&*told.evidence[1].source.line, "(10.0.0.2:6379 is master now in the place of 10.0.0.1:6379)");
}

#[test]
fn what_the_new_master_shows_of_the_lock_proves_that_it_was_not_lost() {
    let shown = |command: &str, reply: &str| Lines::taken().promoted().say("A", NEW, command, reply);
    shown("GET lock", &bulk(A)).is_silent();
    shown(&format!("DELIFEQ lock {A}"), ":1").is_silent();
    shown(&format!("SET lock {A} IFEQ {A} PX 60000"), "+OK").is_silent();
    shown("PEXPIRE lock 60000", ":1").is_silent();
    Lines::taken().promoted().say("B", NEW, &format!("SET lock {B} NX PX 60000"), "$-1").is_silent();
}

#[test]
fn a_holder_that_finds_its_lock_gone_has_lost_it() {
    for (command, reply) in
        [("GET lock".to_owned(), "$-1"), (format!("DELIFEQ lock {A}"), ":0"), ("PEXPIRE lock 60000".to_owned(), ":0")]
    {
        let told = Lines::taken().promoted().say("A", NEW, &command, reply).told();
        assert_eq!(told.severity, Severity::Warning, "{command}");
        assert!(told.sentence.starts_with("`lock` was lost while A (client 65) held it"), "{}", told.sentence);
    }
}

#[test]
fn a_lock_that_was_released_or_over_before_is_not_held_through_a_failover() {
    Lines::taken().say("A", OLD, &format!("DELIFEQ lock {A}"), ":1").promoted().is_silent();
    Lines::default()
        .say("A", OLD, &format!("SET lock {A} NX PX 1500"), "+OK")
        .say("B", OLD, &format!("SET lock {B} NX PX 1500"), "$-1")
        .say("A", OLD, "PING", "+PONG")
        .promoted()
        .is_silent();
    // Another node of the Cluster has it.
    Lines::taken().happen("promoted", "", NEW, "10.0.0.9:6379").is_silent();
}

#[test]
fn the_old_master_takes_its_connections_with_it_and_the_lock_may_be_lost_all_the_same() {
    let cut = || Lines::taken().happen("closed", "A", OLD, "").happen("topology", "", OLD, "unreachable").promoted();
    let told = cut().told();
    assert!(told.sentence.contains("may be lost"), "{}", told.sentence);
    // Its program comes back over another connection.
    cut().say("A2", NEW, "GET lock", &bulk(A)).is_silent();
    cut().say("A2", NEW, &format!("DELIFEQ lock {A}"), ":1").is_silent();
    let lost = cut().say("A2", NEW, &format!("DELIFEQ lock {A}"), ":0").told();
    assert!(lost.sentence.contains("was lost while A (client 65) held it"), "{}", lost.sentence);
    let taken = cut().say("B", NEW, &format!("SET lock {B} NX PX 60000"), "+OK").told();
    assert_eq!(taken.severity, Severity::Warning);
    // The same when it closes them after the promotion.
    Lines::taken().promoted().happen("closed", "A", OLD, "").say("A2", NEW, "GET lock", &bulk(A)).is_silent();
    assert!(Lines::taken().promoted().happen("closed", "A", OLD, "").told().sentence.contains("may be lost"));
    // The client has not left its lock behind.
    let left = cut().findings();
    assert!(left.iter().all(|finding| finding.code != Code::HeldAtDisconnect), "{left:?}");
}

#[test]
fn a_client_may_meet_the_new_master_before_the_promotion_is_seen() {
    let told = Lines::taken().say("B", NEW, &format!("SET lock {B} NX PX 60000"), "+OK").promoted().told();
    assert_eq!(told.severity, Severity::Error);
    assert!(told.sentence.starts_with("A (client 65) and B (client 66) both held `lock`"), "{}", told.sentence);
}

#[test]
fn a_wait_that_a_replica_answered_makes_it_a_note() {
    let waited = |replicas: &str| Lines::taken().say("A", OLD, "WAIT 1 100", replicas).promoted().told();
    assert_eq!(waited(":1").severity, Severity::Note);
    assert!(waited(":1").sentence.ends_with("a replica had it, but not necessarily this one"));
    assert_eq!(waited(":0").severity, Severity::Warning);
    let extended_since = Lines::taken()
        .say("A", OLD, "WAIT 1 100", ":1")
        .say("A", OLD, &format!("SET lock {A} IFEQ {A} PX 60000"), "+OK")
        .promoted();
    assert_eq!(extended_since.told().severity, Severity::Warning);
}

#[test]
fn a_failover_that_waits_for_all_writes_loses_none() {
    let planned = |node: &str, command: &str| Lines::taken().say("O", node, command, "+OK").promoted();
    planned(NEW, "CLUSTER FAILOVER").is_silent();
    planned(OLD, "FAILOVER TO 10.0.0.2 6379").is_silent();
    planned(NEW, "CLUSTER FAILOVER FORCE").told();
    planned(NEW, "CLUSTER FAILOVER TAKEOVER").told();
    planned("10.0.0.7:26379", "SENTINEL FAILOVER mymaster").told();
}

#[test]
fn a_key_that_has_moved_to_another_node_is_the_same_key() {
    let moved = || Lines::taken().say("B", "10.0.0.5:6379", &format!("SET lock {B} NX PX 60000"), "$-1");
    moved().promoted().is_silent();
    moved().happen("promoted", "", NEW, "10.0.0.5:6379").is_silent();
    let extended = moved().say("A2", "10.0.0.5:6379", &format!("SET lock {A} IFEQ {A} PX 60000"), "+OK");
    extended.happen("promoted", "", NEW, "10.0.0.5:6379").told();
    // Or the slot is said to have moved. The lock is in 8718.
    Lines::taken().happen("topology", "", "10.0.0.5:6379", "slots 8000-9000").promoted().is_silent();
    Lines::taken().happen("topology", "", OLD, "slots 8000-9000").promoted().told();
}

#[test]
fn a_lock_that_scripts_alone_have_taken_is_known_to_be_on_a_master() {
    let script = |node: &str, client: u32, seq: u32, token: &str, children: &str, reply: &str| {
        format!(
            r#"{{"seq":{seq},"time_us":{seq}000000,"sent_us":{seq}000000,"order":"interval","client":{client},"name":"{client}","node":"{node}","command":["EVAL","(take)","1","lock","{token}","60000"],"raw":"{reply}\r\n","children":[{children}]}}"#
        )
    };
    let set = |token: &str, reply: &str| {
        format!(r#"{{"command":["set","lock","{token}","NX","PX","60000"],"raw":"{reply}\r\n","db":0}}"#)
    };
    let taken = || Lines(vec![script(OLD, 1, 1, A, &set(A, "+OK"), ":1"), script(OLD, 2, 2, B, &set(B, "$-1"), ":0")]);
    taken().promoted().told();
    let mut refused = taken().promoted();
    refused.0.push(script(NEW, 2, 4, B, &set(B, "$-1"), ":0"));
    refused.is_silent();
}

#[test]
fn what_a_replica_answers_is_no_evidence_of_what_its_master_has() {
    let replica = "10.0.0.3:6379";
    // A read from a replica that lags behind, and the lock is released in order.
    let lagging = Lines::taken()
        .say("C", replica, "READONLY", "+OK")
        .say("C", replica, "GET lock", "$-1")
        .say("B", OLD, &format!("SET lock {B} NX PX 60000"), "$-1")
        .say("A", OLD, &format!("DELIFEQ lock {A}"), ":1");
    assert_eq!(lagging.findings(), []);
    // It shows a lock that was released before.
    let late = Lines::taken()
        .say("A", OLD, &format!("DELIFEQ lock {A}"), ":1")
        .say("C", replica, "GET lock", &bulk(A))
        .say("B", OLD, &format!("SET lock {B} NX PX 60000"), "+OK")
        .say("B", OLD, &format!("DELIFEQ lock {B}"), ":1");
    assert_eq!(late.findings(), []);
    // Nor does it prove that a promoted node has the lock.
    Lines::taken().promoted().say("C", replica, "GET lock", &bulk(A)).told();
    // The master itself, to whoever has said READONLY.
    Lines::taken().promoted().say("C", NEW, "READONLY", "+OK").say("C", NEW, "GET lock", &bulk(A)).told();
    // Nor does what the old master still says.
    Lines::taken().promoted().say("B", OLD, &format!("SET lock {B} NX PX 60000"), "$-1").told();
}

#[test]
fn locks_that_are_taken_and_released_on_both_sides_of_a_failover_are_fine() {
    nothing_is_found(
        "A: SET lock {a} NX PX 9000
         A: RELEASE lock {a}
         failover
         B: SET lock {b} NX PX 9000
         B: RELEASE lock {b}",
    );
}

#[test]
fn a_lock_that_a_replica_had_not_got_is_given_again_when_it_takes_over() {
    judge(&Pair {
        code: Code::LostInFailover,
        wrong: "
            replicas
            hold
            ! A: SET lock {a} NX PX 10000
            promote
            ! B@2: SET lock {b} NX PX 10000
            B@2: RELEASE lock {b}
        ",
        right: "
            replicas
            hold
            A: SET lock {a} NX PX 1000
            promote
            +1001ms
            B@2: SET lock {b} NX PX 10000
            B@2: RELEASE lock {b}
        ",
    });
}

#[test]
fn a_lock_that_redis_cli_has_taken_is_lost_although_its_connection_has_ended() {
    let story = "
        replicas
        hold
        a: SET lock alice NX PX 10000
        close a
        promote
        b@2: SET lock bob NX PX 10000
        close b
    ";
    assert!(found(Code::LostInFailover, story).is_some());
    let released = "
        replicas
        a: SET lock alice NX PX 10000
        hold
        a: DEL lock
        close a
        promote
        b@2: DEL lock
        b@2: SET lock bob NX PX 10000
    ";
    assert!(found(Code::LostInFailover, released).is_none());
}

#[test]
fn whoever_comes_back_for_a_lock_that_a_failover_has_lost_is_not_accused_of_more() {
    let codes = |story: &str| -> Vec<Code> {
        super::story::play(story).findings().iter().map(|finding| finding.code).collect()
    };
    let lost = |back: &str| format!("replicas\nhold\nA: SET lock {{a}} NX PX 10000\npromote\n{back}");
    for back in
        ["A: RELEASE lock {a}", "A@2: RELEASE lock {a}", "A: EXTEND lock {a} 10000", "A@2: EXTEND lock {a} 10000"]
    {
        let given_again = format!("B@2: SET lock {{b}} NX PX 10000\n{back}\nB@2: RELEASE lock {{b}}");
        assert_eq!(codes(&lost(&given_again)), [Code::LostInFailover], "{back}");
        // It knows before the next one comes.
        let known = format!("{back}\nB@2: SET lock {{b}} NX PX 10000\nB@2: RELEASE lock {{b}}");
        assert_eq!(codes(&lost(&known)), [], "{back}");
    }
    // The new master gives it when the time is over that both have agreed upon.
    let over = "A@2: GET data\n+11s\nB@2: SET lock {b} NX PX 10000\nB@2: RELEASE lock {b}";
    assert_eq!(codes(&lost(over)), []);
}

#[test]
fn a_failover_back_to_the_first_server_is_no_second_finding() {
    let story = "
        replicas
        hold
        A: SET lock {a} NX PX 10000
        promote
        B@2: SET lock {b} NX PX 10000
        B@2: RELEASE lock {b}
        A: RELEASE lock {a}
        back
        C: SET lock {c} NX PX 10000
        C: RELEASE lock {c}
    ";
    let played = super::story::play(story);
    let codes: Vec<Code> = played.findings().iter().map(|finding| finding.code).collect();
    assert_eq!(codes, [Code::LostInFailover]);
}

#[test]
fn a_lock_on_three_masters_of_which_one_loses_it_is_not_lost() {
    let story = "
        replicas
        hold
        A: SET lock {a} NX PX 10000
        A@3: SET lock {a} NX PX 10000
        A@4: SET lock {a} NX PX 10000
        promote
        B@2: SET lock {b} NX PX 10000
        B@3: SET lock {b} NX PX 10000
        B@4: SET lock {b} NX PX 10000
        B@2: RELEASE lock {b}
        B@3: RELEASE lock {b}
        B@4: RELEASE lock {b}
    ";
    assert!(found(Code::LostInFailover, story).is_none());
}

#[test]
fn a_lock_on_three_masters_is_not_lost_either_if_its_token_is_random_bytes() {
    let story = "
        replicas
        hold
        A: SET lock raw:{a} NX PX 10000
        A@3: SET lock raw:{a} NX PX 10000
        A@4: SET lock raw:{a} NX PX 10000
        promote
        B@2: SET lock raw:{b} NX PX 10000
        B@3: SET lock raw:{b} NX PX 10000
        B@4: SET lock raw:{b} NX PX 10000
    ";
    assert!(found(Code::LostInFailover, story).is_none());
    let one = story.lines().filter(|line| !line.contains("@3") && !line.contains("@4")).collect::<Vec<_>>().join("\n");
    assert!(found(Code::LostInFailover, &format!("locks lock\n{one}")).is_some());
}

#[test]
fn a_lock_that_every_node_has_and_that_is_released_at_the_new_master_is_not_left_behind() {
    let story = "
        replicas
        A: SET lock {a} NX PX 10000
        B: SET lock {b} NX PX 10000
        promote
        A@2: RELEASE lock {a}
        B@2: SET lock {b} NX PX 10000
        B@2: RELEASE lock {b}
        close A
        close B
        +11s
    ";
    nothing_is_found(story);
}

#[test]
fn a_holder_that_follows_a_failover_and_releases_at_the_new_master_is_not_blamed() {
    let kept = "
        replicas
        A: SET lock {a} NX PX 10000
        B: SET lock {b} NX PX 10000
        promote
        A@2: RELEASE lock {a}
        B@2: SET lock {b} NX PX 10000
        B@2: RELEASE lock {b}
    ";
    assert!(found(Code::NoQuorum, kept).is_none());
    let lost = "
        replicas
        hold
        A: SET lock {a} NX PX 10000
        promote
        B@2: SET lock {b} NX PX 10000
        A@2: EXTEND lock {a} 10000
        A@2: RELEASE lock {a}
        B@2: RELEASE lock {b}
    ";
    assert!(found(Code::LostInFailover, lost).is_some());
    assert!(found(Code::NoQuorum, lost).is_none());
}

#[test]
fn a_majority_of_three_masters_stays_one_when_a_replica_takes_the_place_of_one() {
    let story = "
        replicas
        A: SET lock {a} NX PX 10000
        A@3: SET lock {a} NX PX 10000
        A@4: SET lock {a} NX PX 10000
        A: RELEASE lock {a}
        A@3: RELEASE lock {a}
        A@4: RELEASE lock {a}
        C@4: SET lock {c} NX PX 10000
        promote
        B@2: SET lock {b} NX PX 10000
        B@3: SET lock {b} NX PX 10000
        B@4: SET lock {b} NX PX 10000
        +2s
        B@2: SET data 1
        B@2: RELEASE lock {b}
        B@3: RELEASE lock {b}
        C@4: RELEASE lock {c}
    ";
    assert!(found(Code::NoQuorum, story).is_none());
    let minority = story.replace("promote\n", "C@3: SET lock {c} NX PX 10000\n promote\n");
    assert!(found(Code::NoQuorum, &minority).is_some());
}
