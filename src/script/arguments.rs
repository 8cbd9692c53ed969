//! Reads the arguments of native functions, with the errors of Lua's own library functions.

use super::lua::{Frame, LuaError, LuaType, NativeFn};

impl Frame<'_> {
    /// The error for an argument of the wrong type: `number expected, got nil`.
    pub fn type_error(&self, argument: i32, expected: &str) -> LuaError {
        self.argument_error(argument, format!("{expected} expected, got {}", self.type_name(argument)))
    }

    /// A string argument. A number is converted.
    pub fn expect_bytes(&self, argument: i32) -> Result<&[u8], LuaError> {
        self.to_bytes(argument).ok_or_else(|| self.type_error(argument, "string"))
    }

    /// A number argument. A numeric string is converted.
    pub fn expect_number(&self, argument: i32) -> Result<f64, LuaError> {
        self.number(argument).ok_or_else(|| self.type_error(argument, "number"))
    }

    /// As [`expect_number`](Self::expect_number), truncated to an integer.
    pub fn expect_integer(&self, argument: i32) -> Result<i64, LuaError> {
        self.expect_number(argument).map(truncated)
    }

    /// As [`expect_integer`](Self::expect_integer), with a default for a missing argument.
    pub fn optional_integer(&self, argument: i32, default: i64) -> Result<i64, LuaError> {
        match self.kind(argument) {
            LuaType::None | LuaType::Nil => Ok(default),
            _ => self.expect_integer(argument),
        }
    }

    /// The error for a stack that cannot grow far enough.
    pub fn stack_overflow(&mut self, message: &str) -> LuaError {
        self.set_top(0);
        self.error(format!("stack overflow ({message})"))
    }

    /// Adds native functions to the table on top of the stack.
    pub fn set_natives(&mut self, natives: &[(&str, NativeFn)]) {
        for (name, native) in natives {
            self.push_native(*native);
            self.raw_set_field(-2, name);
        }
    }
}

/// Converts a double to an integer as x86-64 does: whatever does not fit becomes the smallest integer.
pub(super) fn truncated(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}

/// As [`truncated`], for unsigned integers. Compilers split the range into these two halves.
pub(super) fn truncated_unsigned(number: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    if number >= HALF { truncated(number - HALF) as u64 ^ (1 << 63) } else { truncated(number) as u64 }
}
