//! Sentinels: who a client is told is the master, while masters stop, hang, and come back. No test waits for a time-out.

use std::net::SocketAddr;
use std::time::Duration;

use redis::sentinel::{SentinelClient, SentinelServerType};
use redouble::Server;

use crate::support::wire::{Frame, Wire};
use crate::support::{address, start, wait_until};

/// `down-after-milliseconds`, unless somebody sets it.
const DOWN_AFTER: Duration = Duration::from_secs(30);

/// A master with replicas and three Sentinels, whose clock stands still.
struct Watched {
    master: Server,
    sentinels: Vec<SocketAddr>,
}

impl Watched {
    fn start(replicas: usize) -> Self {
        let master = start(Server::builder().replicas(replicas).sentinels(3));
        master.freeze();
        let sentinels = master.sentinels();
        Self { master, sentinels }
    }

    fn sentinel(&self, place: usize) -> Wire {
        Wire::connect(self.sentinels[place])
    }

    /// The port of the master, as all Sentinels that run name it.
    fn named(&self) -> u16 {
        let ports: Vec<u16> = self
            .sentinels
            .iter()
            .filter_map(|address| Some(master_of(&mut Wire::try_connect(*address).ok()?)))
            .collect();
        assert!(ports.windows(2).all(|two| two[0] == two[1]), "{ports:?}");
        ports[0]
    }

    /// A connection that hears all events of a Sentinel.
    fn listener(&self, place: usize) -> Wire {
        let mut wire = self.sentinel(place);
        assert_eq!(wire.ask("PSUBSCRIBE *").items()[0], Frame::bulk("psubscribe"));
        wire
    }
}

fn port(server: &Server) -> u16 {
    address(server).port()
}

fn master_of(sentinel: &mut Wire) -> u16 {
    let reply = sentinel.ask("SENTINEL GET-MASTER-ADDR-BY-NAME mymaster");
    assert_eq!(reply.items()[0], Frame::bulk("127.0.0.1"), "{reply:?}");
    reply.items()[1].text().parse().unwrap()
}

/// The next event: its channel and what it says.
fn event(listener: &mut Wire) -> (String, String) {
    let message = listener.expect();
    let words: Vec<String> = message.items().iter().map(Frame::text).collect();
    (words[2].clone(), words[3].clone())
}

/// The channels of the events up to one.
fn events_until(listener: &mut Wire, last: &str) -> Vec<String> {
    let mut channels = Vec::new();
    while channels.last().is_none_or(|channel| channel != last) {
        channels.push(event(listener).0);
    }
    channels
}

fn field(entry: &Frame, name: &str) -> String {
    let pair = entry.items().chunks(2).find(|pair| pair[0] == Frame::bulk(name));
    pair.unwrap_or_else(|| panic!("{name} in {entry:?}"))[1].text()
}

fn ok() -> Frame {
    Frame::status("OK")
}

#[test]
fn a_stopped_master_is_replaced_after_virtual_time_and_before_the_clock_is_answered() {
    let watched = Watched::start(1);
    let before = port(&watched.master);
    let mut listener = watched.listener(0);
    let replica = &watched.master.replicas()[0];
    watched.master.stop().unwrap();
    watched.master.advance(DOWN_AFTER - Duration::from_millis(1));
    assert_eq!(watched.named(), before);
    assert!(!listener.has_reply(), "nothing has happened yet");
    watched.master.advance(Duration::from_millis(1));
    assert_eq!(watched.named(), port(replica));
    assert_eq!(Wire::connect(address(replica)).ask("SET key value"), ok());
    let seen = events_until(&mut listener, "+switch-master");
    assert_eq!(seen[..5], ["+sdown", "+odown", "+new-epoch", "+try-failover", "+vote-for-leader"]);
}

