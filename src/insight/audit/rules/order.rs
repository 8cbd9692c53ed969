//! In which order clients take several locks.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::insight::audit::code::{Code, Severity};
use crate::insight::audit::finding::Mark;
use crate::insight::audit::happening::{Draft, Happening, Scene, spelled};
use crate::insight::audit::lock::{Place, Same, Who};

/// What is remembered beyond one lock: who waits for whom.
#[derive(Clone, Default)]
pub struct Wide {
    waits: VecDeque<Wait>,
}

/// How many waits are remembered, and how long a circle of them is looked for.
const MOST_WAITS: usize = 256;
const LONGEST: usize = 8;

/// Somebody holds locks, and wants another that somebody else has.
#[derive(Clone)]
struct Wait {
    who: Who,
    wanted: Arc<Place>,
    holder: Who,
    /// The command with which the holder took it.
    taken: Mark,
    first: Mark,
    last: Mark,
    times: u64,
    /// What the waiting client had done beside locks at first, and at last.
    work: (u64, u64),
    is_told: bool,
}

pub(super) fn see(scene: &mut Scene<'_>, happening: &Happening<'_>) {
    match happening {
        Happening::Refused { .. } => refused(scene),
        Happening::Acquired { .. }
        | Happening::Removed { .. }
        | Happening::Overwritten { .. }
        | Happening::Expired { .. }
        | Happening::Closed { .. }
        | Happening::Gone { .. }
            if std::mem::take(&mut scene.lock.memory.is_wanted) =>
        {
            let place = &scene.lock.place;
            scene.wide.order.waits.retain(|wait| wait.wanted != *place);
        }
        _ => {}
    }
}

fn refused(scene: &mut Scene<'_>) {
    let Some(by) = scene.by else { return };
    let Some(holder) = scene.lock.holder().filter(|hold| hold.is_certain && hold.who.same(by) != Same::Yes) else {
        return;
    };
    let Some(party) = scene.parties.get(&(by.server, by.client)) else { return };
    if party.holds.iter().all(|held| *held == scene.lock.place) {
        return;
    }
    let (mark, work) = (scene.mark.clone(), party.work);
    let waits = &mut scene.wide.order.waits;
    let known = waits.iter().position(|wait| wait.who.is(by) && wait.wanted == scene.lock.place);
    let own = match known {
        Some(own) => {
            let wait = &mut waits[own];
            (wait.last, wait.times, wait.work.1) = (mark, wait.times + 1, work);
            own
        }
        None => {
            if waits.len() >= MOST_WAITS {
                waits.pop_front();
            }
            waits.push_back(Wait {
                who: by.clone(),
                wanted: Arc::clone(&scene.lock.place),
                holder: holder.who.clone(),
                taken: holder.acquired.clone(),
                first: mark.clone(),
                last: mark,
                times: 1,
                work: (work, work),
                is_told: false,
            });
            waits.len() - 1
        }
    };
    scene.lock.memory.is_wanted = true;
    if let Some(circle) = circle(waits, own) {
        for wait in &circle {
            waits[*wait].is_told = true;
        }
        let circle: Vec<Wait> = circle.iter().map(|wait| waits[*wait].clone()).collect();
        tell(scene, &circle);
    }
}

/// Those who wait for each other in a circle, from this one on: each was refused again since all of them wait. The
/// shortest one that was not told.
fn circle(waits: &VecDeque<Wait>, own: usize) -> Option<Vec<usize>> {
    let goes_on = |wait: &Wait| wait.times >= 2;
    if !goes_on(&waits[own]) {
        return None;
    }
    // From whom each one was come to, and how far that is from the first.
    let mut met: Vec<Option<(usize, usize)>> = vec![None; waits.len()];
    let mut next = VecDeque::from([own]);
    met[own] = Some((own, 1));
    while let Some(at) = next.pop_front() {
        let length = met[at]?.1;
        if waits[at].holder.is(&waits[own].who) && length > 1 {
            let way = way_to(&met, own, at);
            let all_since = way.iter().map(|wait| waits[*wait].first.real).max()?;
            // Whoever came last has just been refused for the first time when the others have waited already.
            let is_closed = way.iter().all(|wait| waits[*wait].last.real > all_since);
            if is_closed && !way.iter().all(|wait| waits[*wait].is_told) {
                return Some(way);
            }
            continue;
        }
        if length >= LONGEST {
            continue;
        }
        for (other, wait) in waits.iter().enumerate() {
            if met[other].is_none() && goes_on(wait) && wait.who.is(&waits[at].holder) {
                met[other] = Some((at, length + 1));
                next.push_back(other);
            }
        }
    }
    None
}

/// The way on which one was come to.
fn way_to(met: &[Option<(usize, usize)>], own: usize, last: usize) -> Vec<usize> {
    let mut way = vec![last];
    let mut at = last;
    while at != own
        && let Some((before, _)) = met[at]
    {
        way.push(before);
        at = before;
    }
    way.reverse();
    way
}

fn tell(scene: &mut Scene<'_>, circle: &[Wait]) {
    let name = |place: &Place| String::from_utf8_lossy(&place.key).into_owned();
    let waits = circle.iter().map(|wait| {
        format!("{} waits for `{}`, which {} holds", wait.who.actor(), name(&wait.wanted), wait.holder.actor())
    });
    let all = waits.collect::<Vec<_>>().join(", and ");
    let since = circle.iter().max_by_key(|wait| wait.first.real).map_or(&scene.mark, |wait| &wait.first);
    let lasted = (scene.mark.real - since.real).max(if since.server == scene.mark.server {
        scene.mark.at - since.at
    } else {
        0
    });
    let sentence = format!("Clients wait for each other for {} already: {all}", spelled(lasted.max(1000)));
    let mut evidence = Vec::new();
    for wait in circle {
        evidence.push(wait.taken.shows(format!("took `{}`", name(&wait.wanted))));
        let refused = format!("was refused `{}`, and held its own", name(&wait.wanted));
        evidence.push(wait.first.shows(refused.clone()));
        evidence.push(wait.last.shows(refused));
    }
    // Over one connection several parts of a program may wait and hold, each for itself.
    let has_worked = circle.iter().any(|wait| wait.work.0 != wait.work.1);
    let severity = has_worked.then_some(Severity::Warning);
    let culprit = circle.iter().map(|wait| wait.who.client).min().unwrap_or(0);
    scene.tell(Draft { code: Code::LockOrder, severity, sentence, evidence, culprit });
}
