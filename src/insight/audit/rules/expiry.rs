//! How long locks live.

use super::quoted;
use crate::insight::audit::code::{Code, Severity};
use crate::insight::audit::finding::{Evidence, Mark};
use crate::insight::audit::happening::{Draft, Happening, Scene};
use crate::insight::audit::lock::{Hold, Same, Standing, Who, put};
use crate::insight::audit::step::{Expiry, Guard, Shape};

/// Fewer milliseconds than these, and more, can hardly be meant.
const SHORTEST: i64 = 10;
const LONGEST: i64 = 86_400_000;

/// What is remembered of one lock.
#[derive(Clone, Default)]
pub struct Memory {
    /// The places in the order of the commands that took it without any expiry, for those that still hold it.
    endless: Vec<u64>,
    /// The last that took it, and gave it its expiry then.
    two_steps: Option<Box<(Who, Mark, Mark)>>,
}

pub(super) fn see(scene: &mut Scene<'_>, happening: &Happening<'_>) {
    if scene.lock.shape == Shape::Semaphore {
        return;
    }
    match *happening {
        Happening::Acquired { .. } => taken(scene),
        Happening::Extended { hold: Some(hold), is_own, deadline: None, expiry, value, .. } => {
            no_more(scene, hold, is_own, (expiry, value));
        }
        Happening::Extended { hold: Some(hold), guard, is_own, deadline: Some(deadline), .. } => {
            extended(scene, hold, (guard, is_own, deadline));
        }
        Happening::Overwritten { hold: Some(hold), deadline: None, .. } if scene.lock.deadline.is_some() => {
            removed(scene, hold, Severity::Error);
        }
        Happening::Removed { hold: Some(hold), is_release: true, .. } => endless(scene, hold, false),
        Happening::Ended { hold } if !is_between_steps(scene, hold) => endless(scene, hold, false),
        Happening::Closed { hold } => endless(scene, hold, true),
        _ => {}
    }
}

fn taken(scene: &mut Scene<'_>) {
    let Some(hold) = scene.lock.holds.last() else { return };
    let (seq, deadline) = (hold.acquired.seq, hold.deadline);
    if deadline.is_none() && hold.instant.is_none() {
        let lock = &mut *scene.lock;
        let endless = &mut lock.memory.expiry.endless;
        endless.retain(|seq| lock.holds.iter().any(|hold| hold.acquired.seq == *seq));
        put(endless, seq);
    }
    let Some(left) = deadline.map(|deadline| deadline - scene.mark.at.div_euclid(1000)) else { return };
    if !(SHORTEST..=LONGEST).contains(&left) {
        let sentence = format!("{} took {} for {}", scene.mark.actor(), quoted(scene.lock), length(left));
        let evidence = vec![scene.now(format!("took the lock for {}", length(left)))];
        odd(scene, sentence, evidence);
    }
}

fn odd(scene: &mut Scene<'_>, sentence: String, evidence: Vec<Evidence>) {
    let culprit = scene.mark.client;
    scene.tell(Draft { code: Code::OddExpiry, severity: None, sentence, evidence, culprit });
}

/// The holder, or somebody else, leaves the lock without an expiry.
fn no_more(scene: &mut Scene<'_>, at: usize, is_own: bool, (expiry, value): (Expiry, Option<&[u8]>)) {
    let is_endless = scene.lock.memory.expiry.endless.contains(&scene.lock.holds[at].acquired.seq);
    if is_endless && is_own && expiry != Expiry::Kept {
        endless(scene, at, false);
    } else if scene.lock.deadline.is_some() {
        // PERSIST is for nothing else.
        let is_meant = is_own && value.is_none();
        removed(scene, at, if is_meant { Severity::Warning } else { Severity::Error });
    }
}

/// The lock gets another deadline.
fn extended(scene: &mut Scene<'_>, at: usize, (guard, is_own, deadline): (Guard<'_>, bool, i64)) {
    let hold = scene.lock.holds[at].clone();
    let left = deadline - scene.mark.at.div_euclid(1000);
    let in_one_step = hold.acquired.seq == scene.mark.seq;
    let is_endless = scene.lock.memory.expiry.endless.contains(&hold.acquired.seq);
    let is_holder = scene.by.is_some_and(|by| by.same(&hold.who) == Same::Yes);
    let is_second_step = is_endless && is_holder && guard == Guard::Blind && hold.extensions == 0 && !in_one_step;
    if left > 0 {
        if is_second_step {
            in_second_step(scene, &hold);
        }
        scene.lock.memory.expiry.endless.retain(|seq| *seq != hold.acquired.seq);
    }
    if !is_own {
        return;
    }
    // An expiry of 0 is a way to release a lock, but not one that was just taken.
    if left < 0 || (left == 0 && (is_second_step || in_one_step)) {
        let sentence = format!(
            "{} gave {} an expiry that is over already, which deleted the lock",
            hold.who.actor(),
            quoted(scene.lock)
        );
        let evidence = vec![hold.acquired.shows("took the lock"), scene.now("deleted it by its expiry")];
        odd(scene, sentence, evidence);
    } else if left > 0 && !(SHORTEST..=LONGEST).contains(&left) {
        let left = length(left);
        let sentence = format!("{} gave {} an expiry of {left}", scene.mark.actor(), quoted(scene.lock));
        let evidence = vec![scene.now(format!("gave the lock an expiry of {left}"))];
        odd(scene, sentence, evidence);
    }
}

