//! Reports: from journals and from an auditor that processed them to a page for a browser ([`html`]), and to text for
//! a terminal ([`text`]). The same journals give the same report.

mod caption;
mod columns;
mod data_values;
mod page;
mod readable;
mod replicas;
mod report_data;
mod terminal;

use crate::insight::audit::Auditor;
use crate::powers::Item;
use report_data::ReportData;

/// The journals of some servers, each with the server's number.
pub type Journals = [(u16, Vec<Item>)];

/// A self-contained page for a browser. The auditor has processed the same journals, [with a
/// timeline](Auditor::with_timeline).
pub fn html(journals: &Journals, auditor: &Auditor) -> String {
    page::html(&ReportData::of(journals, auditor))
}

/// The same for a terminal, in lines of at most 100 columns, with colours if `is_coloured`.
pub fn text(journals: &Journals, auditor: &Auditor, is_coloured: bool) -> String {
    terminal::text(&ReportData::of(journals, auditor), is_coloured)
}

#[cfg(test)]
mod tests {
    use super::{readable, report_data, terminal};

    #[test]
    fn the_page_about_reports_has_the_limits_of_the_code() {
        let page = include_str!("../../../docs/report.md").split_whitespace().collect::<Vec<_>>().join(" ");
        for phrase in [
            format!("more than {},000 commands", report_data::MAX_MOMENTS / 1000),
            format!("it has {} characters", readable::MAX_SHOWN),
            format!("at most {} columns", terminal::WIDTH),
        ] {
            assert!(page.contains(&phrase), "the page does not say {phrase:?}");
        }
    }
}
