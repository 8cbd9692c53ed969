//! The library `bit`: 32-bit operations on numbers.

use super::lua::{Frame, LuaError};

pub(super) fn open(frame: &mut Frame<'_>) {
    frame.push_table(0, 12);
    frame.set_natives(&[
        ("tobit", |frame| map(frame, |bits| bits)),
        ("bnot", |frame| map(frame, |bits| !bits)),
        ("band", |frame| fold(frame, |one, other| one & other)),
        ("bor", |frame| fold(frame, |one, other| one | other)),
        ("bxor", |frame| fold(frame, |one, other| one ^ other)),
        ("lshift", |frame| shift(frame, |bits, by| bits << by)),
        ("rshift", |frame| shift(frame, |bits, by| bits >> by)),
        ("arshift", |frame| shift(frame, |bits, by| (bits as i32 >> by) as u32)),
        ("rol", |frame| shift(frame, u32::rotate_left)),
        ("ror", |frame| shift(frame, u32::rotate_right)),
        ("bswap", |frame| map(frame, u32::swap_bytes)),
        ("tohex", hexadecimal),
    ]);
}

/// The lower 32 bits of an argument. Adding 2^52 + 2^51 moves them to the end of the mantissa, rounded to even. The
/// library defines larger numbers that way.
fn bits(frame: &Frame<'_>, argument: i32) -> Result<u32, LuaError> {
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    Ok((frame.expect_number(argument)? + SHIFT).to_bits() as u32)
}

fn answer(frame: &Frame<'_>, bits: u32) -> Result<usize, LuaError> {
    frame.push_number(f64::from(bits as i32));
    Ok(1)
}

fn map(frame: &Frame<'_>, change: fn(u32) -> u32) -> Result<usize, LuaError> {
    answer(frame, change(bits(frame, 1)?))
}

fn fold(frame: &Frame<'_>, combine: fn(u32, u32) -> u32) -> Result<usize, LuaError> {
    let mut result = bits(frame, 1)?;
    // The last argument is read first, which decides which bad argument the error names.
    for argument in (2..=frame.top()).rev() {
        result = combine(result, bits(frame, argument)?);
    }
    answer(frame, result)
}

fn shift(frame: &Frame<'_>, change: fn(u32, u32) -> u32) -> Result<usize, LuaError> {
    let value = bits(frame, 1)?;
    answer(frame, change(value, bits(frame, 2)? & 31))
}

fn hexadecimal(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    let value = bits(frame, 1)?;
    let digits = if frame.top() < 2 { 8 } else { bits(frame, 2)? as i32 };
    let text = if digits < 0 { format!("{value:08X}") } else { format!("{value:08x}") };
    let digits = digits.unsigned_abs().min(8) as usize;
    frame.push_bytes(&text[8 - digits..]);
    Ok(1)
}
