//! Who is in a lock that is no string: a counter, a member of a set, a field of a hash, a place in a sorted set, a token of
//! a list.
//!
//! Only keys that the user declares are followed (`--locks`): the commands alone do not tell such a lock from a counter, a
//! set or a queue. A client that was refused and works all the same, that gives back what it had not taken, or that takes
//! in a second step what it found free in the first one, is to blame; one that only gives back what another connection took
//! is not, since a program may do so on purpose.

use std::collections::VecDeque;

use super::client_identity::{ClientIdentity, SameProgram};
use super::code::Code;
use super::finding::{Evidence, JournalRef};

/// How many clients are remembered of one lock, and how many of their looks and refusals.
const MAX_OCCUPANTS: usize = 1024;
const MAX_REMEMBERED: usize = 64;

/// How many microseconds after another one a client may come and still have a lower score by chance.
const AT_ONCE: i64 = 20_000;

/// A lock that is no string.
#[derive(Clone, Default)]
pub struct Occupancy {
    /// The clients that believe to be in.
    occupants: Vec<Occupant>,
    /// The last looks of clients, the latest at the end.
    looks: VecDeque<Look>,
    /// The clients that were refused, or told that others were there before them.
    refusals: VecDeque<Refusal>,
    /// Who added itself after others had come in since it counted, and may look again.
    hasty: Vec<Mistake>,
    /// Tokens that were put into a list while somebody had them.
    extra: Vec<(Box<[u8]>, JournalRef)>,
    /// The place that the last client was told, before its next command.
    told_place: Option<(ClientIdentity, Box<[u8]>, i64)>,
    /// The first place in a sorted set at which a client gave up.
    full_from: Option<i64>,
    /// The counter admits several at once.
    is_shared: bool,
    /// When the server deletes the key, in milliseconds on its clock.
    deadline: Option<i64>,
}

/// A client that believes to be in.
#[derive(Clone)]
struct Occupant {
    client: ClientIdentity,
    /// The member, field or token; empty for a counter.
    place: Box<[u8]>,
    taken: JournalRef,
    /// How often it counted up.
    count: i64,
    score: f64,
    /// What became of its place on the server.
    gone: Option<Gone>,
}

#[derive(Clone)]
enum Gone {
    Expired,
    /// Nobody is known to have removed it.
    Vanished,
    /// Another connection removed it; `true` if that was a mistake for certain.
    Removed(JournalRef, bool),
}

/// A client saw how many there were, or whether a place was taken.
#[derive(Clone)]
struct Look {
    client: ClientIdentity,
    /// `None` for the whole key.
    place: Option<Box<[u8]>>,
    count: i64,
    source: JournalRef,
}

/// A client that did not get in.
#[derive(Clone)]
struct Refusal {
    client: ClientIdentity,
    place: Box<[u8]>,
    source: JournalRef,
    /// By how much it counted up and has not taken back.
    count: i64,
    /// It had found the lock free in a step before.
    looked: Option<JournalRef>,
    /// Who had it, while the client used other keys all the same.
    beside: Option<(ClientIdentity, JournalRef)>,
    /// The command with which it wrote another key all the same.
    worked: Option<JournalRef>,
}

/// What a client did wrong.
#[derive(Clone)]
pub struct Mistake {
    pub code: Code,
    pub client: ClientIdentity,
    /// What follows the client's name in the sentence; `{key}` stands for the key.
    pub sentence: String,
    pub evidence: Vec<Evidence>,
}

/// A client, and the command that it sends.
pub struct Act<'a> {
    pub client: &'a ClientIdentity,
    pub source: &'a JournalRef,
    pub mistakes: &'a mut Vec<Mistake>,
    /// What became of the client.
    pub moves: Vec<Move>,
}

/// What becomes of a client.
pub enum Move {
    /// It came in, and had looked before if `looked`.
    In { place: Box<[u8]>, looked: bool },
    /// It is told that others are there.
    Refused { place: Box<[u8]> },
    /// It is told its place in the order.
    Placed { place: Box<[u8]> },
    /// It goes, or tries to: at once if it was told a place too far behind.
    Out { place: Box<[u8]>, at_once: bool },
}

