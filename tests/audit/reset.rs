//! A fixture resets the server before each test. What the test before had left behind is found nevertheless, what is known
//! of locks stays known, and each finding says which test it belongs to.

use redouble::internals::{Event, EventKind, Item, journal_of};
use redouble::{Code, Finding, Server, Severity};

use crate::support::wire::{Frame, Wire};
use crate::support::{address, start, wait_until};

const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
const ONE: &str = "5f0c9a83b1d24e67";
const TWO: &str = "91e7c2d40a8b36f5";

struct Suite {
    server: Server,
    driver: Wire,
}

impl Suite {
    fn begin() -> Self {
        let server = start(Server::builder().audit());
        let driver = Wire::connect(address(&server));
        Self { server, driver }
    }

    fn client(&self, name: &str) -> Wire {
        let mut wire = Wire::connect(address(&self.server));
        assert_eq!(wire.ask(&format!("CLIENT SETNAME {name}")), Frame::status("OK"));
        wire
    }

    /// What the recommended fixture does.
    fn test(&mut self, name: &str) {
        assert_eq!(self.driver.ask("REDOUBLE RESET"), Frame::status("OK"));
        assert_eq!(self.driver.ask(&format!("REDOUBLE MARK {name}")), Frame::status("OK"));
    }

    /// The findings of all tests: code, key and mark of each.
    fn of_run(&self) -> Vec<(Code, String, Option<String>)> {
        self.server.audit().findings_of_run().iter().map(|finding| told(finding)).collect()
    }

    fn count(&mut self, question: &str) -> i64 {
        self.driver.ask(&format!("REDOUBLE AUDIT COUNT {question}")).integer()
    }
}

fn told(finding: &Finding) -> (Code, String, Option<String>) {
    (finding.code, String::from_utf8_lossy(&finding.key).into_owned(), finding.mark.as_deref().map(str::to_owned))
}

fn leak(key: &str, mark: &str) -> (Code, String, Option<String>) {
    (Code::Leaked, key.to_owned(), Some(mark.to_owned()))
}

fn take(client: &mut Wire, key: &str, token: &str) -> Frame {
    client.ask(&format!("SET {key} {token} NX PX 600000"))
}

fn release(client: &mut Wire, key: &str, token: &str) -> i64 {
    client.call(&["EVAL", RELEASE, "1", key, token]).integer()
}

/// A lock is taken, contended and released: so its key is known to be one.
fn use_well(one: &mut Wire, other: &mut Wire, key: &str) {
    assert_eq!(take(one, key, ONE), Frame::status("OK"));
    assert_eq!(take(other, key, TWO), Frame::NullBulk);
    assert_eq!(release(one, key, ONE), 1);
}

#[test]
fn a_leak_at_the_end_of_a_test_is_not_forgotten_by_the_next_tests_reset() {
    let mut suite = Suite::begin();
    let (mut one, mut other) = (suite.client("one"), suite.client("other"));
    suite.test("test_that_leaks");
    take(&mut one, "lock:a", ONE);
    take(&mut other, "lock:a", TWO);
    suite.test("test_that_is_right");
    use_well(&mut one, &mut other, "lock:b");
    // The test that runs now has done nothing wrong.
    assert_eq!(suite.count("final"), 0);
    assert_eq!(suite.of_run(), [leak("lock:a", "test_that_leaks")]);
    assert_eq!(suite.count("run severity warning"), 1);
    assert_eq!(suite.count("run mark test_that_*"), 1);
    assert_eq!(suite.count("run mark test_that_is_right"), 0);
}

#[test]
fn a_mark_in_front_of_the_reset_does_not_put_the_leak_into_the_next_test() {
    let mut suite = Suite::begin();
    let (mut one, mut other) = (suite.client("one"), suite.client("other"));
    suite.driver.ask("REDOUBLE MARK first");
    suite.driver.ask("REDOUBLE RESET");
    take(&mut one, "lock:a", ONE);
    take(&mut other, "lock:a", TWO);
    suite.driver.ask("REDOUBLE MARK second");
    suite.driver.ask("REDOUBLE RESET");
    take(&mut one, "lock:b", ONE);
    take(&mut other, "lock:b", TWO);
    assert_eq!(suite.of_run(), [leak("lock:a", "first"), leak("lock:b", "second")]);
}

