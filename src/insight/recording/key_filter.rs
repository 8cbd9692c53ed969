//! Which commands a recording keeps.

use std::collections::BTreeSet;

use crate::base::glob;
use crate::powers::{Child, Entry, EventKind, Item};
use crate::protocol::OwnedWords;
use crate::spec::{CommandKind, LockEffect, Table, TransactionCommand};

/// Keeps the commands that name certain keys, and what must be known beside them: the ends of their clients' connections,
/// their transactions, commands about whole databases, scripts that name no key.
#[derive(Default)]
pub struct KeyFilter {
    globs: Vec<Vec<u8>>,
    /// Clients of whom a command was kept, and who are still connected.
    known: BTreeSet<u64>,
    /// Those in whose transaction a command was kept, or a key is watched.
    in_transaction: BTreeSet<u64>,
}

impl KeyFilter {
    /// Without a glob it keeps everything.
    pub fn new(globs: Vec<Vec<u8>>) -> Self {
        Self { globs, ..Self::default() }
    }

    /// Whether a line of the server's journal is kept.
    pub fn keeps(&mut self, table: &Table, item: &Item) -> bool {
        if self.globs.is_empty() {
            return true;
        }
        match item {
            Item::Command(entry) => {
                let is_kept = self.keeps_command(table, entry);
                if is_kept {
                    self.known.insert(entry.client);
                }
                is_kept
            }
            Item::Event(event) => match event.kind {
                EventKind::Closed => {
                    self.in_transaction.remove(&event.client);
                    self.known.remove(&event.client)
                }
                EventKind::Evicted | EventKind::Lost => event.key.as_ref().is_none_or(|(_, key)| self.matches(key)),
                EventKind::Started
                | EventKind::Clock
                | EventKind::Missing
                | EventKind::Promoted
                | EventKind::Link
                | EventKind::Replaced
                | EventKind::Topology
                | EventKind::Mark => true,
            },
        }
    }

    fn keeps_command(&mut self, table: &Table, entry: &Entry) -> bool {
        let words: OwnedWords = entry.words.iter().map(Vec::as_slice).collect();
        let spec = table.row_of(words.as_words()).map(|row| row.spec);
        let names_key = self.names_key(table, &entry.words) || self.any_names_key(table, &entry.children);
        let Some(spec) = spec else { return names_key };
        match spec.kind {
            CommandKind::Transaction(TransactionCommand::Watch) if names_key => {
                self.in_transaction.insert(entry.client);
                true
            }
            CommandKind::Transaction(TransactionCommand::Multi) => false,
            CommandKind::Transaction(TransactionCommand::Watch) => false,
            CommandKind::Transaction(_) => self.in_transaction.remove(&entry.client) || names_key,
            CommandKind::Script(_) if table.name(words.as_words()).keys.is_empty() => true,
            CommandKind::Library => true,
            _ => {
                if names_key && entry.outcome == crate::powers::Outcome::Queued {
                    self.in_transaction.insert(entry.client);
                }
                let is_about_all = matches!(
                    spec.lock_effect,
                    LockEffect::FlushAll | LockEffect::FlushDatabase | LockEffect::SwapDatabases
                );
                names_key || is_about_all
            }
        }
    }

    fn any_names_key(&self, table: &Table, children: &[Child]) -> bool {
        let names = |child: &Child| self.names_key(table, &child.words) || self.any_names_key(table, &child.children);
        children.iter().any(names)
    }

    fn names_key(&self, table: &Table, words: &[Vec<u8>]) -> bool {
        let words: OwnedWords = words.iter().map(Vec::as_slice).collect();
        table.name(words.as_words()).keys.iter().any(|key| self.matches(key))
    }

    fn matches(&self, key: &[u8]) -> bool {
        self.globs.iter().any(|glob| glob::matches(glob, key, false))
    }
}
