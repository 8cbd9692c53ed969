//! The types of values and their common operations.

use super::hash::Hash;
use super::list::List;
use super::set::Set;
use super::sorted_set::SortedSet;
use super::stream::Stream;
use crate::base::clock::Millis;

/// The type of a value, as in TYPE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    String,
    List,
    Set,
    SortedSet,
    Hash,
    Stream,
}

impl ValueKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::List => "list",
            Self::Set => "set",
            Self::SortedSet => "zset",
            Self::Hash => "hash",
            Self::Stream => "stream",
        }
    }

    /// Whether clients can block on a key of this type.
    pub fn is_awaited(self) -> bool {
        matches!(self, Self::List | Self::SortedSet | Self::Stream)
    }
}

/// A value by type; short strings are in packed entries instead. Each is a pointer, so that this stays small.
#[derive(Clone)]
pub enum Value {
    String(Box<Text>),
    List(List),
    Set(Set),
    SortedSet(SortedSet),
    Hash(Hash),
    Stream(Box<Stream>),
}

/// A string that is long, has a long key, or was edited in place.
#[derive(Clone)]
pub struct Text {
    pub bytes: Vec<u8>,
    /// APPEND, SETRANGE, SETBIT and the like leave a string in Redis's `raw` encoding, however short it is.
    pub edited: bool,
    /// INCRBYFLOAT leaves what it writes as text (`embstr`), even where it reads as an integer.
    pub verbatim: bool,
}

impl From<Text> for Value {
    fn from(text: Text) -> Self {
        Self::String(Box::new(text))
    }
}

/// A value type with elements.
pub trait Collection: Sized + Into<Value> {
    fn of(value: &Value) -> Option<&Self>;
    fn of_mut(value: &mut Value) -> Option<&mut Self>;

    /// Whether the value is empty, so that its key is deleted.
    fn is_removable(&self) -> bool;
}

/// Implements `Collection` for a value type.
macro_rules! collection {
    ($type:ident, $put:expr, $over:expr) => {
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                let put: fn($type) -> _ = $put;
                Self::$type(put(value))
            }
        }

        impl Collection for $type {
            fn of(value: &Value) -> Option<&Self> {
                match value {
                    Value::$type(value) => Some(value),
                    _ => None,
                }
            }

            fn of_mut(value: &mut Value) -> Option<&mut Self> {
                match value {
                    Value::$type(value) => Some(value),
                    _ => None,
                }
            }

            fn is_removable(&self) -> bool {
                let over: fn(&Self) -> bool = $over;
                over(self)
            }
        }
    };
}

collection!(List, std::convert::identity, |list| list.len() == 0);
collection!(Set, std::convert::identity, |set| set.len() == 0);
collection!(SortedSet, std::convert::identity, |set| set.len() == 0);
collection!(Hash, std::convert::identity, |hash| hash.len() == 0);
// A stream remains without entries.
collection!(Stream, Box::new, |_| false);

impl Value {
    pub fn kind(&self) -> ValueKind {
        match self {
            Self::String(_) => ValueKind::String,
            Self::List(_) => ValueKind::List,
            Self::Set(_) => ValueKind::Set,
            Self::SortedSet(_) => ValueKind::SortedSet,
            Self::Hash(_) => ValueKind::Hash,
            Self::Stream(_) => ValueKind::Stream,
        }
    }

    /// The earliest deadline of one of its parts.
    #[inline]
    pub fn first_field_deadline(&self) -> Option<Millis> {
        match self {
            Self::Hash(hash) => hash.earliest(),
            _ => None,
        }
    }

    /// The memory outside itself, in bytes.
    pub fn size(&self) -> usize {
        match self {
            Self::String(text) => size_of::<Text>() + text.bytes.capacity(),
            Self::List(list) => list.size(),
            Self::Set(set) => set.size(),
            Self::SortedSet(set) => set.size(),
            Self::Hash(hash) => hash.size(),
            Self::Stream(stream) => stream.size(),
        }
    }

    /// The name of the encoding, as in OBJECT ENCODING; `None` for a string, whose entry knows it.
    pub fn encoding(&self) -> Option<&'static str> {
        match self {
            Self::String(_) => None,
            Self::List(list) => Some(list.encoding()),
            Self::Set(set) => Some(set.encoding()),
            Self::SortedSet(set) => Some(set.encoding()),
            Self::Hash(hash) => Some(hash.encoding()),
            Self::Stream(_) => Some("stream"),
        }
    }
}
