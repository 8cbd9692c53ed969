//! What is done with a lock whose time is over.
