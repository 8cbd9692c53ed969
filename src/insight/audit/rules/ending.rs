//! How locks are let go, or are not.

use crate::insight::audit::code::{Code, Severity};
use crate::insight::audit::finding::{Evidence, Mark};
use crate::insight::audit::happening::{Draft, Gone, Happening, Scene, spelled};
use crate::insight::audit::lock::{Hold, Same, Standing, Who};
use crate::insight::audit::step::{Guard, Shape};

/// What is remembered of one lock.
#[derive(Clone, Default)]
pub struct Memory {
    /// Holds that perhaps nobody looks after. More than one only if several may have the lock.
    loose: Vec<Loose>,
    /// The hold that was lost with all other keys.
    emptied: Option<Box<Emptied>>,
}

/// How many holds are remembered that nobody may look after.
const MOST_LOOSE: usize = 16;

/// A hold that perhaps nobody looks after: its connection has ended, or its holder has not got the reply.
#[derive(Clone)]
struct Loose {
    hold: Hold,
    /// The end of the connection.
    closed: Option<Mark>,
    /// Who was refused first meanwhile, of those who are somebody else.
    waited: Option<Mark>,
    /// How its holder was refused.
    refused: Option<Refused>,
}

#[derive(Clone)]
struct Refused {
    first: Mark,
    times: u64,
    /// It is not certain that it was its holder.
    is_doubtful: bool,
}

/// A hold that was lost when all keys were deleted, or the server began anew.
#[derive(Clone)]
struct Emptied {
    hold: Hold,
    mark: Mark,
    is_restart: bool,
    /// Who deleted them, if it is not known whether that was its holder.
    stranger: bool,
}

pub(super) fn see(scene: &mut Scene<'_>, happening: &Happening<'_>) {
    match *happening {
        Happening::Acquired { old, .. } => acquired(scene, old.is_some()),
        Happening::Refused { value, .. } => refused(scene, value),
        Happening::Seen { value: Some(value) } => known_by_its_holder(scene, value),
        Happening::Removed { hold, guard, .. } => removed(scene, hold, guard),
        Happening::Missed { token, .. } => {
            missed_after_flush(scene, token);
            if let Some(token) = token {
                memory(scene).loose.retain(|loose| *loose.hold.token != *token);
            }
        }
        Happening::Extended { is_own, .. } => {
            // Somebody looks after it.
            if is_own || scene.lock.holder().is_none() {
                memory(scene).loose.clear();
            }
        }
        Happening::Overwritten { .. } => memory(scene).loose.clear(),
        Happening::Worked { .. } => missed_after_flush(scene, None),
        Happening::Expired { hold } => {
            let token = scene.lock.holds[hold].token.clone();
            tell_loose(scene, "until it expired", |loose| loose.hold.token == token && !loose.hold.is_certain);
        }
        Happening::Closed { hold } => closed(scene, hold),
        Happening::Flushed { hold, is_restart } => flushed(scene, hold, is_restart),
        Happening::Gone { how: Gone::Expired } => tell_loose(scene, "until it expired", |_| true),
        Happening::Gone { how: Gone::Flushed } => gone_with_all(scene),
        Happening::Ended { hold } => leaked(scene, hold),
        Happening::Over => {
            let Mark { at, real, .. } = scene.mark;
            tell_loose(scene, "until the end", |loose| !loose.hold.is_over(at, real));
        }
        Happening::Seen { value: None } => {}
    }
}

fn memory<'s>(scene: &'s mut Scene<'_>) -> &'s mut Memory {
    &mut scene.lock.memory.ending
}

/// Somebody else has the lock now, or there is another one who may have it.
fn acquired(scene: &mut Scene<'_>, is_taken_over: bool) {
    let is_semaphore = scene.lock.shape == Shape::Semaphore;
    if is_taken_over {
        tell_loose(scene, "until its time was over", |_| true);
    } else if !is_semaphore {
        memory(scene).loose.clear();
    }
    let Some(hold) = scene.lock.holds.last().cloned() else { return };
    let is_back = |emptied: &Emptied| emptied.hold.who.same(&hold.who) == Same::Yes;
    if memory(scene).emptied.as_deref().is_some_and(is_back) {
        memory(scene).emptied = None;
    }
    if !hold.is_certain {
        note_loose(scene, Loose { hold, closed: None, waited: None, refused: None });
    }
}

