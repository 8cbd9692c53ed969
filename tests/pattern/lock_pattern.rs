//! The documented lock pattern, and what becomes of it when clients are slow, crash or take turns in unlucky order.
//!
//! A client is a small state machine that sends one command at each step, and time moves only when a test moves it. So
//! an interleaving is a list of turns: for two clients every one of them is tried, for more clients a few thousand
//! that are drawn with a seed. Nothing here depends on luck, and each failure says which turns led to it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use redis::Connection;
use redouble::Server;

use crate::support::{Deadline, Dice, client, profile, spawn_frozen, start};

const KEY: &str = "lock.foo";

/// For how long a holder may hold the lock, in seconds.
const TIMEOUT: i64 = 10;

/// The time as the clients see it, in whole seconds, as the documentation's expiry times are.
fn now(server: &Server) -> i64 {
    server.now().duration_since(UNIX_EPOCH).expect("a time after 1970").as_secs() as i64
}

fn command<T: redis::FromRedisValue>(connection: &mut Connection, words: &[&str]) -> T {
    let mut command = redis::cmd(words[0]);
    for word in &words[1..] {
        command.arg(*word);
    }
    command.query(connection).unwrap_or_else(|error| panic!("{words:?}: {error}"))
}

/// How a client goes about taking the lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Algorithm {
    /// SETNX; on 0 look with GET; if the time is past, GETSET and see whether what it returns is past, too.
    Sane,
    /// SETNX; on 0 look with GET; if the time is past, DEL and SETNX again.
    Naive,
    /// `SET key token NX PX ttl`.
    Token,
}

/// What a client is about to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Try,
    Look,
    /// The lock was seen to be out of date.
    TakeOver,
    Remove,
    TryAgain,
    /// Believes that it holds the lock.
    Inside,
    Outside,
    Done,
}

struct Contender<'a> {
    connection: &'a mut Connection,
    algorithm: Algorithm,
    name: usize,
    state: State,
    /// Until when this client may believe that it holds the lock; compared in the way the algorithm compares.
    deadline: i64,
    /// Leaves without releasing the lock.
    crashes: bool,
}

impl Contender<'_> {
    /// Sends the next command and draws the conclusion.
    fn step(&mut self, server: &Server) {
        let now = now(server);
        let mine = now + TIMEOUT + 1;
        let time = mine.to_string();
        self.state = match (self.state, self.algorithm) {
            (State::Try, Algorithm::Token) => {
                let token = format!("token-{}", self.name);
                let ttl = (TIMEOUT * 1000).to_string();
                match command::<Option<String>>(self.connection, &["SET", KEY, &token, "NX", "PX", &ttl]).as_deref() {
                    Some("OK") => self.enter(now + TIMEOUT),
                    _ => State::Done,
                }
            }
            (State::Try, _) => match command(self.connection, &["SETNX", KEY, &time]) {
                1 => self.enter(mine),
                _ => State::Look,
            },
            (State::Look, algorithm) => match command::<Option<i64>>(self.connection, &["GET", KEY]) {
                Some(theirs) if theirs < now && algorithm == Algorithm::Naive => State::Remove,
                Some(theirs) if theirs < now => State::TakeOver,
                Some(_held) => State::Done,
                None => State::TryAgain,
            },
            (State::TakeOver, _) => match command::<Option<i64>>(self.connection, &["GETSET", KEY, &time]) {
                Some(theirs) if theirs >= now => State::Done,
                _ => self.enter(mine),
            },
            (State::Remove, _) => {
                command::<i64>(self.connection, &["DEL", KEY]);
                State::TryAgain
            }
            (State::TryAgain, _) => match command(self.connection, &["SETNX", KEY, &time]) {
                1 => self.enter(mine),
                _ => State::Done,
            },
            (State::Inside, _) if self.crashes => State::Done,
            (State::Inside, _) => {
                // The checked release, without a pause between the look at the time and the DEL.
                if self.holds(now) {
                    command::<i64>(self.connection, &["DEL", KEY]);
                }
                State::Outside
            }
            (State::Outside | State::Done, _) => State::Done,
        };
    }

    fn enter(&mut self, deadline: i64) -> State {
        self.deadline = deadline;
        State::Inside
    }

    /// Whether this client believes that it holds the lock, and its time is not over.
    fn holds(&self, now: i64) -> bool {
        self.state == State::Inside && now <= self.deadline
    }

    fn is_done(&self) -> bool {
        matches!(self.state, State::Outside | State::Done)
    }
}

