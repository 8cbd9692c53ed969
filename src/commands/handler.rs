//! Commands: rows with their functions, and the table of functions that the engine runs by a row's number.

use std::sync::Arc;

use super::call::Call;
use super::outcome::{Outcome, Ready};
use crate::base::error::CommandError;
use crate::data::keyspace::View;
use crate::protocol::Reply;
use crate::script::Interpreters;
use crate::spec::{Args, CommandKind, CommandSpec, Row, RowId, ScriptCommand, TransactionCommand};

pub type CommandResult<'v> = Result<Reply<'v>, CommandError>;

/// A command, or a subcommand: its row and its function, declared side by side.
pub struct Command {
    pub spec: CommandSpec,
    pub run: Handler,
    pub subcommands: &'static [Command],
}

impl Command {
    pub const fn new(run: Handler, spec: CommandSpec) -> Self {
        Self { spec: CommandSpec { kind: run.kind(), ..spec }, run, subcommands: &[] }
    }

    /// A command that only has subcommands.
    pub const fn container(spec: CommandSpec, subcommands: &'static [Self]) -> Self {
        Self::new(Handler::Container, spec).with_subcommands(subcommands)
    }

    pub const fn with_subcommands(self, subcommands: &'static [Self]) -> Self {
        Self { spec: CommandSpec { is_container: true, ..self.spec }, run: self.run, subcommands }
    }
}

/// The function of a command, by what it is given and so what it may touch.
#[derive(Clone, Copy)]
pub enum Handler {
    /// Its keys, in one locked view.
    Keys(for<'v> fn(&'v mut View<'_>, &mut Args<'v>) -> CommandResult<'v>),
    /// Its keys, as above; but it may block until one of them holds something.
    Blocking(for<'v> fn(&'v mut View<'_>, &mut Args<'v>, Ready<'v>) -> Result<Outcome<'v>, CommandError>),
    /// The whole selected database.
    Database(for<'v> fn(&'v mut View<'_>, &mut Args<'v>) -> CommandResult<'v>),
    /// Every database.
    Everything(for<'v> fn(&'v mut View<'_>, &mut Args<'v>) -> CommandResult<'v>),
    /// The connection and the server, but no data.
    Connection(fn(&mut Call<'_>, &mut Args<'_>) -> CommandResult<'static>),
    /// The selected database and the server: DEBUG, which looks behind both.
    Debug(for<'v> fn(&'v mut View<'_>, &mut Call<'_>, &mut Args<'v>) -> CommandResult<'static>),
    /// MULTI, EXEC and their kin, which the engine runs itself.
    Transaction(TransactionCommand),
    /// EVAL and its kin, which the engine runs itself.
    Script(ScriptCommand),
    /// The scripts and functions that the server knows, and the connection.
    Library(fn(&mut Interpreters, &mut Call<'_>, &mut Args<'_>) -> CommandResult<'static>),
    /// Nothing: it only has subcommands.
    Container,
}

impl Handler {
    /// The same in plain data, for the row.
    const fn kind(self) -> CommandKind {
        match self {
            Self::Keys(_) => CommandKind::Keys,
            Self::Blocking(_) => CommandKind::Blocking,
            Self::Database(_) => CommandKind::Database,
            Self::Everything(_) => CommandKind::Everything,
            Self::Connection(_) => CommandKind::Connection,
            Self::Debug(_) => CommandKind::Debug,
            Self::Transaction(which) => CommandKind::Transaction(which),
            Self::Script(which) => CommandKind::Script(which),
            Self::Library(_) => CommandKind::Library,
            Self::Container => CommandKind::Container,
        }
    }
}

/// All commands, those behind a container with it, in the order of their numbers.
fn numbered(commands: &[&'static Command]) -> Vec<&'static Command> {
    commands.iter().flat_map(|command| std::iter::once(*command).chain(command.subcommands)).collect()
}

/// The rows of commands, numbered for a [`Table`](crate::spec::Table).
pub fn rows(commands: impl IntoIterator<Item = &'static Command>) -> Vec<Row> {
    let mut next = 0;
    let mut number = || {
        next += 1;
        RowId::at(next - 1)
    };
    let mut row = |command: &'static Command| Row { spec: &command.spec, id: number(), subcommands: Vec::new() };
    commands
        .into_iter()
        .map(|command| {
            let container = row(command);
            Row { subcommands: command.subcommands.iter().map(&mut row).collect(), ..container }
        })
        .collect()
}

/// The functions of all commands, by the numbers of their rows. Clones share them.
#[derive(Clone)]
pub struct Handlers(Arc<[Handler]>);

impl Handlers {
    pub fn new(commands: impl IntoIterator<Item = &'static Command>) -> Self {
        let commands: Vec<_> = commands.into_iter().collect();
        Self(numbered(&commands).into_iter().map(|command| command.run).collect())
    }

    #[inline]
    pub fn of(&self, id: RowId) -> Handler {
        self.0.get(id.place()).copied().unwrap_or(Handler::Container)
    }
}
