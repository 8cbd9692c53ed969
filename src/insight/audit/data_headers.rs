//! Reads and writes of data that their records' headers tell. Nearly all commands are noted by these alone.

use std::sync::Arc;

use smallvec::SmallVec;

use super::data_use::{tell_uses, uses_data};
use super::guesses::Guesses;
use super::key_versions::{KeyVersions, Moment};
use super::lost_update::{COUNTERS, LostUpdates, MAX_IDLE_READS, Step, Within};
use crate::powers::{Outcome, RecordHeader};
use crate::spec::{CommandSpec, Flag, LockEffect};

impl LostUpdates {
    /// Takes in a command by its header. Returns whether that was enough.
    #[inline]
    pub fn note_header(
        &mut self,
        server: u16,
        header: &RecordHeader<'_>,
        row: &'static CommandSpec,
        guesses: &Guesses,
    ) -> bool {
        if row.names_client {
            if self.parties.contains_key(&(server, header.client)) {
                Arc::make_mut(&mut self.parties).remove(&(server, header.client));
            }
            return true;
        }
        if !uses_data(row) || header.outcome == Outcome::Queued {
            return true;
        }
        if header.is_cut || header.outcome != Outcome::Answered {
            return false;
        }
        if header.reply.first().is_none_or(|kind| matches!(kind, b'-' | b'!')) {
            return !header.reply.is_empty();
        }
        // A client is met with its first command about data, whoever reads the journal.
        if !self.parties.contains_key(&(server, header.client)) {
            return false;
        }
        if !self.is_worth_noting(header.client, row) {
            return true;
        }
        let is_write = row.has_flag(Flag::Write);
        if is_write && self.versions.is_empty() {
            return true;
        }
        let words: SmallVec<[&[u8]; 8]> = header.all_words().collect();
        let step = Step { row, db: header.db, words: &words, reply: header.reply, within: Within::Nothing };
        if !matches!(row.lock_effect, LockEffect::Get | LockEffect::SetByOptions) && row.keys.len() != 1 {
            return false;
        }
        let moment = Moment {
            server,
            client: header.client,
            seq: header.seq,
            place: header.seq,
            at: header.at,
            real: header.real,
            earliest: header.real,
            is_placed: true,
        };
        let keys = || match row.lock_effect {
            LockEffect::Exists | LockEffect::Delete => words[1..].to_vec(),
            _ => words.get(1).copied().into_iter().collect(),
        };
        if is_write {
            let (mut is_read, mut is_suspect) = (false, false);
            tell_uses(row, &words, header.reply, keys, &mut |used| {
                let id = KeyVersions::part_id(server, step.db, used.key, used.part);
                if self.versions.is_read(id) {
                    is_read = true;
                    let sets = matches!(row.lock_effect, LockEffect::SetByOptions | LockEffect::SetWithTtl(_));
                    let may_take = sets && self.versions.is_found_absent(id) && !guesses.is_data(header.db, used.key);
                    is_suspect |= may_take || self.may_overwrite(id, &used, &moment);
                }
            });
            if !is_read || is_suspect {
                return !is_suspect;
            }
        }
        tell_uses(row, &words, header.reply, keys, &mut |used| {
            let id = KeyVersions::part_id(server, step.db, used.key, used.part);
            self.note_use(id, &used, &moment, &step);
        });
        true
    }

    /// Whether a command can be a part of a read and a write: those of clients that only read are none.
    #[inline]
    fn is_worth_noting(&mut self, client: u64, row: &CommandSpec) -> bool {
        let idle = &mut self.idle_reads[usize::try_from(client % COUNTERS as u64).unwrap_or(0)];
        *idle = if row.has_flag(Flag::Write) { 0 } else { idle.saturating_add(1) };
        *idle <= MAX_IDLE_READS
    }
}
