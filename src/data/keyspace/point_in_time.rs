//! A copy of all data at one instant, made while clients go on.
//!
//! A thread copies one shard after the other. Whoever changes or removes a key that is not copied yet copies that key first (copy on
//! write). So nobody waits for more than one shard, and no client for the whole. See
//! `docs/decisions/0038-copy-on-write.md`.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, Weak};

use super::entry::Entry;
use super::store::{Contents, Shard};
use super::view::is_expired;
use super::{Databases, lock_unconditionally, opened};
use crate::base::clock::Millis;
use crate::base::sync::MutexExt;

/// How an entry is written.
pub trait EntryWriter: Send + Sync {
    fn write(&self, entry: &Entry, out: &mut Vec<u8>);
}

/// What was written of some entries of a database.
pub struct Part {
    pub db: u32,
    pub bytes: Vec<u8>,
    pub keys: usize,
    /// How many of the keys have a deadline.
    pub volatile: usize,
    /// The names of the keys, and where each name and its entry end, if they are to be sorted.
    names: Vec<u8>,
    ends: Vec<(usize, usize)>,
    /// Entries that are written when nobody waits for the shard any more.
    later: Vec<Entry>,
}

impl Part {
    fn new(db: u32) -> Self {
        Self { db, bytes: Vec::new(), keys: 0, volatile: 0, names: Vec::new(), ends: Vec::new(), later: Vec::new() }
    }

    /// Each name with what was written of it, if the names were kept.
    pub fn entries(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        let (mut name, mut entry) = (0, 0);
        self.ends.iter().map(move |&(name_end, entry_end)| {
            let found = (&self.names[name..name_end], &self.bytes[entry..entry_end]);
            (name, entry) = (name_end, entry_end);
            found
        })
    }
}

/// A copy that is being made.
pub struct PointInTime {
    plan: Arc<Plan>,
    databases: Databases,
    /// The number of shards that have something to copy.
    parts: usize,
    keys: usize,
}

pub(super) struct Plan {
    writer: Box<dyn EntryWriter>,
    /// What has expired by then is not copied.
    horizon: Millis,
    keeps_names: bool,
    /// Shards that were emptied as a whole before they were copied.
    emptied: Mutex<Vec<(Progress, Contents)>>,
}

/// How much of a shard is copied.
pub(super) struct Progress {
    /// Gone if nobody wants the copy any more.
    plan: Weak<Plan>,
    part: Part,
    /// The keys that are copied, and those that were not there at that instant.
    done: HashSet<Box<[u8]>>,
}

/// The copies that are being made of a shard: few, and at most times none.
#[derive(Default)]
pub(super) struct Copies(Vec<Progress>);

impl Plan {
    /// Copies an entry, while its shard is locked.
    fn copy(&self, part: &mut Part, entry: &Entry) {
        if entry.shares_much() {
            part.later.push(entry.clone());
        } else {
            self.write(part, entry);
        }
    }

    /// Writes what was left for later.
    fn write_later(&self, part: &mut Part) {
        for entry in std::mem::take(&mut part.later) {
            self.write(part, &entry);
        }
    }

    fn write(&self, part: &mut Part, entry: &Entry) {
        if is_expired(entry, self.horizon) {
            return;
        }
        self.writer.write(entry, &mut part.bytes);
        part.keys += 1;
        part.volatile += usize::from(entry.deadline().is_some());
        if self.keeps_names {
            part.names.extend_from_slice(entry.key());
            part.ends.push((part.names.len(), part.bytes.len()));
        }
    }

    /// Copies what is left of a shard.
    fn finish<'e>(&self, progress: Progress, entries: impl Iterator<Item = &'e Entry>) -> Part {
        let Progress { mut part, done, .. } = progress;
        entries
            .filter(|entry| done.is_empty() || !done.contains(entry.key()))
            .for_each(|entry| self.copy(&mut part, entry));
        part
    }
}

