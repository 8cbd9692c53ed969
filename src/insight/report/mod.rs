//! What happened, to look at: from journals, and from what the auditor has made of them, to a page with a picture
//! ([`html`]) and to a story for a terminal ([`text`]). Pure functions: the same journals give the same report.

mod caption;
mod columns;
mod facts;
mod page;
mod readable;
mod terminal;

use crate::insight::audit::Auditor;
use crate::powers::Item;
use facts::Facts;

/// The journals of some servers, which are told apart by number.
pub type Journals = [(u16, Vec<Item>)];

/// A page that stands by itself, for a browser. The auditor has gone through the same journals, and was told to
/// [`draw`](Auditor::draw).
pub fn html(journals: &Journals, auditor: &Auditor) -> String {
    page::html(&Facts::of(journals, auditor))
}

/// The same for a terminal, in lines of at most 100 columns. `is_coloured` is for terminals that can show colours.
pub fn text(journals: &Journals, auditor: &Auditor, is_coloured: bool) -> String {
    terminal::text(&Facts::of(journals, auditor), is_coloured)
}
