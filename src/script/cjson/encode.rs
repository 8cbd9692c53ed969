//! Lua values to JSON.

use super::{Setting, setting};
use crate::protocol::{write_general, write_integer};
use crate::script::lua::{Frame, LuaError, LuaType};

pub(super) fn encode(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    if frame.top() != 1 {
        return Err(frame.argument_error(1, "expected 1 argument"));
    }
    let mut encoder = Encoder {
        out: Vec::new(),
        open: Vec::new(),
        sparse_convert: setting(frame, Setting::SparseConvert) != 0,
        sparse_ratio: setting(frame, Setting::SparseRatio),
        sparse_safe: setting(frame, Setting::SparseSafe),
        max_depth: setting(frame, Setting::EncodeMaxDepth),
        invalid_numbers: setting(frame, Setting::EncodeInvalidNumbers),
        precision: setting(frame, Setting::EncodeNumberPrecision) as usize,
    };
    encoder.value(frame)?;
    while encoder.advance(frame)? {
        encoder.value(frame)?;
    }
    frame.push_bytes(encoder.out);
    Ok(1)
}

/// A table on the stack that is partly written.
enum Open {
    Array {
        next: i32,
        length: i32,
    },
    /// The key of the last written field lies above the table.
    Object {
        empty: bool,
    },
}

struct Encoder {
    out: Vec<u8>,
    open: Vec<Open>,
    sparse_convert: bool,
    sparse_ratio: i32,
    sparse_safe: i32,
    max_depth: i32,
    invalid_numbers: i32,
    precision: usize,
}

impl Encoder {
    /// Writes the value on top and pops it, or begins to write the table on top.
    fn value(&mut self, frame: &mut Frame<'_>) -> Result<(), LuaError> {
        match frame.kind(-1) {
            LuaType::String => self.string(frame, -1)?,
            LuaType::Number => self.number(frame, -1)?,
            LuaType::Boolean => self.out.extend_from_slice(if frame.boolean(-1) { b"true" } else { b"false" }),
            LuaType::Nil => self.out.extend_from_slice(b"null"),
            LuaType::Other if frame.is_null(-1) => self.out.extend_from_slice(b"null"),
            LuaType::Table => return self.begin(frame),
            _ => return Err(refuse(frame, -1, "type not supported")),
        }
        frame.pop(1);
        Ok(())
    }

    fn begin(&mut self, frame: &mut Frame<'_>) -> Result<(), LuaError> {
        let depth = self.open.len() + 1;
        if depth > self.max_depth as usize || !frame.reserve(3) {
            return Err(frame.error(format!("Cannot serialise, excessive nesting ({depth})")));
        }
        frame.check_memory(self.out.len())?;
        match self.array_length(frame)? {
            Some(length @ 1..) => {
                // Each element is a byte and a comma at least. A sparse array can have more than memory holds.
                frame.check_memory(self.out.len() + length as usize * 2)?;
                self.out.push(b'[');
                self.open.push(Open::Array { next: 1, length });
            }
            _ => {
                self.out.push(b'{');
                frame.push_nil();
                self.open.push(Open::Object { empty: true });
            }
        }
        Ok(())
    }

    /// Pushes the next value to write, after the punctuation in front of it. Returns whether there is one.
    fn advance(&mut self, frame: &mut Frame<'_>) -> Result<bool, LuaError> {
        loop {
            match self.open.last_mut() {
                None => return Ok(false),
                Some(Open::Array { next, length }) if *next <= *length => {
                    if *next > 1 {
                        self.out.push(b',');
                    }
                    if *next & 0xffff == 0 {
                        frame.tick()?;
                        frame.check_memory(self.out.len())?;
                    }
                    frame.raw_get_index(-1, *next);
                    // The index after the last might overflow.
                    (*next, *length) = if *next < *length { (*next + 1, *length) } else { (1, 0) };
                    return Ok(true);
                }
                Some(Open::Object { empty }) if frame.next(-2) => {
                    if !std::mem::take(empty) {
                        self.out.push(b',');
                    }
                    self.key(frame)?;
                    return Ok(true);
                }
                Some(Open::Array { .. }) => self.out.push(b']'),
                Some(Open::Object { .. }) => self.out.push(b'}'),
            }
            self.open.pop();
            frame.pop(1);
        }
    }

