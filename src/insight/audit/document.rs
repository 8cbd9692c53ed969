//! JSON documents: whether one was made from another one, and whether a third one has lost what the second one changed.

use serde_json::{Map, Value};

/// How many digits a number has that may be a time.
const TIME: f64 = 1e9;

/// A document, if the text is an object or a list.
fn parsed(text: &[u8]) -> Option<Value> {
    let is_document = |value: &Value| value.is_object() || value.is_array();
    match text.first()? {
        b'{' | b'[' => serde_json::from_slice(text).ok().filter(is_document),
        _ => None,
    }
}

/// Whether a new document was made from an old one: it has the old names or elements, and some of the old values.
pub fn is_made_from(old: &[u8], new: &[u8]) -> bool {
    let (Some(old), Some(new)) = (parsed(old), parsed(new)) else { return false };
    old != new && is_grown(&old, &new)
}

fn is_grown(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            let has_all =
                |one: &Map<String, Value>, other: &Map<String, Value>| other.keys().all(|name| one.contains_key(name));
            let common = || old.iter().filter_map(|(name, value)| new.get(name).map(|other| (value, other)));
            let is_some_kept =
                old.is_empty() || common().any(|(value, other)| value == other || is_grown(value, other));
            let are_numbers = || common().all(|(value, other)| value.is_number() && other.is_number());
            !new.is_empty() && (has_all(new, old) || has_all(old, new)) && (is_some_kept || are_numbers())
        }
        (Value::Array(old), Value::Array(new)) => {
            let shared = old.iter().filter(|element| new.contains(element)).count();
            !new.is_empty() && (old.is_empty() || shared * 2 >= old.len().min(new.len()) && shared > 0)
        }
        _ => false,
    }
}

/// What one of two changes makes of the other one, if both were made from the same value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conflict {
    /// The other change is undone: both counted, both added or removed something, or they are at different places.
    Undone,
    /// Both have changed the same number: they counted, or each has computed it anew.
    Counted,
    /// Both have put something else in the same place, or nobody can see it.
    Replaced,
}

/// What a document makes of another one's changes. A text that is empty stands for nothing. `None` if they are no documents of one
/// kind.
pub fn conflict(base: &[u8], theirs: &[u8], ours: &[u8]) -> Option<Conflict> {
    let (theirs, ours) = (parsed(theirs)?, parsed(ours)?);
    let base = match base {
        b"" => nothing_like(&theirs),
        base => parsed(base)?,
    };
    let are_alike = [&theirs, &ours].iter().all(|other| other.is_object() == base.is_object());
    let mut changes = Changes::default();
    changes.compare(&base, &theirs, &ours);
    are_alike.then_some(match changes {
        Changes { is_lost: true, .. } => Conflict::Undone,
        Changes { are_counted: true, is_replaced: false, .. } => Conflict::Counted,
        _ => Conflict::Replaced,
    })
}

fn nothing_like(value: &Value) -> Value {
    if value.is_array() { Value::Array(Vec::new()) } else { Value::Object(Map::new()) }
}

/// What two documents changed.
#[derive(Default)]
struct Changes {
    /// What one of them changed is as before in the other one.
    is_lost: bool,
    /// Both have counted from the same number.
    are_counted: bool,
    /// Both have put something else in the same place, or the time.
    is_replaced: bool,
}

impl Changes {
    fn compare(&mut self, base: &Value, theirs: &Value, ours: &Value) {
        if theirs == base || theirs == ours {
            return;
        }
        match (base, theirs, ours) {
            (Value::Object(base), Value::Object(theirs), Value::Object(ours)) => self.compare_names(base, theirs, ours),
            (Value::Array(base), Value::Array(theirs), Value::Array(ours)) => self.compare_elements(base, theirs, ours),
            (Value::Number(_), Value::Number(_), Value::Number(_)) if base == ours => {
                self.is_lost |= !is_time(theirs);
            }
            _ if base == ours => self.is_lost = true,
            (Value::Number(_), Value::Number(_), Value::Number(_)) => {
                let may_be_set = [theirs, ours].iter().any(|value| value.as_f64() == Some(0.0));
                match is_time(base) || is_time(theirs) || is_time(ours) {
                    true => self.is_replaced = true,
                    false => self.are_counted |= !may_be_set,
                }
            }
            _ => self.is_replaced = true,
        }
    }