fn note_loose(scene: &mut Scene<'_>, loose: Loose) {
    let known = &mut memory(scene).loose;
    if known.len() < MOST_LOOSE {
        known.push(loose);
    }
}

/// Whether a token can be taken for its owner's alone: at least 64 bits, as far as one can see, and no text.
pub(super) fn is_telling(token: &[u8]) -> bool {
    const MOST: usize = 128;
    let is_of_tokens = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_:.+/=@".contains(byte);
    let digits = token.iter().filter(|byte| byte.is_ascii_digit()).count();
    // Digits bear the least, and a time among them is nobody's.
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

fn refused(scene: &mut Scene<'_>, value: &[u8]) {
    let Some(by) = scene.by else { return };
    let mark = scene.mark.clone();
    for loose in &mut scene.lock.memory.ending.loose {
        let same = by.same(&loose.hold.who);
        let has_token = *loose.hold.token == *value && is_telling(value);
        if !loose.hold.is_certain && (same == Same::Yes || has_token) {
            // Who comes over another connection that is older than the one that was lost may be another part of the
            // program with the same name.
            let is_doubtful = !has_token && by.client < loose.hold.who.client;
            let first = Refused { first: mark.clone(), times: 0, is_doubtful };
            let refused = loose.refused.get_or_insert(first);
            refused.times += 1;
            refused.is_doubtful &= is_doubtful;
        } else if same != Same::Yes && loose.waited.is_none() {
            loose.waited = Some(mark.clone());
        }
    }
}

/// Whoever has not got the reply has looked, and knows now.
fn known_by_its_holder(scene: &mut Scene<'_>, value: &[u8]) {
    let Some(by) = scene.by.cloned() else { return };
    memory(scene)
        .loose
        .retain(|loose| loose.hold.is_certain || *loose.hold.token != *value || by.same(&loose.hold.who) == Same::No);
}

fn removed(scene: &mut Scene<'_>, hold: Option<usize>, guard: Guard<'_>) {
    release_after_flush(scene, hold, guard);
    let is_semaphore = scene.lock.shape == Shape::Semaphore;
    memory(scene).loose.retain(|loose| match guard {
        Guard::Compared(Some(member)) if is_semaphore => *loose.hold.token != *member,
        _ => false,
    });
}

/// The connection of a holder has ended, and the server still has the lock.
fn closed(scene: &mut Scene<'_>, hold: usize) {
    let hold = scene.lock.holds[hold].clone();
    let mark = scene.mark.clone();
    let known = memory(scene).loose.iter_mut().find(|loose| loose.hold.token == hold.token);
    if let Some(known) = known {
        known.closed = Some(mark);
    } else if hold.is_certain && hold.standing == Standing::Held && !super::renewal::is_endless(scene, &hold) {
        note_loose(scene, Loose { hold, closed: Some(mark), waited: None, refused: None });
    }
}

/// Tells of holds that nobody has looked after until their end.
fn tell_loose(scene: &mut Scene<'_>, until: &str, is_meant: impl Fn(&Loose) -> bool) {
    if scene.lock.memory.ending.loose.is_empty() {
        return;
    }
    let all = std::mem::take(&mut memory(scene).loose);
    let (told, kept): (Vec<_>, Vec<_>) = all.into_iter().partition(|loose| is_meant(loose));
    memory(scene).loose = kept;
    for loose in told {
        let draft = match &loose.refused {
            Some(refused) => refused_by_itself(scene, &loose, refused, until),
            None if loose.hold.is_certain => held_at_disconnect(scene, &loose, until),
            None => lost_and_not_released(scene, &loose, until),
        };
        scene.tell(draft);
    }
}

/// What is the same about all that nobody has looked after.
fn neglect(scene: &Scene<'_>, loose: &Loose, until: &str) -> (String, String) {
    let key = name_of(scene);
    let is_endless = loose.hold.end().is_none() && loose.hold.instant.is_none();
    let mut rest = match is_endless {
        true => {
            "nobody released it; it has no expiry, so that nobody can take it before somebody deletes it".to_owned()
        }
        false => format!("nobody released it {until}"),
    };
    if let Some(waited) = &loose.waited {
        rest.push_str(&format!(", and {} had to wait", waited.actor()));
    }
    (key, rest)
}

pub(super) fn name_of(scene: &Scene<'_>) -> String {
    String::from_utf8_lossy(&scene.lock.place.key).into_owned()
}

fn proof(loose: &Loose, took: &str) -> Vec<Evidence> {
    let mut evidence = vec![loose.hold.acquired.shows(took)];
    evidence.extend(loose.closed.as_ref().map(|closed| closed.shows("its connection ended")));
    evidence.extend(loose.waited.as_ref().map(|waited| waited.shows("was refused meanwhile")));
    evidence
}

fn held_at_disconnect(scene: &Scene<'_>, loose: &Loose, until: &str) -> Draft {
    let (key, rest) = neglect(scene, loose, until);
    let who = &loose.hold.who;
    let sentence = format!("{} still held `{key}` when its connection ended, and {rest}", who.actor());
    let evidence = proof(loose, "took the lock");
    Draft { code: Code::HeldAtDisconnect, severity: None, sentence, evidence, culprit: who.client }
}

fn lost_and_not_released(scene: &Scene<'_>, loose: &Loose, until: &str) -> Draft {
    let (key, rest) = neglect(scene, loose, until);
    let who = &loose.hold.who;
    let sentence = format!("The reply that gave {} the lock `{key}` was lost, and {rest}", who.actor());
    let evidence = proof(loose, "took the lock, and has not got the reply");
    Draft { code: Code::LostAndNotReleased, severity: None, sentence, evidence, culprit: who.client }
}

fn refused_by_itself(scene: &Scene<'_>, loose: &Loose, refused: &Refused, until: &str) -> Draft {
    let key = name_of(scene);
    let who = &loose.hold.who;
    let times = if refused.times == 1 { String::new() } else { format!(" {} times", refused.times) };
    let may = match refused.is_doubtful {
        true => " (unless several parts of the program share the name)",
        false => "",
    };
    let sentence = format!(
        "{} was refused{times} by the lock `{key}` that it had taken itself, in an attempt whose reply was lost{may}; \
         nobody released it {until}",
        refused.first.actor()
    );
    let mut evidence = vec![loose.hold.acquired.shows("took the lock, and has not got the reply")];
    evidence.push(refused.first.shows("was refused by it"));
    let severity = refused.is_doubtful.then_some(Severity::Warning);
    Draft { code: Code::RefusedByItself, severity, sentence, evidence, culprit: who.client }
}

/// Somebody holds it at the end, over a connection that is open.
fn leaked(scene: &mut Scene<'_>, hold: usize) {
    let hold = scene.lock.holds[hold].clone();
    let Mark { at, real, .. } = scene.mark;
    let is_held = hold.is_certain && hold.standing == Standing::Held && !hold.is_over(at, real);
    if !is_held || super::renewal::is_endless(scene, &hold) {
        return;
    }
    let left = match hold.end() {
        Some(end) => format!("it would have expired {} later", spelled((end - at).max(0))),
        None if hold.instant.is_some() => "its time was not over".to_owned(),
        None => "it has no expiry".to_owned(),
    };
    let key = name_of(scene);
    let sentence = format!("{} still held `{key}` at the end; {left}", hold.who.actor());
    let evidence = vec![hold.acquired.shows("took the lock, and did not release it")];
    scene.tell(Draft { code: Code::Leaked, severity: None, sentence, evidence, culprit: hold.who.client });
}

/// All keys are deleted, this one too, which somebody holds over a connection that is open.
fn flushed(scene: &mut Scene<'_>, hold: usize, is_restart: bool) {
    let hold = scene.lock.holds[hold].clone();
    let mark = scene.mark.clone();
    let same = scene.by.map_or(Same::Yes, |by| by.same(&hold.who));
    if !is_restart && same == Same::No && hold.is_certain {
        flushed_locks(scene, &hold, &mark, None);
    }
    let stranger = !is_restart && same == Same::Unknown && hold.is_certain;
    memory(scene).emptied = Some(Box::new(Emptied { hold, mark, is_restart, stranger }));
}

/// The key has gone with all others, whoever had it.
fn gone_with_all(scene: &mut Scene<'_>) {
    let mark = scene.mark.clone();
    let is_restart = scene.by.is_none();
    let ending = memory(scene);
    if let Some(loose) = ending.loose.pop().filter(|loose| loose.hold.is_certain) {
        ending.emptied = Some(Box::new(Emptied { hold: loose.hold, mark, is_restart, stranger: false }));
    }
    ending.loose.clear();
}

fn flushed_locks(scene: &mut Scene<'_>, hold: &Hold, mark: &Mark, back: Option<Evidence>) {
    let key = name_of(scene);
    let sentence = format!("{} deleted all keys while {} held `{key}`", mark.actor(), hold.who.actor());
    let mut evidence = vec![hold.acquired.shows("took the lock"), mark.shows("deleted all keys")];
    evidence.extend(back);
    scene.tell(Draft { code: Code::FlushedLocks, severity: None, sentence, evidence, culprit: mark.client });
}

/// A holder comes back to a lock that was deleted with all others, by somebody who may have been itself: it was not.
fn missed_after_flush(scene: &mut Scene<'_>, token: Option<&[u8]>) {
    let Some(by) = scene.by else { return };
    let is_its = |emptied: &Emptied| {
        emptied.stranger && (by.is(&emptied.hold.who) || token.is_some_and(|token| *emptied.hold.token == *token))
    };
    if !scene.lock.memory.ending.emptied.as_deref().is_some_and(is_its) {
        return;
    }
    let Some(emptied) = memory(scene).emptied.as_deref_mut() else { return };
    emptied.stranger = false;
    let (hold, mark) = (emptied.hold.clone(), emptied.mark.clone());
    let back = scene.now("still counted on the lock");
    flushed_locks(scene, &hold, &mark, Some(back));
}

/// Somebody deletes by its key a lock that it has lost with the server's data, and that another has taken since.
fn release_after_flush(scene: &mut Scene<'_>, hold: Option<usize>, guard: Guard<'_>) {
    let (Some(by), Some(hold), Guard::Blind) = (scene.by, hold, guard) else { return };
    let new = &scene.lock.holds[hold];
    let is_its = |emptied: &Emptied| emptied.hold.who.same(by) == Same::Yes && is_other(&new.who, by);
    let Some(emptied) = scene.lock.memory.ending.emptied.as_deref().filter(|emptied| is_its(emptied)) else { return };
    let how = if emptied.is_restart { "the server began anew" } else { "all keys were deleted" };
    let key = name_of(scene);
    let sentence = format!(
        "{} released `{key}` by its key alone, but had lost it when {how}, and {} held it by then",
        by.actor(),
        new.who.actor()
    );
    let evidence = vec![
        emptied.hold.acquired.shows("took the lock"),
        emptied.mark.shows(how),
        new.acquired.shows("took the lock, which was free"),
        scene.now("deleted it by its key"),
    ];
    let culprit = by.client;
    memory(scene).emptied = None;
    scene.tell(Draft { code: Code::ReleaseAfterFlush, severity: None, sentence, evidence, culprit });
}

fn is_other(one: &Who, other: &Who) -> bool {
    one.same(other) != Same::Yes
}
