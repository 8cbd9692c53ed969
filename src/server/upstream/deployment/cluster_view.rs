//! What a node of a Cluster tells of all nodes: the reply to CLUSTER NODES.

use super::view::{Master, SeenNode};
use crate::powers::NodeRole;

/// The lines of CLUSTER NODES: `id host:port@bus[,hostname[,name=value…]] flags master ping pong epoch link slots…`.
pub(super) fn nodes_of(text: &str) -> Vec<SeenNode> {
    text.lines().filter_map(node_of).collect()
}

fn node_of(line: &str) -> Option<SeenNode> {
    let mut words = line.split_ascii_whitespace();
    let (id, place, flags, master) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let has_flag = |wanted: &str| flags.split(',').any(|flag| flag == wanted);
    // Those that are only being introduced have no lasting id.
    if has_flag("handshake") {
        return None;
    }
    let mut parts = place.split(',');
    let address = parts.next()?;
    let hostname = parts.next().filter(|name| !name.is_empty() && !name.contains('='));
    let address = address.split('@').next()?;
    let (host, port) = address.rsplit_once(':')?;
    let port: u16 = port.parse().ok()?;
    let role = if has_flag("master") { NodeRole::Master } else { NodeRole::Replica };
    // Behind the pings, the epoch and the state of the link.
    let slots = words.skip(4).filter_map(slots_of).collect();
    Some(SeenNode {
        id: id.to_owned(),
        host: host.to_owned(),
        port: if has_flag("noaddr") { 0 } else { port },
        hostname: hostname.map(str::to_owned),
        role,
        master: (role == NodeRole::Replica && master != "-").then(|| Master::Id(master.to_owned())),
        slots,
        is_reachable: !has_flag("fail") && !has_flag("fail?") && !has_flag("noaddr"),
        is_myself: has_flag("myself"),
    })
}

/// `7` or `0-5460`. What is on its way, `[7->-id]`, is still where it was.
fn slots_of(word: &str) -> Option<(u16, u16)> {
    let (first, last) = word.split_once('-').unwrap_or((word, word));
    Some((first.parse().ok()?, last.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "07c37dfeb235213a872192d90877d0cd55635b91";

    #[test]
    fn a_line_tells_a_node() {
        let line = format!("{ID} 127.0.0.1:7001@17001,red-1,shard-id=abc myself,master - 0 0 3 connected 0-5460 7000");
        let seen = nodes_of(&line).remove(0);
        assert_eq!((seen.id.as_str(), seen.host.as_str(), seen.port), (ID, "127.0.0.1", 7001));
        assert_eq!((seen.hostname.as_deref(), seen.role, seen.master), (Some("red-1"), NodeRole::Master, None));
        assert_eq!(seen.slots, [(0, 5460), (7000, 7000)]);
        assert!(seen.is_reachable && seen.is_myself);
    }

    #[test]
    fn replicas_name_their_masters_and_what_moves_is_where_it_was() {
        let line = format!("a ::1:7004@17004 slave,fail? {ID} 1 2 3 connected [77->-{ID}]");
        let seen = nodes_of(&line).remove(0);
        assert_eq!((seen.host.as_str(), seen.port), ("::1", 7004));
        assert_eq!(seen.master, Some(Master::Id(ID.to_owned())));
        assert!(seen.slots.is_empty() && !seen.is_reachable && !seen.is_myself);
    }

    #[test]
    fn nodes_without_address_have_none_and_strangers_are_left_out() {
        let seen =
            nodes_of(&format!("{ID} :0@0 master,noaddr - 0 0 1 disconnected\nb 1.2.3.4:1@2 handshake - 0 0 0 x"));
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].port, 0);
        assert!(nodes_of("garbage\n\nx y").is_empty());
    }
}
