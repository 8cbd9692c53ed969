//! Lists.

use std::borrow::Cow;

use super::reader::Reader;
use super::{Bytes, Content, LIST, LIST_NODES, LIST_ZIPLISTS, write_length, write_string, ziplist};
use crate::base::profile::Profile;
use crate::data::listpack;

/// The node type, which precedes each node.
const PLAIN: usize = 1;
const PACKED: usize = 2;

/// A node of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node<'a> {
    /// Elements encoded as in a listpack.
    Packed { elements: Bytes<'a>, count: usize },
    /// One element that is too long for a listpack.
    Plain(Bytes<'a>),
}

impl Node<'_> {
    /// The elements in order.
    pub fn elements(&self) -> Vec<Bytes<'_>> {
        let mut rest: &[u8] = match self {
            Self::Packed { elements, .. } => elements,
            Self::Plain(element) => return vec![Cow::Borrowed(element)],
        };
        let mut found = Vec::new();
        while let Some((element, size)) = listpack::first(rest) {
            found.push(element.to_bytes());
            rest = &rest[size.min(rest.len())..];
        }
        found
    }
}

pub fn write(out: &mut Vec<u8>, nodes: &[Node<'_>], profile: &Profile) {
    if !profile.since_redis(7, 0) {
        out.push(LIST_ZIPLISTS);
        write_length(out, nodes.len());
        for node in nodes {
            write_string(out, &ziplist::write(node.elements().iter().map(|element| &**element)));
        }
        return;
    }
    out.push(LIST_NODES);
    write_length(out, nodes.len());
    for node in nodes {
        match node {
            Node::Packed { elements, count } => {
                write_length(out, PACKED);
                write_string(out, &listpack::enclose(elements, *count));
            }
            Node::Plain(element) => {
                write_length(out, PLAIN);
                write_string(out, element);
            }
        }
    }
}

pub fn write_elements(out: &mut Vec<u8>, elements: &[Bytes<'_>]) {
    out.push(LIST);
    write_length(out, elements.len());
    elements.iter().for_each(|element| write_string(out, element));
}

pub fn read_elements(reader: &mut Reader<'_>) -> Option<Content<'static>> {
    reader.several(|reader| reader.string().map(Cow::Owned)).map(Content::Elements)
}

pub fn read_ziplist(reader: &mut Reader<'_>) -> Option<Content<'static>> {
    ziplist::read(&reader.string()?).map(Content::Elements)
}

pub fn read_ziplists(reader: &mut Reader<'_>) -> Option<Content<'static>> {
    let nodes = reader.several(|reader| ziplist::read(&reader.string()?).map(|elements| pack(&elements)))?;
    Some(without_empty(nodes))
}

pub fn read_nodes(reader: &mut Reader<'_>) -> Option<Content<'static>> {
    let nodes = reader.several(|reader| {
        let kind = reader.length()?;
        let bytes = reader.string()?;
        match kind {
            PLAIN if !bytes.is_empty() => Some(Node::Plain(Cow::Owned(bytes))),
            PACKED => {
                let (elements, count) = listpack::read_encoded(&bytes)?;
                Some(Node::Packed { elements: Cow::Owned(elements), count })
            }
            _ => None,
        }
    })?;
    Some(without_empty(nodes))
}

/// A node of the elements of a ziplist.
fn pack(elements: &[Bytes<'_>]) -> Node<'static> {
    let mut bytes = Vec::new();
    elements.iter().for_each(|element| listpack::Element::of(element).append(&mut bytes));
    Node::Packed { elements: Cow::Owned(bytes), count: elements.len() }
}

/// Drops empty nodes, which Redis accepts.
fn without_empty(mut nodes: Vec<Node<'static>>) -> Content<'static> {
    nodes.retain(|node| !matches!(node, Node::Packed { count: 0, .. }));
    Content::List(nodes)
}
