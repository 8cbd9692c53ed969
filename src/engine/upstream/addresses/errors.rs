//! Errors that send a client to another node.

use memchr::memmem;

use super::AddressBook;
use super::host_port::HostPort;
use super::raw_reply::{Edits, Heads};

/// The errors, and the number of words between their names and the addresses.
const REDIRECTS: [(&str, usize); 3] = [("MOVED", 1), ("ASK", 1), ("REDIRECT", 0)];

/// The reply with local addresses in its errors, wherever they are in it.
pub(super) fn rewrite(reply: &[u8], book: &dyn AddressBook) -> Option<Vec<u8>> {
    let may_have_errors = match reply.first()? {
        b'-' | b'!' => true,
        b'*' | b'~' | b'>' | b'%' | b'|' => has_redirect(reply),
        _ => false,
    };
    if !may_have_errors {
        return None;
    }
    let mut edits = Edits::new(reply);
    let mut heads = Heads::new(reply);
    for head in heads.by_ref() {
        if let (b'-' | b'!', Some(text)) = (head.kind, head.text)
            && let Some(text) = std::str::from_utf8(text).ok().and_then(|text| localized(text, book))
        {
            edits.set_head(&head, text.as_bytes());
        }
    }
    if heads.is_complete() && heads.at() == reply.len() { edits.apply() } else { None }
}

/// Whether the name of such an error is anywhere in the reply, which may be long.
fn has_redirect(reply: &[u8]) -> bool {
    REDIRECTS.iter().any(|(name, _)| memmem::find(reply, name.as_bytes()).is_some())
}

/// The text of an error with local addresses: at its begin, or where an error quotes another.
fn localized(text: &str, book: &dyn AddressBook) -> Option<String> {
    let mut words: Vec<&str> = text.split(' ').collect();
    let (place, address) = words.iter().enumerate().find_map(|(at, word)| {
        let (_, between) = REDIRECTS.iter().find(|(name, _)| name == word)?;
        let is_slot = |word: &&str| word.parse::<u16>().is_ok();
        let place = at + 1 + between;
        (words.get(at + 1..place)?.iter().all(is_slot)).then_some(())?;
        Some((place, HostPort::parse(words.get(place)?)?))
    })?;
    let address = address.localized(book, None)?;
    words[place] = &address;
    Some(words.join(" "))
}
