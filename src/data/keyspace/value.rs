//! The types of values, and what all of them have in common.

use super::hash::Hash;
use super::list::List;
use super::set::Set;
use super::sorted_set::SortedSet;
use super::stream::Stream;
use crate::base::clock::Millis;

/// The type of a value, as TYPE names it.
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

    /// Whether clients can wait for a key of this type.
    pub fn is_awaited(self) -> bool {
        matches!(self, Self::List | Self::SortedSet | Self::Stream)
    }
}

/// A value with the type that has its own home; short strings live in packed entries instead. Those that are not strings
/// stand in a box of their own, so that the others stay small.
#[derive(Clone)]
pub enum Value {
    String(Text),
    List(Box<List>),
    Set(Box<Set>),
    SortedSet(Box<SortedSet>),
    Hash(Box<Hash>),
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

/// A type of values that hold elements.
pub trait Collection: Sized + Into<Value> {
    fn of(value: &Value) -> Option<&Self>;
    fn of_mut(value: &mut Value) -> Option<&mut Self>;

    /// Whether nothing is left that a key would have to be there for.
    fn is_removable(&self) -> bool;
}

/// Makes a type one whose values are kept under keys.
macro_rules! collection {
    ($type:ident, $over:expr) => {
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$type(Box::new(value))
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

collection!(List, |list| list.len() == 0);
collection!(Set, |set| set.len() == 0);
collection!(SortedSet, |set| set.len() == 0);
collection!(Hash, |hash| hash.len() == 0);
// A stream stays when its last entry goes.
collection!(Stream, |_| false);

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

    /// When the first of its parts runs out of time.
    #[inline]
    pub fn first_field_deadline(&self) -> Option<Millis> {
        match self {
            Self::Hash(hash) => hash.earliest(),
            _ => None,
        }
    }

    /// Bytes of memory that it takes beside its own size.
    pub fn size(&self) -> usize {
        match self {
            Self::String(text) => text.bytes.capacity(),
            Self::List(list) => list.size(),
            Self::Set(set) => set.size(),
            Self::SortedSet(set) => set.size(),
            Self::Hash(hash) => hash.size(),
            Self::Stream(stream) => stream.size(),
        }
    }

    /// How it is kept, as OBJECT ENCODING names it; strings know that themselves.
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
