//! Runs a direct script.

use smallvec::SmallVec;

use super::{Block, Call, Comparison, DirectScript, Expression, Operands, Operator, Statement};
use crate::base::error::CommandError;
use crate::protocol::{Protocol, Span, parse_integer, until_nul, write_integer};
use crate::script::api::push_number;
use crate::script::convert::{
    MAX_REPLY_BYTES, TOO_LONG, split_line, write_bulk, write_error, write_header, write_line, write_null, write_number,
};
use crate::script::host::{Host, Invocation, ScratchBuffers};
use crate::script::lua::Frame;
use crate::script::texts;
use crate::script::vm::{MEMORY_LIMIT, add_place};

/// What a script calls a value. Replies stay where they are, in [`ScratchBuffers::reply`]: strings without their length, tables as
/// they are on the wire.
#[derive(Clone, Copy)]
enum Value<'r> {
    Nil,
    Boolean(bool),
    Number(f64),
    Text(&'r [u8]),
    /// A string that a command has returned, or a concatenation.
    Kept(Span),
    /// `{ok = …}`: the line.
    Status(Span),
    /// `{err = …}`: the line, and whether it was counted.
    Error(Span, bool),
    /// A reply of several values, without `*`.
    Array(Span),
}

/// An error that ends the script.
struct Failure {
    message: Vec<u8>,
    is_counted: bool,
    /// Where it was raised. Lua does not tell that when its memory runs out.
    line: Option<u32>,
}

type Outcome<'r> = Result<Value<'r>, Failure>;

/// What Lua calls a script in errors.
const SOURCE: &[u8] = b"@user_script";

impl DirectScript {
    /// Runs the script, and appends its reply or its error. `lua` converts what only Lua converts.
    pub fn run(&self, name: &[u8], invocation: Invocation<'_>, lua: &mut Frame<'_>, out: &mut Vec<u8>) {
        let Invocation { host, client, .. } = invocation;
        let mut scratch = host.scratch().borrow_mut();
        scratch.reply.clear();
        let locals = SmallVec::from_elem(Value::Nil, self.locals);
        let mut run = Run { invocation, scratch: &mut scratch, locals, lua };
        match run.block(&self.body) {
            Ok(Some(Returned::One(value))) => run.write(value, client, out),
            Ok(Some(Returned::Table(values))) => run.write_table(&values, client, out),
            Ok(None) => write_null(client, out),
            Err(failure) => {
                let is_counted = failure.is_counted;
                let error = failure.into_line(name, host);
                host.answer_error(&error, is_counted);
                write_error(&error, out);
            }
        }
    }
}

impl Failure {
    /// The error as clients get it.
    fn into_line(self, name: &[u8], host: &dyn Host) -> Vec<u8> {
        let Some(line) = self.line else {
            return [b"ERR Error running script ", name, b", ", &*self.message].concat();
        };
        let mut error = until_nul(&self.message).to_vec();
        add_place(&mut error, name, host, SOURCE);
        write_integer(&mut error, i64::from(line));
        error.push(b'.');
        error
    }
}

/// As many bytes may lie about in [`ScratchBuffers::reply`] that no variable needs any more.
const GARBAGE: usize = 1 << 20;

