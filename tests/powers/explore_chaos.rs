//! What the explorer tries beside orders: locks that expire, replies that are lost, clients that die or stand still; and
//! clients that ask again and again.
//!
//! Each mistake has a neighbour that does the same right. A client is dead or waited for when the server closes its
//! connection; nothing depends on how long anything takes.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::wire::{Frame, Wire};
use crate::support::{address, spawn};
use redouble::{Chaos, ExplorationSummary, Search, Server};

const RELEASE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
const WRITE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then redis.call('SET', KEYS[2], ARGV[2]) return 1 end return 0";

/// A client of a race, which goes on over another connection when it has lost one.
struct Worker {
    address: SocketAddr,
    name: String,
    wire: Wire,
}

/// The server has closed the connection instead of a reply.
#[derive(Debug)]
struct Closed;

impl Worker {
    fn connect(address: SocketAddr, number: usize) -> Self {
        let mut worker = Self { address, name: format!("worker-{number}"), wire: Wire::connect(address) };
        worker.introduce();
        worker
    }

    fn introduce(&mut self) {
        self.wire.ask(&format!("CLIENT SETNAME {}", self.name));
    }

    fn reconnect(&mut self) {
        self.wire = Wire::connect(self.address);
        self.introduce();
    }

    fn call(&mut self, words: &[&str]) -> Result<Frame, Closed> {
        self.wire.send(&crate::support::wire::request(words));
        self.wire.read().map_err(|_| Closed)
    }

    fn ask(&mut self, line: &str) -> Result<Frame, Closed> {
        self.call(&line.split_whitespace().collect::<Vec<_>>())
    }

    fn takes(&mut self, how: &str) -> Result<bool, Closed> {
        let line = format!("SET lock {} {how}", self.name);
        Ok(self.ask(&line)? == Frame::status("OK"))
    }

    fn releases_its_own(&mut self) -> Result<bool, Closed> {
        let name = self.name.clone();
        Ok(self.call(&["EVAL", RELEASE, "1", "lock", &name])? == Frame::Integer(1))
    }
}

type Work = fn(&mut Worker) -> Result<i64, Closed>;

/// Two clients that race; the sum of what they say they have done.
fn race(server: &Server, work: Work) -> i64 {
    let address = address(server);
    Wire::connect(address).ask("SET stock 10");
    std::thread::scope(|scope| {
        let racing: Vec<_> = (1..=2)
            .map(|number| scope.spawn(move || work(&mut Worker::connect(address, number)).unwrap_or(0)))
            .collect();
        racing.into_iter().map(|client| client.join().expect("a client")).sum()
    })
}

fn search(chaos: Chaos) -> Search {
    Search::default().client("worker-*").clients(2).settle(Duration::from_millis(50)).random(0).chaos(chaos)
}

/// What a run came to: what the clients did, and the order.
type Judge = fn(&mut Wire, i64, &[String]) -> bool;

/// Runs until an order is wrong: how many runs that took, the token and the order.
fn find(search: Search, work: Work, is_wrong: Judge) -> Option<(u64, String, Vec<String>)> {
    let server = spawn();
    let mut exploration = server.explore(search).unwrap();
    while let Some(number) = exploration.next().unwrap() {
        let done = race(&server, work);
        let order = exploration.order().unwrap();
        if is_wrong(&mut Wire::connect(address(&server)), done, &order) {
            return Some((number, exploration.fail().unwrap(), order));
        }
    }
    None
}

/// The mistake is found in so many runs, and its token leads to the same order each time; what is right survives.
#[track_caller]
fn is_found(chaos: Chaos, most: u64, wrong: Work, right: Work, is_wrong: Judge) -> Vec<String> {
    let (runs, token, order) = find(search(chaos.clone()), wrong, is_wrong).expect("an order that is wrong");
    assert!(runs <= most, "it took {runs} runs: {order:#?}");
    let server = spawn();
    let mut replay = server.replay(&token, search(chaos.clone())).unwrap();
    for _ in 0..3 {
        replay.next().unwrap();
        let done = race(&server, wrong);
        assert_eq!((replay.order().unwrap(), replay.strayed()), (order.clone(), None));
        assert!(is_wrong(&mut Wire::connect(address(&server)), done, &order));
        assert_eq!(replay.fail().unwrap(), token);
    }
    if let Some((_, _, order)) = find(search(chaos).runs(60), right, is_wrong) {
        panic!("the right one fails: {order:#?}");
    }
    order
}

