//! Replies as people and programs read them: with types and quotes on a terminal, bare otherwise.

use super::value::Value;
use crate::protocol::quote;

/// How replies are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    Terminal,
    Raw,
}

/// A reply as a terminal shows it. Elements behind the first begin with `indent`.
pub(super) fn terminal(value: &Value, indent: &str, out: &mut Vec<u8>) {
    match value {
        Value::Nil => out.extend(b"(nil)"),
        Value::Error(text) => out.extend([b"(error) ", text.as_slice()].concat()),
        Value::Integer(digits) => out.extend([b"(integer) ", digits.as_slice()].concat()),
        Value::Double(digits) => out.extend([b"(double) ", digits.as_slice()].concat()),
        Value::Boolean(value) => out.extend(format!("({value})").bytes()),
        Value::Status(text) | Value::Verbatim(text) => out.extend(text),
        Value::Text(text) => out.extend(quote(text)),
        Value::Array(elements) => return list(elements, ')', "(empty array)", indent, out),
        Value::Set(elements) => return list(elements, '~', "(empty set)", indent, out),
        Value::Push(elements) => return list(elements, ')', "(empty push)", indent, out),
        Value::Map(pairs) => return map(pairs, indent, out),
    }
    out.push(b'\n');
}

fn list(elements: &[Value], mark: char, empty: &str, indent: &str, out: &mut Vec<u8>) {
    if elements.is_empty() {
        out.extend(format!("{empty}\n").bytes());
    }
    let (width, inner) = columns(elements.len(), indent);
    for (number, element) in (1..).zip(elements) {
        write_number(number, width, mark, indent, out);
        terminal(element, &inner, out);
    }
}

fn map(pairs: &[(Value, Value)], indent: &str, out: &mut Vec<u8>) {
    if pairs.is_empty() {
        out.extend(b"(empty hash)\n");
    }
    let (width, inner) = columns(pairs.len(), indent);
    for (number, (key, value)) in (1..).zip(pairs) {
        write_number(number, width, '#', indent, out);
        terminal(key, &inner, out);
        // The value stands on the line of its key, unless it has several lines.
        out.pop_if(|last| *last == b'\n');
        out.extend(b" => ");
        if has_lines(value) {
            out.extend(format!("\n{inner}").bytes());
        }
        terminal(value, &inner, out);
    }
}

/// The width of the largest number, and the indent of what is nested.
fn columns(count: usize, indent: &str) -> (usize, String) {
    let width = count.to_string().len();
    (width, format!("{indent}{:1$}", "", width + 2))
}

fn write_number(number: usize, width: usize, mark: char, indent: &str, out: &mut Vec<u8>) {
    // The list around this one has indented the first element already.
    let indent = if number == 1 { "" } else { indent };
    out.extend(format!("{indent}{number:width$}{mark} ").bytes());
}

fn has_lines(value: &Value) -> bool {
    match value {
        Value::Array(elements) | Value::Set(elements) | Value::Push(elements) => {
            elements.len() > 1 || elements.first().is_some_and(has_lines)
        }
        Value::Map(pairs) => pairs.len() > 1 || pairs.first().is_some_and(|(_, value)| has_lines(value)),
        _ => false,
    }
}

/// A reply as programs read it. The elements of lists have `delimiter` between them.
pub(super) fn raw(value: &Value, delimiter: &[u8], out: &mut Vec<u8>) {
    match value {
        Value::Nil => {}
        Value::Error(text) => out.extend([text.as_slice(), b"\n"].concat()),
        Value::Boolean(value) => out.extend(format!("({value})").bytes()),
        Value::Status(text)
        | Value::Text(text)
        | Value::Verbatim(text)
        | Value::Integer(text)
        | Value::Double(text) => out.extend(text),
        Value::Array(elements) | Value::Set(elements) | Value::Push(elements) => {
            for (number, element) in elements.iter().enumerate() {
                if number > 0 {
                    out.extend(delimiter);
                }
                raw(element, delimiter, out);
            }
        }
        Value::Map(pairs) => {
            for (number, (key, value)) in pairs.iter().enumerate() {
                if number > 0 {
                    out.extend(delimiter);
                }
                raw(key, delimiter, out);
                out.push(b' ');
                raw(value, delimiter, out);
            }
        }
    }
}

/// A message about keys that a client should no longer have in its cache, as a terminal shows it.
pub(super) fn invalidation(message: &Value) -> Option<Vec<u8>> {
    let Value::Push(elements) = message else { return None };
    let [Value::Text(kind), Value::Array(keys)] = elements.as_slice() else { return None };
    if kind != b"invalidate" {
        return None;
    }
    let keys = keys.iter().map(|key| {
        let mut quoted = b"'".to_vec();
        raw(key, b"", &mut quoted);
        quoted.push(b'\'');
        quoted
    });
    let keys: Vec<Vec<u8>> = keys.collect();
    Some([b"-> invalidate: ", keys.join(&b", "[..]).as_slice(), b"\n"].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    #[test]
    fn what_is_nested_is_indented_by_the_width_of_its_number() {
        let inner = Value::Array(vec![text("a"), Value::Nil]);
        let mut list = vec![Value::Integer(b"1".to_vec()); 9];
        list.push(inner.clone());
        let mut out = Vec::new();
        terminal(&Value::Array(list), "", &mut out);
        let out = String::from_utf8(out).unwrap();
        assert!(out.starts_with(" 1) (integer) 1\n 2) "), "{out}");
        assert!(out.ends_with("\n10) 1) \"a\"\n    2) (nil)\n"), "{out}");

        let mut out = Vec::new();
        terminal(&Value::Map(vec![(text("k"), inner), (text("l"), Value::Boolean(true))]), "", &mut out);
        let expected = "1# \"k\" => \n   1) \"a\"\n   2) (nil)\n2# \"l\" => (true)\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
