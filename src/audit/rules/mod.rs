//! The rules: each looks at what happens to locks, and tells what is wrong.

mod ownership;

use super::happening::{Happening, Scene};

/// What the rules remember of one lock.
#[derive(Clone, Default)]
pub struct Memory {
    /// How often it was taken.
    pub taken: u64,
}

/// What the rules remember beyond one lock.
#[derive(Clone, Default)]
pub struct Wide {}

/// Lets all rules see what happens.
pub(super) fn see(scene: &mut Scene<'_>, happening: &Happening<'_>) {
    ownership::see(scene, happening);
}
