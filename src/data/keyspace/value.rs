//! The types of values and their common operations.

use super::block::Block;
use super::compact;
use super::hash::Hash;
use super::list::List;
use super::set::Set;
use super::sorted_set::SortedSet;
use super::stream::Stream;
use super::text_bytes::TextBytes;
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
    pub bytes: TextBytes,
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

    /// A small one that lies in the block of its entry.
    fn in_block(block: &Block<Value>) -> Option<&Self>;
    fn change_in_block<R>(block: &mut Block<Value>, change: impl FnOnce(&mut Self) -> R) -> Option<R>;

    /// Whether the value is empty, so that its key is deleted.
    fn is_removable(&self) -> bool;
}

/// Implements `Collection` for a value type.
macro_rules! collection {
    ($type:ident, $over:expr, $($in_block:item)*) => {
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

            $($in_block)*

            fn is_removable(&self) -> bool {
                let over: fn(&Self) -> bool = $over;
                over(self)
            }
        }
    };
}

/// Implements `Collection` for a value type that is a block while it is small.
macro_rules! small_collection {
    ($type:ident) => {
        impl From<$type> for Value {
            fn from(value: $type) -> Self {
                Self::$type(value)
            }
        }

        collection! {
            $type,
            |value| value.len() == 0,
            #[inline]
            fn in_block(block: &Block<Value>) -> Option<&Self> {
                if small_kind(block)? == ValueKind::$type { block.as_collection() } else { None }
            }

            #[inline]
            fn change_in_block<R>(block: &mut Block<Value>, change: impl FnOnce(&mut Self) -> R) -> Option<R> {
                if small_kind(block)? == ValueKind::$type { block.change_collection(change) } else { None }
            }
        }
    };
}

small_collection!(List);
small_collection!(Set);
small_collection!(SortedSet);
small_collection!(Hash);

impl From<Stream> for Value {
    fn from(stream: Stream) -> Self {
        Self::Stream(Box::new(stream))
    }
}

collection! {
    Stream,
    // It remains without entries.
    |_| false,
    fn in_block(_: &Block<Value>) -> Option<&Self> {
        None
    }

    fn change_in_block<R>(_: &mut Block<Value>, _: impl FnOnce(&mut Self) -> R) -> Option<R> {
        None
    }
}

/// The type of a small collection. `None` for any other block.
#[inline]
pub fn small_kind(block: &Block<Value>) -> Option<ValueKind> {
    let first = if block.is_collection() { block.text().first()? } else { return None };
    Some(match *first {
        compact::LIST => ValueKind::List,
        compact::SORTED_SET => ValueKind::SortedSet,
        compact::HASH | compact::HASH_TABLE => ValueKind::Hash,
        _ => ValueKind::Set,
    })
}

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

    /// The bytes of a small collection, with which an entry can keep it in its own block.
    pub fn small_text(&self) -> Option<&[u8]> {
        match self {
            Self::List(list) => list.small_text(),
            Self::Set(set) => set.small_text(),
            Self::SortedSet(set) => set.small_text(),
            Self::Hash(hash) => hash.small_text(),
            Self::String(_) | Self::Stream(_) => None,
        }
    }

    /// A small collection of this type and with these bytes.
    pub fn of_small_text(kind: ValueKind, text: &[u8]) -> Self {
        match kind {
            ValueKind::List => Self::List(List::of_small_text(text)),
            ValueKind::SortedSet => Self::SortedSet(SortedSet::of_small_text(text)),
            ValueKind::Hash => Self::Hash(Hash::of_small_text(text)),
            ValueKind::Set => Self::Set(Set::of_small_text(text)),
            ValueKind::String | ValueKind::Stream => unreachable!("it has no small form"),
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
}
