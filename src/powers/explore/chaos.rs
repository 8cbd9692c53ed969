//! What can happen in a run beside commands in some order: a lock expires, a reply is lost, a client dies or stands still, a
//! replica gets a change or becomes the master.

/// What a turn does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Action {
    /// The client's command runs.
    #[default]
    Run,
    /// The command runs, and its connection is closed instead of a reply.
    LostReply,
    /// The connection is closed before the command runs, and the client is not served again.
    Crash,
    /// The client stands still until nothing else can move.
    Pause,
    /// The clock goes past the next deadline of a key. No client has this turn.
    Expiry,
    /// The clock goes to the next deadline, because nothing else can happen. No client has this turn.
    TimePasses,
    /// The replica with this number gets the next change. No client has this turn.
    Replicate(u16),
    /// The replica `to` becomes the master, without the last so many changes. No client has this turn.
    Failover { to: u16, losing: u16 },
}

impl Action {
    /// Whether a client has the turn.
    #[cfg(test)]
    pub(super) fn is_of_client(self) -> bool {
        match self {
            Self::Run | Self::LostReply | Self::Crash | Self::Pause => true,
            Self::Expiry | Self::TimePasses | Self::Replicate(_) | Self::Failover { .. } => false,
        }
    }

    /// What a search can be asked to try, with the names that flags have for it.
    const CHAOS: [(&'static str, Self); 4] =
        [("expiry", Self::Expiry), ("lost-reply", Self::LostReply), ("crash", Self::Crash), ("pause", Self::Pause)];
}

/// How often expiries, lost replies, crashes and pauses may happen in one run of an exploration: none by default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Chaos {
    expiry: u32,
    lost_reply: u32,
    crash: u32,
    pause: u32,
    /// Has an option of its own.
    failover: u32,
}

impl Chaos {
    /// The most of one kind in a run.
    const MOST: u32 = 100;

    /// The clock may go past the deadline of a key so many times.
    pub fn expiry(mut self, most: u32) -> Self {
        self.expiry = most.min(Self::MOST);
        self
    }

    /// So many commands that may write may run without their replies arriving.
    pub fn lost_reply(mut self, most: u32) -> Self {
        self.lost_reply = most.min(Self::MOST);
        self
    }

    /// So many clients may die between two of their commands.
    pub fn crash(mut self, most: u32) -> Self {
        self.crash = most.min(Self::MOST);
        self
    }

    /// So many times a client may stand still until nothing else can move.
    pub fn pause(mut self, most: u32) -> Self {
        self.pause = most.min(Self::MOST);
        self
    }

    /// So many times a replica may become the master.
    pub(super) fn failover(mut self, most: u32) -> Self {
        self.failover = most.min(Self::MOST);
        self
    }

    /// With as many failovers as another one.
    pub(super) fn with_failovers_of(self, other: &Self) -> Self {
        Self { failover: other.failover, ..self }
    }

    pub(super) fn failovers(&self) -> u32 {
        self.failover
    }

    /// Reads `expiry,pause=2`: each kind once, with `=` and a number if it may happen more often.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let mut chaos = Self::default();
        for part in std::str::from_utf8(text).ok()?.split(',') {
            let (name, most) = match part.split_once('=') {
                None => (part, 1),
                Some((name, most)) if most.bytes().all(|byte| byte.is_ascii_digit()) => (name, most.parse().ok()?),
                Some(_) => return None,
            };
            let (_, action) = Action::CHAOS.into_iter().find(|(known, _)| name.eq_ignore_ascii_case(known))?;
            let bound = chaos.bound_mut(action)?;
            if *bound > 0 || !(1..=Self::MOST).contains(&most) {
                return None;
            }
            *bound = most;
        }
        Some(chaos)
    }

    /// Whether nothing but orders is explored.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn needs_own_clock(&self) -> bool {
        self.expiry > 0
    }

    /// Whether it may happen once more.
    pub(super) fn allows(&self, action: Action) -> bool {
        let mut copy = self.clone();
        copy.bound_mut(action).is_none_or(|bound| *bound > 0)
    }

    /// It has happened.
    pub(super) fn spend(&mut self, action: Action) {
        if let Some(bound) = self.bound_mut(action) {
            *bound = bound.saturating_sub(1);
        }
    }

    fn bound_mut(&mut self, action: Action) -> Option<&mut u32> {
        match action {
            Action::Run | Action::TimePasses | Action::Replicate(_) => None,
            Action::LostReply => Some(&mut self.lost_reply),
            Action::Crash => Some(&mut self.crash),
            Action::Pause => Some(&mut self.pause),
            Action::Expiry => Some(&mut self.expiry),
            Action::Failover { .. } => Some(&mut self.failover),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_named_once_with_a_bound_or_without() {
        let all = Chaos::default().expiry(1).lost_reply(2).crash(1).pause(100);
        assert_eq!(Chaos::parse(b"expiry,LOST-REPLY=2,crash,pause=100"), Some(all));
        for wrong in
            ["", "expiry,", "expiry=0", "expiry=101", "pause=+1", "pause=", "crash,crash", "run", "expiry pause"]
        {
            assert_eq!(Chaos::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
