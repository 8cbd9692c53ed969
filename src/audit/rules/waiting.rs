//! How clients wait for locks.

use crate::audit::happening::{Happening, Scene};

/// What is remembered of one lock.
#[derive(Clone, Default)]
pub struct Memory {}

/// What is remembered beyond one lock.
#[derive(Clone, Default)]
pub struct Wide {}

pub(super) fn see(_scene: &mut Scene<'_>, _happening: &Happening<'_>) {}