    /// Writes the key below the value on top.
    fn key(&mut self, frame: &Frame<'_>) -> Result<(), LuaError> {
        match frame.kind(-2) {
            LuaType::Number => {
                self.out.push(b'"');
                self.number(frame, -2)?;
                self.out.push(b'"');
            }
            LuaType::String => self.string(frame, -2)?,
            _ => return Err(refuse(frame, -2, "table key must be a number or string")),
        }
        self.out.push(b':');
        Ok(())
    }

    /// The largest index of the table on top, if all its keys are integers from 1 on. Counted as a C `int`.
    fn array_length(&self, frame: &mut Frame<'_>) -> Result<Option<i32>, LuaError> {
        let (mut largest, mut items) = (0i32, 0i32);
        frame.push_nil();
        while frame.next(-2) {
            let key = if frame.kind(-2) == LuaType::Number { frame.number(-2) } else { None };
            let Some(key) = key.filter(|key| *key >= 1.0 && key.floor() == *key) else {
                frame.pop(2);
                return Ok(None);
            };
            if key > f64::from(largest) {
                largest = if key <= f64::from(i32::MAX) { key as i32 } else { i32::MIN };
            }
            items = items.wrapping_add(1);
            frame.pop(1);
        }
        let is_sparse =
            self.sparse_ratio > 0 && largest > items.wrapping_mul(self.sparse_ratio) && largest > self.sparse_safe;
        if !is_sparse {
            return Ok(Some(largest));
        }
        if self.sparse_convert { Ok(None) } else { Err(refuse(frame, -1, "excessively sparse array")) }
    }

    fn number(&mut self, frame: &Frame<'_>, index: i32) -> Result<(), LuaError> {
        let value = frame.number(index).unwrap_or_default();
        if !value.is_finite() {
            let text: &[u8] = match self.invalid_numbers {
                0 => return Err(refuse(frame, index, "must not be NaN or Inf")),
                1 if value.is_nan() => b"nan",
                1 if value > 0.0 => b"inf",
                1 => b"-inf",
                _ => b"null",
            };
            self.out.extend_from_slice(text);
        } else if value == value.trunc() && value.abs() < 10f64.powi(self.precision as i32) {
            if value == 0.0 && value.is_sign_negative() {
                self.out.push(b'-');
            }
            write_integer(&mut self.out, value as i64);
        } else {
            write_general(&mut self.out, value, self.precision);
        }
        Ok(())
    }

    fn string(&mut self, frame: &Frame<'_>, index: i32) -> Result<(), LuaError> {
        let bytes = frame.bytes(index).unwrap_or_default();
        frame.check_memory(self.out.len() + bytes.len())?;
        if bytes.len() > LONG_STRING {
            // Escapes are up to six times as long.
            let escaped = bytes.iter().filter(|byte| matches!(byte, ..b' ' | 0x7f)).count();
            frame.check_memory(self.out.len() + bytes.len() + escaped * 5)?;
        }
        self.out.push(b'"');
        let mut plain = 0;
        for (at, &byte) in bytes.iter().enumerate() {
            if !matches!(byte, ..b' ' | b'"' | b'/' | b'\\' | 0x7f) {
                continue;
            }
            self.out.extend_from_slice(&bytes[plain..at]);
            plain = at + 1;
            match byte {
                b'"' | b'/' | b'\\' => self.out.extend([b'\\', byte]),
                0x08 => self.out.extend(b"\\b"),
                b'\t' => self.out.extend(b"\\t"),
                b'\n' => self.out.extend(b"\\n"),
                0x0c => self.out.extend(b"\\f"),
                b'\r' => self.out.extend(b"\\r"),
                _ => {
                    let digit = |value: u8| b"0123456789abcdef"[usize::from(value)];
                    self.out.extend([b'\\', b'u', b'0', b'0', digit(byte >> 4), digit(byte & 0x0f)]);
                }
            }
        }
        self.out.extend_from_slice(&bytes[plain..]);
        self.out.push(b'"');
        Ok(())
    }
}

/// A string of so many bytes is checked against the limit of memory before it is written.
const LONG_STRING: usize = 1 << 16;

fn refuse(frame: &Frame<'_>, index: i32, reason: &str) -> LuaError {
    frame.error(format!("Cannot serialise {}: {reason}", frame.type_name(index)))
}
