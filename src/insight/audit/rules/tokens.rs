//! The tokens by which one holder of a lock differs from another.

use std::sync::Arc;

use super::wording::quoted;
use crate::insight::audit::client_identity::{ClientIdentity, SameProgram};
use crate::insight::audit::code::Code;
use crate::insight::audit::effect::LockShape;
use crate::insight::audit::finding::JournalRef;
use crate::insight::audit::lock::push_exact;
use crate::insight::audit::lock_event::LockEvent;
use crate::insight::audit::lock_reason::LockReason;
use crate::insight::audit::rule_context::{FindingDraft, RuleContext};
use crate::insight::audit::timestamp::Timestamp;
use crate::powers::ValueClass;

/// How many random bits a token needs.
const ENOUGH: f64 = 64.0;
/// How many tokens are remembered of each lock, and how many bytes of each.
const MAX_TOKENS: usize = 4;
const LONGEST: usize = 64;
/// How often a token must be used to be constant.
const OFTEN: u32 = 3;

/// What is remembered of one lock.
#[derive(Clone, Default)]
pub struct TokensState {
    /// The last tokens, the latest at the end.
    used: Vec<Used>,
}

/// A token with its uses.
#[derive(Clone)]
struct Used {
    token: Box<[u8]>,
    /// The first client that used it, and its command.
    client: Arc<ClientIdentity>,
    first: Arc<JournalRef>,
    /// The first command of another client with it.
    other: Option<Arc<JournalRef>>,
    times: u32,
}

pub fn observe(context: &mut RuleContext<'_>, state: &mut TokensState, event: &LockEvent<'_>) {
    match *event {
        LockEvent::Acquired { .. } => {
            let Some(hold) = context.lock.holds.last() else { return };
            // A timestamp as value is guessable and shared by design. An unknown token is not judged.
            if hold.timestamp.is_some()
                || context.lock.is_value_unknown
                || context.lock.reasons.has(LockReason::Timestamp)
            {
                return;
            }
            let token = hold.token.clone();
            used(context, state, &token, true);
            guessable(context, &token);
        }
        LockEvent::Refused { value, .. } if !context.lock.reasons.has(LockReason::Timestamp) => {
            used(context, state, value, false)
        }
        _ => {}
    }
}

/// A client uses a token: it takes the lock, or is refused.
fn used(context: &mut RuleContext<'_>, state: &mut TokensState, token: &[u8], took: bool) {
    let (Some(actor), source) = (context.actor.cloned(), context.source.clone()) else { return };
    let token = &token[..token.len().min(LONGEST)];
    let Some(at) = state.used.iter().position(|used| *used.token == *token) else {
        if took {
            if state.used.len() >= MAX_TOKENS {
                state.used.remove(0);
            }
            let new = Used { token: token.into(), client: actor, first: source, other: None, times: 1 };
            push_exact(&mut state.used, new);
        }
        return;
    };
    let are_others = state.used.len() > 1;
    let known = &mut state.used[at];
    let same = known.client.same_program(&actor);
    if took {
        known.times += 1;
    }
    // Nearly all uses are by the first client, or by one that is refused with the token of another one.
    let is_known_to_others = known.other.is_some();
    let is_frequent = took && known.times >= OFTEN && !are_others;
    if same == SameProgram::Yes && !is_known_to_others
        || same != SameProgram::No && is_known_to_others && !is_frequent && !is_trivial(token)
    {
        return;
    }
    let is_strong = bits(token, source.at, source.real) >= ENOUGH;
    // Connections without a name that share a random token belong to one program.
    let is_other = same == SameProgram::No || (same == SameProgram::Unknown && !is_strong);
    if is_other && !is_known_to_others {
        known.other = Some(source.clone());
    }
    let known = &*known;
    if same == SameProgram::No && !is_trivial(token) && (is_strong || (are_others && took)) {
        let does = if took { "took" } else { "tried to take" };
        let sentence = format!(
            "{} {does} {} with the token that {} had used",
            source.display_name(),
            quoted(context.lock),
            known.client.display_name()
        );
        let evidence = vec![known.first.shows("took the lock with a token"), context.now("used the same token")];
        let culprit = source.client;
        return context.report(FindingDraft { code: Code::TokenReused, severity: None, sentence, evidence, culprit });
    }
    let is_constant = !is_strong && (is_trivial(token) || is_frequent);
    if let (Some(other), true) = (&known.other, is_constant) {
        let sentence = format!(
            "{} and {} used the same token for {}: `{}`",
            known.client.display_name(),
            other.display_name(),
            quoted(context.lock),
            String::from_utf8_lossy(token)
        );
        let evidence = vec![
            known.first.shows("used the token"),
            other.shows("used the same token"),
            context.now("used the same token"),
        ];
        context.report(FindingDraft { code: Code::TokenConstant, severity: None, sentence, evidence, culprit: 0 });
    }
}

fn guessable(context: &mut RuleContext<'_>, token: &[u8]) {
    // A trivial value is reported by another rule.
    if context.lock.shape != LockShape::Value || is_trivial(token) {
        return;
    }
    let JournalRef { at, real, .. } = *context.source;
    if bits(token, at, real) >= ENOUGH {
        return;
    }
    let shown = String::from_utf8_lossy(&token[..token.len().min(LONGEST)]).into_owned();
    let why = match is_time(token, at, real) {
        true => "which is a time",
        false => "which others can guess or make, too",
    };
    let sentence =
        format!("{} took {} with the token `{shown}`, {why}", context.source.display_name(), quoted(context.lock));
    let evidence = vec![context.now("took the lock with a token that can be guessed")];
    context.report(FindingDraft { code: Code::TokenGuessable, severity: None, sentence, evidence, culprit: 0 });
}