#[test]
fn who_listens_is_told_where_the_new_master_is_in_the_words_of_redis() {
    let watched = Watched::start(2);
    let (before, mut listeners) = (port(&watched.master), [watched.listener(0), watched.listener(2)]);
    let chosen = &watched.master.replicas()[1];
    let second = port(chosen);
    assert_eq!(Wire::connect(address(chosen)).ask("CONFIG SET replica-priority 10"), ok());
    assert_eq!(watched.sentinel(0).ask("SENTINEL FAILOVER mymaster"), ok());
    assert_eq!(watched.named(), second, "the lower number of the two goes first");
    for listener in &mut listeners {
        let mut all = Vec::new();
        while all.last().is_none_or(|(channel, _): &(String, String)| channel != "+switch-master") {
            all.push(event(listener));
        }
        assert_eq!(all.last().unwrap().1, format!("mymaster 127.0.0.1 {before} 127.0.0.1 {second}"));
        let (channel, of_other) = event(listener);
        assert!(channel == "+slave" && of_other.ends_with(&format!("@ mymaster 127.0.0.1 {second}")), "{of_other}");
    }
}

#[test]
fn a_master_that_hangs_is_a_replica_when_it_goes_on() {
    let watched = Watched::start(1);
    let before = port(&watched.master);
    let mut to_first = watched.sentinel(0);
    for place in 0..3 {
        let set = "SENTINEL SET mymaster down-after-milliseconds 1500";
        assert_eq!(watched.sentinel(place).ask(set), ok());
    }
    let mut listener = watched.listener(0);
    watched.master.pause().unwrap();
    watched.master.advance(Duration::from_millis(1500));
    assert_ne!(watched.named(), before);
    events_until(&mut listener, "+switch-master");
    watched.master.advance(Duration::from_millis(1500));
    let replica = to_first.ask("SENTINEL REPLICAS mymaster").items()[0].clone();
    assert_eq!((field(&replica, "port"), field(&replica, "flags")), (before.to_string(), "s_down,slave".into()));
    watched.master.unpause();
    assert_eq!(
        events_until(&mut listener, "+role-change"),
        ["+slave", "+sdown", "-sdown", "-role-change", "+convert-to-slave", "+role-change"]
    );
    let replica = to_first.ask("SENTINEL REPLICAS mymaster").items()[0].clone();
    assert_eq!((field(&replica, "flags"), field(&replica, "master-link-status")), ("slave".into(), "ok".into()));
    let refused = Wire::connect(address(&watched.master)).ask("SET key value").text();
    assert!(refused.starts_with("READONLY"), "{refused}");
}

#[test]
fn a_failover_that_the_test_orders_is_known_to_all_sentinels_when_it_is_answered() {
    let watched = Watched::start(1);
    let mut listener = watched.listener(1);
    for _ in 0..20 {
        let before = watched.named();
        let mut wire = Wire::connect(SocketAddr::from(([127, 0, 0, 1], before)));
        let number = if before == port(&watched.master) { 1 } else { 2 };
        let reply = wire.ask(&format!("REDOUBLE FAILOVER {number}"));
        assert!(!reply.is_error(), "{reply:?}");
        assert_ne!(watched.named(), before);
        events_until(&mut listener, "+switch-master");
    }
}

#[test]
fn without_a_good_replica_the_failover_is_tried_again_later() {
    let watched = Watched::start(1);
    let replica = &watched.master.replicas()[0];
    let (mut sentinel, mut listener) = (watched.sentinel(0), watched.listener(0));
    replica.stop().unwrap();
    watched.master.advance(DOWN_AFTER);
    assert_eq!(event(&mut listener).0, "+sdown");
    let refused = Frame::error("NOGOODSLAVE No suitable replica to promote");
    assert_eq!(sentinel.ask("SENTINEL FAILOVER mymaster"), refused);
    watched.master.pause().unwrap();
    watched.master.advance(DOWN_AFTER);
    assert!(events_until(&mut listener, "-failover-abort-no-good-slave").contains(&"+odown".to_owned()));
    replica.start().unwrap();
    assert_eq!(watched.named(), port(&watched.master), "nobody tries again at once");
    watched.master.advance(Duration::from_secs(360));
    assert_eq!(watched.named(), port(replica));
}

