//! The wire: bytes to requests, replies to bytes, in RESP2 and RESP3.
//!
//! Knows framing, limits and the forms of replies; no command.
//! May use: `base`.
//! Begin with [`Framer`], which frames requests in a buffer, and [`Reply`], which encodes replies.

mod framer;
mod grisu;
mod inline;
mod number;
mod reply;
mod reply_scanner;
mod request;
mod words;

pub use framer::{Framed, Framer, Limits, Progress, ProtocolError};
pub use inline::{Dialect, is_blank, quote, quote_readably, split_line, split_whole_words};
pub use number::{
    is_whole, parse_float, parse_integer, write_double, write_general, write_integer, write_short_double,
    write_shortest,
};
pub use reply::{
    BulkWriter, Bulks, LARGE as LARGE_REPLY, LARGEST as LARGEST_REPLY, LINE_END, Protocol, Reply, bulk_line,
    first_error,
};
pub use reply_scanner::{ReplyScanner, array_elements};
pub use request::write_request;
pub use words::{OwnedWords, Span, Words, until_nul};