impl<'a> Act<'a> {
    pub fn new(client: &'a ClientIdentity, source: &'a JournalRef, mistakes: &'a mut Vec<Mistake>) -> Self {
        Self { client, source, mistakes, moves: Vec::new() }
    }
}

impl Act<'_> {
    fn is_mine(&self, other: &ClientIdentity) -> bool {
        self.client.is_same_connection(other)
    }

    fn report(&mut self, code: Code, sentence: String, evidence: Vec<Evidence>) {
        self.mistakes.push(Mistake { code, client: self.client.clone(), sentence, evidence });
    }
}

impl Occupancy {
    /// Time passes: the key may be gone by now.
    pub fn advance_time(&mut self, at: i64) {
        if self.deadline.is_some_and(|deadline| at.div_euclid(1000) > deadline) {
            self.deadline = None;
            self.present().for_each(|occupant| occupant.gone = Some(Gone::Expired));
            self.extra.clear();
        }
    }

    pub fn set_deadline(&mut self, deadline: Option<i64>) {
        self.deadline = deadline;
    }

    fn present(&mut self) -> impl Iterator<Item = &mut Occupant> {
        self.occupants.iter_mut().filter(|occupant| occupant.gone.is_none())
    }

    // ---- looks

    /// A client sees how many there are, in all or at one place. Who looks after it has come in goes by what it sees.
    pub fn look(&mut self, act: &Act<'_>, place: Option<&[u8]>, count: i64) {
        self.hasty.retain(|mistake| !act.is_mine(&mistake.client));
        self.looks.retain(|look| !act.is_mine(&look.client) || look.place.as_deref() != place);
        let (client, place) = (act.client.clone(), place.map(Into::into));
        remember(&mut self.looks, Look { client, place, count, source: act.source.clone() });
    }

    fn last_look(&self, act: &Act<'_>, place: Option<&[u8]>) -> Option<&Look> {
        let is_its = |look: &&Look| act.is_mine(&look.client) && look.place.as_deref() == place;
        self.looks.iter().rev().find(is_its)
    }

    /// The client's look that found a place free, or nobody at all.
    fn found_free(&self, act: &Act<'_>, place: &[u8]) -> Option<JournalRef> {
        let look = self.last_look(act, Some(place)).or_else(|| self.last_look(act, None))?;
        (look.count <= 0).then(|| look.source.clone())
    }

    // ---- places: members of sets, fields of hashes, members of sorted sets

    /// A client adds a member that was not there.
    pub fn enter(&mut self, act: &mut Act<'_>, place: &[u8], score: f64) {
        let newcomer = self.last_look(act, None).and_then(|look| {
            let seen = look.source.place;
            let came = self.occupants.iter().find(|other| {
                other.gone.is_none()
                    && other.taken.place > seen
                    && *other.place != *place
                    && other.client.same_program(act.client) != SameProgram::Yes
            });
            came.map(|came| (look.source.clone(), came.taken.clone()))
        });
        if let Some((looked, came)) = newcomer {
            let sentence = format!(
                "counted who is in {{key}} and added itself in a second step, when {} had come in between: more may be in than there \
                 is room for",
                came.display_name()
            );
            let evidence = vec![
                looked.shows("counted who is in"),
                came.shows("came in"),
                act.source.shows("came in, too, by the old count"),
            ];
            let (code, client) = (Code::CheckedThenTaken, act.client.clone());
            self.hasty.push(Mistake { code, client, sentence, evidence });
        }
        let looked = self.last_look(act, None).is_some();
        self.looks.retain(|look| !act.is_mine(&look.client));
        self.vanish(place);
        self.report_double(act, place);
        self.admit(act, place, 1, score, looked);
    }

    /// The occupants of a place are not there any more.
    fn vanish(&mut self, place: &[u8]) {
        self.present().filter(|other| *other.place == *place).for_each(|other| other.gone = Some(Gone::Vanished));
    }

