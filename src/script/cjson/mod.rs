//! The library `cjson`: values to and from JSON.

mod decode;
mod encode;

use super::arguments::truncated;
use super::lua::{Frame, LuaError, LuaType, NativeFn};
use crate::protocol::until_nul;

/// The settings that a script can change. Each copy of the library has a table of them, which is an upvalue of its
/// functions.
#[derive(Clone, Copy)]
enum Setting {
    /// Whether excessively sparse arrays become objects instead of errors.
    SparseConvert = 1,
    /// An array is excessively sparse if its largest index exceeds this many times its number of elements,
    SparseRatio,
    /// and exceeds this.
    SparseSafe,
    EncodeMaxDepth,
    DecodeMaxDepth,
    /// Whether NaN and the infinities can be encoded: 0 is no, 1 is yes, 2 is as `null`.
    EncodeInvalidNumbers,
    DecodeInvalidNumbers,
    /// Has no effect: each call has a buffer of its own.
    EncodeKeepBuffer,
    /// Significant digits.
    EncodeNumberPrecision,
}

const DEFAULTS: [(Setting, i32); 9] = [
    (Setting::SparseConvert, 0),
    (Setting::SparseRatio, 2),
    (Setting::SparseSafe, 10),
    (Setting::EncodeMaxDepth, 1000),
    (Setting::DecodeMaxDepth, 1000),
    (Setting::EncodeInvalidNumbers, 0),
    (Setting::DecodeInvalidNumbers, 1),
    (Setting::EncodeKeepBuffer, 1),
    (Setting::EncodeNumberPrecision, 14),
];

const NATIVES: [(&str, NativeFn); 10] = [
    ("encode", encode::encode),
    ("decode", decode::decode),
    ("encode_sparse_array", encode_sparse_array),
    ("encode_max_depth", |frame| integer_setting(frame, Setting::EncodeMaxDepth, 1, i32::MAX)),
    ("decode_max_depth", |frame| integer_setting(frame, Setting::DecodeMaxDepth, 1, i32::MAX)),
    ("encode_number_precision", |frame| integer_setting(frame, Setting::EncodeNumberPrecision, 1, 14)),
    ("encode_keep_buffer", |frame| choice_setting(frame, Setting::EncodeKeepBuffer, &["off", "on"])),
    ("encode_invalid_numbers", |frame| choice_setting(frame, Setting::EncodeInvalidNumbers, &["off", "on", "null"])),
    ("decode_invalid_numbers", |frame| choice_setting(frame, Setting::DecodeInvalidNumbers, &["off", "on"])),
    ("new", |frame| {
        if !frame.reserve(3) {
            return Err(frame.stack_overflow("too many upvalues"));
        }
        open(frame);
        Ok(1)
    }),
];

/// Pushes a copy of the library with settings of its own.
pub(super) fn open(frame: &mut Frame<'_>) {
    frame.push_table(0, 0);
    frame.push_table(DEFAULTS.len(), 0);
    for (setting, value) in DEFAULTS {
        frame.push_number(f64::from(value));
        frame.raw_set_index(-2, setting as i32);
    }
    for (name, native) in NATIVES {
        frame.push_value(-1);
        frame.push_native_closure(native);
        frame.raw_set_field(-3, name);
    }
    frame.pop(1);
    frame.push_null();
    frame.raw_set_field(-2, "null");
    for (name, value) in [("_NAME", "cjson"), ("_VERSION", "2.1.0")] {
        frame.push_bytes(value);
        frame.raw_set_field(-2, name);
    }
}

fn setting(frame: &mut Frame<'_>, setting: Setting) -> i32 {
    frame.push_upvalue();
    frame.raw_get_index(-1, setting as i32);
    let value = frame.number(-1).unwrap_or_default();
    frame.pop(2);
    value as i32
}

fn change(frame: &mut Frame<'_>, setting: Setting, value: i32) {
    frame.push_upvalue();
    frame.push_number(f64::from(value));
    frame.raw_set_index(-2, setting as i32);
    frame.pop(1);
}

/// Refuses excess arguments, and fills missing ones with nil.
fn pad_arguments(frame: &mut Frame<'_>, max: i32) -> Result<(), LuaError> {
    if frame.top() > max {
        return Err(frame.argument_error(max + 1, "found too many arguments"));
    }
    frame.set_top(max);
    Ok(())
}

fn integer_setting(frame: &mut Frame<'_>, setting: Setting, min: i32, max: i32) -> Result<usize, LuaError> {
    pad_arguments(frame, 1)?;
    integer(frame, 1, setting, min, max)
}

/// Sets a setting to an argument that is not nil, and pushes its value.
fn integer(frame: &mut Frame<'_>, argument: i32, of: Setting, min: i32, max: i32) -> Result<usize, LuaError> {
    if frame.kind(argument) != LuaType::Nil {
        let value = truncated(frame.expect_number(argument)?) as i32;
        if !(min..=max).contains(&value) {
            // The error names the first argument, whichever it is.
            return Err(frame.argument_error(1, format!("expected integer between {min} and {max}")));
        }
        change(frame, of, value);
    }
    let value = setting(frame, of);
    frame.push_number(f64::from(value));
    Ok(1)
}

fn choice_setting(frame: &mut Frame<'_>, setting: Setting, options: &[&str]) -> Result<usize, LuaError> {
    pad_arguments(frame, 1)?;
    choice(frame, 1, setting, options)
}

/// As [`integer`], for words. `false` and `true` stand for the first two.
fn choice(frame: &mut Frame<'_>, argument: i32, of: Setting, options: &[&str]) -> Result<usize, LuaError> {
    match frame.kind(argument) {
        LuaType::Nil => {}
        LuaType::Boolean => change(frame, of, i32::from(frame.boolean(argument))),
        _ => {
            let word = until_nul(frame.expect_bytes(argument)?).to_vec();
            match (0..).zip(options).find(|(_, option)| option.as_bytes() == word) {
                Some((number, _)) => change(frame, of, number),
                None => return Err(frame.argument_error(argument, [b"invalid option '", &*word, b"'"].concat())),
            }
        }
    }
    match setting(frame, of) {
        value @ (0 | 1) => frame.push_boolean(value == 1),
        value => frame.push_bytes(options.get(value as usize).copied().unwrap_or_default()),
    }
    Ok(1)
}

fn encode_sparse_array(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    pad_arguments(frame, 3)?;
    choice(frame, 1, Setting::SparseConvert, &["off", "on"])?;
    integer(frame, 2, Setting::SparseRatio, 0, i32::MAX)?;
    integer(frame, 3, Setting::SparseSafe, 0, i32::MAX)?;
    Ok(3)
}
