//! Which keys are taken for locks, and which are not.
