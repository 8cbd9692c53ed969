//! Which commands commute: their order makes no difference.

use std::hash::{DefaultHasher, Hash, Hasher};

/// The most keys of a footprint; a command with more counts as touching everything.
const MOST_KEYS: usize = 256;

/// What a command may read and write. In doubt it contains too much: that costs superfluous runs, and no order is missed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Hashes of keys, without their database. Two keys with the same hash count as one.
    reads: Vec<u64>,
    writes: Vec<u64>,
    reads_all: bool,
    writes_all: bool,
}

impl Footprint {
    /// Touches everything there is.
    pub fn everything() -> Self {
        Self { reads_all: true, writes_all: true, ..Self::default() }
    }

    /// Reads everything there is.
    pub fn whole_view() -> Self {
        Self { reads_all: true, ..Self::default() }
    }

    pub fn add_key(&mut self, key: &[u8], is_written: bool) {
        let keys = if is_written { &mut self.writes } else { &mut self.reads };
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        let hash = hasher.finish();
        if keys.contains(&hash) {
            return;
        }
        if keys.len() < MOST_KEYS {
            keys.push(hash);
        } else {
            *self = Self::everything();
        }
    }

    /// Adds what the instance with this number gets from its master.
    pub fn add_link(&mut self, instance: u16, is_written: bool) {
        self.add_key(&[b"link to ".as_slice(), &instance.to_le_bytes()].concat(), is_written);
    }

    /// Adds what another footprint touches.
    pub fn join(&mut self, other: &Self) {
        self.reads.extend(other.reads.iter().filter(|key| !self.reads.contains(key)).collect::<Vec<_>>());
        self.writes.extend(other.writes.iter().filter(|key| !self.writes.contains(key)).collect::<Vec<_>>());
        self.reads_all |= other.reads_all;
        self.writes_all |= other.writes_all;
        if self.reads.len().max(self.writes.len()) > MOST_KEYS {
            *self = Self::everything();
        }
    }

    /// Whether it may write anything.
    pub fn writes(&self) -> bool {
        self.writes_all || !self.writes.is_empty()
    }

    /// Whether the order of the two makes no difference.
    pub fn commutes_with(&self, other: &Self) -> bool {
        !self.conflicts_with(other) && !other.conflicts_with(self)
    }

    /// Whether it may write what the other one reads or writes.
    fn conflicts_with(&self, other: &Self) -> bool {
        let touches_any = other.reads_all || other.writes_all || !other.reads.is_empty() || !other.writes.is_empty();
        let touches = |key: &u64| other.reads.contains(key) || other.writes.contains(key);
        self.writes_all && touches_any
            || self.writes() && (other.reads_all || other.writes_all)
            || self.writes.iter().any(touches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touching(reads: &[&str], writes: &[&str]) -> Footprint {
        let mut footprint = Footprint::default();
        reads.iter().for_each(|key| footprint.add_key(key.as_bytes(), false));
        writes.iter().for_each(|key| footprint.add_key(key.as_bytes(), true));
        footprint
    }

    #[test]
    fn commands_commute_unless_one_writes_what_the_other_touches() {
        let (get, set) = (touching(&["a"], &[]), touching(&[], &["a"]));
        assert!(get.commutes_with(&get));
        assert!(!get.commutes_with(&set) && !set.commutes_with(&get) && !set.commutes_with(&set));
        assert!(set.commutes_with(&touching(&["b"], &["c"])));
        assert!(!touching(&["b"], &["a"]).commutes_with(&touching(&["a"], &["b"])));
    }

    #[test]
    fn what_may_touch_everything_commutes_with_what_touches_nothing() {
        let (get, set) = (touching(&["a"], &[]), touching(&[], &["a"]));
        assert!(Footprint::everything().commutes_with(&Footprint::default()));
        assert!(!Footprint::everything().commutes_with(&get));
        assert!(
            Footprint::whole_view().commutes_with(&get)
                && Footprint::whole_view().commutes_with(&Footprint::whole_view())
        );
        assert!(!Footprint::whole_view().commutes_with(&set));
        assert!(!Footprint::whole_view().commutes_with(&Footprint::everything()));
    }

    #[test]
    fn many_keys_count_as_everything() {
        let mut footprint = Footprint::default();
        (0..=MOST_KEYS).for_each(|key| footprint.add_key(key.to_string().as_bytes(), true));
        assert_eq!(footprint, Footprint::everything());
    }
}
