//! Locks whose value is the time at which they end.

use crate::audit::happening::{Happening, Scene};

/// What is remembered of one lock.
#[derive(Clone, Default)]
pub struct Memory {}

pub(super) fn see(_scene: &mut Scene<'_>, _happening: &Happening<'_>) {}
