//! Locks over several servers.
