//! What makes one holder of a lock differ from another.
