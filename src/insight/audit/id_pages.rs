//! Lists of locks that may be long, in pages that copies share.

use std::sync::Arc;

use super::lock::LockId;

/// How many entries are in a page. In a debug build tests are to see several.
const PAGE: usize = if cfg!(debug_assertions) { 4 } else { 64 };
/// How many of the last entries are looked at for one that is to go.
const LAST: usize = 16;

/// A list of locks. A copy takes time for the number of pages.
#[derive(Clone, Default)]
pub struct IdPages(Vec<Arc<Vec<Arc<LockId>>>>);

impl IdPages {
    pub fn push(&mut self, id: Arc<LockId>) {
        match self.0.last_mut().filter(|page| page.len() < PAGE) {
            Some(page) => Arc::make_mut(page).push(id),
            None => {
                let mut page = Vec::with_capacity(PAGE);
                page.push(id);
                self.0.push(Arc::new(page));
            }
        }
    }

    /// Takes a lock out if it is one of the last entries. Returns whether it did.
    pub fn take_last(&mut self, id: &Arc<LockId>) -> bool {
        let Some(page) = self.0.last_mut() else { return false };
        let Some(back) = page.iter().rev().take(LAST).position(|other| Arc::ptr_eq(other, id)) else { return false };
        let page = Arc::make_mut(page);
        page.swap_remove(page.len() - 1 - back);
        if page.is_empty() {
            self.0.pop();
        }
        true
    }

    /// How many there are at least; more by less than a page.
    pub fn len(&self) -> usize {
        self.0.len().saturating_sub(1) * PAGE
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Arc<LockId>> {
        self.0.iter().flat_map(|page| page.iter())
    }
}

impl FromIterator<Arc<LockId>> for IdPages {
    fn from_iter<T: IntoIterator<Item = Arc<LockId>>>(ids: T) -> Self {
        let mut pages = Self::default();
        ids.into_iter().for_each(|id| pages.push(id));
        pages
    }
}