#[test]
fn a_master_that_comes_back_in_time_stays_the_master() {
    let watched = Watched::start(1);
    let mut listener = watched.listener(0);
    watched.master.stop().unwrap();
    watched.master.advance(DOWN_AFTER - Duration::from_secs(1));
    watched.master.start().unwrap();
    assert_eq!(
        event(&mut listener),
        ("+reboot".into(), format!("master mymaster 127.0.0.1 {}", port(&watched.master)))
    );
    watched.master.advance(DOWN_AFTER * 2);
    assert_eq!(watched.named(), port(&watched.master));
    assert!(!listener.has_reply());
}

#[test]
fn sentinels_that_are_too_few_do_nothing() {
    let watched = Watched::start(1);
    for place in 1..3 {
        let mut wire = watched.sentinel(place);
        wire.send(b"SHUTDOWN\r\n");
        assert!(wire.is_closed());
    }
    let mut last = watched.sentinel(0);
    watched.master.advance(DOWN_AFTER);
    let refused = last.ask("SENTINEL CKQUORUM mymaster").text();
    assert!(refused.starts_with("NOQUORUM 1 usable Sentinels."), "{refused}");
    watched.master.stop().unwrap();
    watched.master.advance(DOWN_AFTER);
    assert_eq!(master_of(&mut last), port(&watched.master));
    let state = last.ask("SENTINEL MASTER mymaster");
    assert_eq!(field(&state, "flags"), "s_down,master,disconnected");
}

#[test]
fn sentinels_that_are_cut_off_replace_a_master_that_still_serves() {
    let watched = Watched::start(1);
    let mut client = Wire::connect(address(&watched.master));
    assert_eq!(client.ask("REDOUBLE LINK 1 CUT"), Frame::Integer(1));
    assert_eq!(client.ask("REDOUBLE INSTANCE CUT 1 sentinel-*"), ok());
    watched.master.advance(DOWN_AFTER);
    let replica = &watched.master.replicas()[0];
    assert_eq!(watched.named(), port(replica));
    let mut other = Wire::connect(address(replica));
    assert_eq!(other.ask("SET lock b NX"), ok());
    assert_eq!(Wire::connect(address(&watched.master)).ask("SET lock a NX"), ok(), "two masters at the same time");
}

#[test]
fn the_clock_can_be_moved_at_a_sentinel_when_the_master_is_gone() {
    let watched = Watched::start(1);
    let mut sentinel = watched.sentinel(2);
    assert_eq!(sentinel.ask("REDOUBLE INSTANCE STOP 1"), ok());
    assert_eq!(sentinel.ask("REDOUBLE CLOCK ADVANCE 30s"), ok());
    assert_eq!(watched.named(), port(&watched.master.replicas()[0]));
    assert_eq!(sentinel.ask("GET key").text(), "ERR unknown command 'GET', with args beginning with: 'key' ");
}

#[test]
fn who_moves_the_clock_at_the_master_is_answered_although_its_clients_are_closed() {
    let watched = Watched::start(1);
    let mut driver = Wire::connect(address(&watched.master));
    let mut client = Wire::connect(address(&watched.master));
    assert_eq!(client.ask("SET a 1"), ok());
    assert_eq!(driver.ask("REDOUBLE INSTANCE CUT 1 sentinel-*"), ok());
    assert_eq!(driver.ask("REDOUBLE CLOCK ADVANCE 30s"), ok());
    assert!(client.is_closed());
    assert_ne!(watched.named(), port(&watched.master));
}