fn lost_an_update(wire: &mut Wire, sold: i64, _: &[String]) -> bool {
    wire.ask("GET stock").text() != (10 - sold).to_string()
}

fn is_held_for_ever(wire: &mut Wire, _: i64, _: &[String]) -> bool {
    wire.ask("PTTL lock") == Frame::Integer(-1)
}

fn sell(worker: &mut Worker, is_guarded: bool) -> Result<i64, Closed> {
    while !worker.takes("NX PX 30000")? {}
    let left = (worker.ask("GET stock")?.text().parse::<i64>().unwrap() - 1).to_string();
    let sold = match is_guarded {
        true => worker.call(&["EVAL", WRITE, "2", "lock", "stock", &worker.name.clone(), &left])?.integer(),
        false => worker.ask(&format!("SET stock {left}")).map(|_| 1)?,
    };
    worker.releases_its_own()?;
    Ok(sold)
}

#[test]
fn a_holder_that_stands_still_past_its_deadline_and_then_writes_is_found() {
    let chaos = Chaos::default().expiry(1).pause(1);
    let order = is_found(chaos, 12, |worker| sell(worker, false), |worker| sell(worker, true), lost_an_update);
    assert!(order.iter().any(|line| line.contains("(the clock goes on by 30.001s: lock expires)")), "{order:#?}");
    assert!(order.iter().any(|line| line.contains("(stands still before ")), "{order:#?}");
}

fn take_without_a_deadline(worker: &mut Worker, suspects: bool) -> Result<i64, Closed> {
    let taken = worker.takes("NX").or_else(|Closed| {
        worker.reconnect();
        Ok(suspects)
    })?;
    if taken && worker.releases_its_own().is_err() {
        worker.reconnect();
        worker.releases_its_own()?;
    }
    Ok(0)
}

#[test]
fn a_lock_whose_reply_was_lost_and_that_nobody_releases_is_found() {
    let order = is_found(
        Chaos::default().lost_reply(1),
        6,
        |worker| take_without_a_deadline(worker, false),
        |worker| take_without_a_deadline(worker, true),
        is_held_for_ever,
    );
    assert!(order[0].ends_with("SET lock worker-1 NX  -> OK (lost)"), "{order:#?}");
}

fn take_and_set_a_deadline(worker: &mut Worker) -> Result<i64, Closed> {
    if worker.ask("SETNX lock me")? == Frame::Integer(1) {
        worker.ask("EXPIRE lock 30")?;
        worker.ask("DEL lock")?;
    }
    Ok(0)
}

fn take_with_a_deadline(worker: &mut Worker) -> Result<i64, Closed> {
    if worker.takes("NX EX 30")? {
        worker.ask("INCR work")?;
        worker.releases_its_own()?;
    }
    Ok(0)
}

#[test]
fn a_client_that_dies_between_taking_a_lock_and_setting_its_deadline_is_found() {
    let chaos = Chaos::default().crash(1);
    let order = is_found(chaos, 6, take_and_set_a_deadline, take_with_a_deadline, is_held_for_ever);
    assert!(order.iter().any(|line| line.contains("(dies before EXPIRE lock 30)")), "{order:#?}");
}

fn compare_and_delete_in_two_steps(worker: &mut Worker) -> Result<i64, Closed> {
    if worker.takes("NX PX 30000")? && worker.ask("GET lock")? == Frame::bulk(&worker.name) {
        worker.ask("DEL lock")?;
    }
    Ok(0)
}

fn compare_and_delete_in_one_step(worker: &mut Worker) -> Result<i64, Closed> {
    if worker.takes("NX PX 30000")? {
        worker.releases_its_own()?;
    }
    Ok(0)
}

/// Whether a client has deleted the lock of another one.
fn deleted_a_strange_lock(_: &mut Wire, _: i64, order: &[String]) -> bool {
    let by = |line: &String| line.split_whitespace().nth(1).map(str::to_owned);
    let mut holder = None;
    for line in order {
        if line.contains("SET lock") && line.contains("-> OK") {
            holder = by(line);
        } else if line.contains("DEL lock  -> 1") && by(line) != holder {
            return true;
        }
    }
    false
}

#[test]
fn an_expiry_between_get_and_del_is_found() {
    let chaos = Chaos::default().expiry(1);
    let wrong = compare_and_delete_in_two_steps;
    is_found(chaos, 20, wrong, compare_and_delete_in_one_step, deleted_a_strange_lock);
}

