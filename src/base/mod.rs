//! What every floor uses: errors, time, patterns, random numbers, text, files, the log.
//!
//! Knows no protocol, no data and no client.
//! May use: nothing of this crate.
//! Begin with [`error`], which has the error texts of general use, and [`clock`], the only source of time.

pub mod background;
pub mod budget;
pub mod clock;
pub mod duration;
pub mod error;
pub mod files;
pub mod glob;
pub mod hash_slot;
pub mod host;
pub mod identity;
pub mod join;
pub mod log;
pub mod markdown;
pub mod process;
pub mod profile;
pub mod random;
pub mod segment;
pub mod sync;
pub mod terminal;
pub mod text;
pub mod tls;
