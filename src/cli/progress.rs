//! How far an exploration is: a line that is written over on a terminal, and now and then a line in a log.

use std::io::{self, Write};
use std::time::Duration;

use super::print_note;
use super::subcommand::Subcommand;
use super::terminal::Screen;
use crate::base::clock::Stopwatch;
use crate::base::duration::spell_duration;
use crate::base::text::counted;
use crate::powers::OrdersLeft;

/// The least time between two lines: on a terminal, and in a log.
const BETWEEN_REWRITES: Duration = Duration::from_millis(100);
const BETWEEN_LINES: Duration = Duration::from_secs(10);
/// Goes back to the start of the line and erases it.
const ERASE_LINE: &str = "\r\x1b[K";

pub(super) struct Progress {
    screen: Screen,
    since: Stopwatch,
    /// When the last line was shown; in a log, the first one counts from the start.
    last: Option<Stopwatch>,
    /// A line stands on the terminal that is to be erased.
    is_shown: bool,
}

impl Progress {
    /// With `shares_screen` the test prints, too, and nothing can be erased.
    pub fn new(shares_screen: bool) -> Self {
        let mut screen = Screen::stderr();
        screen.can_rewrite &= !shares_screen;
        let last = (!screen.can_rewrite).then(Stopwatch::start);
        Self { screen, since: Stopwatch::start(), last, is_shown: false }
    }

    /// So many orders were tried, so many of them failed, and so many are left, as far as that can be told.
    pub fn update(&mut self, tried: u64, failed: u64, left: Option<OrdersLeft>) {
        let between = if self.screen.can_rewrite { BETWEEN_REWRITES } else { BETWEEN_LINES };
        if self.last.is_some_and(|last| last.elapsed() < between) {
            return;
        }
        self.last = Some(Stopwatch::start());
        let text = text(tried, failed, left, self.since.elapsed());
        if !self.screen.can_rewrite {
            return print_note(Subcommand::Explore, &text);
        }
        let line = format!("redouble {}: {text}", Subcommand::Explore.name());
        // A line that fills the terminal would go on in the next one, which cannot be erased.
        let line: String = line.chars().take(self.screen.width.saturating_sub(1)).collect();
        self.write(&format!("{ERASE_LINE}{line}"));
        self.is_shown = true;
    }

    /// Makes room for other lines.
    pub fn erase(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            self.write(ERASE_LINE);
        }
    }

    fn write(&self, text: &str) {
        // There is no other place to report that standard error is closed.
        let _ = io::stderr().write_all(text.as_bytes());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.erase();
    }
}

fn text(tried: u64, failed: u64, left: Option<OrdersLeft>, time: Duration) -> String {
    let mut text = format!("{} tried", counted(tried, "order"));
    if failed > 0 {
        text.push_str(&format!(", {failed} failed"));
    }
    match left {
        Some(OrdersLeft::Exactly(left)) => text.push_str(&format!(", {left} left")),
        Some(OrdersLeft::About(left)) => text.push_str(&format!(", about {left} left")),
        Some(OrdersLeft::AtMost(left)) => text.push_str(&format!(", at most {left} left")),
        Some(OrdersLeft::AtLeast(left)) => text.push_str(&format!(", at least {left} left")),
        None => {}
    }
    let seconds = time.as_secs_f64();
    if tried > 0 && seconds > 0.0 {
        text.push_str(&format!("; {:.1} per second", tried as f64 / seconds));
    }
    if time.as_secs() > 0 {
        text.push_str(&format!("; {}", spell_duration(Duration::from_secs(time.as_secs()))));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_what_was_tried_what_is_left_how_fast_and_since_when() {
        let time = Duration::from_millis(8_400);
        assert_eq!(text(0, 0, None, Duration::ZERO), "0 orders tried");
        assert_eq!(
            text(84, 0, Some(OrdersLeft::About(400)), time),
            "84 orders tried, about 400 left; 10.0 per second; 8s"
        );
        assert_eq!(
            text(21, 2, Some(OrdersLeft::Exactly(79)), time),
            "21 orders tried, 2 failed, 79 left; 2.5 per second; 8s"
        );
    }
}
