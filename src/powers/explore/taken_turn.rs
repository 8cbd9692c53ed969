//! The turns that a run has taken, and how they read.

use super::chaos::Action;
use super::token::Turn;
use crate::powers::line::line_of;

/// A turn that was taken.
pub(super) struct TakenTurn {
    pub(super) turn: Turn,
    pub(super) name: Vec<u8>,
    pub(super) words: Vec<Vec<u8>>,
    pub(super) reply: Option<String>,
    /// What has happened, if no client's command has run.
    pub(super) event: Option<String>,
    /// It has changed something.
    pub(super) has_written: bool,
}

impl TakenTurn {
    pub(super) fn of(turn: Turn) -> Self {
        Self { turn, name: Vec::new(), words: Vec::new(), reply: None, event: None, has_written: false }
    }

    /// Whether the next client goes on, as if the last one had stood still meanwhile.
    pub(super) fn lets_others_go_on(&self) -> bool {
        matches!(self.turn.action, Action::Expiry | Action::Failover { .. })
    }

    fn who(&self) -> String {
        match self.name.as_slice() {
            _ if self.turn.client == 0 => String::new(),
            b"" => format!("client {}", self.turn.client),
            name => name.escape_ascii().to_string(),
        }
    }

    fn what(&self) -> String {
        if let Some(event) = &self.event {
            return event.clone();
        }
        let words = line_of(&self.words);
        let reply = self.reply.as_deref().unwrap_or("(no reply)");
        match self.turn.action {
            Action::LostReply => format!("{words}  -> {reply} (lost)"),
            Action::Crash => format!("(dies before {words})"),
            Action::Pause => format!("(stands still before {words})"),
            Action::Run | Action::Expiry | Action::TimePasses | Action::Replicate(_) | Action::Failover { .. } => {
                format!("{words}  -> {reply}")
            }
        }
    }
}

/// A line for each turn; for several in a row that are alike, one.
pub(super) fn lines_of(taken: &[TakenTurn]) -> Vec<String> {
    let widest = taken.iter().map(|record| record.who().len()).max().unwrap_or(0);
    let mut lines = Vec::new();
    let mut rest = taken.iter().enumerate().peekable();
    while let Some((index, record)) = rest.next() {
        let text = record.what();
        let is_same = |other: &TakenTurn| other.turn.client == record.turn.client && other.what() == text;
        let mut times = 1;
        while rest.next_if(|(_, other)| is_same(other)).is_some() {
            times += 1;
        }
        let times = if times > 1 { format!(" ({times} times)") } else { String::new() };
        lines.push(format!("{:>3}. {:widest$}  {text}{times}", index + 1, record.who()));
    }
    lines
}