impl Progress {
    fn new(plan: &Arc<Plan>, db: u32) -> Self {
        Self { plan: Arc::downgrade(plan), part: Part::new(db), done: HashSet::new() }
    }
}

impl Copies {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn add(&mut self, progress: Progress) {
        self.0.push(progress);
    }

    pub(super) fn take(&mut self, of: &Plan) -> Option<Progress> {
        let own = self.0.iter().position(|progress| std::ptr::eq(progress.plan.as_ptr(), of))?;
        Some(self.0.swap_remove(own))
    }

    /// An entry is about to be changed or removed. Returns whether anything is still being copied.
    pub(super) fn keep(&mut self, entry: &Entry) -> bool {
        self.note(entry.key(), |plan, part| plan.copy(part, entry))
    }

    /// A key is about to come into being.
    pub(super) fn pass_over(&mut self, key: &[u8]) -> bool {
        self.note(key, |_, _| {})
    }

    fn note(&mut self, key: &[u8], write: impl Fn(&Plan, &mut Part)) -> bool {
        self.0.retain_mut(|Progress { plan, part, done }| {
            let Some(plan) = plan.upgrade() else { return false };
            if !done.contains(key) {
                done.insert(key.into());
                write(&plan, part);
            }
            true
        });
        !self.0.is_empty()
    }

    /// All entries are about to be removed. Returns them, unless they go to the one who copies them.
    pub(super) fn hand_over(self, contents: Contents) -> Contents {
        let mut living = self.0.into_iter().filter_map(|progress| Some((progress.plan.upgrade()?, progress)));
        let Some((plan, progress)) = living.next() else { return contents };
        for (plan, progress) in living {
            let part = plan.finish(progress, contents.iter());
            let progress = Progress { part, ..Progress::new(&plan, 0) };
            plan.emptied.lock_ignoring_poison().push((progress, Contents::default()));
        }
        plan.emptied.lock_ignoring_poison().push((progress, contents));
        Contents::default()
    }
}

impl PointInTime {
    pub(super) fn new(writer: Box<dyn EntryWriter>, keeps_names: bool, horizon: Millis, databases: Databases) -> Self {
        let plan = Plan { writer, horizon, keeps_names, emptied: Mutex::default() };
        Self { plan: Arc::new(plan), databases, parts: 0, keys: 0 }
    }

    /// A shard is to be copied as it is now.
    pub(super) fn begin_shard(&mut self, db: u32, shard: &mut Shard<'_>) {
        if shard.len() > 0 {
            shard.add_copy(Progress::new(&self.plan, db));
            self.parts += 1;
            self.keys += shard.len();
        }
    }

    /// How many keys there were, with those that had expired.
    pub fn keys(&self) -> usize {
        self.keys
    }

    /// Makes the copy. The caller holds no view.
    pub fn finish(self) -> Vec<Part> {
        let mut parts = Vec::with_capacity(self.parts);
        // Views lock ascending. Whoever locks everything meets this thread once so, and would otherwise follow it through all
        // shards.
        for store in self.databases.iter().rev().filter_map(opened).map(|database| &database.store) {
            let lock = |index| lock_unconditionally(|| store.try_lock(index));
            parts.extend((0..store.len()).rev().filter_map(|index| self.take_from(&mut lock(index))));
        }
        // What was flushed meanwhile was handed over under the lock of its shard, so it is here by now.
        let emptied = std::mem::take(&mut *self.plan.emptied.lock_ignoring_poison());
        parts.extend(emptied.into_iter().map(|(progress, contents)| self.plan.finish(progress, contents.iter())));
        parts.iter_mut().for_each(|part| self.plan.write_later(part));
        parts
    }

