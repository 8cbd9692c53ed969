//! `redouble run --verbose`: commands on standard error as they come.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use super::print_error;
use super::subcommand::Subcommand;
use super::terminal::Screen;
use crate::powers::{CommandFeed, JournalFeed};
use crate::server::Server;

/// A thread that prints the commands of all servers, so that a slow terminal holds nobody up.
pub(super) struct CommandPrinter {
    feed: Arc<CommandFeed>,
    thread: JoinHandle<()>,
}

impl CommandPrinter {
    pub fn start(servers: &[Server]) -> io::Result<Self> {
        let feed = Arc::new(CommandFeed::default());
        for (number, server) in (1..).zip(servers) {
            let journal_feed = JournalFeed::new(Arc::clone(&feed), (servers.len() > 1).then_some(number));
            for instance in server.instances() {
                let own = if instance.space.is_empty() {
                    journal_feed.clone()
                } else {
                    journal_feed.of_space(&instance.space)
                };
                instance.control.journal.set_feed(own);
            }
        }
        let lines = Arc::clone(&feed);
        let print = move || {
            while let Some(some) = lines.next() {
                print_lines(&some);
            }
        };
        let thread = thread::Builder::new().name("redouble-verbose".into()).spawn(print)?;
        Ok(Self { feed, thread })
    }

    /// Returns when all commands are printed.
    pub fn finish(self) {
        self.feed.close();
        // The lines are for people; a thread that has panicked has said so.
        let _ = self.thread.join();
    }
}

/// Prints each line with the subcommand that says it, because the command prints, too.
fn print_lines(lines: &[String]) {
    let ink = Screen::stderr().ink;
    let prefix = format!("redouble {}:", Subcommand::Run.name());
    let lines = lines.iter().flat_map(|line| line.lines()).map(|line| ink.faint(&format!("{prefix} {line}")));
    print_error(lines.collect::<Vec<_>>().join("\n").as_bytes());
}
