//! How many random bits a token may have: by its alphabet, its length, and whether it is put together from words and numbers.
//!
//! The estimate is rather too high than too low: who made a token at random is never told that others can guess it.

use crate::insight::audit::timestamp::{TimeUnit, Timestamp};

/// How many random bits a token needs.
pub const ENOUGH: f64 = 64.0;

/// The shortest number that is drawn at random from 63 bits, and not counted.
const SHORTEST_RANDOM: usize = 13;
/// The longest word of a name.
const LONGEST_WORD: usize = 14;
/// How long a word is that has vowels, and how many consonants follow each other at most.
const LONG_WORD: usize = 5;
/// How near to now the nanoseconds are that a program writes, in microseconds; a random number of 19 digits may look like later ones.
const NEAR: i64 = 600_000_000;
/// The addresses at which 64-bit programs keep their threads, which are the threads' numbers there.
const THREADS: std::ops::Range<u64> = 0x7f00_0000_0000..0x8000_0000_0000;

/// What a part of a token is, between two separators.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Empty,
    /// A number that is counted, or a time.
    Number,
    /// A number that is long enough to be drawn at random.
    LongNumber,
    Word(WordStyle),
    /// Anything else.
    Mixed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WordStyle {
    Lower,
    Upper,
    /// `Main`, `mainThread` or `MainThread`.
    Capital,
}

/// How many random bits a token may have that is used at this time; more than that for one that is too short for enough of them.
pub fn random_bits(token: &[u8], at: i64, real: i64) -> f64 {
    let most = length(token.len()) * 8.0;
    if most < ENOUGH {
        return most;
    }
    // A time in seconds, as many locks have it for a value, or a counter.
    if token.len() < SHORTEST_RANDOM && token.iter().all(u8::is_ascii_digit) {
        return 0.0;
    }
    let token = pickled(token).unwrap_or(token);
    // Most tokens are such, and each attempt is asked. They are no times and no fractions.
    if let Some(bits) = hexadecimal_bits(token) {
        return bits;
    }
    if token.iter().any(|byte| !byte.is_ascii_graphic() && *byte != b' ') {
        return binary_bits(token);
    }
    if token.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') && is_time(token, at, real) {
        return 0.0;
    }
    if is_fraction(token) || is_repetitive(token) {
        return 0.0;
    }
    let is_separator = |byte: &u8| !byte.is_ascii_alphanumeric();
    let parts = || token.split(is_separator).map(|part| (part, part_of(part, at, real)));
    let is_sequence = |part: &[u8]| is_sequence(part.iter().map(|byte| digit(*byte)), part.len());
    if parts().any(|(part, kind)| kind == Part::LongNumber && !is_sequence(part)) {
        return ENOUGH;
    }
    let mut styles = parts().filter_map(|(_, kind)| match kind {
        Part::Word(style) => Some(style),
        _ => None,
    });
    let first = styles.next();
    let is_of_one_style = styles.all(|style| Some(style) == first);
    // No name has the signs of base64.
    let is_base64 = token.iter().any(|byte| b"+=".contains(byte));
    if !is_base64 && is_of_one_style && parts().all(|(_, kind)| kind != Part::Mixed) {
        return 0.0;
    }
    let each = alphabet_bits(token);
    let of_part = |part: &[u8]| if is_time(part, at, real) { 0.0 } else { length(part.len()) * each };
    token.split(is_separator).map(of_part).sum()
}

/// What a byte is in a hexadecimal number: the value of the digit, or one of these.
const NO_DIGIT: u8 = u8::MAX;
const LEFT_OUT: u8 = u8::MAX - 1;

const DIGITS: [u8; 256] = {
    let mut digits = [NO_DIGIT; 256];
    let mut value = 0;
    while value < 10 {
        digits[(b'0' + value) as usize] = value;
        value += 1;
    }
    while value < 16 {
        digits[(b'a' + value - 10) as usize] = value;
        digits[(b'A' + value - 10) as usize] = value;
        value += 1;
    }
    (digits[b'-' as usize], digits[b'{' as usize], digits[b'}' as usize]) = (LEFT_OUT, LEFT_OUT, LEFT_OUT);
    digits
};

fn digit(byte: u8) -> u8 {
    DIGITS[usize::from(byte)]
}

/// How many random bits a number in hexadecimal digits or a UUID may have; `None` for any other token.
fn hexadecimal_bits(token: &[u8]) -> Option<f64> {
    let (mut count, mut has_letter) = (0, false);
    for part in token.chunks(32) {
        // Without branches: most tokens are such numbers, and go through to the end.
        let mut has_other = false;
        for &byte in part {
            let value = digit(byte);
            count += usize::from(value < 16);
            has_letter |= (10..16).contains(&value);
            has_other |= value == NO_DIGIT;
        }
        if has_other {
            return None;
        }
    }
    let digits = token.iter().map(|byte| digit(*byte)).filter(|value| *value != LEFT_OUT);
    let is_it = count >= 16 && (count >= 32 || has_letter);
    is_it.then(|| if is_repetitive(token) || is_sequence(digits, count) { 0.0 } else { length(count) * 4.0 })
}

