//! The replies to CLUSTER SLOTS, SHARDS, NODES and REPLICAS.

use super::AddressBook;
use super::host_port::{HostPort, known_host, local_at, parse_port};
use super::raw_reply::{Edits, Value};

/// CLUSTER SLOTS: for each range its first and last slot, and the nodes: endpoint, port, id, further addresses.
pub(super) fn slots(reply: &Value<'_>, edits: &mut Edits<'_>, book: &dyn AddressBook) {
    for node in reply.children.iter().flat_map(|range| range.children.iter().skip(2)) {
        let [endpoint, port, others @ ..] = node.children.as_slice() else { continue };
        let Some(number) = port.text().and_then(parse_port) else { continue };
        let id = others.first().and_then(Value::text);
        let further = others.get(1);
        let ip = further.and_then(|further| further.field("ip")).and_then(Value::text);
        let host = [ip, endpoint.text()].into_iter().flatten().map(known_host).find(|host| !host.is_empty());
        let Some(local) = local_at(book, host.unwrap_or_default(), number, id) else { continue };
        // Without a host, a client goes on with the one at which it reached this server.
        edits.set_unless_empty(endpoint, &local.host);
        edits.set(port, local.port.to_string());
        for (name, value) in further.into_iter().flat_map(Value::fields) {
            if matches!(name.bytes(), Some(b"ip" | b"hostname")) {
                edits.set_unless_empty(value, &local.host);
            }
        }
    }
}

/// CLUSTER SHARDS: for each shard its slots and the fields of its nodes.
pub(super) fn shards(reply: &Value<'_>, edits: &mut Edits<'_>, book: &dyn AddressBook) {
    let nodes = reply.children.iter().filter_map(|shard| shard.field("nodes"));
    for node in nodes.flat_map(|nodes| &nodes.children) {
        shard_node(node, edits, book);
    }
}

fn shard_node(node: &Value<'_>, edits: &mut Edits<'_>, book: &dyn AddressBook) {
    let text = |name| node.field(name).and_then(Value::text);
    let host =
        ["ip", "endpoint", "hostname"].into_iter().filter_map(text).map(known_host).find(|host| !host.is_empty());
    let names = if book.is_tls() { ["tls-port", "port"] } else { ["port", "tls-port"] };
    let Some(port) = names.into_iter().find_map(|name| text(name).and_then(parse_port)) else { return };
    let Some(local) = local_at(book, host.unwrap_or_default(), port, text("id")) else { return };
    for (name, value) in node.fields() {
        if matches!(name.bytes(), Some(b"ip" | b"endpoint" | b"hostname")) {
            edits.set_unless_empty(value, &local.host);
        }
    }
    // A client takes the port for its kind of connection: those that are open here, whichever the node has.
    let (mut plain_port, tls_port) = (local.plain_port, local.tls_port);
    if plain_port.is_none() && tls_port.is_none() {
        plain_port = Some(local.port);
    }
    let ports = [("port", plain_port), ("tls-port", tls_port)];
    let (mut removed, mut added, mut last) = (Vec::new(), Vec::new(), None);
    for (name, value) in node.fields() {
        let Some((_, port)) = ports.iter().find(|(known, _)| name.bytes() == Some(known.as_bytes())) else { continue };
        last = Some(value);
        match port {
            Some(port) => edits.set(value, port.to_string()),
            None => removed.push((name, value)),
        }
    }
    for (name, port) in ports {
        if let (Some(port), None) = (port, node.field(name)) {
            added.extend([format!("${}\r\n{name}\r\n", name.len()).into_bytes(), format!(":{port}\r\n").into_bytes()]);
        }
    }
    if let Some(last) = last {
        edits.change_fields(node, &removed, last, &added);
    }
}

/// CLUSTER NODES, a text with a line for each node, or CLUSTER REPLICAS, a list of such lines.
pub(super) fn nodes(reply: &Value<'_>, edits: &mut Edits<'_>, book: &dyn AddressBook) {
    if reply.is_aggregate() {
        reply.children.iter().for_each(|line| nodes(line, edits, book));
    } else if let Some(text) = reply.text() {
        let lines: Vec<String> = text.split('\n').map(|line| node_line(line, book)).collect();
        edits.set(reply, lines.join("\n"));
    }
}

/// `id host:port@bus-port,hostname,field=value… flags …`. The port of the cluster bus stays: no client connects there.
fn node_line(line: &str, book: &dyn AddressBook) -> String {
    let mut words: Vec<&str> = line.split(' ').collect();
    let [id, address, rest @ ..] = words.as_slice() else { return line.to_owned() };
    // A node has an id of its own when the handshake is over.
    let is_known = !rest.first().is_some_and(|flags| flags.split(',').any(|flag| flag == "handshake"));
    let new = node_address(address, is_known.then_some(*id), book);
    match &new {
        Some(new) => {
            words[1] = new;
            words.join(" ")
        }
        None => line.to_owned(),
    }
}

fn node_address(address: &str, id: Option<&str>, book: &dyn AddressBook) -> Option<String> {
    let (place, further) = address.split_once(',').map_or((address, None), |(place, further)| (place, Some(further)));
    let (place, bus) = place.split_once('@').map_or((place, None), |(place, bus)| (place, Some(bus)));
    let place = HostPort::parse(place)?;
    let local = local_at(book, place.host, place.port, id)?;
    let mut new = place.localized(book, id)?;
    if let Some(bus) = bus {
        new.push('@');
        new.push_str(bus);
    }
    let port = |port: Option<u16>| port.unwrap_or_default().to_string();
    for part in further.into_iter().flat_map(|further| further.split(',')) {
        new.push(',');
        match part.split_once('=') {
            None if !part.is_empty() => new.push_str(&local.host),
            Some(("tls-port", _)) => new.push_str(&format!("tls-port={}", port(local.tls_port))),
            Some(("tcp-port", _)) => new.push_str(&format!("tcp-port={}", port(local.plain_port))),
            _ => new.push_str(part),
        }
    }
    Some(new)
}
