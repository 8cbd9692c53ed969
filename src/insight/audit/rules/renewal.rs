//! Locks that their holders renew at regular intervals.

use std::sync::Arc;

use super::wording::{key_text, spelled};
use crate::insight::audit::client_identity::SameProgram;
use crate::insight::audit::code::Code;
use crate::insight::audit::finding::JournalRef;
use crate::insight::audit::lock::{Hold, HoldStatus};
use crate::insight::audit::lock_event::LockEvent;
use crate::insight::audit::rule_context::{FindingDraft, RuleContext};

/// What is remembered of one lock.
#[derive(Clone, Default)]
pub struct RenewalState {
    /// How the present holder renews the lock.
    renewals: Option<Box<Renewals>>,
    /// A hold that expired after its renewal had stopped.
    stopped: Option<Box<(Hold, Renewals)>>,
}

impl RenewalState {
    /// Whether nothing is remembered.
    pub fn is_initial(&self) -> bool {
        let Self { renewals, stopped } = self;
        renewals.is_none() && stopped.is_none()
    }
}

/// The renewals of one hold.
#[derive(Clone)]
struct Renewals {
    token: Box<[u8]>,
    /// The last renewal, or the acquisition.
    last: Arc<JournalRef>,
    count: u64,
    /// The shortest and the longest time between two renewals, in microseconds on the server's clock.
    least: i64,
    most: i64,
    /// How many keys beside locks the holder had accessed at the last renewal.
    work: u64,
    /// How many renewals there were since the holder last accessed any.
    idle: u64,
    /// The holder has accessed keys meanwhile.
    has_worked: bool,
    /// All renewals came from the holder's own program.
    is_own: bool,
}

/// How many renewals without any work are reported.
pub const MAX_IDLE_RENEWALS: u64 = 20;

pub fn observe(context: &mut RuleContext<'_>, state: &mut RenewalState, event: &LockEvent<'_>) {
    match *event {
        LockEvent::Acquired { .. } => state.renewals = None,
        LockEvent::Doubted => *state = RenewalState::default(),
        LockEvent::Extended { hold: Some(hold), is_own: true, .. } => renewed(context, state, hold),
        LockEvent::Expired { hold } => expired(context, state, hold),
        LockEvent::NotOwned { token, .. } => came_back(context, state, token),
        LockEvent::WroteAfterLoss { .. } | LockEvent::Deleted { .. } | LockEvent::Extended { .. } => {
            came_back(context, state, None)
        }
        LockEvent::ConnectionClosed { hold } | LockEvent::HeldAtEnd { hold } => endless(context, state, hold),
        _ => {}
    }
}