#[test]
fn a_lock_that_outlives_the_tests_is_no_leak_when_its_holder_comes_back() {
    let mut suite = Suite::begin();
    let (mut leader, mut other) = (suite.client("leader"), suite.client("other"));
    suite.driver.ask("REDOUBLE MARK session");
    take(&mut leader, "lock:leader", ONE);
    take(&mut other, "lock:leader", TWO);
    suite.test("test_1");
    assert_eq!(suite.of_run(), [leak("lock:leader", "session")]);
    suite.test("test_2");
    // It learns that it has lost the lock, and was not forgotten.
    assert_eq!(release(&mut leader, "lock:leader", ONE), 0);
    assert_eq!(suite.of_run(), []);
}

#[test]
fn a_pooled_connection_that_takes_the_lock_anew_has_leaked_it_before() {
    let mut suite = Suite::begin();
    let (mut one, mut other) = (suite.client("one"), suite.client("other"));
    suite.test("test_that_leaks");
    take(&mut one, "lock:a", ONE);
    take(&mut other, "lock:a", TWO);
    suite.test("test_that_is_right");
    use_well(&mut one, &mut other, "lock:a");
    suite.test("test_3");
    assert_eq!(suite.of_run(), [leak("lock:a", "test_that_leaks")]);
}

#[test]
fn a_connection_that_a_test_has_closed_with_its_lock_is_told_of_too() {
    let mut suite = Suite::begin();
    let mut other = suite.client("other");
    suite.test("test_that_crashes");
    let mut one = suite.client("one");
    take(&mut one, "lock:a", ONE);
    take(&mut other, "lock:a", TWO);
    drop(one);
    let is_closed = |item: &Item| matches!(item, Item::Event(event) if event.kind == EventKind::Closed);
    wait_until("the end of the connection", || journal_of(&suite.server).iter().any(is_closed));
    suite.test("next");
    let held = (Code::HeldAtDisconnect, "lock:a".to_owned(), Some("test_that_crashes".to_owned()));
    assert_eq!(suite.of_run(), [held]);
}

#[test]
fn a_key_that_one_test_has_shown_to_be_a_lock_is_one_in_the_next() {
    let mut suite = Suite::begin();
    let (mut one, mut other) = (suite.client("one"), suite.client("other"));
    let blind = |suite: &mut Suite, one: &mut Wire, other: &mut Wire, key: &str, token: &str| {
        assert_eq!(take(one, key, token), Frame::status("OK"));
        other.ask(&format!("DEL {key}"));
        suite.count("code blind-delete")
    };
    // Nothing shows that these keys are locks: nobody was refused, and nothing compared.
    assert_eq!(blind(&mut suite, &mut one, &mut other, "orders:41", ONE), 0);
    suite.test("test_that_shows_it");
    use_well(&mut one, &mut other, "orders:41");
    suite.test("next");
    assert_eq!(blind(&mut suite, &mut one, &mut other, "orders:41", ONE), 1);
    // So are keys that differ from it in a number alone.
    assert_eq!(blind(&mut suite, &mut one, &mut other, "orders:42", TWO), 2);
    assert_eq!(blind(&mut suite, &mut one, &mut other, "carts:42", TWO), 2);
    // The same name with another kind of value is something else: a cache that anybody may empty.
    suite.test("other_values");
    assert_eq!(blind(&mut suite, &mut one, &mut other, "orders:41", "cached"), 0);
}

#[test]
fn a_key_that_is_used_for_something_else_is_no_lock_any_more() {
    let mut suite = Suite::begin();
    let (mut one, mut other) = (suite.client("one"), suite.client("other"));
    use_well(&mut one, &mut other, "name");
    suite.test("a_list_by_that_name");
    take(&mut one, "name", ONE);
    one.ask("APPEND name x");
    take(&mut one, "name", TWO);
    other.ask("DEL name");
    assert_eq!(suite.count("final severity warning"), 0);
}

#[test]
fn what_a_test_allows_stays_allowed_after_its_reset() {
    let mut suite = Suite::begin();
    let (mut one, mut other) = (suite.client("one"), suite.client("other"));
    suite.test("test_that_leaks_on_purpose");
    suite.driver.ask("REDOUBLE AUDIT ALLOW leaked lock:* the process ends in the middle");
    take(&mut one, "lock:a", ONE);
    take(&mut other, "lock:a", TWO);
    suite.test("next");
    let found = suite.server.audit().findings_of_run();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].allowed.as_deref(), Some("the process ends in the middle"));
    assert_eq!(suite.count("run"), 0);
}

