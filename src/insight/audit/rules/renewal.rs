//! Locks that are extended again and again while somebody works.

use crate::insight::audit::code::Code;
use crate::insight::audit::finding::Mark;
use crate::insight::audit::happening::{Draft, Happening, Scene, spelled};
use crate::insight::audit::lock::{Hold, Same, Standing};

/// What is remembered of one lock.
#[derive(Clone, Default)]
pub struct Memory {
    /// How its present holder renews it.
    beat: Option<Box<Beat>>,
    /// A hold that was renewed, and then was not any more, and expired.
    stopped: Option<Box<(Hold, Beat)>>,
}

/// How often a lock is renewed.
#[derive(Clone)]
struct Beat {
    token: Box<[u8]>,
    /// The last renewal, or when it was taken.
    last: Mark,
    count: u64,
    /// The shortest and the longest time between two renewals, in microseconds on the server's clock.
    least: i64,
    most: i64,
    /// What its holder had done beside locks at the last renewal,
    work: u64,
    /// and how often it was renewed since it last did anything.
    idle: u64,
    /// It has done something meanwhile.
    has_worked: bool,
    /// All renewals came from the holder itself, as far as that is known.
    is_own: bool,
}

/// How often a lock is renewed without any work before that is worth a word.
const MANY: u64 = 20;

pub(super) fn see(scene: &mut Scene<'_>, happening: &Happening<'_>) {
    match *happening {
        Happening::Acquired { .. } => memory(scene).beat = None,
        Happening::Extended { hold: Some(hold), is_own: true, .. } => renewed(scene, hold),
        Happening::Expired { hold } => expired(scene, hold),
        Happening::Missed { token, .. } => came_back(scene, token),
        Happening::Worked { .. } | Happening::Removed { .. } | Happening::Extended { .. } => came_back(scene, None),
        Happening::Closed { hold } | Happening::Ended { hold } => endless(scene, hold),
        _ => {}
    }
}

fn memory<'s>(scene: &'s mut Scene<'_>) -> &'s mut Memory {
    &mut scene.lock.memory.renewal
}

fn renewed(scene: &mut Scene<'_>, hold: usize) {
    let mark = scene.mark.clone();
    let hold = &scene.lock.holds[hold];
    let party = scene.parties.get(&(hold.who.server, hold.who.client));
    let (work, touched) = party.map_or((0, false), |party| (party.work, !party.touched.is_empty()));
    let is_own = scene.by.is_some_and(|by| by.same(&hold.who) == Same::Yes);
    let (token, last) = (hold.token.clone(), hold.acquired.clone());
    let memory = memory(scene);
    // A lock whose token is the time at which it ends gets another one with each renewal.
    let known = memory.beat.take().filter(|beat| beat.token == token);
    let mut beat = known.unwrap_or_else(|| {
        Box::new(Beat {
            token,
            last,
            count: 0,
            least: i64::MAX,
            most: 0,
            work,
            idle: 0,
            has_worked: touched,
            is_own: true,
        })
    });
    let gap = mark.at - beat.last.at;
    beat.count += 1;
    (beat.least, beat.most) = (beat.least.min(gap), beat.most.max(gap));
    beat.is_own &= is_own;
    if work == beat.work {
        beat.idle += 1;
    } else {
        (beat.work, beat.idle, beat.has_worked) = (work, 0, true);
    }
    beat.last = mark;
    memory.beat = Some(beat);
}

impl Beat {
    fn is_regular(&self) -> bool {
        self.count >= 2 && self.least > 0 && self.most <= self.least.saturating_mul(2)
    }

    /// When the next renewal would have come at the latest, on the server's clock.
    fn due(&self) -> i64 {
        self.last.at + self.most + self.most / 2
    }
}

fn expired(scene: &mut Scene<'_>, hold: usize) {
    let hold = scene.lock.holds[hold].clone();
    let Some(beat) = memory(scene).beat.take().filter(|beat| beat.token == hold.token && beat.is_regular()) else {
        return;
    };
    if !hold.is_certain || hold.standing != Standing::Held {
        return;
    }
    let party = scene.parties.get(&(hold.who.server, hold.who.client));
    match party.is_some_and(|party| party.worked_at >= beat.due()) {
        true => stopped(scene, &hold, &beat, "went on with its work"),
        false => memory(scene).stopped = Some(Box::new((hold, *beat))),
    }
}

/// Somebody comes back to a lock that it had renewed until it did not any more.
fn came_back(scene: &mut Scene<'_>, token: Option<&[u8]>) {
    let Some(by) = scene.by else { return };
    let Some((hold, _)) = scene.lock.memory.renewal.stopped.as_deref() else { return };
    if !by.is(&hold.who) && token.is_none_or(|token| *hold.token != *token) {
        return;
    }
    let Some(back) = memory(scene).stopped.take() else { return };
    let (hold, beat) = *back;
    // If a test has moved the clock over the end, there was no time to renew it.
    let has_passed = scene.mark.real - beat.last.real;
    if has_passed >= beat.most + beat.most / 2 {
        stopped(scene, &hold, &beat, "came back to it later");
    }
}

fn stopped(scene: &mut Scene<'_>, hold: &Hold, beat: &Beat, still: &str) {
    let key = super::ending::name_of(scene);
    let every = spelled(beat.most);
    let sentence = format!(
        "`{key}` was renewed {} times, at least every {every}, and then not any more until it expired, while its holder \
         {} {still}",
        beat.count,
        hold.who.actor()
    );
    let evidence = vec![hold.acquired.shows("took the lock"), beat.last.shows("renewed it for the last time")];
    scene.tell(Draft { code: Code::RenewalStopped, severity: None, sentence, evidence, culprit: hold.who.client });
}

/// Whether somebody renews a lock although its work seems to be done.
pub(super) fn is_endless(scene: &Scene<'_>, hold: &Hold) -> bool {
    let beat = scene.lock.memory.renewal.beat.as_deref().filter(|beat| beat.token == hold.token);
    let is_idle =
        |beat: &Beat| beat.is_own && beat.has_worked && beat.idle >= MANY && scene.work_of(&hold.who) == beat.work;
    hold.is_certain && hold.standing == Standing::Held && beat.is_some_and(is_idle)
}

/// It is still renewed at the end.
fn endless(scene: &mut Scene<'_>, hold: usize) {
    let hold = scene.lock.holds[hold].clone();
    if !is_endless(scene, &hold) {
        return;
    }
    let Some(beat) = memory(scene).beat.take() else { return };
    let key = super::ending::name_of(scene);
    let sentence = format!(
        "{} renewed `{key}` {} times after the last that it did under it, and never released it",
        hold.who.actor(),
        beat.idle
    );
    let evidence = vec![hold.acquired.shows("took the lock"), beat.last.shows("renewed it for the last time")];
    scene.tell(Draft { code: Code::RenewalNeverStops, severity: None, sentence, evidence, culprit: hold.who.client });
}
