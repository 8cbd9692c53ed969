//! Who takes a lock, and who deletes and extends it.

use super::kin::{Kin, held, is_by_stranger, is_lost, kin, ran_out, same, shown, taking, tries_anew};
use crate::insight::audit::code::{Code, Severity};
use crate::insight::audit::finding::{Evidence, Mark};
use crate::insight::audit::happening::{Draft, Happening, Scene};
use crate::insight::audit::lock::{End, Hold, How, Past, Same, Standing, Who};
use crate::insight::audit::party::Read;
use crate::insight::audit::stamp::Instant;
use crate::insight::audit::step::{Expiry, Guard, Shape};

/// What is remembered of one lock.
#[derive(Clone, Default)]
pub struct Memory {
    /// A token was released over another connection than that which had taken it: these belong to one program.
    pooled: bool,
    /// The last command that has deleted or overwritten a lock and was certainly not its holder's.
    strange: Option<u64>,
    /// The last two who were told to have had it at once, by the commands that took it.
    doubled: Option<(u64, u64)>,
}

/// What is remembered beyond one lock: the servers on which connections without names were seen to be shared by several
/// parts of a program. None of them is certain to be a stranger to another then.
#[derive(Clone, Default)]
pub struct Wide {
    shared: Vec<u16>,
}

impl Wide {
    fn note_shared(&mut self, who: &Who) {
        if who.name.is_empty() && !self.shared.contains(&who.server) {
            self.shared.push(who.server);
        }
    }
}

/// Whether connections without names may belong together as far as this lock is concerned.
pub(super) fn is_pooled(scene: &Scene<'_>) -> bool {
    scene.lock.memory.ownership.pooled || scene.wide.ownership.shared.contains(&scene.lock.place.server)
}

impl Memory {
    pub(super) fn is_strange(&self, mark: &Mark) -> bool {
        self.strange == Some(mark.seq)
    }
}

pub(super) fn see(scene: &mut Scene<'_>, happening: &Happening<'_>) {
    two_holders(scene, matches!(happening, Happening::Acquired { .. }));
    match happening {
        Happening::Removed { hold: Some(hold), guard, read, .. } => removed(scene, *hold, *guard, read.as_ref()),
        Happening::Removed { hold: None, guard: Guard::Blind, read, .. } => left_behind(scene, read.as_ref()),
        Happening::Overwritten { hold: Some(hold), read, .. } => {
            let hold = scene.lock.holds[*hold].clone();
            if let Kin::Stranger(_) = kin(scene, &hold, read.as_ref()) {
                scene.lock.memory.ownership.strange = Some(scene.mark.seq);
            }
        }
        Happening::Extended { hold: Some(hold), guard: Guard::Blind, expiry, deadline, value, .. } => {
            let is_over = deadline.is_some_and(|deadline| deadline <= scene.mark.at.div_euclid(1000));
            let hold = scene.lock.holds[*hold].clone();
            match is_over {
                true => deleted_by_other(scene, &hold, None),
                false => extended(scene, &hold, *expiry, value.is_some()),
            }
        }
        Happening::Missed { token, .. } => missed(scene, *token),
        Happening::Refused { value, .. } => refused(scene, value),
        _ => {}
    }
}

/// Who comes for a lock over the very connection that holds it is another part of the program, if it has not forgotten that
/// it has it.
fn refused(scene: &mut Scene<'_>, value: &[u8]) {
    let Some(by) = scene.by else { return };
    if scene.lock.holder().is_some_and(|hold| hold.who.is(by) && *hold.token != *value) {
        scene.wide.ownership.note_shared(by);
    }
}

