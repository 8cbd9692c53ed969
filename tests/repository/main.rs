//! The repository agrees with itself: the source with the architecture page, the pages with the code, the examples with
//! what they claim.
//!
//! A page whose examples are played gets its test here; so does a rule about the source (`architecture.rs`).

mod architecture;
#[cfg(feature = "internals")]
mod documentation;
mod examples;
mod guides;
mod languages;
mod locks_page;
#[path = "../support/mod.rs"]
mod support;
mod terminal;