fn renewed(context: &mut RuleContext<'_>, state: &mut RenewalState, hold: usize) {
    let source = context.source.clone();
    let hold = &context.lock.holds[hold];
    let client = context.clients.get(&(hold.client.server, hold.client.id));
    let (work, touched) = client.map_or((0, false), |client| (client.work, client.has_accessed_keys()));
    let is_own = context.actor.is_some_and(|actor| actor.same_program(&hold.client) == SameProgram::Yes);
    let (token, last) = (hold.token.clone(), hold.acquired.clone());
    // A timestamp as token changes with each renewal.
    let known = state.renewals.take().filter(|renewals| renewals.token == token);
    let mut renewals = known.unwrap_or_else(|| {
        Box::new(Renewals {
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
    // The least and the most that may lie between.
    let (width, before) = (source.real - source.earliest, renewals.last.real - renewals.last.earliest);
    let gap = source.at - renewals.last.at;
    renewals.count += 1;
    (renewals.least, renewals.most) = (renewals.least.min(gap - width), renewals.most.max(gap + before));
    renewals.is_own &= is_own;
    if work == renewals.work {
        renewals.idle += 1;
    } else {
        (renewals.work, renewals.idle, renewals.has_worked) = (work, 0, true);
    }
    renewals.last = source;
    state.renewals = Some(renewals);
}

impl Renewals {
    fn is_regular(&self) -> bool {
        self.count >= 2 && self.least > 0 && self.most <= self.least.saturating_mul(2)
    }

    /// The latest time of the next renewal, on the server's clock.
    fn due(&self) -> i64 {
        self.last.at + self.most + self.most / 2
    }
}

fn expired(context: &mut RuleContext<'_>, state: &mut RenewalState, hold: usize) {
    let hold = context.lock.holds[hold].clone();
    let Some(renewals) = state.renewals.take().filter(|renewals| renewals.token == hold.token && renewals.is_regular())
    else {
        return;
    };
    if !hold.is_certain || hold.status != HoldStatus::Held {
        return;
    }
    let client = context.clients.get(&(hold.client.server, hold.client.id));
    match client.is_some_and(|client| client.worked_at >= renewals.due()) {
        true => stopped(context, &hold, &renewals, "went on with its work"),
        false => state.stopped = Some(Box::new((hold, *renewals))),
    }
}

/// A client comes back to a lock whose renewal had stopped.
fn came_back(context: &mut RuleContext<'_>, state: &mut RenewalState, token: Option<&[u8]>) {
    let Some(actor) = context.actor else { return };
    let Some((hold, _)) = state.stopped.as_deref() else { return };
    if !actor.is_same_connection(&hold.client) && token.is_none_or(|token| *hold.token != *token) {
        return;
    }
    let Some(back) = state.stopped.take() else { return };
    let (hold, renewals) = *back;
    // When a test moves the clock past the end, there is no time for a renewal.
    let has_passed = context.source.real - renewals.last.real;
    if has_passed >= renewals.most + renewals.most / 2 {
        stopped(context, &hold, &renewals, "came back to it later");
    }
}

fn stopped(context: &mut RuleContext<'_>, hold: &Hold, renewals: &Renewals, still: &str) {
    let key = key_text(context.lock);
    let every = spelled(renewals.most);
    let sentence = format!(
        "`{key}` was renewed {} times, at least every {every}, and then not any more until it expired, so that \
         anybody could take it, while its holder {} {still}",
        renewals.count,
        hold.client.display_name()
    );
    let evidence = vec![hold.acquired.shows("took the lock"), renewals.last.shows("renewed it for the last time")];
    context.report(FindingDraft {
        code: Code::RenewalStopped,
        severity: None,
        sentence,
        evidence,
        culprit: hold.client.id,
    });
}

/// Whether a client renews a lock although its work seems to be done.
pub fn is_endless(context: &RuleContext<'_>, state: &RenewalState, hold: &Hold) -> bool {
    let renewals = state.renewals.as_deref().filter(|renewals| renewals.token == hold.token);
    let is_idle = |renewals: &Renewals| {
        renewals.is_own
            && renewals.has_worked
            && renewals.idle >= MAX_IDLE_RENEWALS
            && context.work_of(&hold.client) == renewals.work
    };
    hold.is_certain && hold.status == HoldStatus::Held && renewals.is_some_and(is_idle)
}

/// The lock is still renewed at the end.
fn endless(context: &mut RuleContext<'_>, state: &mut RenewalState, hold: usize) {
    let hold = context.lock.holds[hold].clone();
    if !is_endless(context, state, &hold) {
        return;
    }
    let Some(renewals) = state.renewals.take() else { return };
    let key = key_text(context.lock);
    let sentence = format!(
        "{} renewed `{key}` {} times after the last that it did under it, and never released it: nobody else gets it",
        hold.client.display_name(),
        renewals.idle
    );
    let evidence = vec![hold.acquired.shows("took the lock"), renewals.last.shows("renewed it for the last time")];
    context.report(FindingDraft {
        code: Code::RenewalNeverStops,
        severity: None,
        sentence,
        evidence,
        culprit: hold.client.id,
    });
}
