//! What a view can do with lists.

use super::list::{End, List, ListLimits};
use super::view::View;
use crate::base::error::CommandError;

impl View<'_> {
    /// Pushes elements at an end of a list, one after the other, and returns its length. Makes the list if there is none.
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

    /// Changes a list, if there is one, in a way that can only take elements away; `change` says how many changes that
    /// were. Returns the result of `change`, and whether the key was deleted.
    #[inline]
    pub fn shrink_list<R>(
        &mut self,
        key: &[u8],
        limits: &ListLimits,
        change: impl FnOnce(&mut List) -> (R, usize),
    ) -> Result<Option<(R, bool)>, CommandError> {
        self.change(key, |list: &mut List| {
            let result = change(list);
            list.relax(limits);
            result
        })
    }

    /// Puts a list of these elements in place of whatever is under a key.
    pub fn put_list<'e>(&mut self, key: &[u8], elements: impl ExactSizeIterator<Item = &'e [u8]>, limits: &ListLimits) {
        let further = elements.len().saturating_sub(1);
        self.put_value(key, List::of(elements, limits));
        self.count_more_changes(further);
    }

    /// Removes the elements of a list outside of `start..end`, and tells whether the key is gone. Whoever watches the key is
    /// told, even if there are none.
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
            (len - list.len(), len - list.len())
        })?;
        if let Some((0, _)) = trimmed {
            self.touch_watchers(key);
        }
        Ok(trimmed.is_some_and(|(_, gone)| gone))
    }
}
