//! View methods for sets.

use super::set::{Set, SetLimits};
use super::view::View;
use crate::base::error::CommandError;

impl View<'_> {
    /// Adds members to a set, which is created if it is missing. Returns how many are new.
    pub fn add_members<'m>(
        &mut self,
        key: &[u8],
        members: impl ExactSizeIterator<Item = &'m [u8]> + Clone,
        limits: &SetLimits,
    ) -> Result<usize, CommandError> {
        let count = members.len();
        let Some(first) = members.clone().next() else { return Ok(0) };
        self.change_or_make(
            key,
            || Set::for_member(first, count, limits),
            |set| {
                set.expect(count, limits);
                let added = members.filter(|member| set.add(member, limits)).count();
                (added, added)
            },
        )
    }
}
