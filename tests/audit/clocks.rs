//! Locks whose value is the time at which they end.
