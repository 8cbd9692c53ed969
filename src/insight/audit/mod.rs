//! The lock auditor: it goes through a journal, finds out which keys are locks and who believes to hold them, and tells
//! what was done wrong. A pure function: the same journal gives the same findings.
//!
//! A command becomes steps, one for each key ([`read`], [`script`]); a step changes what is known of a lock and makes a
//! happening of it ([`course`]); the [`rules`] look at what happens, and tell what they find ([`report`]).

mod allowance;
mod answer;
mod auditor;
mod code;
mod course;
mod finding;
mod happening;
mod json;
mod known;
mod live;
mod lock;
mod mistakes;
mod party;
mod picture;
mod query;
mod read;
mod report;
mod rules;
mod script;
mod stamp;
mod step;
pub mod tell;
mod told;

pub use allowance::Allowance;
pub use auditor::{Auditor, Naming, Scope};
pub use code::{Code, Severity};
pub use finding::{Evidence, Finding, Mark};
pub use known::{EndedHold, KnownLock, LockHolder, LockWaiter};
pub use live::{Audited, Conclusion, LiveAudit};
pub use lock::{End, Place, Standing};
#[cfg(feature = "internals")]
pub use lock::{Hold, Lock, Past, Reason, Waiter, Who};
pub use mistakes::Mistakes;
pub use picture::{Deed, DeedKind, Span, SpanKind};
pub use query::FindingQuery;
pub use tell::story_of;
pub use told::{Told, plausible};

use std::collections::VecDeque;
use std::sync::Arc;

use crate::powers::Item;

/// Goes through the journals of some servers together, each in the order of its places, and is done. Servers are told apart
/// by number.
pub fn audit(journals: Vec<(u16, Vec<Item>)>, auditor: Auditor) -> Auditor {
    let mut auditor = auditor;
    for (server, item) in merged(journals) {
        auditor.feed(&Told::item(server, &item));
    }
    auditor.finish();
    auditor
}

/// The lines of some journals in the order of real time; those of one stay in their order.
fn merged(journals: Vec<(u16, Vec<Item>)>) -> impl Iterator<Item = (u16, Item)> {
    let mut journals: Vec<(u16, VecDeque<Item>)> =
        journals.into_iter().map(|(server, items)| (server, items.into())).collect();
    std::iter::from_fn(move || {
        let next = journals.iter_mut().filter(|(_, items)| !items.is_empty());
        let (server, items) = next.min_by_key(|(_, items)| items.front().map(real))?;
        Some((*server, items.pop_front()?))
    })
}

fn real(item: &Item) -> i64 {
    match item {
        Item::Command(entry) => entry.real,
        Item::Event(event) => event.real,
    }
}

/// An auditor for the commands that a naming knows.
pub fn auditor(
    scope: Scope,
    naming: impl for<'w> Fn(crate::protocol::Words<'w>) -> crate::spec::RequestKeys<'w> + Send + Sync + 'static,
) -> Auditor {
    Auditor::new(Arc::new(scope), Arc::new(naming))
}
