//! What is done with a lock whose time is over.

use super::kin::{is_by_stranger, is_lost, ran_out, shown, span, taking, tries_anew};
use crate::insight::audit::code::{Code, Severity};
use crate::insight::audit::finding::Evidence;
use crate::insight::audit::happening::{Draft, Happening, Scene};
use crate::insight::audit::lock::{Hold, Past, Same, Standing, Who};
use crate::insight::audit::step::{Guard, Intent, Shape};

/// How often holders come too late, or nearly so, until that is told.
const OFTEN_TOO_LATE: u64 = 2;
const OFTEN_CLOSE: u64 = 3;

/// What is remembered of one lock.
#[derive(Clone, Default)]
pub struct Memory {
    /// How often it was released by somebody who had it.
    releases: u64,
    /// Those that were close to the end, and the first of them.
    close: u64,
    shown: Vec<Evidence>,
    /// How often its time was over before its holder was done, and the first times.
    overruns: u64,
    overrun: Vec<Evidence>,
    /// The last of them, by the command that took the lock.
    last_overrun: u64,
    /// The last work after the end that was not certain to be wrong: whose, and with what.
    work: Option<(u64, String, Vec<Evidence>)>,
}

pub(super) fn see(scene: &mut Scene<'_>, happening: &Happening<'_>) {
    match happening {
        Happening::Removed { hold: Some(hold), guard, is_release, .. } => {
            let hold = *hold;
            if *is_release {
                released(scene, hold);
            } else if *guard == Guard::Blind {
                came_for_another(scene, hold);
            }
        }
        Happening::Removed { hold: None, .. } => released_own_stale(scene),
        Happening::Extended { hold: Some(hold), is_own: false, .. } => came_for_another(scene, *hold),
        Happening::Missed { token, intent, late: true } => late(scene, *token, *intent),
        Happening::Worked { key } => worked(scene, key),
        _ => {}
    }
}

/// How long something comes after the end of a hold.
fn after(scene: &Scene<'_>, past: &Past) -> String {
    let micros = scene.mark.at.saturating_sub(past.at).max(0);
    if micros < 1000 {
        "just after it had expired".to_owned()
    } else {
        format!("{} ms after it had expired", micros / 1000)
    }
}

/// A hold is released in time: perhaps just.
fn released(scene: &mut Scene<'_>, hold: usize) {
    let hold = &scene.lock.holds[hold];
    let (now, actor) = (scene.mark.at.div_euclid(1000), hold.who.actor());
    let (span, deadline) = (span(hold), hold.deadline);
    let memory = &mut scene.lock.memory.lateness;
    memory.releases += 1;
    let (Some(span), Some(deadline)) = (span, deadline) else { return };
    let left = deadline.saturating_sub(now);
    if left < 0 || left.saturating_mul(10) >= span {
        return;
    }
    memory.close += 1;
    if memory.shown.len() < 3 {
        let what = format!("released it with {left} of {span} ms left");
        memory.shown.push(Evidence { mark: scene.mark.clone(), what });
    }
    // It happens now and then to a lock that is released very often.
    if memory.close < OFTEN_CLOSE || memory.close.saturating_mul(10) < memory.releases {
        return;
    }
    let (close, releases, evidence) = (memory.close, memory.releases, memory.shown.clone());
    let sentence = format!(
        "{} was released with less than a tenth of its time left in {close} of {releases} times, this time by {actor}",
        shown(scene.lock)
    );
    scene.tell(Draft { code: Code::CloseToExpiry, severity: None, sentence, evidence, culprit: 0 });
}

/// The last hold of whoever does it, if its time ran out.
fn ran_out_of(scene: &Scene<'_>, token: Option<&[u8]>) -> Option<Past> {
    let (lock, by) = (&scene.lock, scene.by?);
    let past = match token {
        None => lock.past_of(by).filter(|past| !tries_anew(lock, by, &past.hold))?,
        Some(token) => {
            let own = lock.past.iter().rev().find(|past| past.hold.who.is(by) && *past.hold.token == *token);
            let other = || lock.past_with(token).filter(|past| past.hold.who.same(by) != Same::No);
            own.or_else(other)?
        }
    };
    ran_out(lock, past).then(|| past.clone())
}

/// Somebody comes back for its lock, which is another's by now.
fn came_for_another(scene: &mut Scene<'_>, hold: usize) {
    let is_own = scene.by.is_none_or(|by| by.is(&scene.lock.holds[hold].who));
    if let Some(past) = ran_out_of(scene, None).filter(|_| !is_own) {
        came_back(scene, &past, "came back for it");
    }
}

/// Somebody deletes what it has left there itself, and its time was over.
fn released_own_stale(scene: &mut Scene<'_>) {
    let Some(past) = ran_out_of(scene, None) else { return };
    if scene.lock.value.as_deref() == Some(&*past.hold.token) {
        tell_late(scene, &past, Code::LateRelease, "released");
    }
}

/// Somebody is told that it does not have the lock any more when it wants to release or to extend it.
fn late(scene: &mut Scene<'_>, token: Option<&[u8]>, intent: Intent) {
    let Some(past) = ran_out_of(scene, token) else { return };
    match intent {
        Intent::Release => tell_late(scene, &past, Code::LateRelease, "tried to release"),
        Intent::Extend => tell_late(scene, &past, Code::LateExtension, "tried to extend"),
        Intent::Unknown => tell_late(scene, &past, Code::LateRelease, "tried to release or to extend"),
        Intent::Acquire => {}
    }
}

