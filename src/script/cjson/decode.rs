//! JSON to Lua values.

use super::{Setting, setting};
use crate::script::lua::{Frame, LuaError};

pub(super) fn decode(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    if frame.top() != 1 {
        return Err(frame.argument_error(1, "expected 1 argument"));
    }
    let input = frame.expect_bytes(1)?.to_vec();
    if let [0, _, ..] | [_, 0, ..] = input[..] {
        return Err(frame.error("JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut decoder = Decoder {
        reader: Reader {
            input: &input,
            at: 0,
            start: 0,
            text: Vec::new(),
            invalid_numbers: setting(frame, Setting::DecodeInvalidNumbers) != 0,
        },
        open: Vec::new(),
        max_depth: setting(frame, Setting::DecodeMaxDepth) as usize,
    };
    decoder.value(frame)?;
    match decoder.reader.token() {
        Token::End => Ok(1),
        token => Err(decoder.reader.unexpected(frame, "the end", &token)),
    }
}

/// A table on the stack that is being filled.
enum Open {
    Array {
        next: i32,
    },
    /// The key of the next value lies above the table.
    Object,
}

struct Decoder<'i> {
    reader: Reader<'i>,
    open: Vec<Open>,
    max_depth: usize,
}

impl Decoder<'_> {
    /// Pushes one value, with everything nested in it.
    fn value(&mut self, frame: &mut Frame<'_>) -> Result<(), LuaError> {
        let mut token = self.reader.token();
        loop {
            frame.check_memory(0)?;
            token = match token {
                Token::ArrayBegin => {
                    self.descend(frame, 2)?;
                    match self.reader.token() {
                        Token::ArrayEnd => match self.advance(frame)? {
                            Some(token) => token,
                            None => return Ok(()),
                        },
                        token => {
                            self.open.push(Open::Array { next: 1 });
                            token
                        }
                    }
                }
                Token::ObjectBegin => {
                    self.descend(frame, 3)?;
                    match self.reader.token() {
                        Token::ObjectEnd => match self.advance(frame)? {
                            Some(token) => token,
                            None => return Ok(()),
                        },
                        token => {
                            self.open.push(Open::Object);
                            self.key(frame, &token)?
                        }
                    }
                }
                token => {
                    self.scalar(frame, &token)?;
                    match self.advance(frame)? {
                        Some(token) => token,
                        None => return Ok(()),
                    }
                }
            };
        }
    }

    /// Pushes a new table.
    fn descend(&mut self, frame: &Frame<'_>, slots: usize) -> Result<(), LuaError> {
        let depth = self.open.len() + 1;
        if depth > self.max_depth || !frame.reserve(slots) {
            let at = self.reader.at;
            return Err(frame.error(format!("Found too many nested data structures ({depth}) at character {at}")));
        }
        frame.push_table(0, 0);
        Ok(())
    }

    fn scalar(&mut self, frame: &mut Frame<'_>, token: &Token) -> Result<(), LuaError> {
        match token {
            Token::String => frame.push_bytes(&self.reader.text),
            Token::Number(value) => frame.push_number(*value),
            Token::OddNumber => {
                frame.push_bytes(&self.reader.input[self.reader.start..self.reader.at]);
                let value = frame.number(-1).unwrap_or(f64::NAN);
                frame.pop(1);
                frame.push_number(value);
            }
            Token::Boolean(value) => frame.push_boolean(*value),
            Token::Null => frame.push_null(),
            token => return Err(self.reader.unexpected(frame, "value", token)),
        }
        Ok(())
    }

    /// Adds the value on top to its table, and so on for each table that becomes complete. Returns the first token of
    /// the next value, if another follows.
    fn advance(&mut self, frame: &mut Frame<'_>) -> Result<Option<Token>, LuaError> {
        loop {
            match self.open.last_mut() {
                None => return Ok(None),
                Some(Open::Array { next }) => {
                    frame.raw_set_index(-2, *next);
                    *next = next.wrapping_add(1);
                    match self.reader.token() {
                        Token::ArrayEnd => {}
                        Token::Comma => return Ok(Some(self.reader.token())),
                        token => return Err(self.reader.unexpected(frame, "comma or array end", &token)),
                    }
                }
                Some(Open::Object) => {
                    frame.raw_set(-3);
                    match self.reader.token() {
                        Token::ObjectEnd => {}
                        Token::Comma => {
                            let token = self.reader.token();
                            return self.key(frame, &token).map(Some);
                        }
                        token => return Err(self.reader.unexpected(frame, "comma or object end", &token)),
                    }
                }
            }
            self.open.pop();
        }
    }

    /// Pushes a key. Returns the first token of its value.
    fn key(&mut self, frame: &Frame<'_>, token: &Token) -> Result<Token, LuaError> {
        match token {
            Token::String => frame.push_bytes(&self.reader.text),
            token => return Err(self.reader.unexpected(frame, "object key string", token)),
        }
        match self.reader.token() {
            Token::Colon => Ok(self.reader.token()),
            token => Err(self.reader.unexpected(frame, "colon", &token)),
        }
    }
}

enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    /// The text is in the reader's `text`.
    String,
    Number(f64),
    /// A number that C parses but Rust does not: hexadecimal, NaN, an infinity. The reader has just passed it.
    OddNumber,
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Invalid(&'static str),
}

impl Token {
    /// The name of the token in errors.
    fn name(&self) -> &'static str {
        match self {
            Self::ObjectBegin => "T_OBJ_BEGIN",
            Self::ObjectEnd => "T_OBJ_END",
            Self::ArrayBegin => "T_ARR_BEGIN",
            Self::ArrayEnd => "T_ARR_END",
            Self::String => "T_STRING",
            Self::Number(_) | Self::OddNumber => "T_NUMBER",
            Self::Boolean(_) => "T_BOOLEAN",
            Self::Null => "T_NULL",
            Self::Colon => "T_COLON",
            Self::Comma => "T_COMMA",
            Self::End => "T_END",
            Self::Invalid(why) => why,
        }
    }
}

struct Reader<'i> {
    input: &'i [u8],
    at: usize,
    /// The start of the last token, or of what is invalid in it.
    start: usize,
    /// The text of the last string.
    text: Vec<u8>,
    /// Whether numbers that C parses but JSON does not have are accepted.
    invalid_numbers: bool,
}

impl Reader<'_> {
    fn unexpected(&self, frame: &Frame<'_>, expected: &str, token: &Token) -> LuaError {
        frame.error(format!("Expected {expected} but found {} at character {}", token.name(), self.start + 1))
    }

    /// The byte at a distance from here. A NUL ends the input wherever it is, so it also stands for the end.
    fn peek(&self, ahead: usize) -> u8 {
        self.input.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn rest(&self) -> &[u8] {
        self.input.get(self.at..).unwrap_or_default()
    }

    fn token(&mut self) -> Token {
        while matches!(self.peek(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.start = self.at;
        let single = match self.peek(0) {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b',' => Token::Comma,
            b':' => Token::Colon,
            0 => return Token::End,
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' if self.invalid_numbers || !self.at_invalid_number() => return self.number(),
            b'-' | b'0'..=b'9' => return Token::Invalid("invalid number"),
            b't' if self.rest().starts_with(b"true") => return self.word(4, Token::Boolean(true)),
            b'f' if self.rest().starts_with(b"false") => return self.word(5, Token::Boolean(false)),
            b'n' if self.rest().starts_with(b"null") => return self.word(4, Token::Null),
            b'+' | b'i' | b'I' | b'n' | b'N' if self.invalid_numbers && self.at_invalid_number() => {
                return self.number();
            }
            _ => return Token::Invalid("invalid token"),
        };
        self.at += 1;
        single
    }

    fn word(&mut self, length: usize, token: Token) -> Token {
        self.at += length;
        token
    }

    fn invalid(&mut self, why: &'static str) -> Token {
        self.start = self.at;
        Token::Invalid(why)
    }

    fn string(&mut self) -> Token {
        self.at += 1;
        self.text.clear();
        loop {
            let rest = self.input.get(self.at..).unwrap_or_default();
            let plain = rest.iter().position(|byte| matches!(byte, b'"' | b'\\' | 0)).unwrap_or(rest.len());
            self.text.extend_from_slice(&rest[..plain]);
            self.at += plain;
            match self.peek(0) {
                b'"' => {
                    self.at += 1;
                    return Token::String;
                }
                b'\\' => {}
                _ => return self.invalid("unexpected end of string"),
            }
            let byte = match self.peek(1) {
                byte @ (b'"' | b'\\' | b'/') => byte,
                b'b' => 0x08,
                b't' => b'\t',
                b'n' => b'\n',
                b'f' => 0x0c,
                b'r' => b'\r',
                b'u' => match self.escaped_character() {
                    Some((character, length)) => {
                        self.text.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                        self.at += length;
                        continue;
                    }
                    None => return self.invalid("invalid unicode escape code"),
                },
                _ => return self.invalid("invalid escape code"),
            };
            self.text.push(byte);
            self.at += 2;
        }
    }

    /// The character of `\uXXXX`, or of a surrogate pair of two, and the length of the escape.
    fn escaped_character(&self) -> Option<(char, usize)> {
        let unit = self.hexadecimal(2)?;
        if !(0xd800..0xe000).contains(&unit) {
            return Some((char::from_u32(unit)?, 6));
        }
        if unit >= 0xdc00 || (self.peek(6), self.peek(7)) != (b'\\', b'u') {
            return None;
        }
        let low = self.hexadecimal(8)?;
        if !(0xdc00..0xe000).contains(&low) {
            return None;
        }
        Some((char::from_u32(0x10000 + ((unit & 0x3ff) << 10) + (low & 0x3ff))?, 12))
    }

    /// Four hexadecimal digits.
    fn hexadecimal(&self, ahead: usize) -> Option<u32> {
        (ahead..ahead + 4).try_fold(0, |value, at| Some(value << 4 | char::from(self.peek(at)).to_digit(16)?))
    }

    /// Whether C would parse a number here that JSON does not allow.
    fn at_invalid_number(&self) -> bool {
        if self.peek(0) == b'+' {
            return true;
        }
        let rest = &self.rest()[usize::from(self.peek(0) == b'-')..];
        match rest {
            [b'0', next, ..] => matches!(next, b'x' | b'X' | b'0'..=b'9'),
            [first, second, third, ..] => {
                let word = [first, second, third].map(u8::to_ascii_lowercase);
                word == *b"inf" || word == *b"nan"
            }
            _ => false,
        }
    }

    fn number(&mut self) -> Token {
        let (length, odd) = number_length(self.rest());
        if length == 0 {
            return Token::Invalid("invalid number");
        }
        let text = &self.input[self.at..self.at + length];
        self.at += length;
        if odd {
            return Token::OddNumber;
        }
        match std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()) {
            Some(value) => Token::Number(value),
            None => Token::OddNumber,
        }
    }
}

/// The length of the number that C's `strtod` parses, and whether it is more than a decimal number.
fn number_length(text: &[u8]) -> (usize, bool) {
    let sign = usize::from(matches!(text, [b'+' | b'-', ..]));
    let rest = &text[sign..];
    let starts_with = |word: &[u8]| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    if starts_with(b"infinity") {
        return (sign + 8, true);
    }
    if starts_with(b"inf") {
        return (sign + 3, true);
    }
    if starts_with(b"nan") {
        let inside = rest[3..].strip_prefix(b"(").unwrap_or_default();
        let word = inside.iter().take_while(|byte| byte.is_ascii_alphanumeric() || **byte == b'_').count();
        return (sign + if inside.get(word) == Some(&b')') { word + 5 } else { 3 }, true);
    }
    if starts_with(b"0x") {
        let length = digits_length(&rest[2..], u8::is_ascii_hexdigit, b'p');
        if length > 0 {
            return (sign + 2 + length, true);
        }
    }
    match digits_length(rest, u8::is_ascii_digit, b'e') {
        0 => (0, false),
        length => (sign + length, false),
    }
}

/// The length of digits with an optional point and exponent; 0 if there are no digits.
fn digits_length(text: &[u8], is_digit: fn(&u8) -> bool, exponent: u8) -> usize {
    let count = |text: &[u8], is_digit: fn(&u8) -> bool| text.iter().take_while(|byte| is_digit(byte)).count();
    let whole = count(text, is_digit);
    let mut length = whole;
    if text.get(whole) == Some(&b'.') {
        let fraction = count(&text[whole + 1..], is_digit);
        if whole + fraction > 0 {
            length += 1 + fraction;
        }
    }
    if length > 0 && text.get(length).is_some_and(|byte| byte.eq_ignore_ascii_case(&exponent)) {
        let sign = usize::from(matches!(text.get(length + 1), Some(b'+' | b'-')));
        let digits = count(&text[length + 1 + sign..], u8::is_ascii_digit);
        if digits > 0 {
            length += 1 + sign + digits;
        }
    }
    length
}
