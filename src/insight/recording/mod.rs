//! What a recording of other people's traffic keeps: [`KeyFilter`] says of which commands, [`Redactor`] what of each.
//!
//! Nothing that the auditor judges by is lost: equal values stay equal, tokens stay tokens, and deadlines in values can still
//! be read.

mod argument_places;
mod key_filter;
mod redactor;
mod reply_redaction;
mod values;

pub use key_filter::KeyFilter;
pub use redactor::Redactor;
pub use values::ValueMode;
