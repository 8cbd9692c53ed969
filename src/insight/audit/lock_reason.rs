//! Why the auditor takes a key for a lock.

/// All reasons found so far for one key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LockReasons(u32);

/// One reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum LockReason {
    /// A client was refused while another one held the key, and had offered another token.
    Contended,
    /// A release or extension compared the value in the same step.
    Compared,
    /// The value is the time at which the lock ends.
    Timestamp,
    /// The key was set first and got its expiry in a second command.
    ExpiryBehind,
    /// The type is that of a lock: a hash that counts, a sorted set that admits several.
    Shape,
    /// The same value was taken on several servers.
    Several,
    /// The user's `--locks` pattern matches.
    Said,
    /// A client was refused that had offered the value already there, or one that is no token: a lock without tokens, or a
    /// default, a session or a page of a cache that is made by whoever comes first. This reason and those below are weak: two of them are needed.
    Alike,
    /// The key was set to a value that is no token and got its expiry in a second command: a lock, or a counter.
    Behind,
    /// A client that had set the key deleted it, or tried to.
    Returned,
    /// The name of the key says so.
    Named,
    /// A script was given the client's own token when the key had expired. This is enough only for a key with which
    /// something is certainly wrong.
    Sought,
    /// Two programs took the key, wrote the same other key meanwhile, and gave it back.
    Guards,
    /// A client set the key in a second step, after it had found it free. This reason counts only together with the name.
    Checked,
    /// It was a lock before a reset, under this name or a like one, with such values.
    Learned,
    /// Two clients had it, or one had it and refused the other one, while they worked on the same data.
    Around,
    /// A client set its former value there again after another one had taken the key with a value of its own.
    Retaken,
}

/// The weak reasons.
const WEAK: u32 =
    LockReason::Alike.bit() | LockReason::Behind.bit() | LockReason::Returned.bit() | LockReason::Named.bit();
/// The reasons that count only beside something else.
const BESIDE: u32 = LockReason::Sought.bit() | LockReason::Checked.bit();
/// The pair of weak reasons that a counter with a default shows, too.
const COUNTER: u32 = LockReason::Alike.bit() | LockReason::Behind.bit();
/// That the value is no lock's: others read it as data. It is no reason, but takes the weight from the weak ones.
const DATA: u32 = 1 << 31;

impl LockReason {
    /// All of them, the weak ones at the end.
    pub const ALL: [Self; 17] = [
        Self::Contended,
        Self::Compared,
        Self::Timestamp,
        Self::ExpiryBehind,
        Self::Shape,
        Self::Several,
        Self::Guards,
        Self::Said,
        Self::Learned,
        Self::Around,
        Self::Retaken,
        Self::Alike,
        Self::Behind,
        Self::Returned,
        Self::Named,
        Self::Checked,
        Self::Sought,
    ];

    /// Its bit in [`LockReasons`].
    const fn bit(self) -> u32 {
        1 << self as u32
    }

    /// Whether it is not enough by itself.
    pub fn is_weak(self) -> bool {
        (WEAK | BESIDE) & self.bit() != 0
    }

    /// The name on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Self::Contended => "contended",
            Self::Compared => "compared",
            Self::Timestamp => "time-as-value",
            Self::ExpiryBehind => "expiry-behind",
            Self::Shape => "shape",
            Self::Several => "several-servers",
            Self::Guards => "guards",
            Self::Checked => "looked-first",
            Self::Said => "said",
            Self::Learned => "learned",
            Self::Around => "around-data",
            Self::Retaken => "set-again",
            Self::Alike => "refused-alike",
            Self::Behind => "expiry-later",
            Self::Returned => "deleted-by-taker",
            Self::Named => "name",
            Self::Sought => "sought",
        }
    }

    /// What was seen.
    pub fn sentence(self) -> &'static str {
        match self {
            Self::Contended => "another client, which offered another value, was refused while the key was taken",
            Self::Compared => "a client compared its value in the same step in which it released or extended it",
            Self::Timestamp => "its value is the time at which it expires",
            Self::ExpiryBehind => "it was taken with a token, and got its expiry in a second command",
            Self::Shape => "it is stored as libraries store locks: a hash that counts, or a set of holders",
            Self::Several => "the same value was set on several servers",
            Self::Guards => "two programs took it, wrote the same other key meanwhile, and gave it back",
            Self::Checked => "a client found it free and set it in a second step; that counts if its name says lock",
            Self::Said => "--locks names it",
            Self::Learned => "it was one before a reset, or a key was that differs in a number or a random part alone",
            Self::Around => "two clients asked for it around what they read and wrote",
            Self::Retaken => "a client set its own value there again after another one had taken it with another value",
            Self::Alike => "another client was refused that offered the same value, or one that is no token",
            Self::Behind => "it was taken with a value that is no token, and got its expiry later",
            Self::Returned => "a client that took it deleted it, or tried to",
            Self::Named => "a word of its name is lock, locks, mutex, lease, leader or semaphore",
            Self::Sought => {
                "a script looked for its token after it had expired; that counts if something is certainly wrong"
            }
        }
    }
}