/// Somebody gets a lock while others still have every reason to believe that it is theirs. A reply that comes late counts
/// from when it comes.
fn two_holders(scene: &mut Scene<'_>, is_new: bool) {
    let holds = &scene.lock.holds;
    let Some((new, others)) = holds.split_last() else { return };
    if others.is_empty() || scene.lock.shape == Shape::Semaphore {
        return;
    }
    // Nothing has changed since they were looked at, unless one was told late.
    if !is_new && holds.iter().all(|hold| hold.told.is_none()) {
        return;
    }
    let real = scene.mark.real;
    let believes = |hold: &Hold| hold.told.is_none_or(|told| told <= real);
    if !believes(new) {
        return;
    }
    let double = others.iter().rev().filter(|other| believes(other) && !other.who.is(&new.who));
    let Some((other, new, severity)) = double
        .filter_map(|other| Some((other, new, weigh(scene, other, new)?)))
        .max_by_key(|(.., severity)| *severity)
        .map(|(other, new, severity)| (other.clone(), new.clone(), severity))
    else {
        return;
    };
    let pair = (other.acquired.seq, new.acquired.seq);
    if scene.lock.memory.ownership.doubled == Some(pair) {
        return;
    }
    scene.lock.memory.ownership.doubled = Some(pair);
    tell_double(scene, &other, &new, severity, None);
}

/// How bad it is that two believe to have the lock; nothing if they may be one, or share it, or if one was never told that
/// it has it.
fn weigh(scene: &Scene<'_>, other: &Hold, new: &Hold) -> Option<Severity> {
    if !other.is_certain || !new.is_certain {
        return None;
    }
    match &other.standing {
        // The server has both: a lock for readers.
        Standing::Held => None,
        Standing::Deleted(mark) | Standing::Overwritten(mark) => {
            is_by_stranger(scene.lock, other, mark).then_some(Severity::Error)
        }
        // Whoever empties the server may know that nobody works on.
        Standing::Flushed(mark) => (same(&other.who, mark) != Same::Yes).then_some(Severity::Warning),
        Standing::Vanished if new.how == How::TakenOver => {
            let Mark { at, real, .. } = new.acquired;
            let is_past = Instant::in_value(&other.token, at, real).is_some_and(|instant| instant.is_past(at, real));
            (!is_past).then_some(Severity::Error)
        }
        Standing::Vanished => Some(Severity::Warning),
    }
}

fn tell_double(scene: &mut Scene<'_>, other: &Hold, new: &Hold, severity: Severity, proof: Option<Evidence>) {
    let mut evidence = vec![taking(other), taking(new)];
    let mut culprit = new.who.client;
    let how = match &other.standing {
        Standing::Deleted(mark) => {
            culprit = mark.client;
            let is_cut = other.shortened.as_ref().is_some_and(|cut| cut.seq == mark.seq);
            let what = if is_cut { "cut its time short" } else { "deleted it" };
            evidence.push(mark.shows(format!("{what} while it was held")));
            format!(", because {} had {what}", mark.actor())
        }
        Standing::Overwritten(mark) => {
            culprit = mark.client;
            evidence.push(mark.shows("overwrote the lock while it was held"));
            format!(", because {} had overwritten it", mark.actor())
        }
        Standing::Flushed(mark) => {
            evidence.push(mark.shows("deleted all keys while the lock was held"));
            ", because all keys had been deleted".to_owned()
        }
        Standing::Held | Standing::Vanished if new.how == How::TakenOver => {
            format!(", because {} took over a lock that was not over", new.who.actor())
        }
        Standing::Held | Standing::Vanished => "; it is not known how the lock came free".to_owned(),
    };
    let certain = if severity == Severity::Error { "both held" } else { "may both have held" };
    let sentence = format!("{} and {} {certain} {}{how}", other.who.actor(), new.who.actor(), shown(scene.lock));
    let is_proof = proof.is_some();
    evidence.extend(proof);
    let draft = Draft { code: Code::TwoHolders, severity: Some(severity), sentence, evidence, culprit };
    if is_proof { scene.tell_more(draft) } else { scene.tell(draft) }
}

