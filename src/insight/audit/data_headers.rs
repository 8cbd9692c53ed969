//! Reads and writes of data that their records' headers tell. Nearly all commands are noted by these alone.

use smallvec::SmallVec;

use super::data_use::{DataUse, tell_uses, uses_data};
use super::guesses::Guesses;
use super::key_versions::{KeyVersions, Moment, PartId};
use super::lost_update::{COUNTERS, LostUpdates, MAX_IDLE_READS, Step, Within};
use crate::powers::{Outcome, RawRecord, RecordHeader};
use crate::spec::{CommandSpec, Flag, LockEffect};

/// What a command does to data, as its header tells.
struct Uses<'a, 'h> {
    server: u16,
    header: &'h RecordHeader<'a>,
    row: &'static CommandSpec,
    within: Within,
}

/// What is to become of it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Check {
    OfNoInterest,
    ToBeNoted,
    /// It may be a part of something that is to be told.
    Suspect,
}

/// Whether a reply is an error, or unknown.
fn tells_nothing(reply: &[u8]) -> bool {
    reply.first().is_none_or(|kind| matches!(kind, b'-' | b'!'))
}

impl Uses<'_, '_> {
    /// Tells the uses, one after the other.
    fn tell(&self, mut tell: impl FnMut(PartId, &DataUse<'_>, &Moment, &Step<'_>)) {
        let Self { server, header, row, within } = *self;
        let words: SmallVec<[&[u8]; 8]> = header.all_words().collect();
        let step = Step { row, db: header.db, words: &words, reply: header.reply, within };
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
        tell_uses(row, &words, header.reply, keys, &mut |used| {
            tell(KeyVersions::part_id(server, step.db, used.key, used.part), &used, &moment, &step);
        });
    }
}

impl LostUpdates {
    /// Takes in a command by its header. Returns whether that was enough.
    #[inline]
    pub fn note_header(
        &mut self,
        server: u16,
        (record, header): (&RawRecord<'_>, &RecordHeader<'_>),
        row: &'static CommandSpec,
        guesses: &Guesses,
    ) -> bool {
        if !uses_data(row) || header.outcome == Outcome::Queued {
            return true;
        }
        if header.is_cut || header.outcome != Outcome::Answered {
            return false;
        }
        if tells_nothing(header.reply) {
            return !header.reply.is_empty();
        }
        // A client is met with its first command about data, and again with the first one under another name, whoever
        // reads the journal.
        if !self.has_met((server, header.client), || record.labels(header)) {
            return false;
        }
        if !self.is_worth_noting(header.client, row) {
            return true;
        }
        let is_told = Uses { server, header, row, within: Within::Nothing };
        match self.check(&is_told, guesses) {
            Check::OfNoInterest => true,
            Check::ToBeNoted => {
                self.note_uses(&is_told);
                true
            }
            Check::Suspect => false,
        }
    }

    /// Takes in the commands of a transaction, as headers of their own. Returns whether that was enough; otherwise nothing is noted.
    pub fn note_transaction(
        &mut self,
        server: u16,
        (record, header): (&RawRecord<'_>, &RecordHeader<'_>),
        commands: &[(RecordHeader<'_>, &'static CommandSpec)],
        guesses: &Guesses,
    ) -> bool {
        // As with a single command, but whatever it has run.
        if !self.has_met((server, header.client), || record.labels(header)) {
            return false;
        }
        let told = commands.iter().filter(|(header, row)| uses_data(row) && !tells_nothing(header.reply));
        let uses = told.map(|(header, row)| Uses { server, header, row, within: Within::Transaction });
        let uses: SmallVec<[Uses<'_, '_>; 8]> = uses.collect();
        let checks: SmallVec<[Check; 8]> = uses.iter().map(|used| self.check(used, guesses)).collect();
        if checks.contains(&Check::Suspect) {
            return false;
        }
        uses.iter().for_each(|used| self.note_uses(used));
        true
    }

    fn check(&self, told: &Uses<'_, '_>, guesses: &Guesses) -> Check {
        let row = told.row;
        // These change no more than the deadline.
        let is_write = row.has_flag(Flag::Write) && row.lock_effect != LockEffect::GetAndExpire && row.name != "HGETEX";
        if is_write && self.versions.is_empty() {
            return Check::OfNoInterest;
        }
        if !matches!(row.lock_effect, LockEffect::Get | LockEffect::SetByOptions) && row.keys.len() != 1 {
            return Check::Suspect;
        }
        if !is_write {
            return Check::ToBeNoted;
        }
        let (mut is_read, mut is_suspect) = (false, false);
        let sets = matches!(row.lock_effect, LockEffect::SetByOptions | LockEffect::SetWithTtl(_));
        told.tell(|id, used, moment, step| {
            if self.versions.is_read(id) {
                is_read = true;
                let is_alone = sets && step.within == Within::Nothing;
                let may_take = is_alone && self.versions.is_found_absent(id) && !guesses.is_data(step.db, used.key);
                is_suspect |= may_take || self.may_overwrite(id, used, moment);
            }
        });
        match (is_read, is_suspect) {
            (_, true) => Check::Suspect,
            (true, false) => Check::ToBeNoted,
            (false, false) => Check::OfNoInterest,
        }
    }

    fn note_uses(&mut self, told: &Uses<'_, '_>) {
        told.tell(|id, used, moment, step| self.note_use(id, used, moment, step));
    }

    /// Whether a command can be a part of a read and a write: those of clients that only read are none.
    #[inline]
    fn is_worth_noting(&mut self, client: u64, row: &CommandSpec) -> bool {
        let idle = &mut self.idle_reads[usize::try_from(client % COUNTERS as u64).unwrap_or(0)];
        *idle = if row.has_flag(Flag::Write) { 0 } else { idle.saturating_add(1) };
        *idle <= MAX_IDLE_READS
    }
}
