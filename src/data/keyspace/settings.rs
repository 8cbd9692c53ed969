//! Settings of the keyspace. They are atomics, because CONFIG SET changes them while commands read them.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicUsize, Ordering};

use super::notifications::{COUNTS_USES, EXPIRY_PAUSED, IMPORT_MODE, OWN_INTEGERS, REPLICATED, SUMS_MEMORY};
use super::{
    ChunkLimit, EvictionSettings, FrequencySettings, HashLimits, LazyFreeSettings, ListLimits, SetLimits,
    SortedSetLimits,
};
use crate::base::profile::{Family, Profile};
use crate::data::rdb::Checksums;

/// The settings of the keyspace that CONFIG SET can change.
pub struct Settings {
    /// `proto-max-bulk-len`: the longest string a command may build.
    pub max_string: AtomicI64,
    /// The limits at which values of each type change their encoding.
    pub encoding_limits: EncodingLimits,
    pub eviction: EvictionSettings,
    pub frequency: FrequencySettings,
    pub lazy_free: LazyFreeSettings,
    /// DEBUG QUICKLIST-PACKED-THRESHOLD: the size from which an element of a list is a node of its own. 0: the default.
    pub packed_threshold: AtomicUsize,
    /// DEBUG SET-SKIP-CHECKSUM-VALIDATION: RESTORE takes a payload with a wrong checksum.
    pub skip_checksums: AtomicBool,
    /// The notifications that views make, as bits: event classes, channels, changes of keys; a pause of expiry, and what
    /// else keys need at each use.
    notifications: AtomicU32,
}

/// The limits at which values change their encoding, by the names of the configuration.
#[derive(Default)]
pub struct EncodingLimits {
    pub set_max_intset_entries: AtomicI64,
    pub set_max_listpack_entries: AtomicI64,
    pub set_max_listpack_value: AtomicI64,
    pub hash_max_listpack_entries: AtomicI64,
    pub hash_max_listpack_value: AtomicI64,
    pub zset_max_listpack_entries: AtomicI64,
    pub zset_max_listpack_value: AtomicI64,
    pub list_max_listpack_size: AtomicI64,
    pub stream_node_max_bytes: AtomicI64,
    pub stream_node_max_entries: AtomicI64,
    pub hll_sparse_max_bytes: AtomicI64,
}

impl EncodingLimits {
    /// Each setting with its name.
    pub fn all(&self) -> [(&'static str, &AtomicI64); 11] {
        [
            ("set-max-intset-entries", &self.set_max_intset_entries),
            ("set-max-listpack-entries", &self.set_max_listpack_entries),
            ("set-max-listpack-value", &self.set_max_listpack_value),
            ("hash-max-listpack-entries", &self.hash_max_listpack_entries),
            ("hash-max-listpack-value", &self.hash_max_listpack_value),
            ("zset-max-listpack-entries", &self.zset_max_listpack_entries),
            ("zset-max-listpack-value", &self.zset_max_listpack_value),
            ("list-max-listpack-size", &self.list_max_listpack_size),
            ("stream-node-max-bytes", &self.stream_node_max_bytes),
            ("stream-node-max-entries", &self.stream_node_max_entries),
            ("hll-sparse-max-bytes", &self.hll_sparse_max_bytes),
        ]
    }
}

/// A setting as a count.
pub(super) fn number(setting: &AtomicI64) -> usize {
    usize::try_from(setting.load(Ordering::Relaxed)).unwrap_or(0)
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_string: AtomicI64::new(512 << 20),
            encoding_limits: EncodingLimits::default(),
            eviction: EvictionSettings::default(),
            frequency: FrequencySettings::default(),
            lazy_free: LazyFreeSettings::default(),
            packed_threshold: AtomicUsize::new(0),
            skip_checksums: AtomicBool::new(false),
            notifications: AtomicU32::new(0),
        }
    }
}

impl Settings {
    /// Sets the bits of the wanted notifications that are in `mask`.
    pub fn set_wanted_notifications(&self, mask: u32, bits: u32) {
        let _ =
            self.notifications.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(old & !mask | bits & mask));
    }

    /// Whether views make any notifications.
    pub fn wants_notifications(&self) -> bool {
        const OTHERS: u32 = EXPIRY_PAUSED | IMPORT_MODE | COUNTS_USES | OWN_INTEGERS | SUMS_MEMORY | REPLICATED;
        self.notifications.load(Ordering::Acquire) & !OTHERS != 0
    }

    /// Whether the server is in import mode.
    pub fn is_importing(&self) -> bool {
        self.notifications.load(Ordering::Acquire) & IMPORT_MODE != 0
    }

    /// Restores the defaults of what only DEBUG changes.
    pub fn reset_debug(&self) {
        self.packed_threshold.store(0, Ordering::Relaxed);
        self.skip_checksums.store(false, Ordering::Relaxed);
    }

    /// The limits of the encodings of sets, for a profile.
    pub fn set_limits(&self, profile: &Profile) -> SetLimits {
        let encoding_limits = &self.encoding_limits;
        let converts_upfront = profile.since_redis(7, 2);
        SetLimits {
            integers: number(&encoding_limits.set_max_intset_entries),
            packed: if converts_upfront { number(&encoding_limits.set_max_listpack_entries) } else { 0 },
            longest: number(&encoding_limits.set_max_listpack_value),
            converts_upfront,
        }
    }

    /// The limits of the encodings of hashes, for a profile.
    pub fn hash_limits(&self, profile: &Profile) -> HashLimits {
        HashLimits {
            packed: number(&self.encoding_limits.hash_max_listpack_entries),
            longest: number(&self.encoding_limits.hash_max_listpack_value),
            converts_upfront: profile.since_redis(7, 2),
            packs_times: profile.family() == Family::Redis,
        }
    }

    /// The limits of the encodings of lists, for a profile.
    pub fn list_limits(&self, profile: &Profile) -> ListLimits {
        let setting = self.encoding_limits.list_max_listpack_size.load(Ordering::Relaxed);
        let plain_from = match self.packed_threshold.load(Ordering::Relaxed) {
            0 if profile.since_redis(7, 2) => 0,
            0 => 1 << 30,
            size => size,
        };
        ListLimits { chunk: ChunkLimit::of(setting), plain_from, packs: profile.since_redis(7, 2) }
    }

    /// The limits of the encodings of sorted sets, for a profile.
    pub fn sorted_set_limits(&self, profile: &Profile) -> SortedSetLimits {
        SortedSetLimits {
            packed: number(&self.encoding_limits.zset_max_listpack_entries),
            longest: number(&self.encoding_limits.zset_max_listpack_value),
            converts_upfront: profile.since_redis(7, 2),
        }
    }

    /// The most bytes of a sparse HyperLogLog.
    pub fn sparse_limit(&self) -> usize {
        number(&self.encoding_limits.hll_sparse_max_bytes)
    }

    /// Whether RESTORE verifies checksums.
    pub fn checksums(&self) -> Checksums {
        if self.skip_checksums.load(Ordering::Relaxed) { Checksums::Ignored } else { Checksums::Verified }
    }

    #[inline]
    pub fn notifications(&self) -> u32 {
        self.notifications.load(Ordering::Relaxed)
    }
}