#[test]
fn all_four_are_found_when_everything_may_happen_at_once() {
    let all = || Chaos::default().expiry(1).lost_reply(1).crash(1).pause(1);
    let cases: [(Work, Judge); 4] = [
        (|worker| sell(worker, false), lost_an_update),
        (|worker| take_without_a_deadline(worker, false), is_held_for_ever),
        (take_and_set_a_deadline, is_held_for_ever),
        (compare_and_delete_in_two_steps, deleted_a_strange_lock),
    ];
    for (work, is_wrong) in cases {
        let (runs, _, order) = find(search(all()), work, is_wrong).expect("an order that is wrong");
        assert!(runs <= 30, "it took {runs} runs: {order:#?}");
    }
}

// ---- clients that ask again and again

fn wait_for_the_lock(worker: &mut Worker) -> Result<i64, Closed> {
    while !worker.takes("NX")? {}
    worker.ask("INCR work")?;
    worker.releases_its_own()?;
    Ok(1)
}

fn explored(search: Search, work: Work) -> ExplorationSummary {
    let server = spawn();
    let mut exploration = server.explore(search).unwrap();
    while exploration.next().unwrap().is_some() {
        race(&server, work);
    }
    exploration.stop().unwrap()
}

#[test]
fn a_client_that_asks_until_the_lock_is_free_makes_no_endless_order() {
    let summary = explored(search(Chaos::default()), wait_for_the_lock);
    assert!(summary.is_complete, "{summary:?}");
    assert!(summary.polls > 0 && summary.turns < 20 && summary.runs < 40, "{summary:?}");
    let more = explored(search(Chaos::default()).polls(3), wait_for_the_lock);
    assert!(more.is_complete && more.runs > summary.runs && more.turns > summary.turns, "{more:?}");
}

#[test]
fn a_lock_that_nobody_releases_is_asked_for_in_vain_and_the_result_says_so() {
    let ask_often = |worker: &mut Worker| {
        let asked = (0..300).find(|_| worker.takes("NX").unwrap_or(true));
        Ok(i64::from(asked.is_some()))
    };
    let summary = explored(search(Chaos::default()).runs(1), ask_often);
    assert_eq!((summary.endless, summary.is_complete), (1, false), "{summary:?}");
    assert!(summary.turns < 200, "{summary:?}");
}

#[test]
fn a_waiting_client_gets_the_lock_of_a_dead_one_when_its_time_has_passed() {
    let wait = |worker: &mut Worker| {
        while !worker.takes("NX PX 30000")? {}
        worker.ask("INCR work")?;
        worker.releases_its_own()?;
        Ok(1)
    };
    let server = spawn();
    let mut exploration = server.explore(search(Chaos::default().crash(1))).unwrap();
    let mut seen = false;
    while exploration.next().unwrap().is_some() {
        let done = race(&server, wait);
        let order = exploration.order().unwrap();
        let has_died = order.iter().any(|line| line.contains("(dies before"));
        assert_eq!(done, if has_died { 1 } else { 2 }, "{order:#?}");
        seen |= order.iter().any(|line| line.contains("(the clock goes on by 30.001s: lock expires)"));
    }
    assert!(seen);
}

#[test]
fn the_clock_goes_on_again_when_the_exploration_has_ended() {
    let server = spawn();
    let mut exploration = server.explore(search(Chaos::default().expiry(1))).unwrap();
    exploration.next().unwrap();
    let mut wire = Wire::connect(address(&server));
    assert_eq!(wire.ask("TIME"), wire.ask("TIME"));
    exploration.stop().unwrap();
    let before = wire.ask("TIME");
    assert!((0..10_000).any(|_| wire.ask("TIME") != before));
}

// ---- the program

