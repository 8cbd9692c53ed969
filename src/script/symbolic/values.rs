//! Unknown values in Lua: how they compare, compute, and what libraries may do with them.
//!
//! An unknown value is a table that scripts take for a string or a number: it has a metatable for arithmetic, and rewritten code
//! compares it by the functions here.

use super::super::api::write_argument;
use super::super::arguments::truncated;
use super::super::convert::push_error;
use super::super::lua::{Frame, LuaError, LuaType, NativeFn, push_host_error};
use super::super::sandbox::push_real_table;
use super::hypotheses::{Answer, ENDED, Hypotheses, Unknown, UnknownId, Word};
use super::rewrite;
use crate::protocol::parse_float;

/// The field of an unknown value that has its number, as what a status reply has, and so a returned value becomes one.
const FIELD: &str = "ok";
/// What stands in front of the number there.
pub const MARK: &[u8] = b"\x01unknown:";
/// The text of an error that a command gave, which is not known.
pub const UNKNOWN_ERROR: &[u8] = b"\x01error";
/// The registry key of the metatable of unknown values.
pub const METATABLE: &str = "redouble.unknown";

pub const NATIVES: &[(&str, NativeFn)] = &[
    ("call", call),
    ("pcall", pcall),
    ("register_function", register_function),
    ("give_up", give_up),
    ("real", real),
    ("known", known),
    ("deeply_known", deeply_known),
    ("known_table", known_table),
    ("is_text", is_text),
    ("tonumber", tonumber),
    ("tostring", tostring),
    ("type", type_of),
    ("some_text", some_text),
    ("some_length", some_length),
    ("some_number", some_number),
    ("some_whole_number", some_whole_number),
];
pub const OPERATORS: &[(&str, NativeFn)] = &[
    (rewrite::EQUAL, equal),
    (rewrite::LESS, less),
    (rewrite::LESS_OR_EQUAL, less_or_equal),
    (rewrite::GREATER, greater),
    (rewrite::GREATER_OR_EQUAL, greater_or_equal),
    (rewrite::LENGTH, length),
    (rewrite::KNOWN, known),
];
pub const METAMETHODS: &[(&str, NativeFn)] = &[
    ("__add", add),
    ("__sub", subtract),
    ("__mul", multiply),
    ("__div", other_arithmetic),
    ("__mod", other_arithmetic),
    ("__pow", other_arithmetic),
    ("__unm", negate),
    ("__concat", concat),
];

fn hypotheses<'l>(frame: &mut Frame<'l>) -> Result<&'l Hypotheses<'l>, LuaError> {
    let Some(hypotheses) = frame.host().symbolic() else {
        push_host_error(frame, ENDED);
        return Err(LuaError);
    };
    if hypotheses.abort().is_some() {
        push_host_error(frame, ENDED);
        return Err(LuaError);
    }
    Ok(hypotheses)
}

fn give_up(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    hypotheses(frame)?.give_up();
    push_host_error(frame, ENDED);
    Err(LuaError)
}

/// Ends the run if a choice has ended it.
fn checked(frame: &mut Frame<'_>, results: usize) -> Result<usize, LuaError> {
    hypotheses(frame).map(|_| results)
}

fn push_unknown(frame: &mut Frame<'_>, UnknownId(number): UnknownId) {
    frame.push_table(0, 1);
    frame.push_bytes([MARK, number.to_string().as_bytes()].concat());
    frame.raw_set_field(-2, FIELD);
    frame.registry_get(METATABLE);
    frame.set_metatable(-2);
}

/// The number behind the mark of an unknown value.
pub fn unmarked(text: &[u8]) -> Option<usize> {
    std::str::from_utf8(text.strip_prefix(MARK)?).ok()?.parse().ok()
}

/// The unknown value at an index. One that has been assumed to be a known value is replaced by that.
fn unknown(frame: &mut Frame<'_>, index: i32) -> Result<Option<(UnknownId, bool)>, LuaError> {
    if frame.kind(index) != LuaType::Table {
        return Ok(None);
    }
    let number = (frame.raw_get_field(index, FIELD) == LuaType::String).then(|| unmarked(frame.bytes(-1)?)).flatten();
    frame.pop(1);
    let Some(number) = number else { return Ok(None) };
    let hypotheses = hypotheses(frame)?;
    let run = hypotheses.run.borrow();
    match run.unknowns.get(number) {
        None => Ok(None),
        Some(Unknown::Text { value: Some(text), .. }) => {
            frame.push_bytes(text);
            replace(frame, index);
            Ok(None)
        }
        Some(Unknown::Number { value: Some(value), .. }) => {
            frame.push_number(*value);
            replace(frame, index);
            Ok(None)
        }
        Some(Unknown::Text { .. }) => Ok(Some((UnknownId(number), true))),
        Some(Unknown::Number { .. }) => Ok(Some((UnknownId(number), false))),
    }
}

