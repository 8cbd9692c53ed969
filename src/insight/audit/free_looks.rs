//! Who has found a key free that a client is about to set: it may be a lock that is taken in two steps.

use std::sync::Arc;

use super::audit_state::AuditState;
use super::client_identity::ClientIdentity;
use super::finding::JournalRef;
use super::journal_line::JournalLine;
use super::key_versions::{KeptRead, KeyVersions};
use super::lost_update::{LostUpdates, source_of};
use crate::powers::short_line;

/// A client that has found nothing in a key, and the command that told so.
pub type FreeLook = (ClientIdentity, Arc<JournalRef>);

/// The clients that have found nothing in a key and not written it since, the one that is about to set it first; none if that
/// has not looked.
pub fn looks_at(data: &LostUpdates, state: &AuditState, line: &JournalLine<'_>, key: &[u8]) -> Vec<FreeLook> {
    let id = KeyVersions::part_id(line.server, line.db, key, b"");
    if !data.versions.is_found_absent(id) {
        return Vec::new();
    }
    let client = state.client_of(line);
    let own = data.versions.read_by(id, line.client).or_else(|| data.read_of_program(id, &client));
    let Some(own) = own.filter(|read| read.is_absence()) else { return Vec::new() };
    let look = |read: &KeptRead| {
        let party = data.party(&read.moment)?;
        let source = source_of(&read.moment, party, short_line(&[read.command.as_bytes(), key]));
        Some((party.client.clone(), Arc::new(source)))
    };
    let own = look(own).map(|(_, source)| (client, source));
    let is_other = |read: &&KeptRead| read.is_absence() && read.moment.client != line.client;
    own.into_iter().chain(data.versions.reads_of(id).filter(is_other).filter_map(look)).collect()
}
