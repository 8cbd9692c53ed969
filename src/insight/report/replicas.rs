//! The instances of a process that replicate: which of them was master when, what reached it as a replica, and what it never got.

use std::collections::HashMap;

use super::readable::visible;
use super::report_data::{Moment, MomentKind};
use crate::powers::{Event, EventKind, Item};

/// How many instances a report has, and how many lost changes of each.
const MAX_INSTANCES: usize = 64;
const MAX_LOSSES: usize = 500;

/// What an instance was for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Master,
    /// It was replaced, and went on, because it was cut off.
    Unaware,
    /// It got everything at once.
    Replica,
    /// Its link was held, late, or cut.
    Held,
    Late,
    Cut,
}

impl Part {
    /// The name on the page.
    pub fn name(self) -> &'static str {
        match self {
            Self::Master => "master",
            Self::Unaware => "unaware",
            Self::Replica => "replica",
            Self::Held => "held",
            Self::Late => "late",
            Self::Cut => "cut",
        }
    }

    /// How a replica is served whose link is treated like this.
    fn of_link(how: &str) -> Option<(Self, &str)> {
        match how {
            "open" => Some((Self::Replica, "")),
            "held" => Some((Self::Held, "")),
            "cut" => Some((Self::Cut, "")),
            _ => how.strip_prefix("late by ").map(|lag| (Self::Late, lag)),
        }
    }
}

/// From a moment on until the next one of the same instance.
pub struct PartSpan {
    /// The place of the event in the list of moments; `None` at the beginning.
    pub since: Option<usize>,
    pub part: Part,
    /// How late it gets everything.
    pub lag: String,
}

/// A change that an instance never got.
pub struct Loss {
    /// The command that made it, and the event that says so.
    pub written: usize,
    pub told: usize,
    pub key: String,
}

/// An instance.
pub struct ReplicatingInstance {
    /// Where others find it.
    pub name: String,
    /// The number of its journal, if that is known.
    pub server: Option<u16>,
    pub spans: Vec<PartSpan>,
    pub losses: Vec<Loss>,
}

fn node(event: &Event) -> &str {
    event.node.as_deref().unwrap_or_default()
}

