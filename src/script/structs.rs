//! The library `struct`: packs values into bytes as a C compiler lays them out, and unpacks them.

use super::arguments::{truncated, truncated_unsigned};
use super::lua::{Frame, LuaError};
use crate::protocol::until_nul;

pub(super) fn open(frame: &mut Frame<'_>) {
    frame.push_table(0, 3);
    frame.set_natives(&[("pack", pack), ("unpack", unpack), ("size", size)]);
}

/// The largest size of an integer in bytes.
const LARGEST_INTEGER: i32 = 32;

/// A format string, and the state of reading it.
struct Format {
    text: Vec<u8>,
    at: usize,
    big_endian: bool,
    alignment: usize,
}

/// One item of a format: its letter, and the size of its value in bytes (0 if the value decides).
struct Step {
    letter: u8,
    size: usize,
}

impl Format {
    fn new(frame: &Frame<'_>) -> Result<Self, LuaError> {
        let text = until_nul(frame.expect_bytes(1)?).to_vec();
        Ok(Self { text, at: 0, big_endian: cfg!(target_endian = "big"), alignment: 1 })
    }

    fn step(&mut self, frame: &Frame<'_>) -> Result<Option<Step>, LuaError> {
        let Some(&letter) = self.text.get(self.at) else { return Ok(None) };
        self.at += 1;
        let size = match letter {
            b'b' | b'B' | b'x' => 1,
            b'h' | b'H' => 2,
            b'f' => 4,
            b'l' | b'L' | b'T' | b'd' => 8,
            b'c' => self.number(frame, 1)? as usize,
            b'i' | b'I' => {
                let size = self.number(frame, 4)?;
                if size > LARGEST_INTEGER {
                    let text = format!("integral size {size} is larger than limit of {LARGEST_INTEGER}");
                    return Err(frame.error(text));
                }
                size as usize
            }
            _ => 0,
        };
        Ok(Some(Step { letter, size }))
    }

    /// The number after a letter.
    fn number(&mut self, frame: &Frame<'_>, default: i32) -> Result<i32, LuaError> {
        let digits = self.text[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        if digits == 0 {
            return Ok(default);
        }
        let mut number = 0i32;
        for digit in &self.text[self.at..self.at + digits] {
            let next = number.checked_mul(10).and_then(|number| number.checked_add(i32::from(digit - b'0')));
            number = next.ok_or_else(|| frame.error("integral size overflow"))?;
        }
        self.at += digits;
        Ok(number)
    }

    /// The padding in front of an item, so that its value is aligned.
    fn padding(&self, step: &Step, position: usize) -> usize {
        if step.size == 0 || step.letter == b'c' {
            return 0;
        }
        let size = step.size.min(self.alignment);
        (size - (position & (size - 1))) & (size - 1)
    }

    /// Applies a letter that sets byte order or alignment.
    fn control(&mut self, frame: &Frame<'_>, letter: u8) -> Result<(), LuaError> {
        match letter {
            b' ' => {}
            b'>' => self.big_endian = true,
            b'<' => self.big_endian = false,
            b'!' => {
                let alignment = self.number(frame, 8)?;
                if alignment.count_ones() != 1 {
                    return Err(frame.error(format!("alignment {alignment} is not a power of 2")));
                }
                self.alignment = alignment as usize;
            }
            _ => return Err(frame.argument_error(1, [b"invalid format option '", &[letter][..], b"'"].concat())),
        }
        Ok(())
    }

    /// Converts between this machine's byte order and the format's.
    fn ordered<const N: usize>(&self, mut bytes: [u8; N]) -> [u8; N] {
        if self.big_endian != cfg!(target_endian = "big") {
            bytes.reverse();
        }
        bytes
    }

    fn write_integer(&self, out: &mut Vec<u8>, number: f64, size: usize) {
        let value = if number < 0.0 { truncated(number) as u64 } else { truncated_unsigned(number) };
        let mut bytes = [0; LARGEST_INTEGER as usize];
        bytes[..8].copy_from_slice(&value.to_le_bytes());
        let bytes = &mut bytes[..size];
        if self.big_endian {
            bytes.reverse();
        }
        out.extend_from_slice(bytes);
    }

    /// Only the lowest eight bytes of a larger integer count.
    fn read_integer(&self, bytes: &[u8], signed: bool) -> f64 {
        let append = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        let value = if self.big_endian { bytes.iter().fold(0, append) } else { bytes.iter().rev().fold(0, append) };
        if !signed {
            return value as f64;
        }
        let mask = u64::MAX.wrapping_shl((bytes.len() as u32).wrapping_mul(8).wrapping_sub(1));
        (if value & mask != 0 { value | mask } else { value }) as i64 as f64
    }
}

fn pack(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    let mut format = Format::new(frame)?;
    // Errors call a missing argument nil, not "no value".
    frame.push_nil();
    let mut out = Vec::new();
    let mut argument = 1;
    while let Some(step) = format.step(frame)? {
        let padding = format.padding(&step, out.len());
        out.resize(out.len() + padding, 0);
        if b"bBhHlLTiIfdcs".contains(&step.letter) {
            argument += 1;
        }
        match step.letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                format.write_integer(&mut out, frame.expect_number(argument)?, step.size);
            }
            b'x' => out.push(0),
            b'f' => out.extend(format.ordered((frame.expect_number(argument)? as f32).to_ne_bytes())),
            b'd' => out.extend(format.ordered(frame.expect_number(argument)?.to_ne_bytes())),
            b'c' | b's' => {
                let bytes = frame.expect_bytes(argument)?;
                let size = if step.size == 0 { bytes.len() } else { step.size };
                let Some(bytes) = bytes.get(..size) else {
                    return Err(frame.argument_error(argument + 1, "string too short"));
                };
                frame.check_memory(out.len() + bytes.len())?;
                out.extend_from_slice(bytes);
                if step.letter == b's' {
                    out.push(0);
                }
            }
            letter => format.control(frame, letter)?,
        }
    }
    frame.push_bytes(out);
    Ok(1)
}

