//! Glob patterns of KEYS, SCAN, CONFIG GET and PSUBSCRIBE.

/// The most stars, without one at the end, with which a pattern can match. Redis gives up against patterns that would
/// recurse without end.
const MOST_STARS: u32 = 1000;

/// Whether `text` matches a pattern of `*`, `?`, `[a-z]`, `[^a]` and `\` escapes, exactly as in Redis: an unclosed
/// class ends with the pattern, a range may be descending, and only an empty pattern matches an empty text.
///
/// Takes at most the product of the two lengths: when the part between two stars matches, no earlier star need be
/// retried, so only the last one is remembered. Like Redis, it gives up when a text would need more than
/// [`MOST_STARS`].
pub fn matches(pattern: &[u8], text: &[u8], ignore_case: bool) -> bool {
    if text.is_empty() {
        return pattern.is_empty();
    }
    let (mut at, mut seen) = (0, 0);
    // The pattern behind the last star, and the first byte of text that the star does not cover.
    let mut star: Option<(usize, usize)> = None;
    let mut stars = 0;
    while seen < text.len() {
        if pattern.get(at) == Some(&b'*') {
            at += pattern[at..].iter().take_while(|&&byte| byte == b'*').count();
            if at == pattern.len() {
                return true;
            }
            stars += 1;
            if stars > MOST_STARS {
                return false;
            }
            star = Some((at, seen));
        }
        match (match_one(&pattern[at..], text[seen], ignore_case), &mut star) {
            (Some(length), _) => (at, seen) = (at + length, seen + 1),
            (None, Some((behind, covered))) => {
                *covered += 1;
                (at, seen) = (*behind, *covered);
            }
            (None, None) => return false,
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

/// Matches one byte with the start of a pattern (no star). Returns the length of the matched part of the pattern.
fn match_one(pattern: &[u8], byte: u8, ignore_case: bool) -> Option<usize> {
    match *pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', ref class @ ..] => match_class(class, byte, ignore_case).map(|length| length + 1),
        [b'\\', literal, ..] => same(literal, byte, ignore_case).then_some(2),
        [literal, ..] => same(literal, byte, ignore_case).then_some(1),
    }
}

/// Matches one byte with a class, given without its `[`.
fn match_class(class: &[u8], byte: u8, ignore_case: bool) -> Option<usize> {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match class[at..] {
            // An escaped byte is compared literally, even where case is ignored.
            [b'\\', literal, ..] => {
                found |= literal == byte;
                at += 2;
            }
            [b']', ..] => {
                at += 1;
                break;
            }
            [] => break,
            [first, b'-', last, ..] => {
                found |= in_range(first, last, byte, ignore_case);
                at += 3;
            }
            [literal, ..] => {
                found |= same(literal, byte, ignore_case);
                at += 1;
            }
        }
    }
    (found != negated).then_some(at)
}

/// Redis compares the ends of a range as signed bytes, and orders them before it ignores case.
fn in_range(first: u8, last: u8, byte: u8, ignore_case: bool) -> bool {
    let (first, last) = if first as i8 > last as i8 { (last, first) } else { (first, last) };
    let fold = |byte: u8| (if ignore_case { byte.to_ascii_lowercase() } else { byte }) as i8;
    (fold(first)..=fold(last)).contains(&fold(byte))
}

fn same(one: u8, other: u8, ignore_case: bool) -> bool {
    one == other || (ignore_case && one.eq_ignore_ascii_case(&other))
}

#[cfg(test)]
mod tests {
    use super::matches;

    fn is(pattern: &str, text: &str) -> bool {
        matches(pattern.as_bytes(), text.as_bytes(), false)
    }

    #[test]
    fn stars_and_question_marks() {
        for (pattern, text) in [("*", "a"), ("h?llo", "hello"), ("h*llo", "hllo"), ("h*llo", "heeeello"), ("a**", "a")]
        {
            assert!(is(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in
            [("h?llo", "hllo"), ("a*b", "ac"), ("?", ""), ("*", ""), ("", "a"), ("a", "ab"), ("ab", "a")]
        {
            assert!(!is(pattern, text), "{pattern} {text}");
        }
        assert!(is("", ""));
        assert!(is("*a*b*c*", "xxaxxbxxc"));
        assert!(!is("*a*b*c", "xxaxxcxxb"));
    }

    #[test]
    fn classes_that_are_odd() {
        for (pattern, text) in [
            ("[abc]", "b"),
            ("[a-c]", "b"),
            ("[c-a]", "b"),
            ("[^a]", "b"),
            ("[^", "x"),
            ("[abc", "c"),
            ("[a-", "-"),
            ("[a-]", "]"),
            ("[\\]]", "]"),
            ("[\\a-c]", "-"),
            ("[^]", "x"),
            ("[\\", "\\"),
            ("x\\", "x\\"),
            ("\\*", "*"),
        ] {
            assert!(is(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("[^a]", "a"), ("[", "["), ("[]", "x"), ("[]x]", "x"), ("[\\a-c]", "b"), ("\\*", "a")] {
            assert!(!is(pattern, text), "{pattern} {text}");
        }
    }

    #[test]
    fn case_counts_only_when_asked_for() {
        assert!(matches(b"MAX*[A-C]", b"maxmemoryB", true));
        assert!(!matches(b"MAX*", b"maxmemory", false));
        assert!(!matches(b"[\\A]", b"a", true));
        assert!(matches(b"[\x80-\x01]", b"\xff", false), "ranges are signed");
    }

    #[test]
    fn a_pattern_with_too_many_stars_matches_nothing() {
        let text = b"a".repeat(3000);
        // The last star, at the end, needs no attempt.
        for (stars, expected) in [(1000, true), (1001, false)] {
            assert_eq!(matches(&b"*a".repeat(stars), &text, false), expected, "{stars}");
            assert_eq!(matches(&[&b"*a".repeat(stars)[..], b"*"].concat(), &text, false), expected, "{stars}");
        }
    }

    #[test]
    fn a_hostile_pattern_takes_no_time() {
        let pattern = b"a*".repeat(2000);
        let text = b"a".repeat(1999);
        assert!(!matches(&[&pattern[..], b"b"].concat(), &text, false));
    }
}
