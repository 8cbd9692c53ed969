//! Values as they are carried elsewhere: what DUMP writes and RESTORE reads.

use std::borrow::Cow;

use super::Settings;
use super::entry::{AccessTime, Entry};
use super::set::{Integers, Set, SetLimits};
use crate::clock::Millis;
use crate::profile::Profile;
use crate::rdb::Content;

impl Entry {
    /// The value, to be written out.
    pub fn content(&self) -> Content<'_> {
        match (self.text(), self.collection::<Set>()) {
            (_, Some(Set::Integers(integers))) => {
                Content::Integers { width: integers.width, values: Cow::Borrowed(&integers.values) }
            }
            (_, Some(set)) if set.is_packed() => Content::Listpack(set.iter().collect()),
            (_, Some(set)) => Content::Members(set.iter().collect()),
            (text, None) => Content::String(Cow::Borrowed(text.map_or(&[], |text| text.bytes))),
        }
    }

    /// An entry for a value that was read; nothing if no server could have written it.
    pub fn of_content(
        key: &[u8],
        content: Content<'_>,
        settings: &Settings,
        profile: &Profile,
        deadline: Option<Millis>,
        accessed: AccessTime,
    ) -> Option<Self> {
        let limits = &settings.set_limits(profile);
        let set = match content {
            Content::String(bytes) => return Some(Self::string(key, &bytes, deadline, accessed)),
            Content::Integers { width, values } => {
                let sorted = values.is_sorted_by(|one, next| one < next);
                let mut set = Set::Integers(Integers { width, values: values.into_owned() });
                if set.len() > limits.integers {
                    set.spread();
                }
                sorted.then_some(set)
            }
            Content::Listpack(members) => {
                let mut set = Set::packed();
                let room = SetLimits { packed: usize::MAX, longest: usize::MAX, ..*limits };
                let single = members.iter().all(|member| set.add(member, &room));
                if set.len() > limits.packed {
                    set.spread();
                }
                single.then_some(set)
            }
            Content::Members(members) => {
                let many = members.len() > limits.integers;
                let mut set = if many { Set::of_members() } else { Set::of_integers() };
                members.iter().all(|member| set.add(member, limits)).then_some(set)
            }
        };
        let set = set.filter(|set| set.len() > 0)?;
        Some(Self::boxed(key, set.into(), deadline, accessed))
    }
}
