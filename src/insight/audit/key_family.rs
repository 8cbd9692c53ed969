//! Keys that differ in numbers and random parts alone: `lock:order:41` and `lock:order:42`.

/// What stands for a number or a random part.
const GAP: u8 = b'*';
/// How many letters and digits a word of both needs to be taken for random.
const RANDOM: usize = 8;
/// How many characters a word of small and capital letters needs for that.
const MIXED: usize = 12;

/// A glob for a key and those that differ from it in numbers and random parts: uuids, hexadecimal and base64 words, nanoids. The
/// key itself if it has none. What a glob would obey in it is escaped.
pub fn key_glob(key: &[u8]) -> Vec<u8> {
    let mut glob = Vec::with_capacity(key.len());
    for (is_word, part) in parts(key) {
        match is_word {
            true if is_uuid(part) || is_random(part) => push_gap(&mut glob),
            true => words(part, &mut glob),
            false => push_escaped(part, &mut glob),
        }
    }
    // A glob that fits everything says nothing.
    match glob.as_slice() {
        [GAP] => escaped(key),
        _ => glob,
    }
}

/// The key as a glob that fits it alone.
pub fn escaped(key: &[u8]) -> Vec<u8> {
    let mut glob = Vec::with_capacity(key.len());
    push_escaped(key, &mut glob);
    glob
}

/// Runs of what words and random parts are made of, and of what separates them.
fn parts(key: &[u8]) -> impl Iterator<Item = (bool, &[u8])> {
    let is_of_words = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_+=".contains(byte);
    key.chunk_by(move |one, other| is_of_words(one) == is_of_words(other))
        .map(move |part| (part.first().is_some_and(is_of_words), part))
}

/// Words with dashes between them, each for itself.
fn words(part: &[u8], glob: &mut Vec<u8>) {
    for word in part.chunk_by(|one, other| one.is_ascii_alphanumeric() == other.is_ascii_alphanumeric()) {
        let name = match is_random(word) {
            true => &[],
            false => &word[..word.iter().rposition(|byte| !byte.is_ascii_digit()).map_or(0, |last| last + 1)],
        };
        push_escaped(name, glob);
        if name.len() < word.len() {
            push_gap(glob);
        }
    }
}

/// Whether a word is no name: digits and letters, or small and capital letters, in no order that people write. With dashes in it,
/// it needs all three.
fn is_random(word: &[u8]) -> bool {
    let has = |is: fn(&u8) -> bool| word.iter().any(is);
    let (digits, small, capital) = (has(u8::is_ascii_digit), has(u8::is_ascii_lowercase), has(u8::is_ascii_uppercase));
    let is_plain = word.iter().all(u8::is_ascii_alphanumeric);
    let letters = word.windows(2).filter(|pair| pair.iter().all(u8::is_ascii_alphanumeric));
    let changes = letters.filter(|pair| class(pair[0]) != class(pair[1])).count();
    let has_capitals = word.windows(2).any(|pair| pair.iter().all(u8::is_ascii_uppercase));
    match () {
        () if word.len() < RANDOM || !(small || capital) => false,
        () if digits && word.iter().all(u8::is_ascii_hexdigit) => true,
        () if !is_plain => digits && small && capital && word.len() >= MIXED && changes * 3 >= word.len(),
        // `order2024` and `reportV2` are names; digits in several places are not.
        () if digits && changes >= 3 => true,
        () => word.len() >= MIXED && small && has_capitals && changes * 3 >= word.len(),
    }
}

fn class(byte: u8) -> u8 {
    match byte {
        b'0'..=b'9' => 0,
        b'a'..=b'z' => 1,
        _ => 2,
    }
}

fn is_uuid(part: &[u8]) -> bool {
    const DASHES: [usize; 4] = [8, 13, 18, 23];
    let is_right = |(at, byte): (usize, &u8)| match DASHES.contains(&at) {
        true => *byte == b'-',
        false => byte.is_ascii_hexdigit(),
    };
    part.len() == 36 && part.iter().enumerate().all(is_right)
}

fn push_gap(glob: &mut Vec<u8>) {
    if glob.last() != Some(&GAP) {
        glob.push(GAP);
    }
}

fn push_escaped(part: &[u8], glob: &mut Vec<u8>) {
    for byte in part {
        if b"*?[]\\^".contains(byte) {
            glob.push(b'\\');
        }
        glob.push(*byte);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::glob;

    fn of(key: &str) -> String {
        let glob = key_glob(key.as_bytes());
        assert!(glob::matches(&glob, key.as_bytes(), false), "{key} does not fit its own glob");
        String::from_utf8(glob).unwrap()
    }

    #[test]
    fn numbers_and_random_parts_are_gaps() {
        for (key, glob) in [
            ("lock:order:4711", "lock:order:*"),
            ("lock:job12", "lock:job*"),
            ("lock:order:8f3a9c21", "lock:order:*"),
            ("lock:f47ac10b-58cc-4372-a567-0e02b2c3d479", "lock:*"),
            ("lock:00000000-1111-4222-8333-444444444444:part", "lock:*:part"),
            ("session:V1StGXR8_Z5jdHi6B-myT", "session:*"),
            ("lock:sJ8fK2mQ9xT4", "lock:*"),
            ("lock:dGhpcyBpcyBhIHRva2Vu=", "lock:*"),
            ("user:1002:cart:7", "user:*:cart:*"),
            ("lock:backup-2024-11", "lock:backup-*-*"),
        ] {
            assert_eq!(of(key), glob, "{key}");
        }
    }

    #[test]
    fn names_stay_names() {
        for key in
            ["lock:report", "lock:nightly-export", "lock:invoiceGenerator", "lock:MyLockForReports", "4711", "deadbeef"]
        {
            let glob = of(key);
            assert!(!glob.contains('*') || key == "4711", "{key}: {glob}");
        }
        assert_eq!(of("4711"), "4711");
        assert_eq!(of("a*b[c]"), "a\\*b\\[c\\]");
    }
}