/// Moves the value on top to an index from the bottom, in place of the one there.
fn replace(frame: &mut Frame<'_>, index: i32) {
    frame.insert(index);
    frame.remove(index + 1);
}

// ---- commands

fn call(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    run_command(frame, true)
}

fn pcall(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    run_command(frame, false)
}

fn run_command(frame: &mut Frame<'_>, raising: bool) -> Result<usize, LuaError> {
    let hypotheses = hypotheses(frame)?;
    let mut words = Vec::with_capacity(frame.top() as usize);
    for index in 1..=frame.top() {
        if let Some((id, _)) = unknown(frame, index)? {
            words.push(Word::Unknown(id));
            continue;
        }
        match frame.kind(index) {
            LuaType::String => words.push(Word::Known(frame.bytes(index).unwrap_or_default().to_vec())),
            LuaType::Number => {
                let mut text = Vec::with_capacity(24);
                write_argument(&mut text, frame.number(index).unwrap_or_default(), hypotheses.profile);
                words.push(Word::Known(text));
            }
            _ => return give_up(frame),
        }
    }
    frame.set_top(0);
    let Some(reply) = hypotheses.answer(words, raising) else {
        push_host_error(frame, ENDED);
        return Err(LuaError);
    };
    push_answer(frame, &reply)?;
    if raising && reply == Answer::Error { Err(LuaError) } else { Ok(1) }
}

fn push_answer(frame: &mut Frame<'_>, answer: &Answer) -> Result<(), LuaError> {
    if !frame.reserve(8) {
        return give_up(frame).map(|_| ());
    }
    match answer {
        Answer::Nil => frame.push_boolean(false),
        Answer::Integer(number) => frame.push_number(*number as f64),
        Answer::Status(text) => {
            frame.push_table(0, 1);
            frame.push_bytes(text);
            frame.raw_set_field(-2, "ok");
        }
        Answer::Text(text) => frame.push_bytes(text),
        Answer::Unknown(id) => push_unknown(frame, *id),
        Answer::List(answers) => {
            frame.push_table(answers.len(), 0);
            for (element, answer) in (1..).zip(answers) {
                push_answer(frame, answer)?;
                frame.raw_set_index(-2, element);
            }
        }
        Answer::Error => push_error(frame, UNKNOWN_ERROR, false),
    }
    Ok(())
}

/// Keeps the function that is wanted: `redis.register_function(name, function)` or `{function_name = …, callback = …}`.
fn register_function(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    let hypotheses = hypotheses(frame)?;
    if frame.top() == 1 && frame.kind(1) == LuaType::Table {
        frame.raw_get_field(1, "function_name");
        frame.raw_get_field(1, "callback");
        frame.remove(1);
    }
    let is_wanted = hypotheses.wanted.is_some_and(|wanted| {
        frame.kind(1) == LuaType::String && frame.bytes(1).is_some_and(|name| name.eq_ignore_ascii_case(wanted))
    });
    if is_wanted && frame.kind(2) == LuaType::Function {
        frame.set_top(2);
        hypotheses.callback.set(Some(frame.create_ref()));
    }
    Ok(0)
}

// ---- guards of library functions

/// The real table behind the proxy of a library.
fn real(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    if !push_real_table(frame, 1) {
        frame.push_value(1);
    }
    Ok(1)
}

/// All arguments, which must be known.
fn known(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    for index in 1..=frame.top() {
        if unknown(frame, index)?.is_some() {
            return give_up(frame);
        }
    }
    Ok(frame.top() as usize)
}

/// All arguments; the first, and the second of three, must be known.
fn known_table(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    if unknown(frame, 1)?.is_some() || frame.top() == 3 && unknown(frame, 2)?.is_some() {
        return give_up(frame);
    }
    Ok(frame.top() as usize)
}

/// All arguments, which must be known with everything in them.
fn deeply_known(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    known(frame)?;
    for index in 1..=frame.top() {
        if !is_deeply_known(frame, index, 0)? {
            return give_up(frame);
        }
    }
    Ok(frame.top() as usize)
}

/// The deepest table that is searched for unknown values.
const MOST_DEPTH: usize = 30;