    fn admit(&mut self, act: &mut Act<'_>, place: &[u8], count: i64, score: f64, looked: bool) {
        act.moves.push(Move::In { place: place.into(), looked });
        self.occupants.retain(|occupant| !(act.is_mine(&occupant.client) && *occupant.place == *place));
        self.refusals.retain(|refusal| !(act.is_mine(&refusal.client) && *refusal.place == *place));
        if self.occupants.len() >= MAX_OCCUPANTS {
            self.occupants.remove(0);
        }
        let (client, taken) = (act.client.clone(), act.source.clone());
        self.occupants.push(Occupant { client, place: place.into(), taken, count, score, gone: None });
    }

    /// Reports whoever still believes to be in, because somebody removed it by mistake.
    fn report_double(&mut self, act: &mut Act<'_>, place: &[u8]) {
        let is_robbed = |other: &&mut Occupant| {
            *other.place == *place
                && other.client.same_program(act.client) != SameProgram::Yes
                && matches!(other.gone, Some(Gone::Removed(_, true)))
        };
        let Some(other) = self.occupants.iter_mut().find(is_robbed) else { return };
        let Some(Gone::Removed(source, _)) = other.gone.replace(Gone::Vanished) else { return };
        let sentence = format!(
            "took {{key}} while {} still held it, because {} had given it back instead",
            other.client.display_name(),
            source.display_name()
        );
        let evidence = vec![
            other.taken.shows("took the lock"),
            source.shows("gave it back, and did not have it"),
            act.source.shows("took the lock"),
        ];
        act.report(Code::TwoHolders, sentence, evidence);
    }

    /// A client wants a place and is refused.
    pub fn refuse(&mut self, act: &mut Act<'_>, place: &[u8]) {
        if self.occupants.iter().any(|own| act.is_mine(&own.client) && *own.place == *place && own.gone.is_none()) {
            return;
        }
        act.moves.push(Move::Refused { place: place.into() });
        let came = self.present().find(|other| *other.place == *place).map(|other| other.taken.place);
        let looked = self.found_free(act, place).filter(|looked| came.is_some_and(|came| came > looked.place));
        self.note_refusal(act, place, 0, looked);
    }

    fn note_refusal(&mut self, act: &Act<'_>, place: &[u8], count: i64, looked: Option<JournalRef>) {
        let is_its = |refusal: &Refusal| act.is_mine(&refusal.client) && *refusal.place == *place;
        let before: i64 = self.refusals.iter().filter(|refusal| is_its(refusal)).map(|refusal| refusal.count).sum();
        self.refusals.retain(|refusal| !is_its(refusal));
        let (client, source, count) = (act.client.clone(), act.source.clone(), count + before);
        remember(
            &mut self.refusals,
            Refusal { client, place: place.into(), source, count, looked, beside: None, worked: None },
        );
    }

    /// A client sets a place whether it is free or not.
    pub fn overwrite(&mut self, act: &mut Act<'_>, place: &[u8]) {
        let Some(looked) = self.found_free(act, place) else { return };
        let other = self.occupants.iter().find(|other| {
            other.gone.is_none()
                && *other.place == *place
                && other.taken.place > looked.place
                && other.client.same_program(act.client) != SameProgram::Yes
                && !act.is_mine(&other.client)
        });
        if let Some(other) = other {
            let sentence = format!(
                "found {{key}} free and took it in a second step, when {} had taken it in between: both count on it",
                other.client.display_name()
            );
            let evidence =
                vec![looked.shows("found it free"), other.taken.shows("took it"), act.source.shows("took it, too")];
            act.report(Code::CheckedThenTaken, sentence, evidence);
        }
        self.looks.retain(|look| !act.is_mine(&look.client));
        self.admit(act, place, 1, 0.0, true);
    }

