//! The repository is consistent: the source with the architecture page, the pages with the code, the examples with
//! their claims.
//!
//! A page whose examples run gets its test here; so does a rule about the source (`architecture.rs`).

mod architecture;
#[cfg(feature = "internals")]
mod documentation;
mod examples;
mod guides;
mod languages;
mod locks_page;
mod recall_page;
#[path = "../support/mod.rs"]
mod support;
mod terminal;
