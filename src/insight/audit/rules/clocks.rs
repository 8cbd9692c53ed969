//! Locks whose value is the time at which they end.

use super::kin::{Kin, kin};
use super::quoted;
use crate::insight::audit::code::{Code, Severity};
use crate::insight::audit::finding::{Evidence, Mark};
use crate::insight::audit::happening::{Draft, Happening, Scene};
use crate::insight::audit::lock::{Reason, Same, Who};
use crate::insight::audit::party::Read;
use crate::insight::audit::stamp::{Instant, Unit};
use crate::insight::audit::step::{Guard, Shape};

/// By how many microseconds clocks may differ before anybody is blamed.
const TOLERANCE: i64 = 2_000_000;
/// How many clients are remembered of each lock, each with the time that it has claimed.
const MOST_CLAIMS: usize = 4;

/// What is remembered of one lock.
#[derive(Clone, Default)]
pub struct Memory {
    /// How long clients have said that they hold it, the first time for each.
    claims: Vec<Claim>,
    /// The unit of the first instant.
    unit: Option<(Unit, Mark)>,
    /// The last that deleted it because it was stale, or seemed to be, and has not taken it since.
    deleted: Option<Box<Deleted>>,
}

/// For how long somebody has said that it holds the lock.
#[derive(Clone)]
struct Claim {
    who: Who,
    mark: Mark,
    /// By the server's clock and by real time, in microseconds.
    by_server: i64,
    by_real: i64,
}

/// Somebody has deleted what it does not hold, and had read a time there.
#[derive(Clone)]
struct Deleted {
    who: Who,
    read: Read,
    mark: Mark,
    /// How much time was left by both clocks, in microseconds, and whose it was; none if it was over.
    left: Option<(i64, Who)>,
}

pub(super) fn see(scene: &mut Scene<'_>, happening: &Happening<'_>) {
    if scene.lock.shape != Shape::Value {
        return;
    }
    match happening {
        Happening::Acquired { .. } => {
            let Some(hold) = scene.lock.holds.last() else { return };
            let (value, instant) = (hold.token.clone(), hold.instant);
            taken_after_deletion(scene, true);
            if let Some(instant) = instant {
                if !unit(scene, instant) {
                    claim(scene, instant);
                }
            } else {
                other_unit(scene, &value);
            }
        }
        Happening::Refused { value, .. } => {
            taken_after_deletion(scene, false);
            other_unit(scene, value);
        }
        Happening::Extended { value: Some(value), is_own: true, .. } => {
            other_unit(scene, value);
        }
        Happening::Overwritten { hold, value, by_getset, read, .. } if !other_unit(scene, value) => {
            overwritten(scene, *hold, *by_getset, read.as_ref());
        }
        Happening::Removed { hold, guard: Guard::Blind, is_release: false, read: Some(read), .. } => {
            deleted(scene, *hold, read);
        }
        _ => {}
    }
}

/// The time that somebody has read, and whether it was over then by either clock.
fn read_time(read: &Read) -> Option<(Instant, bool)> {
    let value = read.value.as_deref()?;
    let instant = Instant::in_value(value, read.mark.at, read.mark.real)?;
    Some((instant, instant.left(read.mark.at, read.mark.real) < 0))
}

/// Numbers are compared without a look at the unit. A fraction makes no other unit of seconds.
fn are_one(one: Unit, other: Unit) -> bool {
    let plain = |unit| if unit == Unit::Fractions { Unit::Seconds } else { unit };
    plain(one) == plain(other)
}

/// Looks at the value that somebody offers, if times stand there.
fn other_unit(scene: &mut Scene<'_>, value: &[u8]) -> bool {
    if !scene.lock.reasons.has(Reason::Instant) {
        return false;
    }
    let Mark { at, real, .. } = scene.mark;
    Instant::in_value(value, at, real).is_some_and(|instant| unit(scene, instant))
}

/// Whether it is another unit than that of the times before.
fn unit(scene: &mut Scene<'_>, instant: Instant) -> bool {
    let Some((known, first)) = scene.lock.memory.clocks.unit.clone() else {
        scene.lock.memory.clocks.unit = Some((instant.unit, scene.mark.clone()));
        return false;
    };
    if are_one(known, instant.unit) {
        return false;
    }
    let sentence = format!(
        "{} gave the time in {} in {}, and {} in {}",
        first.actor(),
        quoted(scene.lock),
        known.name(),
        scene.mark.actor(),
        instant.unit.name()
    );
    let evidence = vec![
        first.shows(format!("gave the time in {}", known.name())),
        scene.now(format!("gave it in {}", instant.unit.name())),
    ];
    let culprit = scene.mark.client;
    scene.tell(Draft { code: Code::MixedTimeUnits, severity: None, sentence, evidence, culprit });
    true
}