/// Somebody deletes a lock that somebody has.
fn removed(scene: &mut Scene<'_>, hold: usize, guard: Guard<'_>, read: Option<&Read>) {
    let hold = scene.lock.holds[hold].clone();
    match guard {
        Guard::Compared(token) => compared(scene, &hold, token),
        Guard::Blind => {
            if scene.by.is_some_and(|by| by.is(&hold.who)) {
                unchecked(scene, &hold, read);
            } else {
                deleted_by_other(scene, &hold, read);
            }
        }
    }
}

/// Somebody deletes a lock whose holder's connection has ended. If it is one that had the lock before, it means its own.
fn left_behind(scene: &mut Scene<'_>, read: Option<&Read>) {
    let is_there = |past: &&Past| past.end == End::Closed && scene.lock.value.as_deref() == Some(&*past.hold.token);
    let Some(left) = scene.lock.past.iter().rev().find(is_there).map(|past| past.hold.clone()) else { return };
    if earlier(scene).is_some_and(|earlier| earlier.was_lost && *earlier.hold.token != *left.token) {
        deleted_by_other(scene, &Hold { is_certain: false, ..left }, read);
    }
}

/// Somebody has compared the token before it deletes the lock.
fn compared(scene: &mut Scene<'_>, hold: &Hold, token: Option<&[u8]>) {
    let (Some(by), Some(token)) = (scene.by, token) else { return };
    if by.is(&hold.who) || *hold.token != *token {
        return;
    }
    let own = scene.lock.past.iter().rev().find(|past| past.hold.who.is(by) && *past.hold.token == *token).cloned();
    match (own, by.same(&hold.who)) {
        (None, Same::Unknown) => {
            scene.lock.memory.ownership.pooled = true;
            scene.wide.ownership.note_shared(by);
        }
        // Both have the same token, which says nothing then.
        (Some(own), Same::No) if ran_out(scene.lock, &own) => {
            let earlier = Earlier { hold: own.hold, words: "expired before", proof: None, was_lost: true };
            foreign_release(scene, hold, &earlier, Severity::Error);
        }
        _ => {}
    }
}

/// Whoever has it deletes it, and has not compared the token in the same step.
fn unchecked(scene: &mut Scene<'_>, hold: &Hold, read: Option<&Read>) {
    if scene.lock.shape == Shape::Semaphore {
        return;
    }
    let taken = scene.lock.memory.taken;
    let looked = read.filter(|read| {
        read.taken == taken && read.value.as_deref() == Some(&*hold.token) && read.mark.seq != scene.mark.seq
    });
    if let Some(read) = looked {
        return get_then_delete(scene, hold, read, None);
    }
    // Whoever keeps the time in the value looks at its own clock before it deletes the lock.
    if hold.instant.is_some() {
        return;
    }
    let (severity, why) = match hold.deadline {
        Some(_) => (Severity::Warning, "which by then could have expired and been somebody else's"),
        None => (Severity::Note, "which is only right as long as nobody else ever deletes it"),
    };
    let sentence = format!("{} deleted {} without a look at whose it was, {why}", hold.who.actor(), shown(scene.lock));
    let evidence = vec![taking(hold), scene.now("deleted it, whatever its token was")];
    let (code, severity) = (Code::UncheckedRelease, Some(severity));
    scene.tell(Draft { code, severity, sentence, evidence, culprit: 0 });
}

/// Somebody has read its own token, and deletes the lock in another step. `other` is who has got it in between.
fn get_then_delete(scene: &mut Scene<'_>, hold: &Hold, read: &Read, other: Option<&Hold>) {
    let Some(by) = scene.by else { return };
    let lock = shown(scene.lock);
    let mut evidence = vec![
        taking(hold),
        read.mark.shows("found its own token there"),
        scene.now("deleted the lock, whoever had it by then"),
    ];
    let sentence = match other {
        Some(other) => {
            evidence.push(taking(other));
            format!(
                "{} found its token in {lock} and deleted the lock in a second step, when {} had got it in between",
                by.actor(),
                other.who.actor()
            )
        }
        None => format!(
            "{} found its token in {lock} and deleted the lock in a second step, between which the lock could have \
             expired and become somebody else's",
            by.actor()
        ),
    };
    let culprit = by.client;
    scene.tell(Draft { code: Code::GetThenDelete, severity: None, sentence, evidence, culprit });
}

