//! The lock auditor: reads journals, finds out which keys are locks and which clients believe to hold them, and reports
//! misuse. The same journals give the same findings.
//!
//! No two files use each other (`tests/repository/architecture.rs` keeps it). From bottom to top:
//!
//! 1. What is found: [`code`], [`finding`], `advice`, `harm`, `key_family`, `finding_groups`, `allowance`, `scope`, `finding_query`, `finding_collector`.
//! 2. What comes in: `journal_line`, `command_text`, `reply_value`, `known_nodes`.
//! 3. What a command did to a key: `effect`; found by `command_effects`, `missing_replies` and `script_effects`.
//! 4. What is known: `timestamp`, `client_identity`, `guarded_work`, `lock_reason`, `lock`, `client_state`, `program_links`, `timeline`.
//! 5. What happens to a lock, and what a rule is given: `lock_event`, `rule_context`.
//! 6. The [`rules`], each with a state of its own beside the lock.
//! 7. The state machine of a lock: `deadlines`, `lock_tracker`, `apply_effect`; all locks: `resting_lock`, `lock_table`, `shelved_locks`, `audit_state`.
//! 8. Data: `data_use`, `document`, `kept_value`, `key_versions`, `intended_locks`, `overwrite`, `lost_update`, `free_looks`.
//! 9. The auditor: `watched_keys`, `key_transfer`, `replaced_masters`, `work_after_loss`, `occupancy`, `occupancy_commands`, `claims`, `declared_locks`, `presumed_locks`, `queued_commands`, `short_notes`, `cross_slot`,
//!    `effect_order`, [`auditor`]; of several fronts: `front_clocks`, `fronts`; on running servers: `record_merge`, `live_state`, `subscribers`, `auditor_thread`, `live_audit`.
//! 10. For readers: `explanation`, `known_lock`, `audit_failure`, `finding_json`, [`render`].
//!
//! Begin with [`Auditor::process_line`].

mod advice;
mod allowance;
mod apply_effect;
mod audit_failure;
mod audit_state;
mod auditor;
mod auditor_thread;
mod carried_holds;
mod claims;
mod client_identity;
mod client_process;
mod client_state;
mod closed_connections;
mod code;
mod command_effects;
mod command_text;
mod cross_slot;
mod data_headers;
mod data_use;
mod deadlines;
mod declared_locks;
mod document;
#[cfg(test)]
mod documented_limits;
mod effect;
mod effect_order;
mod explanation;
mod finding;
mod finding_collector;
mod finding_groups;
mod finding_json;
mod finding_query;
mod free_looks;
mod front_clocks;
mod fronts;
mod guarded_work;
mod guesses;
mod harm;
mod header_lines;
mod id_pages;
mod intended_locks;
mod journal_line;
mod journals;
mod judgement;
mod kept_lock;
mod kept_value;
mod key_family;
mod key_transfer;
mod key_versions;
mod known_lock;
mod known_nodes;
mod last_client;
mod learned_locks;
mod line_form;
mod live_audit;
mod live_state;
mod lock;
mod lock_event;
mod lock_explanation;
mod lock_reason;
mod lock_table;
mod lock_tracker;
mod lost_update;
mod marks;
mod missing_replies;
mod occupancy;
mod occupancy_commands;
mod overwrite;
mod presumed_locks;
mod program_links;
mod queued_commands;
mod recent_ends;
mod record_merge;
pub mod render;
mod replaced_masters;
mod reply_value;
mod resting_lock;
mod rule_context;
mod rules;
mod scope;
mod script_effects;
mod shelved_locks;
mod short_notes;
mod since_taken;
mod subscribers;
mod timeline;
mod timestamp;
mod unrelated_lines;
mod watched_keys;
mod work_after_loss;

pub use allowance::Allowance;
pub use audit_failure::AuditFailure;
pub use auditor::Auditor;
pub use auditor_thread::rest_after;
#[cfg(feature = "internals")]
pub use client_identity::ClientIdentity;
pub use client_process::ClientProcess;
pub use code::{Code, Severity};
pub(crate) use data_use::{DataAccess, DataUse, tell_uses};
pub(crate) use explanation::{Doubts, groups, notation};
pub use finding::{Evidence, Finding, JournalRef};
pub(crate) use finding_groups::grouped;
pub use finding_query::FindingQuery;
pub use front_clocks::ClockOffset;
pub use fronts::{FrontLine, MergedFronts, merged_fronts};
pub use journal_line::{JournalLine, plausible};
pub use journals::{audit, audit_fronts, auditor};
pub use judgement::Judgement;
pub(crate) use key_family::key_glob;
pub use known_lock::{EndedHold, KnownLock, LockHolder, LockWaiter};
pub use live_audit::{AuditStatus, LiveAudit};
pub use live_state::{AuditConclusion, AuditedServer};
#[cfg(feature = "internals")]
pub use lock::{Hold, Lock, PastHold, Waiter};
pub use lock::{HoldEnd, HoldStatus, LockId};
pub use lock_explanation::{LockExplanation, LockSign};
#[cfg(feature = "internals")]
pub use lock_reason::LockReason;
pub(crate) use missing_replies::keys_of;
pub use render::describe_findings;
pub use rules::class_of;
pub use scope::Scope;
pub use timeline::{LockAccess, LockAccessKind, Span, SpanKind};
pub use timestamp::Timestamp;
