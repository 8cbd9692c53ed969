//! The library `cmsgpack`: values to and from MessagePack.

use super::arguments::truncated;
use super::lua::{Frame, LuaError, LuaType};

pub(super) fn open(frame: &mut Frame<'_>) {
    frame.push_table(0, 0);
    frame.set_natives(&[
        ("pack", pack),
        ("unpack", unpack),
        ("unpack_one", unpack_one),
        ("unpack_limit", unpack_limit),
    ]);
    for (name, value) in [
        ("_NAME", "cmsgpack"),
        ("_VERSION", "lua-cmsgpack 0.4.0"),
        ("_COPYRIGHT", "Copyright (C) 2012, Salvatore Sanfilippo"),
        ("_DESCRIPTION", "MessagePack C implementation for Lua"),
    ] {
        frame.push_bytes(value);
        frame.raw_set_field(-2, name);
    }
}

// ---- packing

/// The largest nesting of tables. Deeper ones become nil.
const MAX_DEPTH: usize = 16;

struct Packer {
    out: Vec<u8>,
    /// The number of packed arguments. The original library leaves a string on Lua's stack for each, so they count
    /// towards the stack limit.
    done: usize,
}

fn pack(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    let count = frame.top();
    if count == 0 {
        return Err(frame.argument_error(0, "MessagePack pack needs input."));
    }
    if !frame.reserve(count as usize) {
        return Err(frame.argument_error(0, "Too many arguments for MessagePack pack."));
    }
    let mut packer = Packer { out: Vec::new(), done: 0 };
    for argument in 1..=count {
        packer.reserve(frame, 1, "in function mp_check")?;
        frame.push_value(argument);
        packer.value(frame, 0)?;
        packer.done += 1;
    }
    frame.push_bytes(packer.out);
    Ok(1)
}

impl Packer {
    fn reserve(&self, frame: &mut Frame<'_>, values: usize, place: &str) -> Result<(), LuaError> {
        if frame.reserve(self.done + values) { Ok(()) } else { Err(frame.stack_overflow(place)) }
    }

    /// Appends the value on top of the stack, and pops it.
    fn value(&mut self, frame: &mut Frame<'_>, depth: usize) -> Result<(), LuaError> {
        match frame.kind(-1) {
            LuaType::String => self.string(frame)?,
            LuaType::Boolean => self.out.push(if frame.boolean(-1) { 0xc3 } else { 0xc2 }),
            LuaType::Number => self.number(frame.number(-1).unwrap_or_default()),
            LuaType::Table if depth < MAX_DEPTH => {
                frame.check_memory(self.out.len())?;
                match self.elements(frame)? {
                    Some(elements) => self.array(frame, elements, depth)?,
                    None => self.map(frame, depth)?,
                }
            }
            _ => self.out.push(0xc0),
        }
        frame.pop(1);
        Ok(())
    }