/// What a story begins with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Beginning {
    Free,
    /// Somebody crashed while holding the lock, long ago.
    Expired,
    /// Somebody crashed while holding the lock, whose time is about to end.
    Expiring,
}

/// One story: who takes part, how it begins, and how often time moves on.
#[derive(Clone, Copy)]
struct Plot {
    algorithm: Algorithm,
    clients: usize,
    beginning: Beginning,
    /// How often the clock jumps past every deadline; the jumps take turns with the clients.
    jumps: usize,
    /// Whether clients crash while they hold the lock.
    crashes: bool,
}

/// How a story went.
struct Ending {
    /// The most clients that held the lock at the same time.
    most_inside: usize,
    /// How many times a client got in.
    entered: usize,
    turns: Vec<usize>,
}

/// Plays one story. `choose` picks who is next among those that still have something to do; the clock, if it may still
/// jump, is the number after the last client.
fn play(
    server: &Server,
    connections: &mut [Connection],
    plot: Plot,
    mut choose: impl FnMut(&[usize]) -> usize,
) -> Ending {
    let (first, others) = connections.split_first_mut().expect("a connection to prepare with");
    command::<()>(first, &["FLUSHALL"]);
    let start = now(server);
    let dead = match plot.beginning {
        Beginning::Free => None,
        Beginning::Expired => Some(start - 1),
        Beginning::Expiring => Some(start),
    };
    if let Some(time) = dead {
        match (plot.algorithm, plot.beginning) {
            (Algorithm::Token, Beginning::Expiring) => {
                command::<()>(first, &["SET", KEY, "token-of-the-dead", "NX", "PX", "1"])
            }
            (Algorithm::Token, _) => {}
            _ => command::<()>(first, &["SET", KEY, &time.to_string()]),
        }
    }
    let mut contenders: Vec<Contender<'_>> = others[..plot.clients]
        .iter_mut()
        .enumerate()
        .map(|(name, connection)| Contender {
            connection,
            algorithm: plot.algorithm,
            name,
            state: State::Try,
            deadline: 0,
            crashes: plot.crashes && name % 2 == 0,
        })
        .collect();
    let mut ending = Ending { most_inside: 0, entered: 0, turns: Vec::new() };
    let mut jumps = plot.jumps;
    loop {
        let mut able: Vec<usize> = (0..plot.clients).filter(|&name| !contenders[name].is_done()).collect();
        if able.is_empty() {
            return ending;
        }
        if jumps > 0 {
            able.push(plot.clients);
        }
        let turn = choose(&able);
        ending.turns.push(turn);
        if turn == plot.clients {
            jumps -= 1;
            server.advance(Duration::from_secs(TIMEOUT as u64 + 2));
        } else {
            let contender = &mut contenders[turn];
            let was_inside = contender.state == State::Inside;
            contender.step(server);
            ending.entered += usize::from(!was_inside && contender.state == State::Inside);
        }
        let now = now(server);
        let inside = contenders.iter().filter(|contender| contender.holds(now)).count();
        ending.most_inside = ending.most_inside.max(inside);
    }
}

/// Plays a story in every possible order, and calls `look` at the end of each.
fn in_every_order(server: &Server, plot: Plot, mut look: impl FnMut(&Ending)) -> usize {
    let mut connections: Vec<Connection> = (0..=plot.clients).map(|_| client(server)).collect();
    let mut played = 0;
    // The choices of the story before: which of how many. The next story takes the same ones but for the last that
    // was not yet the highest possible.
    let mut script: Vec<(usize, usize)> = Vec::new();
    loop {
        let mut at = 0;
        let ending = play(server, &mut connections, plot, |able| {
            if at == script.len() {
                script.push((0, able.len()));
            }
            let choice = script[at].0;
            at += 1;
            able[choice]
        });
        played += 1;
        look(&ending);
        while script.last().is_some_and(|&(choice, of)| choice + 1 == of) {
            script.pop();
        }
        match script.last_mut() {
            Some((choice, _)) => *choice += 1,
            None => return played,
        }
    }
}

