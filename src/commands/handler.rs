//! Commands as rows with functions, and the table from which the engine takes the function of a row.
//!
//! To add a command, see the head of `mod.rs`.

use std::sync::Arc;

use super::blocking::{BlockingResult, ReadyKey};
use super::call::Call;
use crate::base::error::CommandError;
use crate::data::keyspace::View;
use crate::protocol::Reply;
use crate::script::Interpreters;
use crate::spec::{Args, CommandKind, CommandSpec, Row, RowId, ScriptCommand, TransactionCommand};

pub type CommandResult<'v> = Result<Reply<'v>, CommandError>;

/// A command or subcommand: its row and its function.
pub struct Command {
    pub spec: CommandSpec,
    pub run: Handler,
    pub subcommands: &'static [Command],
}

impl Command {
    pub const fn new(run: Handler, spec: CommandSpec) -> Self {
        Self { spec: spec.of_kind(run.kind()), run, subcommands: &[] }
    }

    /// A command that only has subcommands.
    pub const fn container(spec: CommandSpec, subcommands: &'static [Self]) -> Self {
        Self::new(Handler::Container, spec).with_subcommands(subcommands)
    }

    pub const fn with_subcommands(self, subcommands: &'static [Self]) -> Self {
        Self { spec: CommandSpec { is_container: true, ..self.spec }, run: self.run, subcommands }
    }
}

/// The function of a command. The variant says what it receives, and so what it may touch.
#[derive(Clone, Copy)]
pub enum Handler {
    /// Its keys, locked in one view.
    Keys(for<'v> fn(&'v mut View<'_>, &mut Args<'v>) -> CommandResult<'v>),
    /// Like `Keys`, but the command may block until a key holds a value.
    Blocking(for<'v> fn(&'v mut View<'_>, &mut Args<'v>, ReadyKey<'v>) -> BlockingResult<'v>),
    /// The keys that the selected database has.
    Database(for<'v> fn(&'v mut View<'_>, &mut Args<'v>) -> CommandResult<'v>),
    /// Some of them: the first function says from which cursor on and about how many, as far as the arguments are right.
    Scan(
        for<'v> fn(&mut Args<'v>) -> Option<(u64, usize)>,
        for<'v> fn(&'v mut View<'_>, &mut Args<'v>) -> CommandResult<'v>,
    ),
    /// The keys that all databases have.
    AllDatabases(for<'v> fn(&'v mut View<'_>, &mut Args<'v>) -> CommandResult<'v>),
    /// Every database: its keys in each of them, if it has any; otherwise all there is.
    Everything(for<'v> fn(&'v mut View<'_>, &mut Args<'v>) -> CommandResult<'v>),
    /// The connection and the server, but no data.
    Connection(fn(&mut Call<'_>, &mut Args<'_>) -> CommandResult<'static>),
    /// All there is; no scripts and functions if it is called from a script, which holds them. Only for DEBUG.
    Debug(
        for<'v> fn(&'v mut View<'_>, Option<&mut Interpreters>, &mut Call<'_>, &mut Args<'v>) -> CommandResult<'static>,
    ),
    /// Run by the engine: MULTI, EXEC, DISCARD, WATCH, UNWATCH.
    Transaction(TransactionCommand),
    /// Run by the engine: EVAL, EVALSHA, FCALL and their read-only forms.
    Script(ScriptCommand),
    /// The loaded scripts and functions, and the connection.
    Library(fn(&mut Interpreters, &mut Call<'_>, &mut Args<'_>) -> CommandResult<'static>),
    /// Nothing: a container of subcommands.
    Container,
}

impl Handler {
    /// The variant as plain data, for the row.
    const fn kind(self) -> CommandKind {
        match self {
            Self::Keys(_) => CommandKind::Keys,
            Self::Blocking(_) => CommandKind::Blocking,
            Self::Database(_) | Self::Scan(..) => CommandKind::Database,
            Self::AllDatabases(_) | Self::Everything(_) => CommandKind::Everything,
            Self::Connection(_) => CommandKind::Connection,
            Self::Debug(_) => CommandKind::Debug,
            Self::Transaction(which) => CommandKind::Transaction(which),
            Self::Script(which) => CommandKind::Script(which),
            Self::Library(_) => CommandKind::Library,
            Self::Container => CommandKind::Container,
        }
    }
}

/// All commands in the order of their ids: each container is followed by its subcommands.
fn numbered(commands: &[&'static Command]) -> Vec<&'static Command> {
    commands.iter().flat_map(|command| std::iter::once(*command).chain(command.subcommands)).collect()
}

/// The rows of commands with their ids, for a [`Table`](crate::spec::Table).
pub fn rows(commands: impl IntoIterator<Item = &'static Command>) -> Vec<Row> {
    let mut next = 0;
    let mut number = || {
        next += 1;
        RowId::new(next - 1)
    };
    let mut row = |command: &'static Command| Row::new(&command.spec, number(), Vec::new());
    commands
        .into_iter()
        .map(|command| {
            let mut container = row(command);
            container.subcommands = command.subcommands.iter().map(&mut row).collect();
            container
        })
        .collect()
}

/// The functions of all commands, by the ids of their rows. Clones share them.
#[derive(Clone)]
pub struct Handlers(Arc<[Handler]>);

impl Handlers {
    pub fn new(commands: impl IntoIterator<Item = &'static Command>) -> Self {
        let commands: Vec<_> = commands.into_iter().collect();
        Self(numbered(&commands).into_iter().map(|command| command.run).collect())
    }

    #[inline]
    pub fn of(&self, id: RowId) -> Handler {
        self.0.get(id.index()).copied().unwrap_or(Handler::Container)
    }
}