/// Whether two tokens are numbers of one row: the next one can be told.
pub fn are_counted(one: &[u8], other: &[u8]) -> bool {
    let is_number = |token: &[u8]| token.len() >= SHORTEST_RANDOM && token.iter().all(u8::is_ascii_digit);
    let common = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    is_number(one) && one.len() == other.len() && one != other && common * 5 >= one.len() * 3
}

/// Whether a token is a time near now.
pub fn is_time(token: &[u8], at: i64, real: i64) -> bool {
    let found = Timestamp::in_value(token, at, real);
    let is_near = |micros: i64| (micros - at).abs() <= NEAR || (micros - real).abs() <= NEAR;
    found.is_some_and(|found| found.unit != TimeUnit::Nanos || is_near(found.micros))
}

fn length(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// The text, the bytes or the number that Python's pickle has packed, which caches do with all that they are given.
fn pickled(value: &[u8]) -> Option<&[u8]> {
    let rest = value.strip_suffix(b".")?;
    let [0x80, 2..=5, rest @ ..] = rest else { return None };
    // A frame has its length before it; a value that is remembered, a mark behind it.
    let rest = if let [0x95, _, _, _, _, _, _, _, _, framed @ ..] = rest { framed } else { rest };
    let rest = rest.strip_suffix(&[0x94]).or_else(|| rest.strip_suffix(b"q\x00")).unwrap_or(rest);
    match rest {
        [0x8c | b'C', length, inner @ ..] if inner.len() == usize::from(*length) => Some(inner),
        [b'X' | b'B', one, two, three, four, inner @ ..] => {
            let length = u32::from_le_bytes([*one, *two, *three, *four]);
            (u32::try_from(inner.len()) == Ok(length)).then_some(inner)
        }
        [b'K', _] | [b'M', _, _] | [b'J', _, _, _, _] | [b'N' | 0x88 | 0x89] => Some(b""),
        _ => None,
    }
}

fn binary_bits(token: &[u8]) -> f64 {
    if is_repetitive(token) { 0.0 } else { length(token.len()) * 8.0 }
}

/// `0.7316498235`: what functions return that give a random number below one, and that is none for secrets.
fn is_fraction(token: &[u8]) -> bool {
    let digits = token.strip_prefix(b"0.").or_else(|| token.strip_prefix(b"."));
    digits.is_some_and(|digits| !digits.is_empty() && digits.iter().all(u8::is_ascii_digit))
}

/// Whether a text has no more than three different characters.
fn is_repetitive(token: &[u8]) -> bool {
    let (mut seen, mut count) = ([false; 256], 0);
    token.iter().all(|byte| {
        count += usize::from(!std::mem::replace(&mut seen[usize::from(*byte)], true));
        count <= 3
    })
}

/// Whether most of so many digits repeat the one before or count on from it, as in a constant that somebody has typed.
fn is_sequence(mut digits: impl Iterator<Item = u8>, count: usize) -> bool {
    let pairs = count.saturating_sub(1);
    // Of 32 random digits 22 never do so; of fewer digits nearly all must.
    let enough = if count >= 32 { pairs * 22 / 31 } else { pairs * 4 / 5 };
    let mut last = digits.next().unwrap_or(NO_DIGIT);
    // A random token is through after some of its digits.
    let mut breaks_left = pairs - enough;
    for next in digits {
        if last == NO_DIGIT || next == NO_DIGIT || (next != last && next != last + 1) {
            if breaks_left == 0 {
                return false;
            }
            breaks_left -= 1;
        }
        last = next;
    }
    count >= SHORTEST_RANDOM
}

fn part_of(part: &[u8], at: i64, real: i64) -> Part {
    let (word, number) = part.split_at(letters(part));
    if !number.iter().all(u8::is_ascii_digit) {
        return Part::Mixed;
    }
    let is_long = number.len() >= SHORTEST_RANDOM && !is_time(number, at, real) && !is_thread(number);
    match (word.is_empty(), number.is_empty()) {
        (true, true) => Part::Empty,
        _ if is_long => Part::LongNumber,
        (true, false) => Part::Number,
        // `worker1`
        (false, _) => style_of(word).map_or(Part::Mixed, Part::Word),
    }
}

/// How many letters a part begins with.
fn letters(part: &[u8]) -> usize {
    part.iter().take_while(|byte| byte.is_ascii_alphabetic()).count()
}

/// The style of a word; `None` if no name has such a word.
fn style_of(word: &[u8]) -> Option<WordStyle> {
    let is_vowel = |byte: &u8| b"aeiouy".contains(&byte.to_ascii_lowercase());
    let vowels = word.iter().filter(|byte| is_vowel(byte)).count();
    let is_abbreviation = word.len() < LONG_WORD && word.iter().all(u8::is_ascii_lowercase);
    let is_pronounced = vowels * LONG_WORD >= word.len() && word.split(is_vowel).all(|part| part.len() < LONG_WORD);
    if word.len() > LONGEST_WORD || !(is_pronounced || is_abbreviation || word.len() <= 2) {
        return None;
    }
    // The later words in one begin with a capital, and are not short.
    let rest = word.get(1..).unwrap_or_default();
    let mut humps = rest.split(u8::is_ascii_uppercase);
    let is_begun =
        humps.next().is_some_and(|first| !first.is_empty()) || word.first().is_some_and(u8::is_ascii_lowercase);
    match () {
        () if word.iter().all(u8::is_ascii_lowercase) => Some(WordStyle::Lower),
        () if word.iter().all(u8::is_ascii_uppercase) => Some(WordStyle::Upper),
        () if is_begun && humps.all(|hump| hump.len() >= 3 && hump.iter().any(is_vowel)) => Some(WordStyle::Capital),
        () => None,
    }
}

fn is_thread(number: &[u8]) -> bool {
    let number = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
    number.is_some_and(|number| THREADS.contains(&number))
}

/// How many bits each character of a text in this alphabet has.
fn alphabet_bits(token: &[u8]) -> f64 {
    let has = |is: fn(&u8) -> bool| token.iter().any(is);
    match (has(u8::is_ascii_digit), has(u8::is_ascii_lowercase), has(u8::is_ascii_uppercase)) {
        (true, false, false) => 3.3,
        (_, true, true) => 5.9,
        (true, ..) => 5.0,
        (false, ..) => 4.7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000_000;
    /// Of each kind; without optimisation the full number takes minutes.
    const SAMPLES: u64 = if cfg!(debug_assertions) { 20_000 } else { 1_000_000 };

    /// SplitMix64: the same numbers each time.
    struct Random(u64);

    impl Random {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut mixed = self.0;
            mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            mixed ^ (mixed >> 31)
        }

        /// `count` characters of an alphabet.
        fn text(&mut self, alphabet: &[u8], count: usize) -> String {
            let mut pick = || char::from(alphabet[(self.next() >> 16) as usize % alphabet.len()]);
            (0..count).map(|_| pick()).collect()
        }

        fn hex(&mut self, count: usize) -> String {
            self.text(HEX, count)
        }
    }

    const HEX: &[u8] = b"0123456789abcdef";
    const BASE64: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const BASE64_URL: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    const BASE62: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    const BASE58: &[u8] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
    const CROCKFORD: &[u8] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";

    fn uuid(random: &mut Random, version: char) -> String {
        let variant = random.text(b"89ab", 1);
        format!(
            "{}-{}-{version}{}-{variant}{}-{}",
            random.hex(8),
            random.hex(4),
            random.hex(3),
            random.hex(3),
            random.hex(12)
        )
    }

    /// With the time in front, as a host makes them one after the other.
    fn uuid_1(random: &mut Random) -> String {
        let (low, clock) = (random.hex(8), random.text(b"89ab", 1) + &random.hex(3));
        format!("{low}-7b11-11ee-{clock}-0242ac110002")
    }

    fn uuid_7(random: &mut Random) -> String {
        let (rest, variant) = (random.hex(3), random.text(b"89ab", 1));
        format!("018bcfe5-{}-7{rest}-{variant}{}-{}", random.hex(4), random.hex(3), random.hex(12))
    }

    /// Makes a token.
    type Make = fn(&mut Random) -> String;

    #[test]
    fn no_random_token_can_be_guessed() {
        let kinds: [(&str, Make); 15] = [
            ("uuid v1", uuid_1),
            ("uuid v4", |random| uuid(random, '4')),
            ("uuid v7", uuid_7),
            ("uuid in capitals", |random| uuid(random, '4').to_uppercase()),
            ("32 hexadecimal digits", |random| random.hex(32)),
            ("40 hexadecimal digits", |random| random.hex(40)),
            ("base64", |random| random.text(BASE64, 22) + "=="),
            ("base64url", |random| random.text(BASE64_URL, 22)),
            ("nanoid", |random| random.text(BASE64_URL, 21)),
            ("ulid", |random| "01HF7YAT00".to_owned() + &random.text(CROCKFORD, 16)),
            ("ksuid", |random| "2YJXZ0".to_owned() + &random.text(BASE62, 21)),
            ("base58", |random| random.text(BASE58, 22)),
            ("base36", |random| random.text(b"0123456789abcdefghijklmnopqrstuvwxyz", 25)),
            ("63 bits", |random| (random.next() >> 1).to_string()),
            ("128 bits", |random| ((u128::from(random.next()) << 64) | u128::from(random.next())).to_string()),
        ];
        for (name, make) in kinds {
            let mut random = Random(18);
            for _ in 0..SAMPLES {
                let token = make(&mut random);
                assert!(random_bits(token.as_bytes(), NOW, NOW) >= ENOUGH, "{name}: {token}");
            }
        }
        let mut random = Random(18);
        for _ in 0..SAMPLES {
            let raw = [random.next().to_be_bytes(), random.next().to_be_bytes()].concat();
            let is_text = raw.iter().all(u8::is_ascii_graphic);
            assert!(is_text || random_bits(&raw, NOW, NOW) >= ENOUGH, "{raw:?}");
        }
    }

    #[test]
    fn what_is_pickled_is_as_strong_as_it_is_without_that() {
        let framed = |inner: &[u8]| {
            let length = u64::try_from(inner.len()).expect("it is short");
            [b"\x80\x05\x95", &length.to_le_bytes()[..], inner].concat()
        };
        let of = |value: &[u8]| random_bits(value, NOW, NOW);
        // `"1"`, 1, True; with protocol 2, too.
        for constant in [framed(b"\x8c\x011\x94."), framed(b"K\x01."), b"\x80\x02\x88.".to_vec()] {
            assert!(of(&constant) < ENOUGH, "{constant:?}");
        }
        assert!(of(b"\x80\x02X\x04\x00\x00\x00busyq\x00.") < ENOUGH);
        let token = framed(b"\x8c\x20c8f7e55e2b7b11ee9d3f0242ac120002\x94.");
        let bytes = framed(b"C\x10\x01\xe2\x03\xc4\x05\xa6\x07\x88\x19\x6a\x2b\x4c\x3d\x2e\xff\x90\x94.");
        assert!(of(&token) >= ENOUGH && of(&bytes) >= ENOUGH);
    }

    #[test]
    fn what_libraries_use_for_tokens_cannot_be_guessed() {
        for token in [
            "f47ac10b-58cc-4372-a567-0e02b2c3d479",
            "c8f7e55e2b7b11ee9d3f0242ac120002",
            "9f86d081884c7d65",
            "sJ8fK2mQ9xT4bV7nL1cW6z",
            "AAAAAGVy-Qm3kT9x_u2w1g",
            "f47ac10b-58cc-4372-a567-0e02b2c3d479:42",
            "worker-1:f47ac10b-58cc-4372-a567-0e02b2c3d479",
            "qwjkzxnvbapelkdjfmxa",
        ] {
            assert!(random_bits(token.as_bytes(), NOW, NOW) >= ENOUGH, "{token}");
        }
        let raw: Vec<u8> = (0..20).map(|byte: u8| byte.wrapping_mul(97)).collect();
        assert!(random_bits(&raw, NOW, NOW) >= ENOUGH);
    }

    #[test]
    fn what_others_can_make_too_can_be_guessed() {
        for token in [
            "1700000010",
            "1700000010.123456",
            "1700000010123",
            "1700000010123456",
            "1700000010123456789",
            "12345",
            "worker-1",
            "worker_12",
            "MainThread",
            "Thread-7",
            "140234567890123",
            "MainThread:140234567890123",
            "web-1.example.com:4711",
            "ip-10-0-1-23.eu-central-1.compute.internal:4711",
            "order-service/production/worker-12",
            "10.0.1.23:52117",
            "host:4711:1700000010",
            "0.7316498235",
            "0.7316498235124456",
            "00000000000000000000000000000001",
            "00000000-0000-0000-0000-000000000001",
            "11111111-2222-3333-4444-555555555555",
            "12345678-1234-1234-1234-123456789abc",
            "deadbeef-0000-0000-0000-000000000000",
            "1234567890123456789",
            "my-service",
        ] {
            assert!(random_bits(token.as_bytes(), NOW, NOW) < ENOUGH, "{token}");
        }
        for count in 0..100_000_u32 {
            for token in [count.to_string(), format!("worker-{count}"), format!("web-3.example.com:{count}")] {
                assert!(random_bits(token.as_bytes(), NOW, NOW) < ENOUGH, "{token}");
            }
        }
    }

    #[test]
    fn numbers_of_one_row_are_known_by_what_they_share() {
        assert!(are_counted(b"7136498235123456789", b"7136498235123460001"));
        assert!(!are_counted(b"7136498235123456789", b"7136498235123456789"));
        assert!(!are_counted(b"7136498235123456789", b"4820193847561029384"));
        assert!(!are_counted(b"f47ac10b-58cc-4372-a567:1", b"f47ac10b-58cc-4372-a567:2"));
    }
}