#[test]
fn what_was_found_in_a_space_stays_when_the_space_is_dropped() {
    let suite = Suite::begin();
    let space = suite.server.space("test-1").expect("a space");
    let (mut one, mut other) = (suite.client("one"), suite.client("other"));
    for client in [&mut one, &mut other] {
        client.ask("REDOUBLE SPACE test-1");
    }
    space.mark("test_in_a_space").expect("a mark");
    take(&mut one, "orders:1", ONE);
    take(&mut other, "orders:1", TWO);
    suite.server.drop_space("test-1").expect("it is there");
    assert_eq!(suite.of_run(), [leak("orders:1", "test_in_a_space")]);
    // What was learned there is known in the next space.
    let space = suite.server.space("test-2").expect("a space");
    let (mut one, mut other) = (suite.client("one"), suite.client("other"));
    for client in [&mut one, &mut other] {
        client.ask("REDOUBLE SPACE test-2");
    }
    take(&mut one, "orders:2", ONE);
    other.ask("DEL orders:2");
    let found = space.audit().findings();
    assert!(found.iter().any(|finding| finding.code == Code::BlindDelete), "{found:?}");
}

#[test]
fn each_of_several_servers_is_judged_when_it_is_reset() {
    let servers = Server::builder().audit().instances(3).port(0).spawn_all().expect("servers");
    let audit = servers.audit();
    servers[0].mark("redlock_test").expect("a mark");
    let mut clients = Vec::new();
    for server in servers.iter() {
        let (mut one, mut other) = (Wire::connect(address(server)), Wire::connect(address(server)));
        one.ask("CLIENT SETNAME one");
        other.ask("CLIENT SETNAME other");
        take(&mut one, "lock:a", ONE);
        take(&mut other, "lock:a", TWO);
        clients.extend([one, other]);
    }
    for server in servers.iter() {
        server.reset();
    }
    assert!(audit.findings().is_empty(), "{:?}", audit.findings());
    let found = audit.findings_of_run();
    let leaks: Vec<u16> =
        found.iter().filter(|finding| finding.code == Code::Leaked).map(|found| found.server).collect();
    assert_eq!(leaks, [1, 2, 3]);
    assert!(found.iter().all(|finding| finding.mark.as_deref() == Some("redlock_test")), "{found:?}");
    assert!(!found.iter().any(|finding| finding.severity == Severity::Error), "{found:?}");
}

#[test]
fn a_mark_stands_in_the_journal_also_after_a_reset() {
    let mut suite = Suite::begin();
    suite.driver.ask("REDOUBLE MARK tests/test_orders.py::test_paid[a b]");
    suite.driver.ask("SET key 1");
    suite.driver.ask("REDOUBLE RESET");
    let items = journal_of(&suite.server);
    let is_mark = |item: &Item| matches!(item, Item::Event(Event { kind: EventKind::Mark, detail, .. }) if detail == "tests/test_orders.py::test_paid[a b]");
    assert!(is_mark(&items[0]) && items.len() == 1, "{items:?}");
    assert_eq!(suite.driver.ask("REDOUBLE JOURNAL COUNT OUTCOME mark").integer(), 1);
    // Whoever counts commands does not count marks.
    assert_eq!(suite.driver.ask("REDOUBLE JOURNAL COUNT").integer(), 0);
    assert_eq!(suite.driver.ask("REDOUBLE JOURNAL LIST").items().len(), 1);
    assert_eq!(suite.driver.ask("REDOUBLE JOURNAL LIST KEY *").items().len(), 0);
    suite.driver.ask("REDOUBLE JOURNAL CLEAR");
    assert_eq!(suite.driver.ask("REDOUBLE JOURNAL COUNT OUTCOME mark").integer(), 1);
}

#[test]
fn a_mark_that_is_too_long_or_empty_is_refused() {
    let mut suite = Suite::begin();
    let long = "x".repeat(1025);
    for text in [long.as_str(), " "] {
        let reply = suite.driver.call(&["REDOUBLE", "MARK", text]);
        assert!(reply.is_error(), "{reply:?}");
        assert!(suite.server.mark(text).is_err());
    }
    suite.server.mark("x".repeat(1024)).expect("it is short enough");
}