fn in_second_step(scene: &mut Scene<'_>, hold: &Hold) {
    let sentence = format!(
        "{} took {} without an expiry and gave it one in a second command: had it died in between, the lock would have \
         stayed for ever",
        hold.who.actor(),
        quoted(scene.lock)
    );
    let evidence = vec![hold.acquired.shows("took the lock without an expiry"), scene.now("gave it an expiry")];
    let steps = (hold.who.clone(), hold.acquired.clone(), scene.mark.clone());
    scene.lock.memory.expiry.two_steps = Some(Box::new(steps));
    let culprit = hold.who.client;
    scene.tell(Draft { code: Code::ExpiryInSecondStep, severity: None, sentence, evidence, culprit });
}

/// Somebody has held the lock who never gave it an expiry; `is_closed` is whether it is for ever.
fn endless(scene: &mut Scene<'_>, at: usize, is_closed: bool) {
    let Some(hold) = scene.lock.holds.get(at).cloned() else { return };
    // What somebody else has deleted does not stay for ever.
    if hold.standing != Standing::Held {
        return;
    }
    let memory = &mut scene.lock.memory.expiry;
    let Some(known) = memory.endless.iter().position(|seq| *seq == hold.acquired.seq) else { return };
    memory.endless.remove(known);
    let (actor, key) = (hold.who.actor(), quoted(scene.lock));
    let mut evidence = vec![hold.acquired.shows("took the lock without an expiry")];
    if !is_closed {
        let sentence =
            format!("{actor} took {key} without an expiry: had it died, the lock would have stayed for ever");
        let code = Code::NoExpiry;
        return scene.tell(Draft { code, severity: None, sentence, evidence, culprit: 0 });
    }
    evidence.push(scene.now("was gone before it gave the lock an expiry, or released it"));
    let Some(steps) = scene.lock.memory.expiry.two_steps.clone().filter(|steps| is_like(&hold, steps)) else {
        let sentence = format!(
            "{actor} took {key} without an expiry, and its connection ended while it held it: the lock stays until \
             somebody deletes it"
        );
        return scene.tell(Draft { code: Code::NoExpiry, severity: None, sentence, evidence, culprit: 0 });
    };
    let (other, taken, given) = *steps;
    let others = if other.same(&hold.who) == Same::Yes { "before" } else { "as others do" };
    let sentence = format!(
        "{actor} took {key} and its connection ended before it gave the lock an expiry in a second command, {others}: the \
         lock stays until somebody deletes it"
    );
    evidence.push(taken.shows("took the lock without an expiry"));
    evidence.push(given.shows("gave it an expiry"));
    let (code, culprit) = (Code::ExpiryInSecondStep, hold.who.client);
    scene.tell(Draft { code, severity: None, sentence, evidence, culprit });
}

/// Whether somebody may be about to give the lock an expiry, as it did before.
fn is_between_steps(scene: &Scene<'_>, at: usize) -> bool {
    let steps = scene.lock.memory.expiry.two_steps.as_deref();
    steps.zip(scene.lock.holds.get(at)).is_some_and(|(steps, hold)| steps.0.same(&hold.who) == Same::Yes)
}

/// Whether somebody took the lock like others that have given it an expiry then.
fn is_like(hold: &Hold, (who, taken, _): &(Who, Mark, Mark)) -> bool {
    let words = |mark: &Mark| {
        let mut words = mark.line.split(' ');
        (words.next().map(str::to_ascii_lowercase), words.count())
    };
    who.same(&hold.who) == Same::Yes || words(taken) == words(&hold.acquired)
}

/// The lock had an expiry, and has none any more.
fn removed(scene: &mut Scene<'_>, at: usize, severity: Severity) {
    let hold = &scene.lock.holds[at];
    let last = hold.extended.as_ref().unwrap_or(&hold.acquired);
    let held = if scene.by.is_some_and(|by| by.is(&hold.who)) {
        String::new()
    } else {
        format!(", which {} held", hold.who.actor())
    };
    let sentence = format!("{} took the expiry of {} away{held}", scene.mark.actor(), quoted(scene.lock));
    let evidence = vec![last.shows("gave the lock an expiry"), scene.now("took it away")];
    let culprit = scene.mark.client;
    scene.tell(Draft { code: Code::ExpiryRemoved, severity: Some(severity), sentence, evidence, culprit });
}

/// A stretch of time, in milliseconds, in words.
fn length(millis: i64) -> String {
    match millis {
        ..1000 => format!("{millis} ms"),
        1000..120_000 => format!("{} s", millis / 1000),
        120_000..7_200_000 => format!("{} min", millis / 60_000),
        7_200_000..172_800_000 => format!("{} hours", millis / 3_600_000),
        _ => format!("{} days", millis / 86_400_000),
    }
}
