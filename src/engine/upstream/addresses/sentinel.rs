//! The replies of a Sentinel.

use super::AddressBook;
use super::host_port::{Brackets, HostPort, join, local_at, parse_port};
use super::messages;
use super::raw_reply::{Edits, Value};
use super::server::{host_and_port, info_master, info_replicas, info_value, localized_info};

/// SENTINEL MASTER, the fields of one instance, or MASTERS, REPLICAS and SENTINELS, a list of them.
pub(super) fn instances(reply: &Value<'_>, edits: &mut Edits<'_>, book: &dyn AddressBook) {
    if reply.children.first().is_some_and(Value::is_aggregate) {
        reply.children.iter().for_each(|fields| instance(fields, edits, book));
    } else {
        instance(reply, edits, book);
    }
}

fn instance(fields: &Value<'_>, edits: &mut Edits<'_>, book: &dyn AddressBook) {
    // Instances without a name of their own are named by their addresses.
    if let (Some(name), Some(address)) = (fields.field("name"), fields.field("ip").and_then(Value::text))
        && let Some(named) = name.text().and_then(HostPort::parse)
        && named.host == address
        && let Some(new) = instance_name(named, book)
    {
        edits.set(name, &new);
    }
    for (host, port) in [("ip", "port"), ("master-host", "master-port"), ("primary-host", "primary-port")] {
        if let (Some(host), Some(port)) = (fields.field(host), fields.field(port)) {
            host_and_port(host, port, edits, book);
        }
    }
}

/// The local address as the name of an instance.
pub(super) fn instance_name(named: HostPort<'_>, book: &dyn AddressBook) -> Option<String> {
    let local = local_at(book, named.host, named.port, None)?;
    Some(join(&local.host, local.port, Brackets::IfColons))
}

/// SENTINEL GET-MASTER-ADDR-BY-NAME: host and port, or a null.
pub(super) fn address(reply: &Value<'_>, edits: &mut Edits<'_>, book: &dyn AddressBook) {
    if let [host, port] = reply.children.as_slice() {
        host_and_port(host, port, edits, book);
    }
}

/// SENTINEL INFO-CACHE: names of masters, and for each the texts of INFO of it and of its replicas with their ages.
pub(super) fn info_cache(reply: &Value<'_>, edits: &mut Edits<'_>, book: &dyn AddressBook) {
    let nodes = || reply.fields().flat_map(|(_, nodes)| &nodes.children).filter_map(|node| node.children.get(1));
    let texts = || nodes().filter_map(Value::bytes);
    // No text has the host of the node that it is about, but those of the others have.
    let hosts: Vec<(&str, u16)> =
        texts().flat_map(|text| info_master(text).into_iter().chain(info_replicas(text))).collect();
    for (node, text) in nodes().filter_map(|node| Some((node, node.bytes()?))) {
        let port = info_value(text, "tcp_port").and_then(parse_port);
        let host = hosts.iter().find(|(_, known)| Some(*known) == port);
        // A text from before the others knew the node: the port must not leave, and that of the Sentinel is ours.
        let own = host.and_then(|(host, port)| local_at(book, host, *port, None)).unwrap_or_else(|| book.own());
        edits.set(node, localized_info(text, Some(&own), book));
    }
}

/// SENTINEL PENDING-SCRIPTS: fields, one of which has the path and the arguments of a script.
pub(super) fn scripts(reply: &Value<'_>, edits: &mut Edits<'_>, book: &dyn AddressBook) {
    for words in reply.children.iter().filter_map(|script| script.field("argv")) {
        match words.children.as_slice() {
            // A notification: path, name and text of the event.
            [_, event, text] => {
                if let (Some(event), Some(old)) = (event.text(), text.text())
                    && let Some(new) = messages::localized_event(event, old, book)
                {
                    edits.set(text, &new);
                }
            }
            // A failover: path, master, role, state, and two addresses.
            [_, _, _, _, from_host, from_port, to_host, to_port] => {
                host_and_port(from_host, from_port, edits, book);
                host_and_port(to_host, to_port, edits, book);
            }
            _ => {}
        }
    }
}
