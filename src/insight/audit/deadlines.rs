//! When the locks of a server end.

use std::sync::Arc;

use super::lock::LockId;

/// How many deadlines a page has at most.
const PAGE: usize = 128;

/// A deadline in milliseconds on the server's clock, with the lock's number: numbers are compared without a look at the key.
type Place = (i64, u64);

/// The deadlines of a server's locks, in order, in pages. Copies share the pages to which nothing happens.
#[derive(Clone, Default)]
pub struct Deadlines {
    pages: Vec<Page>,
}

#[derive(Clone)]
struct Page {
    /// Nothing in the page comes before it.
    first: Place,
    entries: Arc<Vec<(Place, Arc<LockId>)>>,
}

impl Deadlines {
    /// Adds the deadline of the lock with this number.
    pub fn insert(&mut self, deadline: i64, number: u64, id: &Arc<LockId>) {
        let (place, id) = ((deadline, number), Arc::clone(id));
        if self.pages.is_empty() {
            self.pages.push(Page { first: place, entries: Arc::default() });
        }
        let page = self.page_of(place).unwrap_or(0);
        self.pages[page].first = self.pages[page].first.min(place);
        let is_last = page + 1 == self.pages.len();
        let entries = Arc::make_mut(&mut self.pages[page].entries);
        match entries.binary_search_by_key(&place, |(known, _)| *known) {
            Ok(at) => entries[at].1 = id,
            Err(at) if entries.len() < PAGE => entries.insert(at, (place, id)),
            // Most deadlines come in their order.
            Err(at) if at == entries.len() && is_last => {
                self.pages.push(Page { first: place, entries: Arc::new(vec![(place, id)]) });
            }
            Err(at) => {
                entries.insert(at, (place, id));
                let upper = entries.split_off(entries.len() / 2);
                let first = upper[0].0;
                self.pages.insert(page + 1, Page { first, entries: Arc::new(upper) });
            }
        }
    }

    pub fn remove(&mut self, deadline: i64, number: u64) {
        let place = (deadline, number);
        let Some(page) = self.page_of(place) else { return };
        let Ok(at) = self.pages[page].entries.binary_search_by_key(&place, |(known, _)| *known) else { return };
        Arc::make_mut(&mut self.pages[page].entries).remove(at);
        self.join(page);
    }

    /// The earliest deadline.
    #[inline]
    pub fn first(&self) -> Option<i64> {
        self.pages.first()?.entries.first().map(|((deadline, _), _)| *deadline)
    }

    /// Removes the earliest deadline. Returns the locks that have it, in the order of their keys.
    pub fn take_first(&mut self) -> Vec<Arc<LockId>> {
        let mut ids = Vec::new();
        let Some(first) = self.first() else { return ids };
        while self.first() == Some(first) {
            let entries = Arc::make_mut(&mut self.pages[0].entries);
            let count = entries.partition_point(|((deadline, _), _)| *deadline == first);
            ids.extend(entries.drain(..count).map(|(_, id)| id));
            self.join(0);
        }
        ids.sort();
        ids
    }

    /// The page in which a deadline is, or would be; `None` if it comes before all.
    fn page_of(&self, place: Place) -> Option<usize> {
        self.pages.partition_point(|page| page.first <= place).checked_sub(1)
    }

    /// Joins a page that has few deadlines with the next one.
    fn join(&mut self, page: usize) {
        let length = self.pages[page].entries.len();
        if length == 0 {
            self.pages.remove(page);
        } else if length < PAGE / 4
            && let Some(next) = self.pages.get(page + 1)
            && next.entries.len() < PAGE / 4
        {
            let next = self.pages.remove(page + 1);
            Arc::make_mut(&mut self.pages[page].entries).extend(next.entries.iter().cloned());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn deadlines_end_in_their_order() {
        let id = |number: u64| Arc::new(LockId { server: 1, db: 0, key: number.to_string().into_bytes().into() });
        let (mut deadlines, mut expected) = (Deadlines::default(), BTreeSet::new());
        let mut random = 1_u64;
        for number in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let deadline = (random >> 33).cast_signed() % 3000;
            deadlines.insert(deadline, number, &id(number));
            expected.insert((deadline, number));
            if !random.is_multiple_of(3) {
                let gone = *expected.iter().nth((random % 7) as usize % expected.len()).unwrap();
                let copy = deadlines.clone();
                deadlines.remove(gone.0, gone.1);
                assert_eq!(copy.first(), expected.first().map(|(deadline, _)| *deadline));
                expected.remove(&gone);
            }
            assert_eq!(deadlines.first(), expected.first().map(|(deadline, _)| *deadline));
        }
        while let Some((first, _)) = expected.first().copied() {
            let mut ids: Vec<String> = expected
                .iter()
                .take_while(|(deadline, _)| *deadline == first)
                .map(|(_, number)| number.to_string())
                .collect();
            ids.sort();
            let taken = deadlines.take_first();
            let taken: Vec<String> = taken.iter().map(|id| String::from_utf8_lossy(&id.key).into_owned()).collect();
            assert_eq!(taken, ids);
            expected.retain(|(deadline, _)| *deadline != first);
        }
        assert_eq!(deadlines.first(), None);
    }
}
