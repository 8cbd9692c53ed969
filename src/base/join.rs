//! Constant texts that are joined at compile time.

/// Joins constant texts: `joined!(" | ", ["GET", "SET"])` is `"GET | SET"`.
macro_rules! joined {
    ($separator:expr, $parts:expr) => {{
        const PARTS: &[&str] = &$parts;
        const BYTES: [u8; $crate::base::join::length(PARTS, $separator)] = $crate::base::join::bytes(PARTS, $separator);
        $crate::base::join::text(&BYTES)
    }};
}
pub(crate) use joined;

/// The length of the joined text in bytes.
pub const fn length(parts: &[&str], separator: &str) -> usize {
    let mut length = 0;
    let mut part = 0;
    while part < parts.len() {
        length += parts[part].len() + if part > 0 { separator.len() } else { 0 };
        part += 1;
    }
    length
}

/// The joined text; `N` is its [`length`].
pub const fn bytes<const N: usize>(parts: &[&str], separator: &str) -> [u8; N] {
    let mut bytes = [0; N];
    let mut length = 0;
    let mut part = 0;
    while part < parts.len() {
        if part > 0 {
            length = copy(&mut bytes, length, separator.as_bytes());
        }
        length = copy(&mut bytes, length, parts[part].as_bytes());
        part += 1;
    }
    bytes
}

const fn copy(into: &mut [u8], mut at: usize, from: &[u8]) -> usize {
    let mut index = 0;
    while index < from.len() {
        into[at] = from[index];
        at += 1;
        index += 1;
    }
    at
}

/// The joined [`bytes`] as text: they are UTF-8, since the parts are.
pub const fn text(bytes: &[u8]) -> &str {
    match std::str::from_utf8(bytes) {
        Ok(text) => text,
        Err(_) => "",
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn parts_are_joined_with_the_separator_between_them() {
        const WHOLE: &str = joined!("", ["<", joined!(" | ", ["é", "B c", ""]), ">"]);
        assert_eq!(WHOLE, "<é | B c | >");
        assert_eq!(joined!(", ", []), "");
    }
}