/// Plays a story in orders that are drawn with a seed.
fn in_drawn_orders(server: &Server, plot: Plot, stories: usize, seed: u64, mut look: impl FnMut(&Ending)) {
    let mut connections: Vec<Connection> = (0..=plot.clients).map(|_| client(server)).collect();
    let mut dice = Dice::new(seed);
    for _ in 0..stories {
        look(&play(server, &mut connections, plot, |able| able[dice.below(able.len())]));
    }
}

const BEGINNINGS: [Beginning; 3] = [Beginning::Free, Beginning::Expired, Beginning::Expiring];

#[test]
fn the_documented_session_goes_as_documented() {
    let server = spawn_frozen();
    let mut connection = client(&server);
    let mut ask = |words: &[&str]| -> redis::Value { command(&mut connection, words) };
    let text = |text: &str| redis::Value::BulkString(text.as_bytes().to_vec());

    assert_eq!(ask(&["SETNX", "lock.foo", "1700000011"]), redis::Value::Int(1));
    assert_eq!(ask(&["SETNX", "lock.foo", "1700000012"]), redis::Value::Int(0));
    assert_eq!(ask(&["GET", "lock.foo"]), text("1700000011"));
    assert_eq!(ask(&["GETSET", "lock.foo", "1700000042"]), text("1700000011"));
    assert_eq!(ask(&["GET", "lock.foo"]), text("1700000042"));
    assert_eq!(ask(&["DEL", "lock.foo"]), redis::Value::Int(1));
    assert_eq!(ask(&["SETNX", "lock.foo", "1700000099"]), redis::Value::Int(1));

    assert_eq!(ask(&["SETNX", "mykey", "Hello"]), redis::Value::Int(1));
    assert_eq!(ask(&["SETNX", "mykey", "World"]), redis::Value::Int(0));
    assert_eq!(ask(&["GET", "mykey"]), text("Hello"));
}

#[test]
fn the_sane_algorithm_lets_only_one_of_two_clients_in_whatever_the_order() {
    let server = spawn_frozen();
    for beginning in BEGINNINGS {
        for (jumps, crashes) in [(0, false), (0, true), (1, false), (1, true), (2, true)] {
            let plot = Plot { algorithm: Algorithm::Sane, clients: 2, beginning, jumps, crashes };
            let mut entered = BTreeSet::new();
            let played = in_every_order(&server, plot, |ending| {
                assert!(ending.most_inside <= 1, "{beginning:?}, two are in after the turns {:?}", ending.turns);
                entered.insert(ending.entered);
            });
            assert!(played >= 6, "only {played} orders");
            // Without time to pass, a lock whose time is not over is nobody's.
            let hopeless = beginning == Beginning::Expiring && jumps == 0;
            assert_eq!(entered == BTreeSet::from([0]), hopeless, "{beginning:?}, {jumps} jumps: {entered:?}");
        }
    }
}

#[test]
fn the_sane_algorithm_lets_only_one_of_many_clients_in_whatever_the_order() {
    let server = spawn_frozen();
    for clients in 3..=8 {
        for (index, beginning) in BEGINNINGS.into_iter().enumerate() {
            let plot = Plot { algorithm: Algorithm::Sane, clients, beginning, jumps: 3, crashes: true };
            let mut entered = 0;
            in_drawn_orders(&server, plot, 60, (clients * 10 + index) as u64, |ending| {
                assert!(ending.most_inside <= 1, "{beginning:?}, several are in after the turns {:?}", ending.turns);
                entered += ending.entered;
            });
            assert!(entered >= 60, "{clients} clients, {beginning:?}: hardly anybody ever got in");
        }
    }
}

