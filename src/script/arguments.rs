//! Arguments of natives, read and refused as Lua's own library functions read and refuse theirs.

use super::lua::{Frame, LuaError, LuaType, NativeFn};

impl Frame<'_> {
    /// The error for an argument of the wrong type: `number expected, got nil`.
    pub fn type_error(&self, argument: i32, expected: &str) -> LuaError {
        self.argument_error(argument, format!("{expected} expected, got {}", self.type_name(argument)))
    }

    /// A string; a number becomes one.
    pub fn expect_bytes(&self, argument: i32) -> Result<&[u8], LuaError> {
        self.to_bytes(argument).ok_or_else(|| self.type_error(argument, "string"))
    }

    /// A number, or a string that reads as one.
    pub fn expect_number(&self, argument: i32) -> Result<f64, LuaError> {
        self.number(argument).ok_or_else(|| self.type_error(argument, "number"))
    }

    /// As [`expect_number`](Self::expect_number), without what is behind the point.
    pub fn expect_integer(&self, argument: i32) -> Result<i64, LuaError> {
        self.expect_number(argument).map(truncated)
    }

    /// As [`expect_integer`](Self::expect_integer), but the argument may be missing.
    pub fn optional_integer(&self, argument: i32, default: i64) -> Result<i64, LuaError> {
        match self.kind(argument) {
            LuaType::None | LuaType::Nil => Ok(default),
            _ => self.expect_integer(argument),
        }
    }

    /// The error for a stack that cannot hold what was asked for.
    pub fn stack_overflow(&mut self, message: &str) -> LuaError {
        self.set_top(0);
        self.error(format!("stack overflow ({message})"))
    }

    /// Sets fields of the table on top of the stack to natives.
    pub fn set_natives(&mut self, natives: &[(&str, NativeFn)]) {
        for (name, native) in natives {
            self.push_native(*native);
            self.raw_set_field(-2, name);
        }
    }
}

/// A double as an integer the way x86-64 converts it: whatever does not fit becomes the smallest one.
pub(super) fn truncated(number: f64) -> i64 {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if (-LIMIT..LIMIT).contains(&number) { number as i64 } else { i64::MIN }
}

/// As [`truncated`], for integers without a sign: these two halves are what compilers make of it.
pub(super) fn truncated_unsigned(number: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    if number >= HALF { truncated(number - HALF) as u64 ^ (1 << 63) } else { truncated(number) as u64 }
}