    /// A client removes a member.
    pub fn leave(&mut self, act: &mut Act<'_>, place: &[u8], was_there: bool) {
        let seen = self.last_look(act, Some(place)).filter(|look| look.count > 0).map(|look| look.source.clone());
        self.looks.retain(|look| !act.is_mine(&look.client));
        let told =
            self.told_place.take().filter(|(client, told, at)| act.is_mine(client) && **told == *place && *at > 0);
        if let Some((_, _, at)) = told {
            self.full_from = Some(self.full_from.map_or(at, |full| full.min(at)));
        }
        act.moves.push(Move::Out { place: place.into(), at_once: told.is_some() });
        let is_its = |own: &Occupant| act.is_mine(&own.client) && *own.place == *place;
        let own = self.occupants.iter().position(|own| is_its(own) && own.gone.is_none());
        let own = own.or_else(|| self.occupants.iter().position(is_its)).map(|own| self.occupants.remove(own));
        match own {
            Some(own) if own.gone.is_none() => {}
            Some(own) if !was_there => self.come_back(act, &own),
            own if was_there => self.remove_other(act, place, (own.as_ref(), seen)),
            Some(_) => {}
            None => self.report_unheard_refusal(act, place),
        }
        if self.present().next().is_none() {
            self.deadline = None;
        }
    }

    /// An occupant hears that its place is gone, and who removed it was none of its program.
    fn come_back(&mut self, act: &mut Act<'_>, own: &Occupant) {
        let Some(Gone::Removed(source, false)) = &own.gone else { return };
        if own.client.same_program_as(source) != SameProgram::No {
            return;
        }
        let sentence = format!("still counted on {{key}}, which {} had given back instead", source.display_name());
        let evidence = vec![
            own.taken.shows("took the lock"),
            source.shows("gave it back"),
            act.source.shows("still believed to have it"),
        ];
        act.report(Code::BlindDelete, sentence, evidence);
    }

    /// A client that had found a place free has added itself, was told that another one had come in between, and worked all
    /// the same. It gives the place back now, which the other one has done already: it believed to be in.
    fn report_unheard_refusal(&mut self, act: &mut Act<'_>, place: &[u8]) {
        let is_its = |refusal: &Refusal| act.is_mine(&refusal.client) && *refusal.place == *place;
        let Some(at) = self.refusals.iter().position(is_its) else { return };
        let Some(Refusal { source, looked: Some(looked), beside: Some((other, taken)), worked: Some(worked), .. }) =
            self.refusals.remove(at)
        else {
            return;
        };
        let sentence = format!(
            "found {{key}} free and came in in a second step, when {} had come in between: it worked all the same",
            other.display_name()
        );
        let evidence = vec![
            looked.shows("found it free"),
            taken.shows("took it"),
            source.shows("wanted it, too, and was told that it was taken"),
            worked.shows("worked all the same"),
            act.source.shows("gave it back as if it had had it"),
        ];
        act.report(Code::CheckedThenTaken, sentence, evidence);
    }

    /// A client gives back what another one has. `own` is what it had itself, and lost; `seen` is the command that had shown it
    /// who was there.
    fn remove_other(&mut self, act: &mut Act<'_>, place: &[u8], (own, seen): (Option<&Occupant>, Option<JournalRef>)) {
        let refusals = &self.refusals;
        let Some(other) = self.occupants.iter_mut().find(|other| *other.place == *place && other.gone.is_none()) else {
            return;
        };
        if other.client.same_program(act.client) == SameProgram::Yes {
            other.gone = Some(Gone::Removed(act.source.clone(), false));
            return;
        }
        let refusal = refusals.iter().rev().find(|refusal| {
            act.is_mine(&refusal.client) && *refusal.place == *place && refusal.source.place > other.taken.place
        });
        let holder = other.client.display_name();
        let mistake = match (own, refusal) {
            (Some(own), _) => Some((
                Code::ForeignRelease,
                format!(
                    "gave back {{key}}, which {holder} had taken since, so that another one can come in beside it: its own was lost"
                ),
                own.taken.shows("took the lock before"),
            )),
            (None, Some(refusal)) => Some((
                Code::BlindDelete,
                format!(
                    "gave back {{key}}, which had been refused to it and which {holder} held: another one can come in beside it"
                ),
                refusal.source.shows("was refused"),
            )),
            (None, None) => seen.filter(|seen| seen.place < other.taken.place).map(|seen| {
                let sentence = format!(
                    "removed from {{key}} what it had seen there, when {holder} had taken it in between: another one can come in \
                     beside it"
                );
                (Code::BlindDelete, sentence, seen.shows("saw who was there"))
            }),
        };
        other.gone = Some(Gone::Removed(act.source.clone(), mistake.is_some()));
        if let Some((code, sentence, proof)) = mistake {
            let evidence = vec![proof, other.taken.shows("took the lock"), act.source.shows("gave it back")];
            act.report(code, sentence, evidence);
        }
    }

