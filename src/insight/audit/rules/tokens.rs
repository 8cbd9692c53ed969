//! The tokens by which one holder of a lock differs from another.

use std::sync::Arc;

use super::token_strength::{ENOUGH, are_counted, is_time, random_bits};
use super::wording::quoted;
use crate::insight::audit::client_identity::{ClientIdentity, SameProgram};
use crate::insight::audit::code::Code;
use crate::insight::audit::effect::LockShape;
use crate::insight::audit::finding::JournalRef;
use crate::insight::audit::lock::{Hold, LockId, push_exact};
use crate::insight::audit::lock_event::LockEvent;
use crate::insight::audit::lock_reason::LockReason;
use crate::insight::audit::rule_context::{FindingDraft, RuleContext};
use crate::powers::ValueClass;

/// How many tokens are remembered of each lock, and how many bytes of each.
const MAX_TOKENS: usize = 4;
pub const LONGEST_TOKEN: usize = 64;
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
    client: ClientIdentity,
    first: Arc<JournalRef>,
    /// The first command of another client with it.
    other: Option<Arc<JournalRef>>,
    times: u32,
}

impl TokensState {
    /// Whether a token is remembered, if it is at most that of this hold.
    pub fn at_rest(&self, hold: &Hold) -> Option<bool> {
        match &self.used[..] {
            [] => Some(false),
            [Used { token, client, first, other: None, times: 1 }] => {
                let is_own = **token == *beginning(&hold.token) && *first == hold.acquired;
                (is_own && client.is_same_connection(&hold.client) && client.seen == hold.client.seen).then_some(true)
            }
            _ => None,
        }
    }

    /// Reads the tokens, so that their memory is fetched. What it returns means nothing.
    pub fn touch(&self) -> usize {
        self.used.iter().map(|used| used.token.first().map_or(0, |byte| usize::from(*byte))).sum()
    }

    pub fn of_resting(has_token: bool, hold: &Hold) -> Self {
        let (client, first) = (hold.client.clone(), Arc::clone(&hold.acquired));
        let used = Used { token: beginning(&hold.token).into(), client, first, other: None, times: 1 };
        Self { used: has_token.then_some(used).into_iter().collect() }
    }
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
            let is_counted = state.used.last().is_some_and(|last| are_counted(&last.token, &token));
            used(context, state, &token, true);
            guessable(context, &token, is_counted);
        }
        LockEvent::Refused { value, .. } if !context.lock.reasons.has(LockReason::Timestamp) => {
            used(context, state, value, false)
        }
        _ => {}
    }
}

/// What is compared of a token.
pub fn beginning(token: &[u8]) -> &[u8] {
    &token[..token.len().min(LONGEST_TOKEN)]
}