#[test]
fn each_master_has_its_own_name() {
    let servers = Server::builder().instances(2).replicas(1).sentinels(1).spawn_all().unwrap();
    let mut sentinel = Wire::connect(servers[0].sentinels()[0]);
    assert_eq!(sentinel.ask("ROLE").items()[1].items(), [Frame::bulk("mymaster"), Frame::bulk("mymaster2")]);
    let second = sentinel.ask("SENTINEL GET-MASTER-ADDR-BY-NAME mymaster2");
    assert_eq!(second.items()[1].text(), port(&servers[1]).to_string());
    assert_eq!(sentinel.ask("SENTINEL FAILOVER mymaster2"), ok());
    assert_eq!(master_of(&mut sentinel), port(&servers[0]), "the other one stays");
}

#[test]
fn a_client_of_the_redis_crate_writes_to_the_new_master() {
    let watched = Watched::start(1);
    let urls: Vec<String> = watched.sentinels.iter().map(|address| format!("redis://{address}")).collect();
    let build = |kind| SentinelClient::build(urls.clone(), "mymaster".into(), None, kind).unwrap();
    let mut masters = build(SentinelServerType::Master);
    let mut replicas = build(SentinelServerType::Replica);
    let set = |client: &mut SentinelClient, value: u32| {
        let mut connection = client.get_connection().unwrap();
        redis::cmd("SET").arg("key").arg(value).query::<()>(&mut connection).unwrap();
    };
    set(&mut masters, 1);
    let mut value = || -> u32 {
        let mut connection = replicas.get_connection().unwrap();
        redis::cmd("GET").arg("key").query(&mut connection).unwrap()
    };
    assert_eq!(value(), 1);
    watched.master.stop().unwrap();
    watched.master.advance(DOWN_AFTER);
    set(&mut masters, 2);
    watched.master.start().unwrap();
    wait_until("the former master to follow", || value() == 2);
}

#[test]
fn a_reset_brings_back_the_master_and_the_sentinels_of_the_start() {
    let watched = Watched::start(1);
    let before = watched.named();
    let mut first = watched.sentinel(0);
    assert_eq!(first.ask("SENTINEL FAILOVER mymaster"), ok());
    assert_eq!(first.ask("SENTINEL MONITOR other 127.0.0.1 1 1"), ok());
    let mut stopped = watched.sentinel(1);
    stopped.send(b"SHUTDOWN\r\n");
    assert!(stopped.is_closed());
    assert_eq!(first.ask("REDOUBLE INSTANCE PAUSE 2"), ok());
    assert_eq!(first.ask("REDOUBLE RESET"), ok());
    assert_eq!(watched.named(), before);
    assert_eq!(first.ask("ROLE").items()[1].items(), [Frame::bulk("mymaster")]);
    assert_eq!(field(&watched.sentinel(1).ask("SENTINEL MASTER mymaster"), "config-epoch"), "0");
}

#[test]
fn sentinels_that_cannot_be_are_refused_at_the_start() {
    let refused = |builder: redouble::Builder| builder.spawn().err().expect("it is refused").to_string();
    let too_many = refused(Server::builder().sentinels(10));
    assert!(too_many.contains("at most 9 Sentinels, not 10"), "{too_many}");
    let of_others = refused(Server::builder().upstream("redis://127.0.0.1:1").sentinels(1));
    assert!(of_others.contains("upstream-sentinel"), "{of_others}");
}

#[test]
fn a_password_of_the_sentinels_is_not_that_of_the_servers() {
    let server = start(Server::builder().password("data").sentinels(1));
    let mut sentinel = Wire::connect(server.sentinels()[0]);
    assert_eq!(master_of(&mut sentinel), port(&server));
    assert_eq!(sentinel.ask("ACL SETUSER watcher on >secret +sentinel|masters"), ok());
    assert_eq!(sentinel.ask("AUTH watcher secret"), ok());
    let refused = sentinel.ask("SENTINEL FAILOVER mymaster").text();
    assert!(refused.starts_with("NOPERM"), "{refused}");
}