#[test]
fn a_lock_whose_holder_crashed_is_taken_over_once_its_time_is_over_and_not_before() {
    let server = spawn_frozen();
    let mut dead = client(&server);
    let mut heir = client(&server);
    let deadline = now(&server) + TIMEOUT + 1;
    assert_eq!(command::<i64>(&mut dead, &["SETNX", "lock.foo", &deadline.to_string()]), 1);
    drop(dead);

    let mine = || (now(&server) + TIMEOUT + 1).to_string();
    server.advance(Duration::from_secs(TIMEOUT as u64 + 1));
    assert_eq!(command::<i64>(&mut heir, &["SETNX", "lock.foo", &mine()]), 0);
    assert!(
        command::<i64>(&mut heir, &["GET", "lock.foo"]) >= now(&server),
        "the last second still belongs to the dead"
    );

    server.advance(Duration::from_secs(1));
    assert_eq!(command::<i64>(&mut heir, &["SETNX", "lock.foo", &mine()]), 0);
    assert!(command::<i64>(&mut heir, &["GET", "lock.foo"]) < now(&server));
    assert_eq!(command::<i64>(&mut heir, &["GETSET", "lock.foo", &mine()]), deadline);
    assert_eq!(command::<String>(&mut heir, &["GET", "lock.foo"]), mine());
}

#[test]
fn the_naive_algorithm_lets_two_clients_in_when_it_is_steered() {
    let server = spawn_frozen();
    let mut first = client(&server);
    let mut second = client(&server);
    let past = (now(&server) - 1).to_string();
    let mine = (now(&server) + TIMEOUT + 1).to_string();
    command::<()>(&mut first, &["SET", "lock.foo", &past]);

    // Both find the lock out of date.
    assert_eq!(command::<String>(&mut first, &["GET", "lock.foo"]), past);
    assert_eq!(command::<String>(&mut second, &["GET", "lock.foo"]), past);
    // The first removes it and takes it.
    assert_eq!(command::<i64>(&mut first, &["DEL", "lock.foo"]), 1);
    assert_eq!(command::<i64>(&mut first, &["SETNX", "lock.foo", &mine]), 1);
    // The second removes the lock that the first now holds, and takes it, too.
    assert_eq!(command::<i64>(&mut second, &["DEL", "lock.foo"]), 1);
    assert_eq!(command::<i64>(&mut second, &["SETNX", "lock.foo", &mine]), 1);
}

#[test]
fn the_naive_algorithm_fails_in_some_orders_of_an_expired_lock_and_in_no_order_of_a_free_one() {
    let server = spawn_frozen();
    let plot =
        Plot { algorithm: Algorithm::Naive, clients: 2, beginning: Beginning::Expired, jumps: 0, crashes: false };
    let mut broken = 0;
    let played = in_every_order(&server, plot, |ending| broken += usize::from(ending.most_inside > 1));
    assert!(broken > 0 && broken < played, "{broken} of {played} orders let two in");

    let plot = Plot { beginning: Beginning::Free, ..plot };
    in_every_order(&server, plot, |ending| assert_eq!(ending.most_inside, 1, "after the turns {:?}", ending.turns));
}

#[test]
fn a_checked_release_is_right_while_the_holder_is_within_its_time() {
    let server = spawn_frozen();
    let mut holder = client(&server);
    let mut heir = client(&server);
    let deadline = now(&server) + TIMEOUT + 1;
    assert_eq!(command::<i64>(&mut holder, &["SETNX", "lock.foo", &deadline.to_string()]), 1);

    // Within its time: nobody can have taken over, so the lock that DEL removes is the holder's own.
    server.advance(Duration::from_secs(TIMEOUT as u64));
    assert!(now(&server) <= deadline);
    assert_eq!(command::<i64>(&mut holder, &["GET", "lock.foo"]), deadline);
    assert_eq!(command::<i64>(&mut holder, &["DEL", "lock.foo"]), 1);

    // Beyond it: the lock may be somebody else's by now, so a holder that looks at the time leaves it alone.
    let deadline = now(&server) + TIMEOUT + 1;
    assert_eq!(command::<i64>(&mut holder, &["SETNX", "lock.foo", &deadline.to_string()]), 1);
    server.advance(Duration::from_secs(TIMEOUT as u64 + 2));
    let next = (now(&server) + TIMEOUT + 1).to_string();
    assert_eq!(command::<i64>(&mut heir, &["GETSET", "lock.foo", &next]), deadline);
    assert!(now(&server) > deadline, "the holder sees that its time is over, and does not release");
    assert_eq!(command::<String>(&mut heir, &["GET", "lock.foo"]), next);
}