/// Compares for how long clients say that they hold the lock.
fn claim(scene: &mut Scene<'_>, instant: Instant) {
    let Some(by) = scene.by.cloned() else { return };
    let mark = scene.mark.clone();
    let new = Claim { who: by, by_server: instant.micros - mark.at, by_real: instant.micros - mark.real, mark };
    // Whoever goes by real time is right by that.
    let is_over = new.by_server.max(new.by_real) < -TOLERANCE;
    if is_over {
        let behind = seconds(-new.by_server.max(new.by_real));
        let sentence = format!(
            "{} took {} with a time that was over {behind} ago: its clock seems to be behind",
            new.mark.actor(),
            quoted(scene.lock)
        );
        let evidence = vec![scene.now(format!("took the lock until {behind} ago"))];
        let culprit = new.mark.client;
        return scene.tell(Draft { code: Code::ClockDisagrees, severity: None, sentence, evidence, culprit });
    }
    let claims = &mut scene.lock.memory.clocks.claims;
    // When a test has moved the server's clock, some may go by that, and others by real time.
    let far = |known: &&Claim| {
        let pairs = [known.by_server, known.by_real].map(|one| [one - new.by_server, one - new.by_real]);
        !known.who.is(&new.who) && pairs.as_flattened().iter().all(|apart| apart.abs() > TOLERANCE)
    };
    let other = claims.iter().find(far).cloned();
    // Somebody who claims now this, now that, has no other clock.
    let own = claims.iter().find(|known| known.who.is(&new.who));
    let is_steady = own.is_none_or(|own| (own.by_server - new.by_server).abs() <= TOLERANCE);
    if own.is_none() {
        if claims.len() >= MOST_CLAIMS {
            claims.remove(0);
        }
        claims.push(new.clone());
    }
    let Some(other) = other.filter(|other| is_steady && !(is_round(other, instant) && is_round(&new, instant))) else {
        return;
    };
    let sentence = format!(
        "by the server's clock {} took {} for {} and {} for {}: their clocks differ, unless their time-outs do",
        other.who.actor(),
        quoted(scene.lock),
        seconds(other.by_server),
        new.who.actor(),
        seconds(new.by_server)
    );
    let evidence = vec![
        other.mark.shows(format!("took the lock for {}", seconds(other.by_server))),
        scene.now(format!("took it for {}", seconds(new.by_server))),
    ];
    let culprit = new.who.client;
    scene.tell(Draft { code: Code::ClockDisagrees, severity: None, sentence, evidence, culprit });
}

/// Whether it is for a round time, give or take the way to the server: a time-out, and no difference of clocks.
fn is_round(claim: &Claim, instant: Instant) -> bool {
    let missing = |by: i64| (-by).rem_euclid(100_000);
    instant.unit != Unit::Seconds && missing(claim.by_server).min(missing(claim.by_real)) <= 20_000
}

/// Somebody sets what somebody else holds.
fn overwritten(scene: &mut Scene<'_>, hold: Option<usize>, by_getset: bool, read: Option<&Read>) {
    let Some(hold) = hold.map(|hold| scene.lock.holds[hold].clone()) else { return };
    if scene.by.is_none_or(|by| by.same(&hold.who) == Same::Yes) {
        return;
    }
    let now = scene.mark.clone();
    let instant = hold.instant.or_else(|| Instant::in_value(&hold.token, now.at, now.real));
    if let (true, Some(instant)) = (by_getset, instant.filter(|_| hold.deadline.is_none())) {
        match read.map(|read| (read, read_time(read))) {
            // Somebody was quicker. GETSET has told that, and the pattern says so.
            Some((_, Some((_, true)))) => return,
            Some((read, None)) if read.value.is_none() => return,
            Some((read, Some(_))) if read.value.as_deref() == scene.lock.value.as_deref() => {
                let left = instant.left(now.at, now.real);
                let evidence = vec![
                    hold.acquired.shows("took the lock"),
                    read.mark.shows("read until when"),
                    now.shows(format!("took it over {} before", seconds(left))),
                ];
                return ahead(scene, &hold.who, left, evidence);
            }
            _ => {}
        }
    }
    let key = quoted(scene.lock);
    let mut evidence = vec![hold.acquired.shows("took the lock")];
    evidence.extend(hold.extended.as_ref().map(|extended| extended.shows("extended it")));
    evidence.push(scene.now("overwrote it"));
    let (by, holder) = (now.actor(), hold.who.actor());
    let (severity, sentence) = match kin(scene, &hold, read) {
        Kin::Own => return,
        Kin::Stranger(proof) => {
            evidence.extend(proof);
            (None, format!("{by} overwrote {key} while {holder} held it"))
        }
        // GETSET is for nothing else than to take it, by whoever it is.
        Kin::Unknown if by_getset => (None, format!("{by} overwrote {key} while {holder} held it")),
        Kin::Unknown => {
            let may = "they may be the same program on two connections";
            (Some(Severity::Warning), format!("{by} overwrote {key}, which {holder} had taken; {may}"))
        }
    };
    let culprit = now.client;
    scene.tell(Draft { code: Code::OverwroteLiveLock, severity, sentence, evidence, culprit });
}