/// A client uses a token: it takes the lock, or is refused.
fn used(context: &mut RuleContext<'_>, state: &mut TokensState, token: &[u8], took: bool) {
    let (Some(actor), source) = (context.actor.cloned(), context.source.clone()) else { return };
    let token = beginning(token);
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
    // The fields of a hash can be the parts of one token, which all clients call the same.
    let is_told = context.lock.shape != LockShape::Hash;
    if same == SameProgram::No && !is_trivial(token) && (is_strong || (are_others && took && is_told)) {
        let does = if took { "took" } else { "tried to take" };
        let sentence = format!(
            "{} {does} {} with the token that {} had used: each can release and extend the other's",
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
        let id = &context.lock.id;
        if !(context.lock.is_known() && context.collector.count_again(Code::TokenConstant, id, source.seq)) {
            let draft = constant(id, token, (&known.client, &known.first), [other, &source]);
            context.report(draft);
        }
    }
}

/// What is told of a token that others use, too, who can write it as well. It is as severe as ever.
pub fn constant(
    id: &LockId,
    token: &[u8],
    (client, first): (&ClientIdentity, &Arc<JournalRef>),
    [other, now]: [&Arc<JournalRef>; 2],
) -> FindingDraft {
    let sentence = format!(
        "{} and {} used the same token for `{}`, so that each can release and extend the other's: `{}`",
        client.display_name(),
        other.display_name(),
        String::from_utf8_lossy(&id.key),
        String::from_utf8_lossy(beginning(token))
    );
    let evidence =
        vec![first.shows("used the token"), other.shows("used the same token"), now.shows("used the same token")];
    FindingDraft { code: Code::TokenConstant, severity: None, sentence, evidence, culprit: 0 }
}

/// Whether nothing is told of a client that is refused with a token which another one has used, whoever these are.
pub fn is_quiet(token: &[u8], at: i64, real: i64) -> bool {
    !is_trivial(token) && token.len() <= LONGEST_TOKEN && bits(token, at, real) < ENOUGH
}

/// `is_counted` says that the token goes on from the one before.
fn guessable(context: &mut RuleContext<'_>, token: &[u8], is_counted: bool) {
    let has_deadline = context.lock.holds.last().is_none_or(|hold| hold.deadline.is_some());
    let moment = (context.source.at, context.source.real);
    if context.lock.shape == LockShape::Value && is_guessable(token, is_counted, has_deadline, moment) {
        context.report(guess(&context.lock.id, token, &context.source));
    }
}

/// Whether it is told that others can guess a token, with which a lock is taken at this time.
pub fn is_guessable(token: &[u8], is_counted: bool, has_deadline: bool, (at, real): (i64, i64)) -> bool {
    // A trivial value is reported by another rule. A time without an expiry says when the lock is over, or was.
    !is_trivial(token) && (is_counted || bits(token, at, real) < ENOUGH) && (has_deadline || !is_time(token, at, real))
}

/// What is told of a token that others can guess.
pub fn guess(id: &LockId, token: &[u8], source: &Arc<JournalRef>) -> FindingDraft {
    let shown = String::from_utf8_lossy(&token[..token.len().min(LONGEST_TOKEN)]).into_owned();
    let why = match is_time(token, source.at, source.real) {
        true => "which is a time",
        false => "which others can guess or make, too, and then release it",
    };
    let key = String::from_utf8_lossy(&id.key);
    let sentence = format!("{} took `{key}` with the token `{shown}`, {why}", source.display_name());
    let evidence = vec![source.shows("took the lock with a token that can be guessed")];
    FindingDraft { code: Code::TokenGuessable, severity: None, sentence, evidence, culprit: 0 }
}

/// The characters that random tokens have.
const IS_OF_TOKENS: [bool; 256] = {
    let mut is_of_tokens = [false; 256];
    let mut byte = 0;
    while byte < 128 {
        let other = matches!(byte, b'-' | b'_' | b':' | b'.' | b'+' | b'/' | b'=' | b'@');
        is_of_tokens[byte as usize] = other || byte.is_ascii_alphanumeric();
        byte += 1;
    }
    is_of_tokens
};

/// Whether a token is most probably unique: at least 64 bits, and no text.
pub fn is_unique_token(token: &[u8]) -> bool {
    const MOST: usize = 128;
    if let Some(class) = ValueClass::of_hashed(token) {
        return class == ValueClass::Token;
    }
    // Before the bits: to estimate them takes long for a long text.
    if token.len() > MOST || !token.iter().all(|byte| IS_OF_TOKENS[usize::from(*byte)]) {
        return false;
    }
    // Digits have the fewest bits, and may be a timestamp of any time.
    match token.iter().all(u8::is_ascii_digit) {
        true => token.len() * 3 >= 64,
        false => random_bits(token, 0, 0) >= ENOUGH,
    }
}

/// Whether a value may say who has a lock, or that somebody has: it is no long text.
pub fn may_be_owner(value: &[u8]) -> bool {
    class_of(value, 0, 0) != ValueClass::Text
}

/// Whether a value is a small number, as of a counter.
pub fn is_count(value: &[u8]) -> bool {
    matches!(class_of(value, 0, 0), ValueClass::Digit | ValueClass::Number)
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
pub fn is_trivial(token: &[u8]) -> bool {
    if let Some(class) = ValueClass::of_hashed(token) {
        return matches!(class, ValueClass::Digit | ValueClass::Trivial);
    }
    const WORDS: [&[u8]; 12] =
        [b"true", b"false", b"lock", b"locked", b"yes", b"y", b"ok", b"on", b"none", b"null", b"nil", b"x"];
    token.len() <= 1 || WORDS.iter().any(|word| token.eq_ignore_ascii_case(word))
}

/// How many random bits a token may have, or a hidden one.
fn bits(token: &[u8], at: i64, real: i64) -> f64 {
    match ValueClass::of_hashed(token) {
        Some(ValueClass::Token | ValueClass::Text) => ENOUGH,
        Some(ValueClass::Number | ValueClass::Digit | ValueClass::Guessable | ValueClass::Trivial) => 0.0,
        None => random_bits(token, at, real),
    }
}