fn tell_late(scene: &mut Scene<'_>, past: &Past, code: Code, what: &str) {
    let Some(by) = scene.by else { return };
    let after = after(scene, past);
    let sentence = format!("{} {what} {} {after}", by.actor(), shown(scene.lock));
    let evidence = vec![taking(&past.hold), scene.now(format!("{what} it {after}"))];
    let culprit = by.client;
    scene.tell(Draft { code, severity: None, sentence, evidence, culprit });
    came_back(scene, past, &format!("{what} it"));
}

/// Somebody still had to do with a lock whose time was over: it is too short if that happens again and again, and what was
/// written in between was work under a lock that was over.
fn came_back(scene: &mut Scene<'_>, past: &Past, what: &str) {
    let after = after(scene, past);
    let now = scene.now(format!("{what} {after}"));
    let client = past.hold.who.client;
    if let Some((_, sentence, evidence)) = scene.lock.memory.lateness.work.take_if(|(whose, ..)| *whose == client) {
        let (code, severity) = (Code::WorkAfterExpiry, Some(Severity::Error));
        scene.tell_more(Draft { code, severity, sentence, evidence, culprit: client });
    }
    overran(scene, past, now);
}

fn overran(scene: &mut Scene<'_>, past: &Past, now: Evidence) {
    let memory = &mut scene.lock.memory.lateness;
    let acquired = past.hold.acquired.seq;
    if memory.last_overrun >= acquired {
        return;
    }
    memory.last_overrun = acquired;
    memory.overruns += 1;
    if memory.overruns <= OFTEN_TOO_LATE {
        memory.overrun.extend([taking(&past.hold), now]);
    }
    if memory.overruns < OFTEN_TOO_LATE {
        return;
    }
    let (times, evidence) = (memory.overruns, memory.overrun.clone());
    let sentence = format!(
        "{} expired {times} times before its holders were done with it, this time under {}",
        shown(scene.lock),
        past.hold.who.actor()
    );
    scene.tell(Draft { code: Code::ExpiryTooShort, severity: None, sentence, evidence, culprit: 0 });
}

/// Somebody writes what it has touched under the lock, which it does not have any more.
fn worked(scene: &mut Scene<'_>, key: &[u8]) {
    let Some(by) = scene.by.cloned() else { return };
    if scene.lock.shape == Shape::Semaphore {
        return;
    }
    let (hold, past) = match scene.lock.hold_of(&by) {
        Some(hold) => (hold.clone(), None),
        None => match ran_out_of(scene, None) {
            Some(past) => (past.hold.clone(), Some(past)),
            None => return,
        },
    };
    let is_held = past.is_none() && hold.standing == Standing::Held;
    if !hold.is_certain || is_held || !is_lost(scene.lock, &hold) {
        return;
    }
    let name = String::from_utf8_lossy(key).into_owned();
    let mut evidence = vec![taking(&hold)];
    let how = match (&past, &hold.standing) {
        (Some(past), _) => after(scene, past),
        (None, Standing::Deleted(mark)) => {
            evidence.push(mark.shows("deleted the lock while it was held"));
            format!("although {} had deleted it", mark.actor())
        }
        (None, Standing::Overwritten(mark)) => {
            evidence.push(mark.shows("overwrote the lock while it was held"));
            format!("although {} had overwritten it", mark.actor())
        }
        (None, Standing::Flushed(mark)) => {
            evidence.push(mark.shows("deleted all keys while the lock was held"));
            "although all keys had been deleted".to_owned()
        }
        (None, Standing::Held | Standing::Vanished) => return,
    };
    let other = scene.lock.holder().filter(|other| !other.who.is(&by)).cloned();
    let held_by = match &other {
        Some(other) => {
            evidence.push(taking(other));
            format!(", while {} held it", other.who.actor())
        }
        None => String::new(),
    };
    evidence.push(scene.now(format!("wrote `{name}`")));
    let sentence = format!("{} went on writing `{name}` under {} {how}{held_by}", by.actor(), shown(scene.lock));
    let severity = certainty(scene, &by, &hold, other.as_ref());
    if severity == Severity::Warning {
        scene.lock.memory.lateness.work = Some((by.client, sentence.clone(), evidence.clone()));
    }
    let culprit = by.client;
    scene.tell(Draft { code: Code::WorkAfterExpiry, severity: Some(severity), sentence, evidence, culprit });
    if let Some(past) = past.filter(|_| severity == Severity::Error) {
        let now = scene.now(format!("went on writing `{name}` {}", after(scene, &past)));
        overran(scene, &past, now);
    }
}

/// How certain it is that somebody works on as if it had the lock. Some take a lock only to be the first, and leave it to its
/// expiry on purpose; and a connection of a pool may work for another.
fn certainty(scene: &Scene<'_>, by: &Who, hold: &Hold, other: Option<&Hold>) -> Severity {
    let lock = &scene.lock;
    let may_be_others = other.is_some_and(|other| match other.who.same(by) {
        Same::Yes => true,
        Same::No => false,
        Same::Unknown => super::ownership::is_pooled(scene),
    });
    let is_meant = match &hold.standing {
        Standing::Deleted(mark) | Standing::Overwritten(mark) => is_by_stranger(lock, hold, mark),
        Standing::Flushed(_) => false,
        Standing::Held | Standing::Vanished => lock.memory.lateness.releases > 0,
    };
    if is_meant && !may_be_others { Severity::Error } else { Severity::Warning }
}