#[test]
fn a_checked_release_that_is_paused_between_look_and_del_removes_the_lock_of_its_successor() {
    let server = spawn_frozen();
    let mut holder = client(&server);
    let mut heir = client(&server);
    let mut third = client(&server);
    let deadline = now(&server) + TIMEOUT + 1;
    assert_eq!(command::<i64>(&mut holder, &["SETNX", "lock.foo", &deadline.to_string()]), 1);

    // The holder looks: its time is not over. Then it is paused for longer than the time it has left.
    assert!(now(&server) <= deadline);
    server.advance(Duration::from_secs(TIMEOUT as u64 + 2));
    let next = (now(&server) + TIMEOUT + 1).to_string();
    assert_eq!(command::<i64>(&mut heir, &["SETNX", "lock.foo", &next]), 0);
    assert!(command::<i64>(&mut heir, &["GET", "lock.foo"]) < now(&server));
    assert_eq!(command::<i64>(&mut heir, &["GETSET", "lock.foo", &next]), deadline);

    // The DEL arrives now, and removes what is the heir's; a third client walks in beside the heir.
    assert_eq!(command::<i64>(&mut holder, &["DEL", "lock.foo"]), 1);
    assert_eq!(command::<i64>(&mut third, &["SETNX", "lock.foo", &next]), 1);
}

#[test]
fn set_nx_px_lets_only_one_client_in_whatever_the_order() {
    let server = spawn_frozen();
    for beginning in BEGINNINGS {
        for (jumps, crashes) in [(0, false), (1, true), (2, true)] {
            let plot = Plot { algorithm: Algorithm::Token, clients: 2, beginning, jumps, crashes };
            in_every_order(&server, plot, |ending| {
                assert!(ending.most_inside <= 1, "{beginning:?}, two are in after the turns {:?}", ending.turns);
            });
        }
        for clients in 3..=8 {
            let plot = Plot { algorithm: Algorithm::Token, clients, beginning, jumps: 3, crashes: true };
            in_drawn_orders(&server, plot, 60, clients as u64, |ending| {
                assert!(ending.most_inside <= 1, "{beginning:?}, several are in after the turns {:?}", ending.turns);
            });
        }
    }
}

#[test]
fn a_token_lock_is_free_the_millisecond_after_its_time_and_not_before() {
    let server = spawn_frozen();
    let mut holder = client(&server);
    let mut heir = client(&server);
    let take = |connection: &mut Connection, token| -> Option<String> {
        command(connection, &["SET", "lock.foo", token, "NX", "PX", "30000"])
    };
    assert_eq!(take(&mut holder, "a").as_deref(), Some("OK"));
    server.advance(Duration::from_millis(30_000));
    assert_eq!(take(&mut heir, "b"), None);
    assert_eq!(command::<String>(&mut heir, &["GET", "lock.foo"]), "a");
    server.advance(Duration::from_millis(1));
    assert_eq!(take(&mut heir, "b").as_deref(), Some("OK"));
    assert_eq!(command::<String>(&mut holder, &["GET", "lock.foo"]), "b");
}

#[test]
fn a_compare_and_delete_never_removes_the_lock_of_somebody_else_however_late_it_comes() {
    for (compat, release) in
        [("redis-8.4", &["DELEX", "lock.foo", "IFEQ", "a"][..]), ("valkey-9.1", &["DELIFEQ", "lock.foo", "a"])]
    {
        let server = start(Server::builder().compat(profile(compat)));
        server.freeze();
        let mut holder = client(&server);
        let mut heir = client(&server);
        command::<()>(&mut holder, &["SET", "lock.foo", "a", "NX", "PX", "30000"]);
        server.advance(Duration::from_millis(30_001));
        command::<()>(&mut heir, &["SET", "lock.foo", "b", "NX", "PX", "30000"]);
        assert_eq!(command::<i64>(&mut holder, release), 0, "{compat}");
        assert_eq!(command::<String>(&mut heir, &["GET", "lock.foo"]), "b");

        command::<()>(&mut heir, &["SET", "lock.foo", "a"]);
        assert_eq!(command::<i64>(&mut holder, release), 1, "{compat}");
        assert_eq!(command::<Option<String>>(&mut heir, &["GET", "lock.foo"]), None);
    }
}

