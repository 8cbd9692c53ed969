//! View methods for lists.

use super::list::{End, List, ListLimits};
use super::view::View;
use crate::base::error::CommandError;

impl View<'_> {
    /// Pushes elements at an end of a list, which is created if it is missing. Returns the new length.
    #[inline]
    pub fn push_elements<'e>(
        &mut self,
        key: &[u8],
        end: End,
        elements: impl ExactSizeIterator<Item = &'e [u8]> + Clone,
        limits: &ListLimits,
    ) -> Result<usize, CommandError> {
        self.change_or_make(
            key,
            || List::new(limits),
            |list| {
                let count = elements.len();
                list.expect_all(elements.clone(), limits);
                elements.for_each(|element| list.push(end, element));
                (list.len(), count)
            },
        )
    }

    /// Changes a list, if it exists, by removals only; `change` returns how many changes it made. Returns the result of
    /// `change`, and whether the key was deleted.
    #[inline]
    pub fn shrink_list<R>(
        &mut self,
        key: &[u8],
        limits: &ListLimits,
        change: impl FnOnce(&mut List) -> (R, usize),
    ) -> Result<Option<(R, bool)>, CommandError> {
        self.change(key, |list: &mut List| {
            let result = change(list);
            if result.1 > 0 {
                list.relax(limits);
            }
            result
        })
    }

    /// Replaces whatever is under a key by a list of these elements.
    pub fn put_list<'e>(&mut self, key: &[u8], elements: impl ExactSizeIterator<Item = &'e [u8]>, limits: &ListLimits) {
        let further = elements.len().saturating_sub(1);
        self.put_value(key, List::of(elements, limits));
        self.count_more_changes(further);
    }

    /// Removes the elements of a list outside of `start..end`. Returns whether the key is gone. Touches the key's
    /// watchers even if no element is removed.
    pub fn trim_list(
        &mut self,
        key: &[u8],
        (start, end): (usize, usize),
        limits: &ListLimits,
    ) -> Result<bool, CommandError> {
        let trimmed = self.shrink_list(key, limits, |list| {
            let len = list.len();
            list.cut(End::Front, start);
            list.cut(End::Back, len - end);
            // Redis reconsiders the encoding even if nothing was trimmed.
            list.relax(limits);
            (len - list.len(), len - list.len())
        })?;
        if let Some((0, _)) = trimmed {
            self.touch_watchers(key);
        }
        Ok(trimmed.is_some_and(|(_, gone)| gone))
    }
}