    fn string(&mut self, frame: &Frame<'_>) -> Result<(), LuaError> {
        let bytes = frame.bytes(-1).unwrap_or_default();
        frame.check_memory(self.out.len() + bytes.len())?;
        match bytes.len() {
            length @ ..32 => self.out.push(0xa0 | length as u8),
            length @ 32..=0xff => self.out.extend([0xd9, length as u8]),
            length => self.length(0xda, length),
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes a length in two bytes after `letter`, or in four after the next letter.
    fn length(&mut self, letter: u8, length: usize) {
        match u16::try_from(length) {
            Ok(length) => self.tagged(letter, length.to_be_bytes()),
            Err(_) => self.tagged(letter + 1, (length as u32).to_be_bytes()),
        }
    }

    fn tagged<const N: usize>(&mut self, letter: u8, bytes: [u8; N]) {
        self.out.push(letter);
        self.out.extend(bytes);
    }

    fn number(&mut self, number: f64) {
        let integer = truncated(number);
        if integer as f64 == number {
            self.integer(integer);
        } else if f64::from(number as f32) == number {
            self.tagged(0xca, (number as f32).to_be_bytes());
        } else {
            self.tagged(0xcb, number.to_be_bytes());
        }
    }

    fn integer(&mut self, integer: i64) {
        match integer {
            0..=0x7f => self.out.push(integer as u8),
            0x80..=0xff => self.tagged(0xcc, [integer as u8]),
            0x100..=0xffff => self.tagged(0xcd, (integer as u16).to_be_bytes()),
            0x1_0000..=0xffff_ffff => self.tagged(0xce, (integer as u32).to_be_bytes()),
            0x1_0000_0000.. => self.tagged(0xcf, integer.to_be_bytes()),
            -32..=-1 => self.out.push(integer as u8),
            -0x80..=-33 => self.tagged(0xd0, [integer as u8]),
            -0x8000..=-0x81 => self.tagged(0xd1, (integer as u16).to_be_bytes()),
            -0x8000_0000..=-0x8001 => self.tagged(0xd2, (integer as u32).to_be_bytes()),
            _ => self.tagged(0xd3, integer.to_be_bytes()),
        }
    }

    /// The number of elements of the table on top, if its keys are the integers from 1 on without a gap.
    fn elements(&self, frame: &mut Frame<'_>) -> Result<Option<i32>, LuaError> {
        self.reserve(frame, 2, "in function table_is_an_array")?;
        let (mut count, mut largest) = (0, 0);
        frame.push_nil();
        while frame.next(-2) {
            frame.pop(1);
            let key = if frame.kind(-1) == LuaType::Number { frame.number(-1) } else { None };
            let Some(key) = key.filter(|key| (1.0..=f64::from(i32::MAX)).contains(key) && key.fract() == 0.0) else {
                frame.pop(1);
                return Ok(None);
            };
            largest = largest.max(key as i32);
            count += 1;
        }
        Ok((largest == count).then_some(count))
    }

    fn array(&mut self, frame: &mut Frame<'_>, elements: i32, depth: usize) -> Result<(), LuaError> {
        match elements {
            ..=15 => self.out.push(0x90 | elements as u8),
            _ => self.length(0xdc, elements as usize),
        }
        self.reserve(frame, 1, "in function mp_encode_lua_table_as_array")?;
        for element in 1..=elements {
            frame.raw_get_index(-1, element);
            self.value(frame, depth + 1)?;
        }
        Ok(())
    }

    fn map(&mut self, frame: &mut Frame<'_>, depth: usize) -> Result<(), LuaError> {
        self.reserve(frame, 3, "in function mp_encode_lua_table_as_map")?;
        let mut fields = 0;
        frame.push_nil();
        while frame.next(-2) {
            frame.pop(1);
            fields += 1;
        }
        match fields {
            ..=15 => self.out.push(0x80 | fields as u8),
            _ => self.length(0xde, fields),
        }
        frame.push_nil();
        while frame.next(-2) {
            frame.push_value(-2);
            self.value(frame, depth + 1)?;
            self.value(frame, depth + 1)?;
        }
        Ok(())
    }
}

// ---- unpacking

fn unpack(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    unpack_some(frame, 0, 0)
}

fn unpack_one(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    let offset = frame.optional_integer(2, 0)?;
    frame.set_top(frame.top().min(1));
    unpack_some(frame, 1, offset)
}

fn unpack_limit(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    let limit = frame.expect_integer(2)?;
    let offset = frame.optional_integer(3, 0)?;
    frame.set_top(1);
    unpack_some(frame, limit, offset)
}

/// Unpacks values from an offset on. Without limit and offset it unpacks all; otherwise the first result is the next
/// offset, or -1 at the end.
fn unpack_some(frame: &mut Frame<'_>, limit: i64, offset: i64) -> Result<usize, LuaError> {
    let input = frame.expect_bytes(1)?.to_vec();
    let length = input.len();
    // Redis reports the length as the limit.
    if offset < 0 || limit < 0 {
        let (offset, limit) = (offset as i32, length as i32);
        let text = format!("Invalid request to unpack with offset of {offset} and limit of {limit}.");
        return Err(frame.error(text));
    }
    let Some(rest) = input.get(offset as usize..) else {
        let (offset, length) = (offset as i32, length as i32);
        return Err(frame.error(format!("Start offset {offset} greater than input length {length}.")));
    };
    let all = limit == 0 && offset == 0;
    let limit = if all { i64::from(i32::MAX) } else { limit };
    let mut unpacker = Unpacker { rest, open: Vec::new() };
    let mut count = 0;
    while !unpacker.rest.is_empty() && (count as i64) < limit {
        unpacker.value(frame)?;
        count += 1;
    }
    if all {
        return Ok(count);
    }
    if !frame.reserve(1) {
        return Err(frame.stack_overflow("in function mp_unpack_full"));
    }
    let left = unpacker.rest.len();
    frame.push_number(if left == 0 { -1.0 } else { (length - left) as f64 });
    frame.insert(2);
    Ok(count + 1)
}

/// A table on the stack that is being filled, with the number of elements or fields still missing.
enum Open {
    /// The index of the next value lies above the table.
    Array {
        index: u32,
        missing: u32,
    },
    Key {
        missing: u32,
    },
    /// The key of the next value lies above the table.
    Value {
        missing: u32,
    },
}

/// Why input cannot be unpacked.
struct Invalid(&'static str);

const SHORT: Invalid = Invalid("Missing bytes in input.");
const BAD_FORMAT: Invalid = Invalid("Bad data format in input.");

/// A scalar value, or the header of an array or a map.
enum Item<'i> {
    Nil,
    Boolean(bool),
    Number(f64),
    Bytes(&'i [u8]),
    Array(u32),
    Map(u32),
}

struct Unpacker<'i> {
    rest: &'i [u8],
    open: Vec<Open>,
}

impl<'i> Unpacker<'i> {
    /// Pushes one value, with everything nested in it.
    fn value(&mut self, frame: &mut Frame<'_>) -> Result<(), LuaError> {
        loop {
            let opened = self.item(frame)?;
            if !self.advance(frame, !opened)? {
                return Ok(());
            }
        }
    }

    /// Adds the value on top, if it is `complete`, to its table, and so on for each table that becomes complete.
    /// Returns whether another value follows.
    fn advance(&mut self, frame: &mut Frame<'_>, mut complete: bool) -> Result<bool, LuaError> {
        loop {
            let Some(open) = self.open.last_mut() else { return Ok(false) };
            if complete {
                match open {
                    Open::Array { .. } => frame.raw_set(-3),
                    Open::Key { missing } => {
                        *open = Open::Value { missing: *missing };
                        return Ok(true);
                    }
                    Open::Value { missing } => {
                        set_field(frame)?;
                        *open = Open::Key { missing: *missing - 1 };
                    }
                }
            }
            match open {
                Open::Array { missing: 0, .. } | Open::Key { missing: 0 } => {
                    self.open.pop();
                    complete = true;
                }
                Open::Array { index, missing } => {
                    frame.push_number(f64::from(*index));
                    *index += 1;
                    *missing -= 1;
                    return Ok(true);
                }
                Open::Key { .. } | Open::Value { .. } => return Ok(true),
            }
        }
    }

    /// Pushes a scalar, or an empty table. Returns whether it is a table to be filled.
    fn item(&mut self, frame: &mut Frame<'_>) -> Result<bool, LuaError> {
        if self.rest.is_empty() {
            return Err(invalid(frame, &SHORT));
        }
        if !frame.reserve(1) {
            let message = "too many return values at once; use unpack_one or unpack_limit instead.";
            return Err(frame.stack_overflow(message));
        }
        frame.check_memory(0)?;
        match self.read() {
            Ok(Item::Nil) => frame.push_nil(),
            Ok(Item::Boolean(value)) => frame.push_boolean(value),
            Ok(Item::Number(value)) => frame.push_number(value),
            Ok(Item::Bytes(value)) => frame.push_bytes(value),
            Ok(Item::Array(missing)) => {
                frame.push_table(0, 0);
                if !frame.reserve(1) {
                    return Err(frame.stack_overflow("in function mp_decode_to_lua_array"));
                }
                self.open.push(Open::Array { index: 1, missing });
                return Ok(true);
            }
            Ok(Item::Map(missing)) => {
                frame.push_table(0, 0);
                self.open.push(Open::Key { missing });
                return Ok(true);
            }
            Err(why) => return Err(invalid(frame, &why)),
        }
        Ok(false)
    }

    fn read(&mut self) -> Result<Item<'i>, Invalid> {
        let [letter] = self.take()?;
        Ok(match letter {
            0x00..=0x7f => Item::Number(f64::from(letter)),
            0x80..=0x8f => Item::Map(u32::from(letter & 0x0f)),
            0x90..=0x9f => Item::Array(u32::from(letter & 0x0f)),
            0xa0..=0xbf => self.bytes(u32::from(letter & 0x1f))?,
            0xc0 => Item::Nil,
            0xc2 | 0xc3 => Item::Boolean(letter == 0xc3),
            0xca => Item::Number(f64::from(f32::from_be_bytes(self.take()?))),
            0xcb => Item::Number(f64::from_be_bytes(self.take()?)),
            0xcc => Item::Number(f64::from(u8::from_be_bytes(self.take()?))),
            0xcd => Item::Number(f64::from(u16::from_be_bytes(self.take()?))),
            0xce => Item::Number(f64::from(u32::from_be_bytes(self.take()?))),
            // The library decodes these as unsigned integers, but passes them to Lua as signed ones.
            0xcf | 0xd3 => Item::Number(i64::from_be_bytes(self.take()?) as f64),
            0xd0 => Item::Number(f64::from(i8::from_be_bytes(self.take()?))),
            0xd1 => Item::Number(f64::from(i16::from_be_bytes(self.take()?))),
            0xd2 => Item::Number(f64::from(i32::from_be_bytes(self.take()?))),
            0xd9 => {
                let [length] = self.take()?;
                self.bytes(u32::from(length))?
            }
            0xda => {
                let length = self.short()?;
                self.bytes(length)?
            }
            0xdb => {
                let length = self.long()?;
                self.bytes(length)?
            }
            0xdc => Item::Array(self.short()?),
            0xdd => Item::Array(self.long()?),
            0xde => Item::Map(self.short()?),
            0xdf => Item::Map(self.long()?),
            0xe0..=0xff => Item::Number(f64::from(letter as i8)),
            0xc1 | 0xc4..=0xc9 | 0xd4..=0xd8 => return Err(BAD_FORMAT),
        })
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N], Invalid> {
        let (bytes, rest) = self.rest.split_first_chunk().ok_or(SHORT)?;
        self.rest = rest;
        Ok(*bytes)
    }

    fn short(&mut self) -> Result<u32, Invalid> {
        self.take().map(|bytes| u32::from(u16::from_be_bytes(bytes)))
    }

    fn long(&mut self) -> Result<u32, Invalid> {
        self.take().map(u32::from_be_bytes)
    }

    fn bytes(&mut self, length: u32) -> Result<Item<'i>, Invalid> {
        let (bytes, rest) = self.rest.split_at_checked(length as usize).ok_or(SHORT)?;
        self.rest = rest;
        Ok(Item::Bytes(bytes))
    }
}

fn invalid(frame: &mut Frame<'_>, why: &Invalid) -> LuaError {
    frame.set_top(0);
    frame.error(why.0)
}

/// Sets a field of the table below the key and the value on top, with Lua's own errors for invalid keys.
fn set_field(frame: &mut Frame<'_>) -> Result<(), LuaError> {
    let message = match frame.kind(-2) {
        LuaType::Nil => "table index is nil",
        LuaType::Number if frame.number(-2).is_some_and(f64::is_nan) => "table index is NaN",
        _ => {
            frame.raw_set(-3);
            return Ok(());
        }
    };
    frame.set_top(0);
    frame.push_bytes(message);
    Err(LuaError)
}
