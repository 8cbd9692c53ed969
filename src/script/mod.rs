//! The Lua host: a callback in, a reply out. Knows no command.

mod arguments;
mod bit;
mod cjson;
mod cmsgpack;
mod lua;
mod structs;

#[cfg(test)]
mod library_tests;

/// Who runs a script: what it asks of the server goes there.
pub trait Host {
    /// Asked every so many instructions: whether the script may go on, or the message of the error that ends it.
    fn tick(&self) -> Result<(), &'static str>;
}
