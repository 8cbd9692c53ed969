//! Replies and messages of a node that come in pieces, or behind commands that have none: what is looked at for addresses must
//! neither leave as it came nor arrive twice.

use redouble::Server;

use crate::support::scripted::Step::{self, Hang, Read, ReadMany, Send};
use crate::support::scripted::{ScriptedServer, say};
use crate::support::wire::{Wire, request};

const ID: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

/// A node that is a Cluster by itself, and then does as the scripts say for one client after the other.
struct Node {
    scripted: ScriptedServer,
    front: Server,
}

impl Node {
    /// `scripts` gets the port of the node.
    fn start(scripts: impl Fn(u16) -> Vec<Vec<Step>>) -> Self {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("its address").port();
        let nodes = bulk(&format!("{ID} 127.0.0.1:{port}@1 myself,master - 0 0 1 connected 0-16383\n"));
        // The first look has a connection of its own, those that follow share one.
        let looks = |count| (0..count).flat_map(|_| [Read, say(&nodes)]).chain([Hang]).collect::<Vec<_>>();
        let mut all = vec![looks(1), looks(200)];
        all.extend(scripts(port));
        let scripted = ScriptedServer::listen(listener, &all);
        let front = Server::builder().upstream_cluster(scripted.url()).journal(1 << 20).spawn().expect("a front");
        scripted.until("the second look", |heard| heard.len() >= 2 && !heard[1].requests.is_empty());
        Self { scripted, front }
    }

    fn client(&self) -> Wire {
        Wire::connect(self.front.address().expect("a port"))
    }

    fn port(&self) -> u16 {
        self.front.address().expect("a port").port()
    }
}

#[test]
fn a_message_in_pieces_is_not_disturbed_by_a_question_for_addresses_that_is_asked_meanwhile() {
    let confirmed = ">3\r\n$10\r\nssubscribe\r\n$1\r\nc\r\n:1\r\n";
    let message = format!(">3\r\n$8\r\nsmessage\r\n$1\r\nc\r\n{}", bulk(&"m".repeat(300)));
    let borders = [1, 2, 4, 9, 30, 127, 128, 129, message.len() - 1];
    let node = Node::start(|port| {
        let script = |border: usize| {
            let info = bulk(&format!("# Server\r\ntcp_port:{port}\r\n"));
            let (begin, end) = message.split_at(border);
            vec![
                Read,
                Send([confirmed, begin].concat().into_bytes()),
                Read,
                Send([end, &info].concat().into_bytes()),
                Hang,
            ]
        };
        borders.iter().map(|border| script(*border)).collect()
    });
    let info = bulk(&format!("# Server\r\ntcp_port:{}\r\n", node.port()));
    for border in borders {
        let mut client = node.client();
        client.send(&request(&["SSUBSCRIBE", "c"]));
        assert_eq!(String::from_utf8_lossy(&client.read_bytes(confirmed.len())), confirmed);
        client.send(&request(&["INFO"]));
        let rest = [message.as_str(), &info].concat();
        assert_eq!(String::from_utf8_lossy(&client.read_bytes(rest.len())), rest, "in two pieces at {border}");
    }
}

#[test]
fn addresses_are_found_behind_a_command_without_a_reply() {
    let slots = |port: u16| {
        let node = format!("*4\r\n{}:{port}\r\n{}*0\r\n", bulk("127.0.0.1"), bulk(ID));
        format!("*1\r\n*3\r\n:0\r\n:16383\r\n{node}")
    };
    let node = Node::start(|port| {
        // In one piece, and in two.
        let whole = format!("$-1\r\n{}", slots(port));
        let (begin, end) = whole.split_at(20);
        let pieces = vec![ReadMany(4), say(begin), Read, say(end), Hang];
        vec![vec![ReadMany(4), say(&whole), Hang], pieces]
    });
    let requests: Vec<u8> = ["GET a", "CLIENT REPLY SKIP", "SET x 1", "CLUSTER SLOTS"]
        .iter()
        .flat_map(|line| request(&line.split(' ').collect::<Vec<_>>()))
        .collect();
    let expected = format!("$-1\r\n{}", slots(node.port()));
    for more in [None, Some("PING")] {
        let mut client = node.client();
        client.send(&requests);
        if let Some(more) = more {
            assert_eq!(client.read_bytes(5), b"$-1\r\n");
            client.send(&request(&[more]));
            assert_eq!(String::from_utf8_lossy(&client.read_bytes(expected.len() - 5)), expected[5..]);
        } else {
            assert_eq!(String::from_utf8_lossy(&client.read_bytes(expected.len())), expected);
        }
    }
    assert!(node.scripted.heard().len() >= 4);
}
