//! What several clients are sent.

use std::cell::OnceCell;

use bytes::Bytes;

use super::Client;
use crate::base::segment::SHARED;

/// A message to several clients. If it is long, they share it until it is written.
pub struct Message<'a> {
    bytes: &'a [u8],
    shared: OnceCell<Bytes>,
}

impl<'a> Message<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, shared: OnceCell::new() }
    }

    /// Not even the first one needs a copy.
    pub fn of(shared: &'a Bytes) -> Self {
        Self { bytes: shared, shared: OnceCell::from(shared.clone()) }
    }

    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Sends it to one of them. Returns how many bytes wait to be sent.
    pub fn send_to(&self, client: &Client) -> usize {
        if self.bytes.len() < SHARED {
            return client.send(self.bytes);
        }
        client.send_shared(self.shared.get_or_init(|| Bytes::copy_from_slice(self.bytes)))
    }
}