    /// A client deletes the key with all that is in it.
    pub fn delete(&mut self, act: &mut Act<'_>) {
        let mut places: Vec<Box<[u8]>> = self.present().map(|occupant| occupant.place.clone()).collect();
        places.dedup();
        // Who deletes a lock of many means all of them: an operator who begins anew.
        if let [place] = places.as_slice() {
            let place = place.clone();
            self.leave(act, &place, true);
        }
        self.occupants.retain(|occupant| occupant.gone.is_some() && places.len() < 2);
        self.refusals.iter_mut().for_each(|refusal| (refusal.count, refusal.looked) = (0, None));
        self.extra.clear();
        self.deadline = None;
    }

    // ---- counters

    /// A client counts up or down.
    pub fn count(&mut self, act: &mut Act<'_>, by: i64, now: i64) {
        match by > 0 {
            true => self.count_up(act, by, now),
            false => self.count_down(act, by, now),
        }
    }

    fn count_up(&mut self, act: &mut Act<'_>, by: i64, now: i64) {
        let looked = self.found_free(act, b"");
        self.looks.retain(|look| !act.is_mine(&look.client));
        if now - by <= 0 {
            self.vanish(b"");
            self.report_double(act, b"");
            return self.admit(act, b"", by, 0.0, looked.is_some());
        }
        if let Some(own) = self.occupants.iter_mut().find(|own| act.is_mine(&own.client) && own.gone.is_none()) {
            own.count += by;
            return;
        }
        let came = self.present().next().map(|other| other.taken.place);
        let looked = looked.filter(|looked| came.is_some_and(|came| came > looked.place));
        // Who found it free goes by that.
        act.moves.push(match looked {
            Some(_) => Move::In { place: Box::default(), looked: true },
            None => Move::Refused { place: Box::default() },
        });
        self.note_refusal(act, b"", by, looked);
    }

    fn count_down(&mut self, act: &mut Act<'_>, by: i64, now: i64) {
        act.moves.push(Move::Out { place: Box::default(), at_once: false });
        if let Some(own) = self.occupants.iter_mut().find(|own| act.is_mine(&own.client) && own.gone.is_none()) {
            own.count += by;
            self.occupants.retain(|own| own.gone.is_some() || own.count > 0);
            return;
        }
        let mut undone = self.refusals.iter_mut().filter(|refusal| refusal.count > 0);
        if let Some(undone) = undone.find(|refusal| act.is_mine(&refusal.client)) {
            (undone.count, undone.looked) = ((undone.count + by).max(0), None);
            return;
        }
        if now <= 0 {
            self.leave(act, b"", true);
        }
    }

    /// A client that was told that others are there before it uses another key: it works all the same, if it writes.
    pub fn work(&mut self, act: &mut Act<'_>, key: &[u8], writes: bool) {
        let present = &self.occupants;
        let has_looked = |refusal: &&mut Refusal| act.is_mine(&refusal.client) && refusal.has_only_looked();
        for refusal in self.refusals.iter_mut().filter(has_looked) {
            let is_rival = |other: &&Occupant| other.gone.is_none() && other.is_rival(refusal, act.client);
            if refusal.beside.is_none() {
                refusal.beside = present.iter().find(is_rival).map(|other| (other.client.clone(), other.taken.clone()));
            }
            if writes && refusal.beside.is_some() {
                refusal.worked = Some(act.source.clone());
            }
        }
        let is_its = |refusal: &&mut Refusal| act.is_mine(&refusal.client) && refusal.count > 0;
        let Some(refusal) = self.refusals.iter_mut().find(is_its) else { return };
        let Some(looked) = refusal.looked.clone() else {
            self.is_shared |= writes;
            return;
        };
        let is_other =
            |other: &&Occupant| other.gone.is_none() && other.client.same_program(act.client) != SameProgram::Yes;
        if let Some(other) = self.occupants.iter().find(is_other).filter(|_| refusal.beside.is_none()) {
            refusal.beside = Some((other.client.clone(), other.taken.clone()));
        }
        let Some((other, taken)) = refusal.beside.clone().filter(|_| writes && !self.is_shared) else { return };
        let counted = refusal.source.clone();
        refusal.looked = None;
        let sentence = format!(
            "found {{key}} free and counted it up in a second step, when {} had it: it wrote `{}` all the same",
            other.display_name(),
            String::from_utf8_lossy(key)
        );
        let evidence = vec![
            looked.shows("found it free"),
            taken.shows("took it"),
            counted.shows("counted it up, and was told that another one has it"),
            act.source.shows("worked all the same"),
        ];
        act.report(Code::CheckedThenTaken, sentence, evidence);
    }

