//! The test powers. They see calls and replies, never the keyspace.

mod attention;
mod explore;
mod fault;
mod gate;
mod passage;
mod pattern;
mod stop;

pub use attention::{Attention, Matter};
pub use explore::{Entrant, Explorer, Findings, Footprint, Look, Order, Search, Standing};
pub use fault::{Fault, Faults, Rule, Verdict, line_of};
pub use gate::{Gate, Gates, Side};
pub use passage::Passage;
pub use pattern::{Arrival, Pattern, Who};
pub use stop::{Guest, Ticket};

/// The test powers of one server.
#[derive(Default)]
pub struct Control {
    pub faults: Faults,
    pub gates: Gates,
    pub explorer: Explorer,
}