/// What somebody had to do with a lock before.
struct Earlier {
    hold: Hold,
    /// What has become of its hold: its lock had ...
    words: &'static str,
    /// The command by which it was lost, if one is known.
    proof: Option<Evidence>,
    /// It has lost the lock without having released it.
    was_lost: bool,
}

/// What whoever does it had to do with the lock before.
fn earlier(scene: &Scene<'_>) -> Option<Earlier> {
    let (lock, by) = (&scene.lock, scene.by?);
    if let Some(hold) = lock.hold_of(by).filter(|hold| hold.standing != Standing::Held) {
        let was_lost = hold.is_certain && is_lost(lock, hold) && hold.standing != Standing::Vanished;
        let (words, proof) = match &hold.standing {
            Standing::Deleted(mark) => ("been deleted", Some(mark.shows("deleted the lock while it was held"))),
            Standing::Overwritten(mark) => ("been overwritten", Some(mark.shows("overwrote the lock"))),
            Standing::Flushed(mark) => ("gone with all keys", Some(mark.shows("deleted all keys"))),
            Standing::Held | Standing::Vanished => ("gone", None),
        };
        return Some(Earlier { hold: hold.clone(), words, proof, was_lost });
    }
    let past = lock.past_of(by).filter(|past| !tries_anew(lock, by, &past.hold))?;
    let was_lost = ran_out(lock, past);
    let words = match past.end {
        End::Expired => "expired",
        End::Released => "been released",
        End::Closed | End::Told => "been lost",
    };
    Some(Earlier { hold: past.hold.clone(), words, proof: None, was_lost })
}

/// Somebody deletes a lock that another connection has taken, without a look at whose it is.
fn deleted_by_other(scene: &mut Scene<'_>, hold: &Hold, read: Option<&Read>) {
    let Some(by) = scene.by.cloned() else { return };
    let kin = if by.is(&hold.who) { return } else { kin(scene, hold, read) };
    if scene.lock.shape == Shape::Semaphore && scene.lock.hold_of(&by).is_some() {
        return;
    }
    let earlier = earlier(scene);
    let severity = match (&kin, by.same(&hold.who), &earlier) {
        (_, Same::No, Some(_)) => Some(Severity::Error),
        // Connections of a pool may have had it before each other.
        (_, Same::Unknown, Some(earlier)) if earlier.was_lost && !is_pooled(scene) => Some(Severity::Error),
        (_, Same::Yes, Some(earlier)) if earlier.was_lost => Some(Severity::Warning),
        _ => None,
    };
    if let (Some(severity), Some(earlier)) = (severity, &earlier) {
        if severity == Severity::Error {
            scene.lock.memory.ownership.strange = Some(scene.mark.seq);
        }
        foreign_release(scene, hold, earlier, severity);
        let looked = read.filter(|read| {
            read.value.as_deref() == Some(&*earlier.hold.token) && read.mark.seq > earlier.hold.acquired.seq
        });
        if let Some(read) = looked.filter(|_| severity == Severity::Error) {
            get_then_delete(scene, &earlier.hold, read, Some(hold));
        }
        return;
    }
    match kin {
        Kin::Own => unchecked(scene, hold, read),
        Kin::Stranger(proof) => {
            scene.lock.memory.ownership.strange = Some(scene.mark.seq);
            let severity = if hold.is_certain { Severity::Error } else { Severity::Warning };
            let sentence =
                format!("{} deleted {} while {} {} it", by.actor(), shown(scene.lock), hold.who.actor(), held(hold));
            let mut evidence = vec![taking(hold), scene.now("deleted it")];
            evidence.extend(proof);
            blind_delete(scene, severity, sentence, evidence, by.client);
        }
        Kin::Unknown => {
            let sentence = format!(
                "{} deleted {}, which {} had taken; they may be the same program on two connections",
                by.actor(),
                shown(scene.lock),
                hold.who.actor()
            );
            let evidence = vec![taking(hold), scene.now("deleted it")];
            blind_delete(scene, Severity::Warning, sentence, evidence, 0);
        }
    }
}