impl LockReasons {
    /// Those that the key itself shows.
    pub fn of_key(key: &[u8]) -> Self {
        let mut reasons = Self::default();
        if is_named_lock(key) {
            reasons.add(LockReason::Named);
        }
        reasons
    }

    pub fn add(&mut self, reason: LockReason) {
        self.0 |= reason.bit();
    }

    /// Adds the reasons of another key: the lock was renamed, copied or moved from there.
    pub fn add_all(&mut self, other: Self) {
        self.0 |= other.0;
    }

    pub fn have_all(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    pub fn has(self, reason: LockReason) -> bool {
        self.0 & reason.bit() != 0
    }

    /// Whether one of them is enough by itself, and was seen since the last reset.
    pub fn are_strong(self) -> bool {
        self.0 & !(WEAK | DATA | BESIDE | LockReason::Learned.bit()) != 0
    }

    /// Whether it is a lock for nothing but what was known before a reset.
    pub fn are_learned(self) -> bool {
        self.has(LockReason::Learned) && !Self(self.0 & !LockReason::Learned.bit()).are_enough()
    }

    pub fn are_enough(self) -> bool {
        let weak = self.0 & WEAK;
        let is_data = self.0 & DATA != 0 && !self.has(LockReason::Named);
        self.0 & !(WEAK | DATA | BESIDE) != 0
            || self.has(LockReason::Named) && self.has(LockReason::Checked)
            || (weak.count_ones() > 1 && weak != COUNTER && !is_data)
    }

    /// Whether it is a guess that the key is a lock: it was found absent and then set, as data are, too.
    pub fn are_a_guess(self) -> bool {
        self.has(LockReason::Checked) && !self.are_enough()
    }

    /// Whether others have read the value as data.
    pub fn are_of_data(self) -> bool {
        self.0 & DATA != 0
    }

    /// Notes that others read the value as data. Once the key is known as a lock, that says nothing any more.
    pub fn note_data(&mut self) {
        if !self.are_enough() {
            self.0 |= DATA;
        }
    }
}

/// Whether a word of the key says lock: `lock:a`, `a.lock`, `jobLock`, but neither `clock` nor `block`.
pub fn is_named_lock(key: &[u8]) -> bool {
    const WORDS: [&[u8]; 6] = [b"lock", b"locks", b"mutex", b"lease", b"leader", b"semaphore"];
    let is_letter = |at: usize| key.get(at).is_some_and(u8::is_ascii_alphabetic);
    let begins = |at: usize| {
        let before = at.checked_sub(1);
        before.is_none_or(|before| {
            !is_letter(before) || (key[before].is_ascii_lowercase() && key[at].is_ascii_uppercase())
        })
    };
    let ends = |end: usize| !is_letter(end) || (key[end].is_ascii_uppercase() && key[end - 1].is_ascii_lowercase());
    let is_at = |at: usize, word: &[u8]| {
        key[at..].get(..word.len()).is_some_and(|found| found.eq_ignore_ascii_case(word)) && ends(at + word.len())
    };
    // Every lock is asked for its name, and nearly all letters begin no such word.
    let may_begin = |letter: u8| matches!(letter.to_ascii_lowercase(), b'l' | b'm' | b's');
    let mut places = (0..key.len()).filter(|at| may_begin(key[*at]) && begins(*at));
    places.any(|at| WORDS.iter().any(|word| is_at(at, word)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_lock_says_so_by_a_whole_word() {
        for name in ["lock", "lock.foo", "jobs:42:lock", "LOCK_A", "jobLock", "lockFile", "my-mutex", "locks:a"] {
            assert!(is_named_lock(name.as_bytes()), "{name}");
        }
        for name in ["", "clock", "block:7", "unlocked", "locker", "user:7", "redisson_unlock_latch:a"] {
            assert!(!is_named_lock(name.as_bytes()), "{name}");
        }
    }

    #[test]
    fn weak_reasons_count_in_pairs() {
        let are_enough = |given: &[LockReason]| {
            let mut reasons = LockReasons::default();
            given.iter().for_each(|reason| reasons.add(*reason));
            reasons.are_enough()
        };
        assert!(!are_enough(&[]) && !are_enough(&[LockReason::Named]));
        assert!(!are_enough(&[LockReason::Alike, LockReason::Behind]));
        assert!(are_enough(&[LockReason::Contended]) && are_enough(&[LockReason::Alike, LockReason::Returned]));
        assert!(are_enough(&[LockReason::Named, LockReason::Behind]));
    }

    #[test]
    fn what_others_read_as_data_needs_a_strong_reason_or_a_name() {
        let mut reasons = LockReasons::default();
        reasons.note_data();
        reasons.add(LockReason::Alike);
        reasons.add(LockReason::Returned);
        assert!(!reasons.are_enough());
        let (mut compared, mut named) = (reasons, reasons);
        compared.add(LockReason::Compared);
        named.add(LockReason::Named);
        assert!(compared.are_enough() && named.are_enough());
        named.note_data();
        assert!(named.are_enough());
    }
}