/// What a script returns.
enum Returned<'r> {
    One(Value<'r>),
    Table(Vec<Value<'r>>),
}

struct Run<'r, 's, 'l> {
    invocation: Invocation<'r>,
    scratch: &'s mut ScratchBuffers,
    locals: SmallVec<[Value<'r>; 4]>,
    lua: &'s mut Frame<'l>,
}

impl<'r> Run<'r, '_, '_> {
    /// Runs statements. `Some` if the script returns.
    fn block(&mut self, block: &'r Block) -> Result<Option<Returned<'r>>, Failure> {
        for statement in block {
            let returned = match statement {
                Statement::Set(slot, value) => {
                    let before = self.scratch.reply.len();
                    let value = self.value(value)?;
                    self.locals[*slot] = value;
                    match value.span() {
                        None => self.scratch.reply.truncate(before),
                        Some(_) if self.scratch.reply.len() > GARBAGE => self.remove_garbage(),
                        Some(_) => {}
                    }
                    None
                }
                Statement::Call(call) => {
                    let before = self.scratch.reply.len();
                    self.call(call)?;
                    self.scratch.reply.truncate(before);
                    None
                }
                Statement::If { arms, otherwise } => {
                    let mut chosen = otherwise;
                    for (condition, block) in arms {
                        let before = self.scratch.reply.len();
                        let is_true = self.value(condition)?.is_true();
                        self.scratch.reply.truncate(before);
                        if is_true {
                            chosen = block;
                            break;
                        }
                    }
                    self.block(chosen)?
                }
                Statement::Do(block) => self.block(block)?,
                Statement::Return(value) => Some(Returned::One(self.value(value)?)),
                Statement::ReturnTable(elements) => {
                    let values = elements.iter().map(|element| self.value(element));
                    Some(Returned::Table(values.collect::<Result<_, _>>()?))
                }
            };
            if returned.is_some() {
                return Ok(returned);
            }
        }
        Ok(None)
    }

    /// Moves together what local variables have kept.
    fn remove_garbage(&mut self) {
        let mut kept: SmallVec<[&mut Span; 8]> = self.locals.iter_mut().filter_map(Value::span_mut).collect();
        kept.sort_by_key(|span| span.start);
        let mut end = 0;
        let mut last: Option<(Span, Span)> = None;
        for span in kept {
            let before = *span;
            match last.filter(|(other, _)| *other == before) {
                // Several variables have the same value.
                Some((_, moved)) => *span = moved,
                None => {
                    if before.start != end {
                        self.scratch.reply.copy_within(before.start..before.end, end);
                    }
                    *span = Span { start: end, end: end + (before.end - before.start) };
                    end = span.end;
                }
            }
            last = Some((before, *span));
        }
        self.scratch.reply.truncate(end);
    }

    fn value(&mut self, expression: &'r Expression) -> Outcome<'r> {
        let Invocation { keys, arguments, .. } = self.invocation;
        Ok(match expression {
            Expression::Nil => Value::Nil,
            Expression::Boolean(value) => Value::Boolean(*value),
            Expression::Number(value) => Value::Number(*value),
            Expression::Text(text) => Value::Text(text),
            Expression::Key(index) => keys.get(*index).map_or(Value::Nil, Value::Text),
            Expression::Argument(index) => arguments.get(*index).map_or(Value::Nil, Value::Text),
            Expression::KeyCount => Value::Number(keys.len() as f64),
            Expression::ArgumentCount => Value::Number(arguments.len() as f64),
            Expression::Local(slot, _) => self.locals[*slot],
            Expression::Call(call) => self.call(call)?,
            Expression::ToNumber(text) => {
                let value = self.value(text)?;
                self.number(value).map_or(Value::Nil, Value::Number)
            }
            Expression::Not(value) => Value::Boolean(!self.value(value)?.is_true()),
            Expression::And(operands) => {
                let left = self.value(&operands.left)?;
                if left.is_true() { self.value(&operands.right)? } else { left }
            }
            Expression::Or(operands) => {
                let left = self.value(&operands.left)?;
                if left.is_true() { left } else { self.value(&operands.right)? }
            }
            Expression::Equal { operands, negated } => {
                let (left, right) = (self.value(&operands.left)?, self.value(&operands.right)?);
                Value::Boolean(self.are_equal(left, right) != *negated)
            }
            Expression::Compare { operands, comparison, line } => self.compare(operands, *comparison, *line)?,
            Expression::Arithmetic { operands, operator, line } => self.arithmetic(operands, *operator, *line)?,
            Expression::Concat { operands, line } => self.concat(operands, *line)?,
        })
    }

    /// The bytes of a string.
    fn bytes<'b>(&'b self, value: Value<'b>) -> Option<&'b [u8]> {
        match value {
            Value::Text(text) => Some(text),
            Value::Kept(span) => Some(&self.scratch.reply[span.start..span.end]),
            _ => None,
        }
    }

    /// A number, or a string that is one.
    fn number(&mut self, value: Value<'r>) -> Option<f64> {
        if let Value::Number(number) = value {
            return Some(number);
        }
        let text = self.bytes(value)?;
        if let Some(number) = small_integer(text) {
            return Some(number);
        }
        self.lua.push_bytes(text);
        let number = self.lua.number(-1);
        self.lua.pop(1);
        number
    }

    fn are_equal(&self, left: Value<'r>, right: Value<'r>) -> bool {
        match (left, right) {
            (Value::Nil, Value::Nil) => true,
            (Value::Boolean(left), Value::Boolean(right)) => left == right,
            (Value::Number(left), Value::Number(right)) => left == right,
            (Value::Text(_) | Value::Kept(_), Value::Text(_) | Value::Kept(_)) => self.bytes(left) == self.bytes(right),
            // Tables are equal to themselves alone.
            (Value::Status(left), Value::Status(right))
            | (Value::Error(left, _), Value::Error(right, _))
            | (Value::Array(left), Value::Array(right)) => left == right,
            _ => false,
        }
    }

    fn compare(&mut self, operands: &'r Operands, comparison: Comparison, line: u32) -> Outcome<'r> {
        let (left, right) = (self.value(&operands.left)?, self.value(&operands.right)?);
        let holds = match (left, right) {
            (Value::Number(left), Value::Number(right)) => Some(comparison.holds(&left, &right)),
            _ => self.bytes(left).zip(self.bytes(right)).map(|(left, right)| comparison.holds(left, right)),
        };
        holds.map(Value::Boolean).ok_or_else(|| {
            // Lua has no comparison for what is greater, and swaps the operands.
            let (left, right) = match comparison {
                Comparison::Less | Comparison::LessOrEqual => (left.type_name(), right.type_name()),
                Comparison::Greater | Comparison::GreaterOrEqual => (right.type_name(), left.type_name()),
            };
            if left == right {
                misuse(line, &format!("compare two {left} values"))
            } else {
                misuse(line, &format!("compare {left} with {right}"))
            }
        })
    }

    fn arithmetic(&mut self, operands: &'r Operands, operator: Operator, line: u32) -> Outcome<'r> {
        let (left, right) = (self.value(&operands.left)?, self.value(&operands.right)?);
        let Some(first) = self.number(left) else {
            return Err(misuse_of(left, &operands.left, line, "perform arithmetic on"));
        };
        let Some(second) = self.number(right) else {
            return Err(misuse_of(right, &operands.right, line, "perform arithmetic on"));
        };
        Ok(Value::Number(operator.of(first, second)))
    }

    fn concat(&mut self, operands: &'r Operands, line: u32) -> Outcome<'r> {
        let (left, right) = (self.value(&operands.left)?, self.value(&operands.right)?);
        for (value, expression) in [(left, &operands.left), (right, &operands.right)] {
            if !matches!(value, Value::Text(_) | Value::Kept(_) | Value::Number(_)) {
                return Err(misuse_of(value, expression, line, "concatenate"));
            }
        }
        let lengths = [left, right].map(|value| self.bytes(value).map_or(0, <[u8]>::len));
        if !self.has_room(lengths[0] + lengths[1]) {
            return Err(Failure { message: b"not enough memory".to_vec(), is_counted: false, line: None });
        }
        let start = self.scratch.reply.len();
        for value in [left, right] {
            match value {
                Value::Text(text) => self.scratch.reply.extend_from_slice(text),
                Value::Kept(span) => self.scratch.reply.extend_from_within(span.start..span.end),
                Value::Number(number) => self.keep_number(number),
                _ => {}
            }
        }
        Ok(Value::Kept(Span { start, end: self.scratch.reply.len() }))
    }

    /// Keeps a number as Lua writes it.
    fn keep_number(&mut self, number: f64) {
        const EXACT: f64 = 1e14;
        if number.fract() == 0.0 && number.abs() < EXACT && !(number == 0.0 && number.is_sign_negative()) {
            return write_integer(&mut self.scratch.reply, number as i64);
        }
        self.lua.push_number(number);
        self.scratch.reply.extend_from_slice(self.lua.to_bytes(-1).unwrap_or_default());
        self.lua.pop(1);
    }

    /// Whether so many bytes may be added to what is kept. Lua ends scripts at the same limit.
    fn has_room(&self, added: usize) -> bool {
        self.scratch.reply.len() + added <= MEMORY_LIMIT
    }

    /// Runs a command.
    fn call(&mut self, call: &'r Call) -> Outcome<'r> {
        let mut values: SmallVec<[Value<'r>; 6]> = SmallVec::new();
        for argument in &call.arguments {
            values.push(self.value(argument)?);
        }
        let host = self.invocation.host;
        let refused = match self.collect_words(&values) {
            Ok(()) => {
                let start = self.scratch.reply.len();
                let ScratchBuffers { words, reply } = &mut *self.scratch;
                match host.call(words.as_words(), reply) {
                    Ok(()) => return self.answer(call, start),
                    Err(error) => {
                        reply.truncate(start);
                        (error, true)
                    }
                }
            }
            Err(error) => (error, false),
        };
        let (error, is_counted) = refused;
        if call.raises {
            return Err(Failure { message: error.line().to_vec(), is_counted, line: Some(call.line) });
        }
        let start = self.scratch.reply.len();
        self.scratch.reply.extend_from_slice(error.line());
        let end = self.scratch.reply.len();
        // Also an error without a text has a place of its own.
        self.scratch.reply.push(b'\n');
        Ok(Value::Error(Span { start, end }, is_counted))
    }

    /// Makes words of the arguments. They are strings or numbers.
    fn collect_words(&mut self, values: &[Value<'r>]) -> Result<(), CommandError> {
        let profile = self.invocation.host.profile();
        let ScratchBuffers { words, reply } = &mut *self.scratch;
        words.clear();
        if values.is_empty() {
            return Err(texts::no_arguments(profile));
        }
        for value in values {
            match value {
                Value::Text(text) => words.push(text),
                Value::Kept(span) => words.push(&reply[span.start..span.end]),
                Value::Number(number) => push_number(words, *number, profile),
                _ => return Err(texts::bad_argument(profile)),
            }
        }
        Ok(())
    }

    /// The value of the reply that begins at `start`.
    fn answer(&self, call: &Call, start: usize) -> Outcome<'r> {
        if !self.has_room(0) {
            let message = b"ERR not enough memory".to_vec();
            return Err(Failure { message, is_counted: false, line: Some(call.line) });
        }
        let reply = &self.scratch.reply[start..];
        let (kind, line) = match reply.split_first() {
            Some((kind, rest)) => (*kind, split_line(rest).map_or(rest, |(line, _)| line)),
            None => return Ok(Value::Nil),
        };
        let line_span = Span { start: start + 1, end: start + 1 + line.len() };
        Ok(match kind {
            b'+' => Value::Status(line_span),
            b'-' if call.raises => {
                return Err(Failure { message: line.to_vec(), is_counted: true, line: Some(call.line) });
            }
            b'-' => Value::Error(line_span, true),
            b':' => parse_integer(line).map_or(Value::Nil, |number| Value::Number(number as f64)),
            b'$' | b'*' if line == b"-1" => Value::Boolean(false),
            b'$' => {
                let (start, end) = (line_span.end + 2, self.scratch.reply.len().saturating_sub(2));
                if start <= end { Value::Kept(Span { start, end }) } else { Value::Nil }
            }
            b'*' => Value::Array(Span { start: start + 1, end: self.scratch.reply.len() }),
            // Direct scripts stay in RESP2, which has no other type.
            _ => Value::Nil,
        })
    }

    /// Writes a list. Lua's lists end before the first nil.
    fn write_table(&self, values: &[Value<'_>], client: Protocol, out: &mut Vec<u8>) {
        let start = out.len();
        let length = values.iter().take_while(|value| !matches!(value, Value::Nil)).count();
        write_header(b'*', length, out);
        for value in &values[..length] {
            if out.len() > start.saturating_add(MAX_REPLY_BYTES) {
                self.invocation.host.answer_error(TOO_LONG.as_bytes(), false);
                out.truncate(start);
                return write_error(TOO_LONG.as_bytes(), out);
            }
            self.write(*value, client, out);
        }
    }

    /// Writes a value as a reply, as Lua's would be written.
    fn write(&self, value: Value<'_>, client: Protocol, out: &mut Vec<u8>) {
        let host = self.invocation.host;
        let kept = |span: Span| &self.scratch.reply[span.start..span.end];
        match value {
            Value::Nil | Value::Boolean(false) => write_null(client, out),
            Value::Boolean(true) => write_number(1.0, out),
            Value::Number(number) => write_number(number, out),
            Value::Text(text) => write_bulk(text, out),
            Value::Kept(span) => write_bulk(kept(span), out),
            Value::Status(span) => write_line(b'+', until_nul(kept(span)), out),
            Value::Error(span, is_counted) => {
                host.answer_error(kept(span), is_counted);
                write_error(kept(span), out);
            }
            Value::Array(span) => {
                write_elements(kept(span), host, client, out);
            }
        }
    }
}

/// Writes the elements of an array that a command has returned, given without `*`, and returns the bytes behind them.
fn write_elements<'b>(array: &'b [u8], host: &dyn Host, client: Protocol, out: &mut Vec<u8>) -> Option<&'b [u8]> {
    let (line, mut rest) = split_line(array)?;
    let Ok(length) = usize::try_from(parse_integer(line)?) else {
        write_null(client, out);
        return Some(rest);
    };
    write_header(b'*', length, out);
    for _ in 0..length {
        let (&kind, element) = rest.split_first()?;
        let (line, behind) = split_line(element)?;
        rest = behind;
        match kind {
            b'+' => write_line(b'+', until_nul(line), out),
            b'-' => {
                host.answer_error(line, true);
                write_error(line, out);
            }
            b':' => write_number(parse_integer(line)? as f64, out),
            b'$' => match usize::try_from(parse_integer(line)?) {
                Ok(length) => {
                    write_bulk(behind.get(..length)?, out);
                    rest = behind.get(length + 2..)?;
                }
                Err(_) => write_null(client, out),
            },
            _ => rest = write_elements(element, host, client, out)?,
        }
    }
    Some(rest)
}

impl Value<'_> {
    /// What it needs of [`ScratchBuffers::reply`].
    fn span(&self) -> Option<Span> {
        match *self {
            Self::Kept(span) | Self::Status(span) | Self::Error(span, _) | Self::Array(span) => Some(span),
            Self::Nil | Self::Boolean(_) | Self::Number(_) | Self::Text(_) => None,
        }
    }

    fn span_mut(&mut self) -> Option<&mut Span> {
        match self {
            Self::Kept(span) | Self::Status(span) | Self::Error(span, _) | Self::Array(span) => Some(span),
            Self::Nil | Self::Boolean(_) | Self::Number(_) | Self::Text(_) => None,
        }
    }

    /// Only nil and false are false.
    fn is_true(self) -> bool {
        !matches!(self, Self::Nil | Self::Boolean(false))
    }

    fn type_name(self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Boolean(_) => "boolean",
            Self::Number(_) => "number",
            Self::Text(_) | Self::Kept(_) => "string",
            Self::Status(_) | Self::Error(..) | Self::Array(_) => "table",
        }
    }
}

/// A short decimal integer. All others are left to Lua.
fn small_integer(text: &[u8]) -> Option<f64> {
    const DIGITS: usize = 15;
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    if digits.is_empty() || digits.len() > DIGITS || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let value = digits.iter().fold(0u64, |value, digit| value * 10 + u64::from(digit - b'0')) as f64;
    Some(if digits.len() < text.len() { -value } else { value })
}

/// Lua's error for an operation on values of the wrong type.
fn misuse(line: u32, what: &str) -> Failure {
    let message = format!("ERR user_script:{line}: attempt to {what}").into_bytes();
    Failure { message, is_counted: false, line: Some(line) }
}

/// As [`misuse`], of a value that Lua names where it can.
fn misuse_of(value: Value<'_>, expression: &Expression, line: u32, what: &str) -> Failure {
    let kind = value.type_name();
    match expression {
        Expression::Local(_, name) => {
            let name = String::from_utf8_lossy(name);
            misuse(line, &format!("{what} local '{name}' (a {kind} value)"))
        }
        Expression::Key(_) | Expression::Argument(_) => misuse(line, &format!("{what} field '?' (a {kind} value)")),
        _ => misuse(line, &format!("{what} a {kind} value")),
    }
}