/// The instances that replicate, in the order in which they are named; none unless the journals tell of links or failovers among
/// the instances of one process.
pub fn replicating_instances(moments: &[Moment<'_>]) -> Vec<ReplicatingInstance> {
    let events = || {
        moments.iter().enumerate().filter_map(|(at, moment)| match moment.item {
            Item::Event(event) => Some((at, moment.server, event)),
            Item::Command(_) => None,
        })
    };
    let is_told = |event: &Event| matches!(event.kind, EventKind::Link | EventKind::Replaced);
    if !events().any(|(.., event)| is_told(event)) {
        return Vec::new();
    }
    let servers = servers_by_name(events());
    let mut list = Instances { of: Vec::new(), servers };
    for (at, server, event) in events() {
        match event.kind {
            EventKind::Link => {
                list.begin(server, None, Part::Master);
                if let (Some((part, lag)), Some(replica)) =
                    (Part::of_link(&event.detail), list.named(node(event), Part::Replica))
                {
                    replica.turn_into(at, part, lag);
                }
            }
            EventKind::Promoted => {
                list.begin(server, Some(&event.detail), Part::Master);
                if let Some(promoted) = list.named(node(event), Part::Replica) {
                    promoted.turn_into(at, Part::Master, "");
                }
            }
            EventKind::Replaced => {
                let part = if event.detail == EventKind::UNAWARE { Part::Unaware } else { Part::Replica };
                if let Some(replaced) = list.begin(server, None, Part::Master) {
                    replaced.turn_into(at, part, "");
                }
            }
            _ => {}
        }
    }
    for ((at, _, event), written) in losses(moments, events()) {
        let (name, key) = (visible(node(event)), event.detail.as_str());
        if let Some(instance) = list.of.iter_mut().find(|instance| instance.name == name)
            && instance.losses.len() < MAX_LOSSES
        {
            instance.losses.push(Loss { written, told: at, key: visible(key) });
        }
    }
    list.of
}

struct Instances {
    of: Vec<ReplicatingInstance>,
    servers: HashMap<String, u16>,
}

impl Instances {
    /// The instance with a name, which is there from the beginning.
    fn named(&mut self, name: &str, first: Part) -> Option<&mut ReplicatingInstance> {
        let shown = visible(name);
        let known = self.of.iter().position(|instance| instance.name == shown);
        let at = known.or_else(|| {
            let spans = vec![PartSpan { since: None, part: first, lag: String::new() }];
            let server = self.servers.get(name).copied();
            let new = ReplicatingInstance { name: shown, server, spans, losses: Vec::new() };
            (self.of.len() < MAX_INSTANCES).then(|| self.of.push(new)).map(|()| self.of.len() - 1)
        })?;
        self.of.get_mut(at)
    }

    /// The instance whose journal is that of a server.
    fn begin(&mut self, server: u16, name: Option<&str>, first: Part) -> Option<&mut ReplicatingInstance> {
        let known = self.servers.iter().filter(|(_, other)| **other == server).map(|(name, _)| name.clone()).min();
        let name = match name {
            Some(name) => name.to_owned(),
            None => known.unwrap_or_else(|| format!("server {server}")),
        };
        self.servers.entry(name.clone()).or_insert(server);
        self.named(&name, first)
    }
}

impl ReplicatingInstance {
    fn turn_into(&mut self, at: usize, part: Part, lag: &str) {
        self.spans.push(PartSpan { since: Some(at), part, lag: visible(lag) });
    }
}

/// The servers of those whose names are told: a promotion names both the new master and the old one, whose journal names the new one.
fn servers_by_name<'e>(events: impl Iterator<Item = (usize, u16, &'e Event)>) -> HashMap<String, u16> {
    let (mut servers, mut former, mut replaced) = (HashMap::new(), Vec::new(), Vec::new());
    for (_, server, event) in events {
        match event.kind {
            EventKind::Promoted if servers.len() < MAX_INSTANCES => {
                servers.insert(node(event).to_owned(), server);
                former.push((node(event), event.detail.as_str()));
            }
            EventKind::Replaced if replaced.len() < MAX_INSTANCES => replaced.push((node(event), server)),
            _ => {}
        }
    }
    for ((_, old), (_, server)) in former.iter().zip(&replaced).filter(|((new, _), (by, _))| new == by) {
        servers.entry((*old).to_owned()).or_insert(*server);
    }
    servers
}

/// The lost changes, each with the command that made it: of several losses of one key the last belongs to its last command.
fn losses<'e>(
    moments: &[Moment<'_>],
    events: impl Iterator<Item = (usize, u16, &'e Event)>,
) -> Vec<((usize, u16, &'e Event), usize)> {
    let mut found: Vec<((usize, u16, &'e Event), usize)> = Vec::new();
    let lost: Vec<_> = events.filter(|(.., event)| event.kind == EventKind::Lost).collect();
    for (at, server, event) in lost.into_iter().rev().take(MAX_LOSSES) {
        let Some((_, key)) = &event.key else { continue };
        let is_write = |number: &usize| {
            let Some(moment) = moments.get(*number) else { return false };
            let Item::Command(entry) = moment.item else { return false };
            let changes = matches!(
                moment.kind,
                MomentKind::Took | MomentKind::Set | MomentKind::Extended | MomentKind::Released | MomentKind::Foreign
            );
            moment.server == server
                && entry.words.contains(key)
                && (changes || moment.lock.is_none())
                && !found.iter().any(|(_, written)| written == number)
        };
        if let Some(written) = (0..at).rev().find(is_write) {
            found.push(((at, server, event), written));
        }
    }
    found.reverse();
    found
}
