//! A write that may have lost another one, and what speaks for a mistake.

use super::client_identity::{ClientIdentity, SameProgram};
use super::code::Severity;
use super::document::Conflict;
use super::intended_locks::IntendedLocks;
use super::kept_value::Dependence;
use super::key_versions::{KeptRead, KeptWrite, PartId, WriteKind};

/// A write that another one may have been lost by.
pub struct Overwrite<'a> {
    pub db: u32,
    pub key: &'a [u8],
    pub part: &'a [u8],
    pub id: PartId,
    /// The client's read.
    pub read: KeptRead,
    pub new: NewValue<'a>,
    pub expires: bool,
    /// How it comes from what was read.
    pub dependence: Dependence,
    /// The client watched the key when it wrote.
    pub is_watched: bool,
    /// The command writes several keys or fields.
    pub is_of_several: bool,
    /// The client has also set the key without a look at it.
    pub is_set_blindly: bool,
}

#[derive(Clone, Copy)]
pub enum NewValue<'a> {
    One(&'a [u8]),
    /// The elements of a list, a set or a sorted set, or the names and values of a hash.
    Elements {
        words: &'a [&'a [u8]],
        are_named: bool,
    },
}

/// What speaks for a mistake, and what against it.
pub struct Signs {
    dependence: Dependence,
    expires: bool,
    is_watched: bool,
    /// Two programs write.
    is_stranger: bool,
    has_other_read: bool,
    /// The other one has computed its value, too, and did not just set it.
    is_other_update: bool,
    is_same_value: bool,
    /// Two programs, or two tasks of one, both compute a value that is to stay.
    is_computed: bool,
    /// One of two changes is gone for certain.
    is_undone: bool,
    /// What one of the two has changed is not in what the other one has made of the same value.
    is_change_lost: bool,
    is_seen: bool,
    /// Both have made a document where nothing was, and one of them lacks what the other one had put there.
    is_first_lost: bool,
    /// The client has read it over the same connection.
    has_read: bool,
    is_same_process: bool,
}

impl Overwrite<'_> {
    /// `reader` is the connection that has read the value.
    pub fn signs(
        &self,
        client: &ClientIdentity,
        reader: Option<&ClientIdentity>,
        (lost, writer): (&KeptWrite, &ClientIdentity),
    ) -> Signs {
        let same = writer.same_program(client);
        let is_stranger = same == SameProgram::No;
        let is_other_computed = lost.basis.is_some_and(|basis| basis.dependence.is_seen());
        let is_other_update = lost.kind == WriteKind::Update || is_other_computed;
        // Whoever saves all fields writes back what another one has changed.
        let is_saved_back = self.dependence == Dependence::Same
            && self.is_of_several
            && matches!(self.read.command, "HGETALL" | "HMGET" | "MGET");
        let is_seen = self.dependence.is_seen() || is_saved_back && is_other_update;
        let has_read = self.read.moment.client == client.id;
        let are_two = is_stranger || same == SameProgram::Unknown && is_other_computed;
        let is_same_value = matches!(self.new, NewValue::One(new) if lost.value.is(new));
        let is_computed = is_seen && is_other_update && are_two && has_read && !self.expires;
        // Two tasks of one program that both read it over connections of their own. Whoever goes on counting from what it has
        // written over another connection comes further, and has in its text what it has put there.
        let comes_further = match (self.new, lost.basis.is_some()) {
            (NewValue::One(new), true) => self.read.value.goes_on_from(&lost.value, new),
            (NewValue::Elements { .. }, true) => false,
            (_, false) => true,
        };
        let are_tasks = same == SameProgram::Unknown && is_other_computed && !comes_further;
        let conflict = match self.new {
            NewValue::Elements { words, are_named } => {
                self.read.value.conflict_of_elements((&lost.words(), lost.is_whole()), words, are_named)
            }
            NewValue::One(b"0") => Conflict::Replaced,
            NewValue::One(_) if lost.kind == WriteKind::Update => Conflict::Undone,
            NewValue::One(new) => self.read.value.conflict(&lost.value, new),
        };
        Signs {
            dependence: self.dependence,
            expires: self.expires,
            is_watched: self.is_watched,
            is_stranger,
            has_other_read: lost.kind == WriteKind::Update || lost.basis.is_some(),
            is_other_update,
            is_same_value,
            is_computed,
            is_undone: is_computed
                && (is_stranger || are_tasks)
                && !is_same_value
                && !self.is_set_blindly
                && matches!(conflict, Conflict::Undone | Conflict::Counted),
            is_change_lost: conflict == Conflict::Undone,
            is_seen,
            is_first_lost: self.dependence == Dependence::NothingRead
                && !self.expires
                && matches!(self.new, NewValue::One(new) if lost.value.is_lost_in(new)),
            has_read,
            is_same_process: reader.is_some_and(|reader| reader.is_same_process(client)),
        }
    }
}

impl Signs {
    /// How bad it is, whatever locks there are. `is_declared` is whether the user says that the data must not be lost.
    pub fn severity(&self, is_declared: bool) -> Severity {
        let are_two = self.is_stranger || self.has_other_read;
        // Another part of the program may have read it for something else.
        let is_certain = self.has_read || self.dependence == Dependence::Text || self.is_same_process;
        let is_check = self.dependence == Dependence::Unseen && !self.expires;
        let is_watched_too_late =
            self.is_watched && are_two && self.has_read && (self.is_seen || is_check && self.has_other_read);
        match () {
            () if self.dependence == Dependence::Time => Severity::Note,
            () if is_declared && are_two && is_certain && (self.is_seen || self.has_other_read) => Severity::Error,
            () if is_watched_too_late || self.is_undone => Severity::Error,
            () if self.is_computed && self.is_stranger && !self.is_same_value => Severity::Warning,
            () => Severity::Note,
        }
    }

    /// Whether it is a mistake for certain if the locks are locks.
    pub fn are_certain_by(&self, locks: &IntendedLocks) -> bool {
        let is_certain = self.has_read || self.dependence == Dependence::Text;
        let is_cache = self.dependence == Dependence::NothingRead && self.expires;
        match () {
            () if self.dependence == Dependence::Time || is_cache => false,
            () if self.is_same_value && self.dependence != Dependence::Number => false,
            // Whoever finds a page stale makes it anew: both have the same place in mind, and neither counts on the other.
            () if locks.is_broken() && self.expires && !self.is_change_lost => false,
            () if locks.is_broken() => {
                self.is_seen && is_certain && (self.is_stranger || self.is_other_update)
                    || self.is_stranger && self.has_other_read && (locks.covers_read() || self.is_first_lost)
            }
            () if locks.is_ignored() => {
                self.is_computed
                    || self.is_stranger && self.has_other_read && self.dependence == Dependence::NothingRead
            }
            () if locks.is_any() => self.is_computed && self.is_stranger,
            () => false,
        }
    }

    /// Whether the key that both clients asked for around their work is a lock for that very reason.
    pub fn show_a_lock(&self, locks: &IntendedLocks) -> bool {
        self.is_computed && self.are_certain_by(locks) && (locks.is_broken() || locks.is_ignored())
    }
}
