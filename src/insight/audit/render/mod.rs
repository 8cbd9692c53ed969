//! Findings as people and programs read them: text, annotations of GitHub Actions, JUnit XML, SARIF. From findings to
//! text, nothing else.

mod github;
mod junit;
mod phrase;
mod sarif;
mod text;
mod world;

pub use github::annotations;
pub use junit::junit;
pub use sarif::{Artifact, sarif};
#[cfg(feature = "internals")]
pub use text::report;
pub use text::{describe_findings, report_for_terminal, summary_line};
pub use world::WorldFindings;
