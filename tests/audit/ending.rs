//! How locks are let go, or are not.