fn is_deeply_known(frame: &mut Frame<'_>, index: i32, depth: usize) -> Result<bool, LuaError> {
    if frame.kind(index) != LuaType::Table {
        return Ok(true);
    }
    if depth > MOST_DEPTH || !frame.reserve(8) {
        return Ok(false);
    }
    // The elements of a list are replaced by what is known of them.
    frame.push_nil();
    while frame.next(index) {
        let value = frame.top();
        if frame.kind(value) == LuaType::Table {
            if unknown(frame, value)?.is_some() {
                return Ok(false);
            }
            if frame.kind(value) != LuaType::Table {
                // It is known by now. To store it under a key that exists does not disturb the iteration.
                frame.push_value(value - 1);
                frame.push_value(value);
                frame.raw_set(index);
            } else if !is_deeply_known(frame, value, depth + 1)? {
                return Ok(false);
            }
        }
        frame.set_top(value - 1);
    }
    Ok(true)
}

/// Refuses an unknown number.
fn is_text(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    match unknown(frame, 1)? {
        Some((_, false)) => give_up(frame),
        _ => Ok(0),
    }
}

// ---- library functions of unknown values: whether it is one, and the result

fn undecided(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    frame.push_boolean(false);
    Ok(1)
}

/// Any number, or any integer.
fn any_number(frame: &mut Frame<'_>, low: f64, high: f64, is_whole: bool) -> Result<usize, LuaError> {
    frame.push_boolean(true);
    push_number(frame, low, high, is_whole)?;
    checked(frame, 2)
}

fn push_number(frame: &mut Frame<'_>, low: f64, high: f64, is_whole: bool) -> Result<(), LuaError> {
    let unknown = Unknown::Number { low, high, is_whole, value: None, not: Vec::new() };
    let id = hypotheses(frame)?.run.borrow_mut().add(unknown);
    push_unknown(frame, id);
    Ok(())
}

fn tonumber(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    let Some((id, is_text)) = unknown(frame, 1)? else { return undecided(frame) };
    if !matches!(frame.kind(2), LuaType::None | LuaType::Nil) {
        return give_up(frame);
    }
    if is_text && !is_numeric(frame, id)? {
        frame.push_boolean(true);
        frame.push_nil();
        return checked(frame, 2);
    }
    if is_text {
        return any_number(frame, f64::NEG_INFINITY, f64::INFINITY, false);
    }
    frame.push_boolean(true);
    frame.push_value(1);
    Ok(2)
}

/// Whether an unknown text is that of a number.
fn is_numeric(frame: &mut Frame<'_>, id: UnknownId) -> Result<bool, LuaError> {
    let mut run = hypotheses(frame)?.run.borrow_mut();
    let is_number = match &run.unknowns[id.0] {
        Unknown::Text { is_number, .. } => *is_number,
        Unknown::Number { .. } => true,
    };
    Ok(is_number || run.choose(2) == 0)
}

fn tostring(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    match unknown(frame, 1)? {
        None => undecided(frame),
        Some((_, true)) => {
            frame.push_boolean(true);
            frame.push_value(1);
            Ok(2)
        }
        Some((_, false)) => push_text(frame, true),
    }
}

fn push_text(frame: &mut Frame<'_>, is_number: bool) -> Result<usize, LuaError> {
    let id = hypotheses(frame)?.run.borrow_mut().add_text(is_number);
    frame.push_boolean(true);
    push_unknown(frame, id);
    checked(frame, 2)
}

fn type_of(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    let Some((_, is_text)) = unknown(frame, 1)? else { return undecided(frame) };
    frame.push_boolean(true);
    frame.push_bytes(if is_text { "string" } else { "number" });
    Ok(2)
}

fn has_unknown(frame: &mut Frame<'_>) -> Result<bool, LuaError> {
    let mut has = false;
    for index in 1..=frame.top() {
        has |= unknown(frame, index)?.is_some();
    }
    Ok(has)
}

fn some_text(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    if has_unknown(frame)? { push_text(frame, false) } else { undecided(frame) }
}

fn some_length(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    if has_unknown(frame)? { any_number(frame, 0.0, f64::INFINITY, true) } else { undecided(frame) }
}

fn some_number(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    if has_unknown(frame)? { any_number(frame, f64::NEG_INFINITY, f64::INFINITY, false) } else { undecided(frame) }
}

fn some_whole_number(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    if has_unknown(frame)? { any_number(frame, f64::NEG_INFINITY, f64::INFINITY, true) } else { undecided(frame) }
}

// ---- operators

