//! How long locks live.
