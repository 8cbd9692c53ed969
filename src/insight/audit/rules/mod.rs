//! The rules: each observes the events of a lock and reports what is wrong.
//!
//! To add a rule: a variant in `../code.rs` (name, severity, title, advice), a file here with an `observe` function, a
//! line for it in `dispatch.rs` (and a field in `RuleState` if it remembers anything of a lock, in `GlobalRuleState` if
//! beyond one), a section with an example in `docs/findings.md`, and a pair of stories in `tests/audit`. The compiler
//! names the places that match on a code; the tests name a code without a section or a story.

mod acknowledgement;
mod clocks;
mod dispatch;
mod ending;
mod expiry;
mod failover;
mod lateness;
mod order;
mod ownership;
mod redlock;
mod relation;
mod renewal;
mod token_strength;
mod tokens;
mod waiting;
mod wording;

pub use clocks::are_one_unit;
pub use dispatch::{GlobalRuleState, RestingRules, RuleState, observe};
pub use expiry::is_usual;
pub use failover::{LostHold, Replacement};
pub use order::{WaitCommand, work_while_holding};
pub use redlock::{AttemptName, NotedAnswer, is_of_attempt};
pub use tokens::{beginning, class_of, constant, guess, is_count, is_quiet, is_trivial, is_unique_token, may_be_owner};
pub use waiting::OFTEN_REFUSED;

#[cfg(test)]
pub mod documented_limits {
    //! The constants that the guide pages tell.

    pub use crate::insight::audit::rules::redlock::MAX_ATTEMPTS;
    pub use crate::insight::audit::rules::renewal::MAX_IDLE_RENEWALS;
    pub use crate::insight::audit::rules::waiting::{EQUAL_PAUSES, MAX_IN_A_SECOND, MAX_WITHOUT_PAUSE, ROUNDS};
}