/// What the threads of a crowd share: how many of them are in, and how many got in and crashed there.
#[derive(Default)]
struct Room {
    inside: AtomicUsize,
    visits: AtomicUsize,
    crashes: AtomicUsize,
    /// A thread has failed, and may have left the lock behind for good.
    failed: AtomicBool,
}

/// Lets the others end when the thread that holds this fails.
struct Canary<'a>(&'a Room);

impl Drop for Canary<'_> {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.failed.store(true, Ordering::SeqCst);
        }
    }
}

impl Room {
    fn enter(&self) {
        let others = self.inside.fetch_add(1, Ordering::SeqCst);
        assert_eq!(others, 0, "somebody is in already");
        thread::yield_now();
        self.visits.fetch_add(1, Ordering::SeqCst);
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Many threads take the lock as often as they can; every seventh visit ends in a crash, after which only time helps:
/// the one that crashed moves it on.
fn crowd(
    server: &Server,
    take: impl Fn(&Server, &mut Connection, usize) -> bool + Sync,
    release: impl Fn(&mut Connection) + Sync,
) {
    const THREADS: usize = 6;
    const VISITS: usize = 150;
    let room = Room::default();
    thread::scope(|scope| {
        for name in 0..THREADS {
            let (room, take, release) = (&room, &take, &release);
            scope.spawn(move || {
                let _canary = Canary(room);
                let mut connection = client(server);
                let deadline = Deadline::start();
                while room.visits.load(Ordering::SeqCst) < VISITS && !room.failed.load(Ordering::SeqCst) {
                    if !take(server, &mut connection, name) {
                        deadline.check("the lock");
                        continue;
                    }
                    room.enter();
                    if room.visits.load(Ordering::SeqCst) % 7 == 0 {
                        room.crashes.fetch_add(1, Ordering::SeqCst);
                        connection = client(server);
                        server.advance(Duration::from_secs(TIMEOUT as u64 + 2));
                    } else {
                        release(&mut connection);
                    }
                }
            });
        }
    });
    assert!(room.visits.load(Ordering::SeqCst) >= VISITS);
    assert!(room.crashes.load(Ordering::SeqCst) > 0, "nobody crashed, so nothing was taken over");
}

#[test]
fn many_threads_with_the_sane_algorithm_are_never_in_together() {
    let server = start(Server::builder().threads(2));
    server.freeze();
    crowd(
        &server,
        |server, connection, _| {
            let mine = now(server) + TIMEOUT + 1;
            if command::<i64>(connection, &["SETNX", "lock.foo", &mine.to_string()]) == 1 {
                return now(server) <= mine;
            }
            match command::<Option<i64>>(connection, &["GET", "lock.foo"]) {
                Some(theirs) if theirs < now(server) => {
                    let mine = now(server) + TIMEOUT + 1;
                    let old: Option<i64> = command(connection, &["GETSET", "lock.foo", &mine.to_string()]);
                    old.is_none_or(|old| old < now(server)) && now(server) <= mine
                }
                _ => false,
            }
        },
        |connection| assert_eq!(command::<i64>(connection, &["DEL", "lock.foo"]), 1),
    );
}

#[test]
fn many_threads_with_set_nx_px_are_never_in_together() {
    let server = start(Server::builder().threads(2));
    server.freeze();
    crowd(
        &server,
        |_, connection, name| {
            let token = format!("token-{name}");
            let ttl = (TIMEOUT * 1000).to_string();
            command::<Option<String>>(connection, &["SET", "lock.foo", &token, "NX", "PX", &ttl]).is_some()
        },
        |connection| assert_eq!(command::<i64>(connection, &["DEL", "lock.foo"]), 1),
    );
}