fn unpack(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    let mut format = Format::new(frame)?;
    let data = frame.expect_bytes(2)?.to_vec();
    let start = frame.optional_integer(3, 1)?;
    if start == 0 {
        return Err(frame.argument_error(3, "offset must be 1 or greater"));
    }
    // A negative offset becomes a very large one.
    let mut position = (start as u64 as usize).wrapping_sub(1);
    let mut results = 0;
    while let Some(mut step) = format.step(frame)? {
        position = position.wrapping_add(format.padding(&step, position));
        let too_short = |frame: &Frame<'_>| frame.argument_error(2, "data string too short");
        let rest = data.get(position..).ok_or_else(|| too_short(frame))?;
        let bytes = rest.get(..step.size).ok_or_else(|| too_short(frame))?;
        if !frame.reserve(2) {
            return Err(frame.stack_overflow("too many results"));
        }
        match step.letter {
            b'b' | b'B' | b'h' | b'H' | b'l' | b'L' | b'T' | b'i' | b'I' => {
                frame.push_number(format.read_integer(bytes, step.letter.is_ascii_lowercase()));
            }
            b'x' => {}
            b'f' => {
                let bytes = bytes.try_into().unwrap_or_default();
                frame.push_number(f64::from(f32::from_ne_bytes(format.ordered(bytes))));
            }
            b'd' => {
                let bytes = bytes.try_into().unwrap_or_default();
                frame.push_number(f64::from_ne_bytes(format.ordered(bytes)));
            }
            b'c' if step.size > 0 => frame.push_bytes(bytes),
            b'c' => {
                let size = if results > 0 { frame.number(-1) } else { None };
                let size = size.ok_or_else(|| frame.error("format 'c0' needs a previous size"))?;
                frame.pop(1);
                results -= 1;
                step.size = truncated_unsigned(size) as usize;
                frame.push_bytes(rest.get(..step.size).ok_or_else(|| too_short(frame))?);
            }
            b's' => {
                let text = until_nul(rest);
                if text.len() == rest.len() {
                    return Err(frame.error("unfinished string in data"));
                }
                frame.push_bytes(text);
                step.size = text.len() + 1;
            }
            letter => format.control(frame, letter)?,
        }
        results += usize::from(b"bBhHlLTiIfdcs".contains(&step.letter));
        position += step.size;
    }
    frame.push_number((position + 1) as i64 as f64);
    Ok(results + 1)
}

fn size(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    let mut format = Format::new(frame)?;
    let mut position = 0usize;
    while let Some(step) = format.step(frame)? {
        position = position.wrapping_add(format.padding(&step, position));
        match step.letter {
            b's' => return Err(frame.argument_error(1, "option 's' has no fixed size")),
            b'c' if step.size == 0 => return Err(frame.argument_error(1, "option 'c0' has no fixed size")),
            // Only `size` accepts unknown letters and digits.
            letter if letter.is_ascii_alphanumeric() => {}
            letter => format.control(frame, letter)?,
        }
        position = position.wrapping_add(step.size);
    }
    frame.push_number(position as i64 as f64);
    Ok(1)
}
