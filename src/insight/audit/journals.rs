//! Audits whole journals that were read from files.

use std::collections::VecDeque;
use std::sync::Arc;

use super::auditor::Auditor;
use super::journal_line::JournalLine;
use super::scope::Scope;
use crate::powers::Item;
use crate::spec::Table;

/// An auditor of journals with these commands.
pub fn auditor(scope: Scope, commands: Table) -> Auditor {
    Auditor::new(Arc::new(scope), commands)
}

/// Audits the journals of some servers together, from their first line to the end. Servers are told apart by number.
pub fn audit(journals: Vec<(u16, Vec<Item>)>, auditor: Auditor) -> Auditor {
    let mut auditor = auditor;
    for (server, item) in merged(journals) {
        auditor.process_line(&JournalLine::item(server, &item));
    }
    auditor.finish();
    auditor
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