    /// Makes the copy of shards that the caller holds.
    pub(super) fn finish_held<'a, 's: 'a>(&self, shards: impl Iterator<Item = &'a mut Shard<'s>>) -> Vec<Part> {
        let mut parts: Vec<_> = shards.filter_map(|shard| self.take_from(shard)).collect();
        parts.iter_mut().for_each(|part| self.plan.write_later(part));
        parts
    }

    /// What was in a shard, unless it has been taken already.
    fn take_from(&self, shard: &mut Shard<'_>) -> Option<Part> {
        let progress = shard.take_copy(&self.plan)?;
        Some(self.plan.finish(progress, shard.iter()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::clock::{Clock, Pace};
    use crate::data::keyspace::shrink;
    use crate::data::keyspace::stream::NodeLimits;
    use crate::data::keyspace::{ChunkLimit, End, Expiry, Keyspace, List, ListLimits, Scope, Stream, StreamId, View};

    /// Writes what a key holds.
    struct Shown;

    impl EntryWriter for Shown {
        fn write(&self, entry: &Entry, out: &mut Vec<u8>) {
            out.extend_from_slice(format!("{:?} until {:?}", entry.content(), entry.deadline()).as_bytes());
        }
    }

    /// All that was copied, with its database.
    fn shown(parts: &[Part]) -> Vec<(u32, String)> {
        let text = |(name, written): (&[u8], &[u8])| format!("{}: {}", name.escape_ascii(), written.escape_ascii());
        let mut shown: Vec<_> =
            parts.iter().flat_map(|part| part.entries().map(move |entry| (part.db, text(entry)))).collect();
        shown.sort();
        let keys: usize = parts.iter().map(|part| part.keys).sum();
        assert_eq!(shown.len(), keys);
        shown
    }

    #[derive(Clone, Debug)]
    enum Change {
        Set(u8),
        Push(u8),
        Expire(u8),
        Remove(u8),
        Read(u8),
        Select(u32),
        Swap,
        Flush,
        Shrink,
    }

    fn change() -> impl Strategy<Value = Change> {
        prop_oneof![
            8 => any::<u8>().prop_map(Change::Set),
            8 => any::<u8>().prop_map(Change::Push),
            4 => any::<u8>().prop_map(Change::Expire),
            8 => any::<u8>().prop_map(Change::Remove),
            2 => any::<u8>().prop_map(Change::Read),
            2 => (0..3_u32).prop_map(Change::Select),
            1 => Just(Change::Swap),
            1 => Just(Change::Flush),
            1 => Just(Change::Shrink),
        ]
    }

    fn make(view: &mut View<'_>, change: &Change) {
        let key = |number: &u8| format!("key:{number}").into_bytes();
        match change {
            Change::Set(number) => view.set_string(&key(number), &view.begun().to_string().into_bytes(), Expiry::Never),
            Change::Push(number) => {
                let key = key(number);
                if view.collection::<List>(&key).is_err() {
                    view.remove(&key);
                }
                let limits = ListLimits { chunk: ChunkLimit::Bytes(64), plain_from: 0, packs: true };
                let push = |list: &mut List| (list.push(End::Back, b"x"), 1);
                let pushed = view.change_or_make(&key, || List::new(&limits), push);
                assert!(pushed.is_ok());
            }
            Change::Expire(number) => {
                // Some have expired when the next change comes.
                view.set_deadline(&key(number), Some(view.begun() + Millis::from(number % 3)));
            }
            Change::Remove(number) => drop(view.remove(&key(number))),
            Change::Read(number) => drop(view.read(&key(number)).is_some()),
            Change::Select(db) => view.select(*db),
            Change::Swap => view.swap(0, 1, false),
            Change::Flush => drop(view.flush()),
            // Of what no view holds.
            Change::Shrink => {}
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn a_copy_is_of_the_instant_at_which_it_began_whatever_changes_before_it_is_made(
            before in prop::collection::vec(change(), 0..300),
            between in prop::collection::vec(change(), 0..100),
            after in prop::collection::vec(change(), 0..300),
        ) {
            let clock = Clock::new();
            clock.set_pace(Pace::Frozen);
            let keyspace = Keyspace::small(3, &clock);
            let mut db = 0;
            let mut make_all = |changes: &[Change]| for one in changes {
                clock.set(clock.micros() + 1000);
                let mut view = keyspace.lock(Scope::Everything, db, &clock).unwrap();
                make(&mut view, one);
                db = view.db();
                view.finish();
                if matches!(one, Change::Shrink) {
                    shrink(&keyspace.databases);
                }
            };
            let begin = || {
                let mut view = keyspace.lock(Scope::Everything, 0, &clock).unwrap();
                let copies = [(); 3].map(|()| view.begin_copy(Box::new(Shown), true));
                let [at_once, later, unwanted] = copies;
                drop(unwanted);
                let mut living = 0;
                for db in view.held_databases() {
                    view.select(db);
                    view.for_each(|_| living += 1);
                }
                let shown = shown(&view.finish_copy(at_once));
                assert_eq!(shown.len(), living);
                (shown, later)
            };
            make_all(&before);
            let (expected, copy) = begin();
            make_all(&between);
            let (expected_between, copy_between) = begin();
            make_all(&after);
            prop_assert_eq!(shown(&copy.finish()), expected);
            prop_assert_eq!(shown(&copy_between.finish()), expected_between);
        }
    }

    #[test]
    fn a_long_stream_is_copied_as_it_was_although_its_nodes_are_shared() {
        let clock = Clock::new();
        let keyspace = Keyspace::small(1, &clock);
        let lock = || keyspace.lock(Scope::Everything, 0, &clock).unwrap();
        let append = |view: &mut View<'_>, ids: std::ops::Range<u64>| {
            let append = |stream: &mut Stream| {
                for ms in ids {
                    let words = [b"field".as_slice(), &[b'v'; 100]];
                    stream.log_mut().append(
                        StreamId { ms, seq: 0 },
                        words.into_iter(),
                        NodeLimits { bytes: 4096, entries: 100 },
                    );
                }
                ((), 1)
            };
            assert!(view.change_or_make(b"stream", Stream::default, append).is_ok());
        };
        append(&mut lock(), 1..1000);
        let mut view = lock();
        let [before, also_before] = [(); 2].map(|()| view.begin_copy(Box::new(Shown), true));
        let before = shown(&view.finish_copy(before));
        append(&mut view, 1000..1010);
        drop(view);
        let after = lock().begin_copy(Box::new(Shown), true);
        assert!(lock().remove(b"stream"));
        assert_eq!((before.len(), shown(&also_before.finish()) == before), (1, true));
        let after = shown(&after.finish());
        assert!(after.len() == 1 && after != before);
    }

    #[test]
    fn a_copy_is_of_one_instant_while_other_threads_change_everything() {
        let clock = Clock::new();
        let keyspace = Keyspace::new(2, &clock);
        let key = |number: usize| format!("key:{number}").into_bytes();
        let set_all = |value: &str| {
            for number in 0..5000 {
                let mut view = keyspace.lock(Scope::Everything, 0, &clock).unwrap();
                view.set_string(&key(number), value.as_bytes(), Expiry::Never);
            }
        };
        set_all("before");
        let mut view = keyspace.lock(Scope::Everything, 0, &clock).unwrap();
        let copy = view.begin_copy(Box::new(Shown), true);
        view.finish();
        let parts = std::thread::scope(|scope| {
            let copied = scope.spawn(|| copy.finish());
            set_all("after");
            keyspace.lock(Scope::Everything, 0, &clock).unwrap().swap(0, 1, false);
            copied.join().expect("a copy")
        });
        let shown = shown(&parts);
        assert_eq!(shown.len(), 5000);
        let one = &shown[0].1;
        let value = one.split_once(": ").expect("a name and a value").1;
        assert!(shown.iter().all(|(db, text)| *db == 0 && text.ends_with(value)), "{one}");
    }
}