fn equal(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    frame.set_top(2);
    let is_equal = match (unknown(frame, 1)?, unknown(frame, 2)?) {
        (None, None) => are_equal(frame),
        (Some((one, _)), Some((other, _))) if one == other => true,
        (Some((_, one)), Some((_, other))) => one == other && hypotheses(frame)?.run.borrow_mut().choose(2) == 0,
        (Some((id, is_text)), None) => equals_known(frame, id, is_text, 2)?,
        (None, Some((id, is_text))) => equals_known(frame, id, is_text, 1)?,
    };
    frame.push_boolean(is_equal);
    checked(frame, 1)
}

fn equals_known(frame: &mut Frame<'_>, id: UnknownId, is_text: bool, index: i32) -> Result<bool, LuaError> {
    let mut run = hypotheses(frame)?.run.borrow_mut();
    Ok(match frame.kind(index) {
        LuaType::String if is_text => run.equals_text(id, frame.bytes(index).unwrap_or_default()),
        LuaType::Number if !is_text => run.equals_number(id, frame.number(index).unwrap_or_default()),
        _ => false,
    })
}

/// Lua's equality of two known values.
fn are_equal(frame: &Frame<'_>) -> bool {
    if frame.kind(1) != frame.kind(2) {
        return false;
    }
    match frame.kind(1) {
        LuaType::None | LuaType::Nil => true,
        LuaType::Boolean => frame.boolean(1) == frame.boolean(2),
        LuaType::Number => frame.number(1) == frame.number(2),
        LuaType::String => frame.bytes(1) == frame.bytes(2),
        LuaType::Table | LuaType::Function => frame.address(1) == frame.address(2),
        LuaType::Other => frame.is_null(1) == frame.is_null(2) && frame.address(1) == frame.address(2),
    }
}

fn less(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    compare(frame, false, false)
}

fn less_or_equal(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    compare(frame, true, false)
}

fn greater(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    compare(frame, false, true)
}

fn greater_or_equal(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    compare(frame, true, true)
}

/// Whether the first value is below the second, or the other way round.
fn compare(frame: &mut Frame<'_>, or_equal: bool, is_swapped: bool) -> Result<usize, LuaError> {
    frame.set_top(2);
    if is_swapped {
        frame.insert(1);
    }
    let result = match (unknown(frame, 1)?, unknown(frame, 2)?) {
        (None, None) => is_less(frame, or_equal)?,
        (Some((_, one)), Some((_, other))) if one == other => hypotheses(frame)?.run.borrow_mut().choose(2) == 0,
        (Some((id, false)), None) if frame.kind(2) == LuaType::Number => {
            let limit = frame.number(2).unwrap_or_default();
            hypotheses(frame)?.run.borrow_mut().is_below(id, limit, or_equal)
        }
        (None, Some((id, false))) if frame.kind(1) == LuaType::Number => {
            let limit = frame.number(1).unwrap_or_default();
            !limit.is_nan() && !hypotheses(frame)?.run.borrow_mut().is_below(id, limit, !or_equal)
        }
        (Some((_, true)), None) if frame.kind(2) == LuaType::String => {
            hypotheses(frame)?.run.borrow_mut().choose(2) == 0
        }
        (None, Some((_, true))) if frame.kind(1) == LuaType::String => {
            hypotheses(frame)?.run.borrow_mut().choose(2) == 0
        }
        _ => return Err(frame.error("attempt to compare two values of different types")),
    };
    frame.push_boolean(result);
    checked(frame, 1)
}

fn is_less(frame: &Frame<'_>, or_equal: bool) -> Result<bool, LuaError> {
    match (frame.kind(1), frame.kind(2)) {
        (LuaType::Number, LuaType::Number) => {
            let (one, other) = (frame.number(1).unwrap_or_default(), frame.number(2).unwrap_or_default());
            Ok(if or_equal { one <= other } else { one < other })
        }
        (LuaType::String, LuaType::String) => {
            let (one, other) = (frame.bytes(1).unwrap_or_default(), frame.bytes(2).unwrap_or_default());
            Ok(if or_equal { one <= other } else { one < other })
        }
        (one, other) if one == other => {
            Err(frame.error(format!("attempt to compare two {} values", frame.type_name(1))))
        }
        _ => Err(frame.error(format!("attempt to compare {} with {}", frame.type_name(1), frame.type_name(2)))),
    }
}

fn length(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    frame.set_top(1);
    match (unknown(frame, 1)?, frame.kind(1)) {
        (Some((_, true)), _) => push_number(frame, 0.0, f64::INFINITY, true)?,
        (None, LuaType::String | LuaType::Table) => frame.push_number(frame.raw_length(1) as f64),
        _ => return Err(frame.error("attempt to get length of a value that has none")),
    }
    checked(frame, 1)
}

