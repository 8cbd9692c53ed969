//! What a Sentinel tells of a master, its replicas and the other Sentinels.

use redis_protocol::resp2::types::OwnedFrame;

use super::view::{Master, SeenNode};
use crate::powers::NodeRole;

/// The fields of one node in a reply of a Sentinel, as flat pairs.
struct Fields(Vec<(String, String)>);

impl Fields {
    fn of(frame: &OwnedFrame) -> Option<Self> {
        let OwnedFrame::Array(words) = frame else { return None };
        let words: Vec<String> = words.iter().map(text_of).collect::<Option<_>>()?;
        Some(Self(words.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone())).collect()))
    }

    fn get(&self, name: &str) -> &str {
        self.0.iter().find(|(field, _)| field == name).map_or("", |(_, value)| value)
    }

    fn seen(&self, role: NodeRole) -> Option<SeenNode> {
        let flags = self.get("flags");
        let is_down = flags.split(',').any(|flag| matches!(flag, "s_down" | "o_down"));
        let master = match role {
            NodeRole::Replica => Some(Master::At(self.get("master-host").to_owned(), port(self.get("master-port")))),
            _ => None,
        };
        let host = Some(self.get("ip")).filter(|host| !host.is_empty())?;
        Some(SeenNode {
            id: if role == NodeRole::Sentinel { self.get("runid").to_owned() } else { String::new() },
            host: host.to_owned(),
            port: Some(port(self.get("port"))).filter(|port| *port > 0)?,
            hostname: None,
            role,
            master,
            slots: Vec::new(),
            is_reachable: !is_down,
            is_myself: false,
        })
    }
}

fn port(text: &str) -> u16 {
    text.parse().unwrap_or(0)
}

fn text_of(frame: &OwnedFrame) -> Option<String> {
    match frame {
        OwnedFrame::BulkString(bytes) | OwnedFrame::SimpleString(bytes) => {
            Some(String::from_utf8_lossy(bytes).into_owned())
        }
        OwnedFrame::Integer(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The reply to SENTINEL MASTER, and the epoch of this configuration.
pub(super) fn master_of(reply: &OwnedFrame) -> Option<(SeenNode, u64)> {
    let fields = Fields::of(reply)?;
    Some((fields.seen(NodeRole::Master)?, fields.get("config-epoch").parse().unwrap_or(0)))
}

/// The reply to SENTINEL REPLICAS.
pub(super) fn replicas_of(reply: &OwnedFrame) -> Vec<SeenNode> {
    list_of(reply, NodeRole::Replica)
}

/// The reply to SENTINEL SENTINELS, which has all but the one that was asked.
pub(super) fn sentinels_of(reply: &OwnedFrame) -> Vec<SeenNode> {
    list_of(reply, NodeRole::Sentinel)
}

fn list_of(reply: &OwnedFrame, role: NodeRole) -> Vec<SeenNode> {
    let OwnedFrame::Array(list) = reply else { return Vec::new() };
    list.iter().filter_map(|fields| Fields::of(fields)?.seen(role)).collect()
}

/// The reply to SENTINEL MYID.
pub(super) fn id_of(reply: &OwnedFrame) -> String {
    text_of(reply).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(words: &[&str]) -> OwnedFrame {
        OwnedFrame::Array(words.iter().map(|word| OwnedFrame::BulkString(word.as_bytes().to_vec())).collect())
    }

    #[test]
    fn a_master_tells_where_it_is_and_since_which_epoch() {
        let reply = fields(&["name", "m", "ip", "10.0.0.1", "port", "6379", "flags", "master", "config-epoch", "4"]);
        let (seen, epoch) = master_of(&reply).unwrap();
        assert_eq!((seen.host.as_str(), seen.port, seen.role, epoch), ("10.0.0.1", 6379, NodeRole::Master, 4));
        assert!(seen.is_reachable);
    }

    #[test]
    fn replicas_name_their_master_and_may_be_down() {
        let words = ["ip", "::1", "port", "1", "flags", "s_down,slave", "master-host", "h", "master-port", "2"];
        let seen = replicas_of(&OwnedFrame::Array(vec![fields(&words)])).remove(0);
        assert_eq!(seen.master, Some(Master::At("h".to_owned(), 2)));
        assert!(!seen.is_reachable);
        assert!(replicas_of(&fields(&["a", "b"])).is_empty());
    }
}