    // ---- sorted sets

    /// The members up to a score are removed.
    pub fn expire_members(&mut self, until: f64) {
        self.present()
            .filter(|occupant| occupant.score <= until)
            .for_each(|occupant| occupant.gone = Some(Gone::Expired));
    }

    /// A client is told its place in a sorted set.
    pub fn tell_place(&mut self, act: &mut Act<'_>, member: &[u8], at: i64) {
        act.moves.push(Move::Placed { place: member.into() });
        self.look(act, Some(member), 1);
        let in_all = i64::try_from(self.present().count()).unwrap_or(i64::MAX);
        self.told_place = Some((act.client.clone(), member.into(), at));
        let Some(full) = self.full_from.filter(|full| at < *full && in_all > *full) else { return };
        let mine = self.present().find(|own| *own.place == *member).map(|own| own.score).unwrap_or_default();
        let now = act.source.at;
        let is_behind =
            |other: &&mut Occupant| other.score > mine && *other.place != *member && now - other.taken.at > AT_ONCE;
        let Some(other) = self.present().find(is_behind) else { return };
        let sentence = format!(
            "came into {{key}} before {}, which was in already: {in_all} are in, and there is room for {full}",
            other.client.display_name()
        );
        let evidence =
            vec![other.taken.shows("came in"), act.source.shows(format!("came in with a lower score, at place {at}"))];
        act.report(Code::TwoHolders, sentence, evidence);
    }

    /// A client has sent another command. What it did before without a second look counts then.
    pub fn go_on(&mut self, act: &mut Act<'_>) {
        let is_over = |mistake: &Mistake| {
            act.is_mine(&mistake.client)
                && mistake.evidence.last().is_some_and(|evidence| evidence.source.seq != act.source.seq)
        };
        let (over, rest) = std::mem::take(&mut self.hasty).into_iter().partition(is_over);
        self.hasty = rest;
        act.mistakes.extend::<Vec<Mistake>>(over);
    }

    /// A command comes that does not give up the place that a client was told just before.
    pub fn forget_told_place(&mut self) {
        self.told_place = None;
    }

    // ---- tokens of lists

    /// A client takes a token out of a list.
    pub fn draw(&mut self, act: &mut Act<'_>, token: &[u8]) {
        let forged = self.extra.iter().position(|(extra, _)| **extra == *token).map(|at| self.extra.remove(at).1);
        let is_other = |other: &&Occupant| {
            *other.place == *token && other.gone.is_none() && other.client.same_program(act.client) != SameProgram::Yes
        };
        if let (Some(forged), Some(other)) = (forged, self.occupants.iter().find(is_other)) {
            let sentence = format!(
                "took the token of {{key}} that {} had, because {} had put another one there",
                other.client.display_name(),
                forged.display_name()
            );
            let evidence = vec![
                other.taken.shows("took the token"),
                forged.shows("put one more there"),
                act.source.shows("took that one"),
            ];
            act.report(Code::TwoHolders, sentence, evidence);
        }
        self.looks.retain(|look| !act.is_mine(&look.client));
        self.admit(act, token, 1, 0.0, false);
    }