/// Somebody has taken a lock for stale that was not.
fn ahead(scene: &mut Scene<'_>, holder: &Who, left: i64, evidence: Vec<Evidence>) {
    let severity = if left < TOLERANCE { Severity::Warning } else { Severity::Error };
    let sentence = format!(
        "{} took {} over from {} when it had {} left by the server's clock: its clock seems to be ahead",
        scene.mark.actor(),
        quoted(scene.lock),
        holder.actor(),
        seconds(left)
    );
    let culprit = scene.mark.client;
    scene.tell(Draft { code: Code::ClockDisagrees, severity: Some(severity), sentence, evidence, culprit });
}

/// Somebody deletes what it does not hold, and has read a time there before.
fn deleted(scene: &mut Scene<'_>, hold: Option<usize>, read: &Read) {
    let (Some(by), Some((instant, was_stale))) = (scene.by.cloned(), read_time(read)) else { return };
    let now = scene.mark.clone();
    let holder = hold.map(|hold| scene.lock.holds[hold].clone());
    // Whoever has taken it in between may be done with it by now.
    let between = holder.as_ref().or_else(|| scene.lock.past.back().map(|past| &past.hold));
    let between = between.filter(|between| between.who.same(&by) != Same::Yes).cloned();
    if let Some(holder) = between.filter(|_| was_stale && read.taken < scene.lock.memory.taken) {
        let sentence = format!(
            "{} found {} stale and deleted it, but {} had taken it anew in between",
            now.actor(),
            quoted(scene.lock),
            holder.who.actor()
        );
        let evidence = vec![
            read.mark.shows("found the lock stale"),
            holder.acquired.shows("took it anew"),
            scene.now("deleted it all the same"),
        ];
        let (code, culprit) = (Code::StaleDeleteRace, now.client);
        scene.lock.memory.clocks.deleted = None;
        return scene.tell(Draft { code, severity: Some(Severity::Error), sentence, evidence, culprit });
    }
    if read.value.as_deref() == scene.lock.value.as_deref() {
        let left = (!was_stale).then(|| instant.left(now.at, now.real)).filter(|left| *left > 0);
        let left = left.and_then(|left| Some((left, holder?.who)));
        let deleted = Deleted { who: by, read: read.clone(), mark: now, left };
        scene.lock.memory.clocks.deleted = Some(Box::new(deleted));
    }
}

/// Somebody has got the lock, or wanted to; perhaps after it has deleted it.
fn taken_after_deletion(scene: &mut Scene<'_>, took: bool) {
    let deleted = &mut scene.lock.memory.clocks.deleted;
    let Some(by) = scene.by.filter(|by| deleted.as_ref().is_some_and(|deleted| by.is(&deleted.who))).cloned() else {
        return;
    };
    let Some(deleted) = deleted.take() else { return };
    let read = &deleted.read;
    if let Some((left, holder)) = &deleted.left {
        if took && holder.same(&by) != Same::Yes {
            let evidence = vec![
                read.mark.shows("read until when"),
                deleted.mark.shows(format!("deleted it {} before", seconds(*left))),
                scene.now("took it"),
            ];
            ahead(scene, holder, *left, evidence);
        }
        return;
    }
    // Others that have read the same may go on with the same.
    let place = &scene.lock.place;
    let rivals = scene.parties.values().filter(|party| party.who.same(&by) != Same::Yes);
    let rival = rivals.filter_map(|party| {
        let its = party.read_of(place)?;
        (its.taken == read.taken && its.value == read.value).then_some(its)
    });
    let rival = rival.min_by_key(|its| its.mark.seq).map(|its| its.mark.clone());
    let key = quoted(scene.lock);
    let mut evidence = vec![read.mark.shows("found the lock stale")];
    let (severity, danger) = match &rival {
        Some(rival) => {
            evidence.push(rival.shows("found the same"));
            let danger = format!("{} had found the same and could have taken it in between", rival.actor());
            (Severity::Error, danger)
        }
        None => (Severity::Warning, "another that found the same could have taken it in between".to_owned()),
    };
    evidence.push(deleted.mark.shows("deleted it"));
    evidence.push(scene.now(if took { "took it" } else { "tried to take it" }));
    let sentence = format!("{} deleted {key}, which was stale, to take it anew: {danger}", by.actor());
    let (code, culprit) = (Code::StaleDeleteRace, by.client);
    scene.tell(Draft { code, severity: Some(severity), sentence, evidence, culprit });
}

/// A stretch of time, in microseconds, in seconds.
fn seconds(micros: i64) -> String {
    let tenths = micros.abs().saturating_add(50_000) / 100_000;
    let sign = if micros < 0 && tenths > 0 { "-" } else { "" };
    match tenths % 10 {
        0 => format!("{sign}{} s", tenths / 10),
        tenth => format!("{sign}{}.{tenth} s", tenths / 10),
    }
}