    fn compare_names(&mut self, base: &Map<String, Value>, theirs: &Map<String, Value>, ours: &Map<String, Value>) {
        for (name, value) in theirs {
            match (base.get(name), ours.get(name)) {
                (Some(before), Some(own)) => self.compare(before, value, own),
                (None, None) => self.is_lost = true,
                (None, Some(own)) if value.is_array() || value.is_object() => {
                    self.compare(&nothing_like(value), value, own);
                }
                (None, Some(own)) => self.is_replaced |= own != value,
                (Some(before), None) => self.is_replaced |= before != value,
            }
        }
        let is_back = |(name, before): (&String, &Value)| !theirs.contains_key(name) && ours.get(name) == Some(before);
        self.is_lost |= base.iter().any(is_back);
    }

    fn compare_elements(&mut self, base: &[Value], theirs: &[Value], ours: &[Value]) {
        if base.len() == theirs.len() && base.len() == ours.len() {
            let places = base.iter().zip(theirs).zip(ours);
            return places.for_each(|((before, value), own)| self.compare(before, value, own));
        }
        let is_missing = |value: &Value| !base.contains(value) && !ours.contains(value);
        let is_back = |before: &Value| !theirs.contains(before) && ours.contains(before);
        self.is_lost |= theirs.iter().any(is_missing) || base.iter().any(is_back);
    }
}

fn is_time(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number.abs() >= TIME)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_with_the_old_names_or_elements_is_made_from_the_old_one() {
        for (old, new) in [
            ("{}", r#"{"north":"moved"}"#),
            ("[]", r#"[{"who":"ada"}]"#),
            (r#"{"entries":0,"sum":0}"#, r#"{"entries":2,"sum":120}"#),
            (r#"{"items":["a"],"count":1}"#, r#"{"items":["a","b"],"count":2}"#),
            (r#"{"name":"ada","tags":[]}"#, r#"{"name":"ada","tags":["new"],"seen":true}"#),
        ] {
            assert!(is_made_from(old.as_bytes(), new.as_bytes()), "{old} {new}");
        }
        for (old, new) in [
            (r#"{"state":"idle","by":"a"}"#, r#"{"state":"busy","by":"b"}"#),
            ("[]", "{}"),
            ("{}", "{}"),
            (r#"["a","b"]"#, r#"["c"]"#),
            ("idle", "busy"),
        ] {
            assert!(!is_made_from(old.as_bytes(), new.as_bytes()), "{old} {new}");
        }
    }

    #[test]
    fn a_document_undoes_another_one_whose_change_it_does_not_have() {
        let conflict =
            |base: &str, theirs: &str, ours: &str| conflict(base.as_bytes(), theirs.as_bytes(), ours.as_bytes());
        for (base, theirs, ours) in [
            ("{}", r#"{"north":1}"#, r#"{"south":1}"#),
            ("", "[1]", "[2]"),
            (r#"{"items":["a"],"n":1}"#, r#"{"items":["a","b"],"n":2}"#, r#"{"items":["a","c"],"n":2}"#),
            (r#"{"a":{"x":1},"b":2}"#, r#"{"a":{"x":5},"b":2}"#, r#"{"a":{"x":1},"b":7}"#),
            (r#"["a","b","c"]"#, r#"["b","c"]"#, r#"["a","b"]"#),
        ] {
            assert_eq!(conflict(base, theirs, ours), Some(Conflict::Undone), "{base} {theirs} {ours}");
        }
        for (base, theirs, ours) in [
            (r#"{"state":"idle","by":"a"}"#, r#"{"state":"busy","by":"b"}"#, r#"{"state":"done","by":"c"}"#),
            (r#"{"page":"one","views":7}"#, r#"{"page":"two","views":8}"#, r#"{"page":"six","views":9}"#),
            (r#"{"at":1700000010,"n":1}"#, r#"{"at":1700000011,"n":2}"#, r#"{"at":1700000020,"n":3}"#),
            ("{}", r#"{"owner":"a"}"#, r#"{"owner":"b"}"#),
            ("[1]", "[1,2]", "[1,2,3]"),
            (r#"{"n":3}"#, r#"{"n":0}"#, r#"{"n":4}"#),
        ] {
            assert_eq!(conflict(base, theirs, ours), Some(Conflict::Replaced), "{base} {theirs} {ours}");
        }
        let counted = conflict(r#"{"n":0,"sum":0}"#, r#"{"n":3,"sum":450}"#, r#"{"n":2,"sum":120}"#);
        assert_eq!(counted, Some(Conflict::Counted));
        assert_eq!(conflict("{}", "[1]", "{}"), None);
        assert_eq!(conflict("7", "8", "9"), None);
    }
}