fn blind_delete(scene: &mut Scene<'_>, severity: Severity, sentence: String, evidence: Vec<Evidence>, culprit: u64) {
    scene.tell(Draft { code: Code::BlindDelete, severity: Some(severity), sentence, evidence, culprit });
}

/// Somebody deletes another's lock in place of its own.
fn foreign_release(scene: &mut Scene<'_>, hold: &Hold, earlier: &Earlier, severity: Severity) {
    let Some(by) = scene.by else { return };
    let severity = if hold.is_certain { severity } else { Severity::Warning };
    let may = if severity == Severity::Error { "released" } else { "may have released" };
    let whose = if hold.is_certain { "had got since" } else { "may have got since" };
    let sentence = format!(
        "{} {may} {}, which {} {whose}: its own had {}",
        by.actor(),
        shown(scene.lock),
        hold.who.actor(),
        earlier.words
    );
    let mut evidence = vec![taking(&earlier.hold), taking(hold), scene.now("deleted it")];
    evidence.extend(earlier.proof.clone());
    let culprit = by.client;
    scene.tell(Draft { code: Code::ForeignRelease, severity: Some(severity), sentence, evidence, culprit });
}

/// Somebody gives a lock another time to live without a look at whose it is.
fn extended(scene: &mut Scene<'_>, hold: &Hold, expiry: Expiry, is_set: bool) {
    let Some(by) = scene.by.cloned() else { return };
    let proof = match kin(scene, hold, None) {
        Kin::Own => return unchecked_extension(scene, hold, expiry),
        // The holder's token is no secret of its connection.
        Kin::Unknown if is_set => return unchecked_extension(scene, hold, expiry),
        Kin::Stranger(proof) => proof.map(|proof| (Severity::Error, proof)).or_else(|| {
            let earlier = earlier(scene).map(|earlier| taking(&earlier.hold));
            Some((Severity::Error, earlier.unwrap_or_else(|| scene.now(""))))
        }),
        Kin::Unknown => {
            let lost = earlier(scene).filter(|earlier| earlier.was_lost && !is_pooled(scene));
            lost.map(|earlier| (Severity::Error, taking(&earlier.hold)))
        }
    };
    let (severity, mut evidence) = match proof {
        Some((severity, proof)) => (severity, vec![proof]),
        None => (Severity::Warning, Vec::new()),
    };
    let severity = if hold.is_certain { severity } else { Severity::Warning };
    let (lock, holder) = (shown(scene.lock), hold.who.actor());
    let what = if expiry == Expiry::Never { "took the expiry from" } else { "gave another expiry to" };
    let sentence = match severity {
        Severity::Error => format!("{} {what} {lock} while {holder} held it", by.actor()),
        _ if !hold.is_certain => format!("{} {what} {lock} while {holder} may have held it", by.actor()),
        _ => format!(
            "{} {what} {lock}, which {holder} had taken; they may be the same program on two connections",
            by.actor()
        ),
    };
    let culprit = if evidence.is_empty() { 0 } else { by.client };
    evidence.retain(|evidence| !evidence.what.is_empty());
    evidence.extend([taking(hold), scene.now(format!("{what} it"))]);
    scene.tell(Draft { code: Code::ForeignExtension, severity: Some(severity), sentence, evidence, culprit });
}