/// Whether a token is most probably unique: at least 64 bits, and no text.
pub fn is_unique_token(token: &[u8]) -> bool {
    const MOST: usize = 128;
    if let Some(class) = ValueClass::of_hashed(token) {
        return class == ValueClass::Token;
    }
    let is_of_tokens = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_:.+/=@".contains(byte);
    let digits = token.iter().filter(|byte| byte.is_ascii_digit()).count();
    // Digits have the fewest bits, and may be a timestamp.
    let bits = if token.iter().all(u8::is_ascii_digit) {
        3
    } else if token.iter().all(u8::is_ascii_hexdigit) {
        4
    } else {
        5
    };
    let is_mixed = token.iter().any(u8::is_ascii_uppercase) && token.iter().any(u8::is_ascii_lowercase);
    let is_random = digits >= 3 || (is_mixed && digits >= 1);
    token.len() * bits >= 64 && token.len() <= MOST && is_random && token.iter().all(is_of_tokens)
}

/// What a recording keeps of a value: enough for each rule to judge it as the value itself.
pub fn class_of(value: &[u8], at: i64, real: i64) -> ValueClass {
    const LONGEST_NUMBER: usize = 11;
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let is_strong = bits(value, at, real) >= ENOUGH;
    match () {
        () if is_trivial(value) && is_number => ValueClass::Digit,
        () if is_trivial(value) => ValueClass::Trivial,
        () if is_number && value.len() <= LONGEST_NUMBER => ValueClass::Number,
        () if is_strong && is_unique_token(value) => ValueClass::Token,
        () if is_strong => ValueClass::Text,
        () => ValueClass::Guessable,
    }
}

/// Whether a value is what programs write that have no token.
fn is_trivial(token: &[u8]) -> bool {
    if let Some(class) = ValueClass::of_hashed(token) {
        return matches!(class, ValueClass::Digit | ValueClass::Trivial);
    }
    const WORDS: [&[u8]; 12] =
        [b"true", b"false", b"lock", b"locked", b"yes", b"y", b"ok", b"on", b"none", b"null", b"nil", b"x"];
    token.len() <= 1 || WORDS.iter().any(|word| token.eq_ignore_ascii_case(word))
}

fn is_time(token: &[u8], at: i64, real: i64) -> bool {
    Timestamp::in_value(token, at, real).is_some()
}

/// How many random bits a token may have. The estimate is rather too high than too low.
fn bits(token: &[u8], at: i64, real: i64) -> f64 {
    match ValueClass::of_hashed(token) {
        Some(ValueClass::Token | ValueClass::Text) => return ENOUGH,
        Some(ValueClass::Number | ValueClass::Digit | ValueClass::Guessable | ValueClass::Trivial) => return 0.0,
        None => {}
    }
    if is_time(token, at, real) && token.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.') {
        return 0.0;
    }
    let length = |count: usize| f64::from(u32::try_from(count).unwrap_or(u32::MAX));
    let mut seen = [false; 256];
    token.iter().for_each(|byte| seen[usize::from(*byte)] = true);
    let distinct = seen.iter().filter(|seen| **seen).count();
    if distinct <= 4 {
        return length(token.len()) * length(distinct.max(1)).log2();
    }
    if token.iter().any(|byte| !byte.is_ascii_graphic() && *byte != b' ') {
        return length(token.len()) * 6.0;
    }
    let digits: Vec<u8> = token.iter().copied().filter(|byte| !matches!(byte, b'-' | b'{' | b'}')).collect();
    if digits.len() >= 16 && digits.iter().all(u8::is_ascii_hexdigit) && !digits.iter().all(u8::is_ascii_digit) {
        return length(digits.len()) * 4.0;
    }
    let runs = token.split(|byte| !byte.is_ascii_alphanumeric());
    runs.map(|run| {
        let has = |is: fn(&u8) -> bool| run.iter().any(is);
        let each = match (has(u8::is_ascii_digit), has(u8::is_ascii_lowercase), has(u8::is_ascii_uppercase)) {
            // A timestamp has no random bits.
            (true, false, false) if is_time(run, at, real) => 0.0,
            (true, false, false) => 3.3,
            (true, true, true) => 5.9,
            (true, ..) => 5.0,
            (false, true, true) if run.len() >= 16 => 5.5,
            // Words; a long one may be random.
            _ if run.len() >= 16 => 4.0,
            _ => 2.0,
        };
        length(run.len()) * each
    })
    .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i64 = 1_700_000_000_000_000;

    #[test]
    fn what_libraries_use_for_tokens_cannot_be_guessed() {
        for token in [
            "f47ac10b-58cc-4372-a567-0e02b2c3d479",
            "c8f7e55e2b7b11ee9d3f0242ac120002",
            "9f86d081884c7d65",
            "sJ8fK2mQ9xT4bV7nL1cW6z",
            "AAAAAGVy-Qm3kT9x_u2w1g",
            "f47ac10b-58cc-4372-a567-0e02b2c3d479:42",
            "qwjkzxnvbapelkdjfmxa",
        ] {
            assert!(bits(token.as_bytes(), NOW, NOW) >= ENOUGH, "{token}");
        }
        let raw: Vec<u8> = (0..20).map(|byte: u8| byte.wrapping_mul(97)).collect();
        assert!(bits(&raw, NOW, NOW) >= ENOUGH);
    }

    #[test]
    fn what_others_can_make_too_can_be_guessed() {
        for token in [
            "1700000010",
            "1700000010.123456",
            "1700000010123",
            "12345",
            "worker-1",
            "web-1.example.com:4711",
            "host:4711:1700000010",
            "0.7316498235",
            "00000000000000000000000000000001",
            "my-service",
        ] {
            assert!(bits(token.as_bytes(), NOW, NOW) < ENOUGH, "{token}");
        }
    }
}
