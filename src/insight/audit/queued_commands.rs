//! The commands that wait for EXEC, of journals that do not say what EXEC ran, or in which a server may refuse it.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::journal_line::JournalLine;
use super::missing_replies::keys_of;
use crate::powers::EffectOrder;
use crate::spec::Table;

/// How many commands of one transaction are remembered, and of how many clients.
const MAX_COMMANDS: usize = 1024;
const MAX_CLIENTS: usize = 10_000;

/// What each client has queued.
#[derive(Clone, Default)]
pub struct QueuedCommands {
    queues: HashMap<(u16, u64), Queue, FixedState>,
}

/// What one client has queued.
#[derive(Clone, Default)]
pub struct Queue {
    /// Each with its database.
    pub commands: Vec<(u32, Vec<Vec<u8>>)>,
    /// Whether some are missing, or not known whole.
    pub is_cut: bool,
}

impl QueuedCommands {
    /// A command was queued.
    pub fn add(&mut self, line: &JournalLine<'_>) {
        let client = (line.server, line.client);
        let may_be_needed = line.are_children_unknown || line.order != EffectOrder::Total;
        if !may_be_needed || self.queues.len() >= MAX_CLIENTS && !self.queues.contains_key(&client) {
            return;
        }
        let queue = self.queues.entry(client).or_default();
        queue.is_cut |= line.is_cut || queue.commands.len() >= MAX_COMMANDS;
        if queue.commands.len() < MAX_COMMANDS {
            queue.commands.push((line.db, line.words.iter().map(|word| word.to_vec()).collect()));
        }
    }

    /// The client's queue, which ends.
    pub fn take(&mut self, line: &JournalLine<'_>) -> Queue {
        self.queues.remove(&(line.server, line.client)).unwrap_or_default()
    }

    /// The client's queue, which goes on.
    pub fn of(&self, line: &JournalLine<'_>) -> Option<&Queue> {
        self.queues.get(&(line.server, line.client))
    }

    /// What the client has queued does not run.
    pub fn clear(&mut self, line: &JournalLine<'_>) {
        self.queues.remove(&(line.server, line.client));
    }

    pub fn forget(&mut self, server: u16) {
        self.queues.retain(|(number, _), _| *number != server);
    }
}

impl Queue {
    /// All keys that its commands name.
    pub fn keys(&self, commands: &Table) -> Vec<(u32, Vec<u8>)> {
        let keys = self.commands.iter().flat_map(|(db, words)| {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            keys_of(commands, &words).into_iter().map(|key| (*db, key.to_vec())).collect::<Vec<_>>()
        });
        keys.collect()
    }
}