/// Runs what a line of the page says, in a folder that has nothing but the examples.
fn play(line: &str) -> (Option<i32>, String) {
    let words = line.strip_prefix("$ redouble ").expect("a command of this program");
    let words = words.split_whitespace().map(|word| word.trim_matches('\''));
    static PLAYED: AtomicU32 = AtomicU32::new(0);
    let number = PLAYED.fetch_add(1, Ordering::Relaxed);
    let folder = std::env::temp_dir().join(format!("redouble-explore-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let examples = concat!(env!("CARGO_MANIFEST_DIR"), "/examples");
    std::os::unix::fs::symlink(examples, folder.join("examples")).unwrap();
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_redouble"))
        .args(words)
        .current_dir(&folder)
        .stdin(std::process::Stdio::null())
        .output()
        .unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let text = String::from_utf8_lossy(&output.stderr).replace(env!("CARGO_BIN_EXE_redouble"), "redouble");
    (output.status.code(), text)
}

#[test]
fn the_sessions_of_the_page_go_as_it_says() {
    let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/explorer.md")).unwrap();
    let sessions = page.split("```console\n").skip(1).map(|rest| rest.split("\n```").next().unwrap());
    let mut played = 0;
    for session in sessions {
        let (command, said) = session.split_once('\n').unwrap();
        // How many runs it takes depends on how fast the clients of the first one are.
        let without_number = |line: &str| match line.strip_prefix("redouble explore: ") {
            Some(line) => line.trim_start_matches("order ").trim_start_matches(|c: char| c.is_ascii_digit()).to_owned(),
            // Each run has another instant.
            None => line.split(" PXAT ").next().unwrap_or_default().to_owned(),
        };
        let (_, text) = play(&command.replacen("explore ", "explore --settle 100ms ", 1));
        let text = text.replace(" --settle 100ms", "");
        let mut lines = text.lines().filter(|line| !line.contains(" tried")).map(without_number);
        // `...` stands for lines that are not shown.
        let mut is_gap = false;
        for line in said.lines() {
            if line == "..." {
                is_gap = true;
                continue;
            }
            let line = without_number(line);
            let found = if is_gap { lines.any(|shown| shown == line) } else { lines.next() == Some(line.clone()) };
            assert!(found, "{command} does not say {line:?} there:\n{text}");
            is_gap = false;
        }
        assert!(is_gap || lines.next().is_none(), "{command} says more:\n{text}");
        played += 1;
    }
    assert!(played >= 4);
}

fn explore_lock(flags: &str, lock: &str) -> (Option<i32>, String) {
    play(&format!("$ redouble explore {flags} -- python3 examples/races/lock_chaos.py {lock}"))
}

#[test]
fn an_order_in_which_a_lock_is_misused_fails_although_the_test_passes() {
    let folder = std::env::temp_dir().join(format!("redouble-explore-audit-{}", std::process::id()));
    let page = folder.join("order.html");
    let flags = format!(
        "--client worker-* --audit --report-html {} --junit {}",
        page.display(),
        folder.join("j.xml").display()
    );
    let (status, said) = explore_lock(&flags, "release wrong");
    assert_eq!(status, Some(3), "{said}");
    assert!(said.contains("redouble explore: order 1 fails: 2 errors (--audit)\n"), "{said}");
    assert!(said.contains("error get-then-delete: ") && said.contains("worker-1  DEL lock  -> 1"), "{said}");
    assert!(std::fs::read_to_string(&page).unwrap().contains("worker-1"));
    assert!(std::fs::read_to_string(folder.join("j.xml")).unwrap().contains("get-then-delete"));
    let replay = said.lines().find_map(|line| line.strip_prefix("redouble explore: replay: ")).unwrap();
    assert!(replay.contains(" --audit ") && !replay.contains("order.html"), "{replay}");
    let (status, again) = play(&format!("$ {replay}"));
    assert_eq!(status, Some(3), "{again}");
    // What is done right, and what is allowed, passes; there is nothing to draw then.
    let (status, said) = explore_lock(&flags.replace("order", "none"), "release right");
    assert_eq!(status, Some(0), "{said}");
    assert!(
        said.contains("no order failed, so nothing was written to ") && !folder.join("none.html").exists(),
        "{said}"
    );
    let allowed = folder.join("allowed");
    std::fs::write(&allowed, "get-then-delete lock known\n").unwrap();
    let flags = format!("--client worker-* --runs 3 --random 0 --audit --allow {}", allowed.display());
    let (status, said) = explore_lock(&flags, "release wrong");
    assert_eq!(status, Some(0), "{said}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_is_no_chaos_is_explained() {
    for kinds in ["sleep", "expiry=0", "expiry,expiry", "crash=101"] {
        let (status, said) = play(&format!("$ redouble explore --chaos {kinds} -- true"));
        assert_eq!(status, Some(125));
        assert!(said.starts_with("redouble explore: --chaos takes expiry, lost-reply, crash or pause"), "{said}");
        assert!(said.contains(&format!("not '{kinds}'")), "{said}");
    }
}