    /// A client puts a token into a list: back, or one more.
    pub fn put(&mut self, act: &mut Act<'_>, token: &[u8]) {
        act.moves.push(Move::Out { place: token.into(), at_once: false });
        let own = self.occupants.iter().position(|own| act.is_mine(&own.client) && *own.place == *token);
        if let Some(own) = own.map(|own| self.occupants.remove(own)) {
            return self.report_copy(act, &own);
        }
        let is_out = |other: &Occupant| other.gone.is_none() && *other.place == *token;
        let Some(other) = self.occupants.iter().position(is_out) else { return };
        let taken = self.occupants[other].taken.place;
        let relation = self.occupants[other].client.same_program(act.client);
        let is_late = |source: &JournalRef| source.place > taken;
        let has_found_none = self.found_free(act, token).is_some_and(|looked| is_late(&looked));
        let was_refused = self.refusals.iter().any(|refusal| act.is_mine(&refusal.client) && is_late(&refusal.source));
        if relation != SameProgram::Yes && (has_found_none || was_refused) {
            if self.extra.len() < MAX_REMEMBERED {
                self.extra.push((token.into(), act.source.clone()));
            }
            return;
        }
        self.occupants[other].gone = Some(Gone::Removed(act.source.clone(), false));
    }

    /// A client puts its token back, which another client had put there meanwhile and a third one has taken.
    fn report_copy(&self, act: &mut Act<'_>, own: &Occupant) {
        let Some(Gone::Removed(source, _)) = &own.gone else { return };
        let is_other = |other: &&Occupant| {
            *other.place == *own.place
                && other.gone.is_none()
                && other.taken.place > source.place
                && other.client.same_program(&own.client) == SameProgram::No
        };
        let Some(other) = self.occupants.iter().find(is_other) else { return };
        let sentence = format!(
            "had the token of {{key}} that {} took, too, because {} had put another one there",
            other.client.display_name(),
            source.display_name()
        );
        let evidence = vec![
            own.taken.shows("took the token"),
            source.shows("put one more there"),
            other.taken.shows("took that one"),
            act.source.shows("put the first one back"),
        ];
        act.report(Code::TwoHolders, sentence, evidence);
    }

    /// A connection ends: its client believes nothing any more.
    pub fn close(&mut self, client: &ClientIdentity) {
        self.occupants.retain(|occupant| !occupant.client.is_same_connection(client));
        self.looks.retain(|look| !look.client.is_same_connection(client));
        self.refusals.retain(|refusal| !refusal.client.is_same_connection(client));
        self.hasty.retain(|mistake| !mistake.client.is_same_connection(client));
    }

    /// Whether the client was told that others are there before it, and has not gone yet.
    pub fn may_work(&self, client: &ClientIdentity) -> bool {
        let may = |refusal: &Refusal| refusal.count > 0 || refusal.has_only_looked();
        self.refusals.iter().any(|refusal| may(refusal) && refusal.client.is_same_connection(client))
    }

    /// Whether it matters what a client does next, whatever that is.
    pub fn awaits(&self, client: &ClientIdentity) -> bool {
        self.may_work(client) || self.hasty.iter().any(|mistake| mistake.client.is_same_connection(client))
    }

    /// Whether nothing is known that matters to what comes.
    pub fn is_unknown(&self) -> bool {
        let is_empty = self.occupants.is_empty() && self.looks.is_empty() && self.refusals.is_empty();
        is_empty && self.hasty.is_empty() && self.extra.is_empty() && self.full_from.is_none() && !self.is_shared
    }
}

impl Refusal {
    /// The client had found its place free, has counted nothing up, and has not worked yet.
    fn has_only_looked(&self) -> bool {
        self.count == 0 && self.looked.is_some() && self.worked.is_none()
    }
}

impl Occupant {
    fn is_rival(&self, refusal: &Refusal, client: &ClientIdentity) -> bool {
        self.place == refusal.place && self.client.same_program(client) != SameProgram::Yes
    }
}

fn remember<T>(list: &mut VecDeque<T>, element: T) {
    if list.len() >= MAX_REMEMBERED {
        list.pop_front();
    }
    list.push_back(element);
}

/// The key of a lock, where a sentence names it.
pub fn with_key(sentence: &str, key: &[u8]) -> String {
    sentence.replace("{key}", &format!("`{}`", String::from_utf8_lossy(key)))
}
