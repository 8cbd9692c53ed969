//! The rules: each looks at what happens to locks, and tells what is wrong.

mod clocks;
mod ending;
mod expiry;
mod kin;
mod lateness;
mod order;
mod ownership;
mod redlock;
mod renewal;
mod tokens;
mod waiting;

use super::happening::{Happening, Scene};
use super::lock::Lock;

/// What the rules remember of one lock.
#[derive(Clone, Default)]
pub struct Memory {
    /// How often it was taken.
    pub taken: u64,
    /// Somebody waits for it who holds another.
    pub is_wanted: bool,
    pub ownership: ownership::Memory,
    pub lateness: lateness::Memory,
    pub expiry: expiry::Memory,
    pub clocks: clocks::Memory,
    pub tokens: tokens::Memory,
    pub ending: ending::Memory,
    pub waiting: waiting::Memory,
    pub renewal: renewal::Memory,
}

/// What the rules remember beyond one lock.
#[derive(Clone, Default)]
pub struct Wide {
    pub redlock: redlock::Wide,
    pub order: order::Wide,
    pub ownership: ownership::Wide,
}

/// Lets all rules see what happens.
pub(super) fn see(scene: &mut Scene<'_>, happening: &Happening<'_>) {
    ownership::see(scene, happening);
    lateness::see(scene, happening);
    expiry::see(scene, happening);
    clocks::see(scene, happening);
    tokens::see(scene, happening);
    ending::see(scene, happening);
    renewal::see(scene, happening);
    waiting::see(scene, happening);
    order::see(scene, happening);
    redlock::see(scene, happening);
}

/// The name of a lock, as a sentence has it.
fn quoted(lock: &Lock) -> String {
    format!("`{}`", String::from_utf8_lossy(&lock.place.key))
}