/// The holder gives its lock more time without a look whether it still has it.
fn unchecked_extension(scene: &mut Scene<'_>, hold: &Hold, expiry: Expiry) {
    let is_first = hold.deadline.is_none() && hold.instant.is_none() && hold.extensions == 0;
    if is_first || expiry == Expiry::Never || scene.lock.shape == Shape::Semaphore {
        return;
    }
    let by = scene.by.map(Who::actor).unwrap_or_default();
    let sentence = format!(
        "{by} extended {} without a look at whose it was, which by then could have expired and been somebody else's",
        shown(scene.lock)
    );
    let evidence = vec![taking(hold), scene.now("extended it, whatever its token was")];
    let code = Code::UncheckedExtension;
    scene.tell(Draft { code, severity: None, sentence, evidence, culprit: 0 });
}

/// Somebody is told that it does not have the lock. If it had reason to believe so, whoever took that from it is no
/// connection of its own.
fn missed(scene: &mut Scene<'_>, token: Option<&[u8]>) {
    let Some(by) = scene.by.cloned() else { return };
    looked_too_early(scene, &by, token);
    let ended = scene.lock.past.back();
    let ended = ended.filter(|past| past.by.as_ref().is_some_and(|mark| mark.seq == scene.mark.seq));
    let Some(Past { hold, end: End::Told, .. }) = ended.cloned() else { return };
    let (mark, was_deleted) = match &hold.standing {
        Standing::Deleted(mark) => (mark, true),
        Standing::Overwritten(mark) | Standing::Flushed(mark) => (mark, false),
        Standing::Held | Standing::Vanished => return,
    };
    let whose = same(&hold.who, mark);
    if !hold.is_certain || whose == Same::Yes || (whose == Same::Unknown && is_pooled(scene)) {
        return;
    }
    let since = scene.lock.holds.iter().chain(scene.lock.past.iter().map(|past| &past.hold));
    let since = since.filter(|other| other.acquired.seq > mark.seq && !other.who.is(&hold.who));
    let new = since.min_by_key(|other| other.acquired.seq).cloned();
    // Without a token it may be about another lock that was taken since.
    if token.is_none() && new.is_some() {
        return;
    }
    let proof = scene.now("still believed to have it");
    if was_deleted && same(&hold.who, mark) == Same::Unknown && !is_by_stranger(scene.lock, &hold, mark) {
        let sentence = format!(
            "{} deleted {} while {} held it and still meant to release it",
            mark.actor(),
            shown(scene.lock),
            hold.who.actor()
        );
        let evidence = vec![taking(&hold), mark.shows("deleted it"), proof.clone()];
        let (code, severity) = (Code::BlindDelete, Some(Severity::Error));
        scene.tell_more(Draft { code, severity, sentence, evidence, culprit: 0 });
    }
    if let Some(new) = new.filter(|new| new.is_certain) {
        let pair = (hold.acquired.seq, new.acquired.seq);
        let is_told = scene.lock.memory.ownership.doubled == Some(pair);
        let is_certain = matches!(hold.standing, Standing::Flushed(_)) || !is_told;
        if is_certain {
            tell_double(scene, &hold, &new, Severity::Error, Some(proof));
        }
    }
}

/// Somebody has read its own token, and then deleted a lock that was gone by then.
fn looked_too_early(scene: &mut Scene<'_>, by: &Who, token: Option<&[u8]>) {
    if token.is_some() {
        return;
    }
    let Some(party) = scene.parties.get(&(by.server, by.client)) else { return };
    let Some(read) = party.read_of(&scene.lock.place).cloned() else { return };
    let is_late = |past: &&Past| past.end == End::Expired && !tries_anew(scene.lock, by, &past.hold);
    let Some(past) = scene.lock.past_of(by).filter(is_late) else { return };
    if read.value.as_deref() == Some(&*past.hold.token) && read.mark.seq > past.hold.acquired.seq {
        let hold = past.hold.clone();
        get_then_delete(scene, &hold, &read, None);
    }
}
