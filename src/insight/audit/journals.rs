//! Audits whole journals that were read from files.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use super::auditor::Auditor;
use super::fronts::MergedFronts;
use super::journal_line::JournalLine;
use super::scope::Scope;
use crate::base::profile::Profile;
use crate::insight::scripts::ScriptKnowledge;
use crate::powers::Item;
use crate::spec::Table;

/// An auditor of journals with these commands.
pub fn auditor(scope: Scope, commands: Table) -> Auditor {
    Auditor::new(Arc::new(scope), commands)
}

/// Audits the journals of some servers together, from their first line to the end. Servers are told apart by number.
pub fn audit(journals: Vec<(u16, Vec<Item>)>, auditor: Auditor) -> Auditor {
    let mut auditor = auditor;
    let mut scripts = ScriptsOfServers::default();
    for (server, mut item) in merged(journals) {
        scripts.complete(server, &mut item, auditor.commands());
        auditor.process_line(&JournalLine::item(server, &item));
    }
    auditor.finish();
    auditor
}

/// Audits the history of several fronts before one server, which has number 1.
pub fn audit_fronts(fronts: &MergedFronts, auditor: Auditor) -> Auditor {
    let mut auditor = auditor;
    fronts.lines.iter().for_each(|line| auditor.process_line(&line.line(1)));
    auditor.finish();
    auditor
}

/// What is known of the scripts of each server, from the first line on that does not say what its script did.
#[derive(Default)]
struct ScriptsOfServers(BTreeMap<u16, ScriptKnowledge>);

impl ScriptsOfServers {
    /// Fills in what a script did, if the line does not say so and its text and its reply tell.
    fn complete(&mut self, server: u16, item: &mut Item, commands: &Table) {
        let Item::Command(entry) = item else { return };
        if !entry.are_children_unknown {
            return;
        }
        let knowledge = self.0.entry(server);
        let knowledge = knowledge.or_insert_with(|| ScriptKnowledge::new(&Profile::default(), commands.clone()));
        knowledge.complete(entry);
    }
}

/// The lines of some journals in the order of real time; those of one stay in their order.
fn merged(journals: Vec<(u16, Vec<Item>)>) -> impl Iterator<Item = (u16, Item)> {
    let mut journals: Vec<(u16, VecDeque<Item>)> =
        journals.into_iter().map(|(server, items)| (server, items.into())).collect();
    std::iter::from_fn(move || {
        let next = journals.iter_mut().filter(|(_, items)| !items.is_empty());
        let (server, items) = next.min_by_key(|(_, items)| items.front().map(real))?;
        Some((*server, items.pop_front()?))
    })
}

fn real(item: &Item) -> i64 {
    match item {
        Item::Command(entry) => entry.real,
        Item::Event(event) => event.real,
    }
}