/// A number in arithmetic: its bounds, and whether it is an integer.
type Bounds = (f64, f64, bool);

/// The bounds of an operand. A text that is no number raises an error, as in Lua.
fn operand(frame: &mut Frame<'_>, index: i32) -> Result<Bounds, LuaError> {
    if let Some((id, is_text)) = unknown(frame, index)? {
        if is_text && !is_numeric(frame, id)? {
            return Err(frame.error("attempt to perform arithmetic on a string value"));
        }
        let run = hypotheses(frame)?.run.borrow();
        return Ok(match run.unknowns[id.0] {
            Unknown::Number { low, high, is_whole, .. } => (low, high, is_whole),
            Unknown::Text { .. } => (f64::NEG_INFINITY, f64::INFINITY, false),
        });
    }
    let text = frame.bytes(index).map(<[u8]>::to_vec);
    match (frame.number(index), text) {
        (Some(number), _) => Ok((number, number, number.fract() == 0.0)),
        (None, _) => Err(frame.error(format!("attempt to perform arithmetic on a {} value", frame.type_name(index)))),
    }
}

fn arithmetic(frame: &mut Frame<'_>, compute: impl Fn(Bounds, Bounds) -> (f64, f64)) -> Result<usize, LuaError> {
    frame.set_top(2);
    let (one, other) = (operand(frame, 1)?, operand(frame, 2)?);
    let (low, high) = compute(one, other);
    let (low, high) = if low.is_nan() || high.is_nan() { (f64::NEG_INFINITY, f64::INFINITY) } else { (low, high) };
    push_result(frame, low, high, one.2 && other.2)
}

fn push_result(frame: &mut Frame<'_>, low: f64, high: f64, is_whole: bool) -> Result<usize, LuaError> {
    if low == high {
        frame.push_number(low);
    } else {
        push_number(frame, low, high, is_whole)?;
    }
    checked(frame, 1)
}

fn add(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    arithmetic(frame, |(low, high, _), (other_low, other_high, _)| (low + other_low, high + other_high))
}

fn subtract(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    arithmetic(frame, |(low, high, _), (other_low, other_high, _)| (low - other_high, high - other_low))
}

fn multiply(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    arithmetic(frame, |(low, high, _), (other_low, other_high, _)| {
        let products = [low * other_low, low * other_high, high * other_low, high * other_high];
        if products.iter().any(|product| product.is_nan()) {
            return (f64::NEG_INFINITY, f64::INFINITY);
        }
        products
            .iter()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), &product| (least.min(product), most.max(product)))
    })
}

/// Division, remainder, power: any number.
fn other_arithmetic(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    frame.set_top(2);
    operand(frame, 1)?;
    operand(frame, 2)?;
    push_result(frame, f64::NEG_INFINITY, f64::INFINITY, false)
}

fn negate(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    let (low, high, is_whole) = operand(frame, 1)?;
    push_result(frame, -high, -low, is_whole)
}

fn concat(frame: &mut Frame<'_>) -> Result<usize, LuaError> {
    frame.set_top(2);
    let mut text = Vec::new();
    let mut is_known = true;
    for index in 1..=2 {
        if unknown(frame, index)?.is_some() {
            is_known = false;
        } else if let Some(part) = frame.to_bytes(index) {
            text.extend_from_slice(part);
        } else {
            return Err(frame.error(format!("attempt to concatenate a {} value", frame.type_name(index))));
        }
    }
    if is_known {
        frame.push_bytes(text);
        return checked(frame, 1);
    }
    let id = hypotheses(frame)?.run.borrow_mut().add_text(false);
    push_unknown(frame, id);
    checked(frame, 1)
}

/// Whether a value that a script returned, as a marked status, can be the reply; what that tells is kept.
pub fn matches_unknown(hypotheses: &Hypotheses<'_>, number: usize, kind: u8, text: &[u8]) -> bool {
    let mut run = hypotheses.run.borrow_mut();
    let id = UnknownId(number);
    match run.unknowns.get(number) {
        Some(Unknown::Text { .. }) => kind == b'$' && run.bind_text(id, text),
        // A number that is none of the integers is cut off.
        Some(Unknown::Number { is_whole: false, low, high, .. }) => {
            kind == b':'
                && parse_float(text).is_some_and(|number| (truncated(*low) as f64..=high.trunc()).contains(&number))
        }
        Some(Unknown::Number { .. }) => {
            kind == b':' && parse_float(text).is_some_and(|value| run.bind_number(id, value))
        }
        None => false,
    }
}
