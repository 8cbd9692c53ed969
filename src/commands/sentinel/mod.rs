//! SENTINEL, and what else a server answers in another way if it is a Sentinel: ROLE, PUBLISH, SHUTDOWN.
//!
//! A Sentinel has these rows and some of those that every server has: see [`of_sentinel`].

mod answers;
mod settings;

pub(super) use answers::info_lines;

use super::help::help;
use super::{all, redouble};
use crate::base::error::CommandError;
use crate::base::glob;
use crate::base::host::resolve;
use crate::base::profile::Since;
use crate::clients::fleet::CLOSED;
use crate::clients::sentinel::{Address, Desk, MOST_MASTERS, Monitored, NO_SUCH_MASTER, SentinelSeat};
use crate::clients::session::{Flow, Wait};
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::protocol::{Reply, parse_integer};
use crate::spec::{Args, Arity, Category, Channels, CommandSpec, Flag, Group, Row, Secrets};

/// The commands that a Sentinel has as every server has them.
const IN_COMMON: &[&str] = &[
    "ACL",
    "AUTH",
    "CLIENT",
    "COMMAND",
    "HELLO",
    "INFO",
    "PING",
    "PSUBSCRIBE",
    "PUNSUBSCRIBE",
    "SUBSCRIBE",
    "UNSUBSCRIBE",
];

/// The powers that a test has over a Sentinel: those about clients that it has, too, and those over time and instances.
const POWERS: &[&str] = &["CLOCK", "FAULT", "GATE", "INSTANCE", "LINK", "FAILOVER", "RESET", "HELP"];

/// The commands of a Sentinel.
pub fn of_sentinel() -> impl Iterator<Item = &'static Command> {
    let common = all().filter(|command| IN_COMMON.contains(&command.spec.name));
    common.chain(redouble::ROWS).chain(ROWS)
}

/// The rows of a Sentinel's commands, without the powers that are about data.
pub fn rows_of_sentinel() -> Vec<Row> {
    let mut rows = super::rows(of_sentinel());
    for row in rows.iter_mut().filter(|row| row.spec.group == Group::Control) {
        row.subcommands.retain(|power| POWERS.contains(&power.spec.name));
    }
    rows
}

const ROWS: &[Command] = &[SENTINEL, ROLE, PUBLISH, SHUTDOWN];

const ADMIN: &[Flag] = &[Flag::Admin];

type Run = fn(&mut Call<'_>, &mut Args<'_>) -> CommandResult<'static>;

const fn subcommand(name: &'static str, usage: &'static str, arity: Arity, summary: &'static str, run: Run) -> Command {
    Command::new(
        Handler::Connection(run),
        CommandSpec {
            usage,
            summary,
            group: Group::Server,
            since: Since::redis(2, 8, 4),
            arity,
            flags: ADMIN,
            ..CommandSpec::new(name)
        },
    )
}

const ONE: &str = "master-name";

const SENTINEL: Command = Command::container(
    CommandSpec {
        summary: "What a Sentinel knows and does.",
        complexity: "Depends on subcommand.",
        group: Group::Server,
        since: Since::redis(2, 8, 4),
        arity: Arity::AtLeast(2),
        flags: ADMIN,
        ..CommandSpec::new("SENTINEL")
    },
    &[
        subcommand("CKQUORUM", ONE, Arity::Exactly(3), "Tells whether a failover could be agreed on.", check_quorum),
        subcommand(
            "CONFIG",
            "<SET parameter value | GET parameter>",
            Arity::AtLeast(3),
            "Shows or changes how this Sentinel names hosts and itself.",
            settings::config,
        ),
        subcommand("FAILOVER", ONE, Arity::Exactly(3), "Fails over, without asking other Sentinels.", fail_over),
        subcommand(
            "FLUSHCONFIG",
            "",
            Arity::Exactly(2),
            "There is no file to write, so nothing is to be done.",
            |_, _| Ok(Reply::OK),
        ),
        subcommand("GET-MASTER-ADDR-BY-NAME", ONE, Arity::Exactly(3), "Tells where the master is.", master_address),
        subcommand("HELP", "", Arity::Exactly(2), "Explains the subcommands.", |call, _| {
            help(call.table, "SENTINEL", HELP)
        }),
        subcommand(
            "INFO-CACHE",
            "master-name [master-name ...]",
            Arity::AtLeast(3),
            "Shows what is known of masters and their replicas, as INFO words it.",
            answers::info_cache,
        ),
        subcommand(
            "IS-MASTER-DOWN-BY-ADDR",
            "ip port current-epoch runid",
            Arity::Exactly(6),
            "Tells whether a master is down for this Sentinel, and whom it votes for.",
            is_master_down,
        ),
        subcommand("MASTER", ONE, Arity::Exactly(3), "Shows the state of a master.", |call, args| {
            let name = args.bytes()?;
            seat(call)?.with(|desk| answers::master(desk, name))
        }),
        subcommand("MASTERS", "", Arity::Exactly(2), "Shows the state of all masters.", |call, _| {
            seat(call)?.with(answers::masters)
        }),
        subcommand(
            "MONITOR",
            "name ip port quorum",
            Arity::Exactly(6),
            "Monitors another master. One that is not in this process is never reached.",
            monitor,
        ),
        subcommand("MYID", "", Arity::Exactly(2), "Tells this Sentinel's id.", |call, _| {
            seat(call)?.with(|desk| Ok(Reply::text(desk.sentinel().id.clone())))
        }),
        subcommand("PENDING-SCRIPTS", "", Arity::Exactly(2), "There are no scripts, so none is pending.", |_, _| {
            Ok(Reply::Array(Vec::new()))
        }),
        subcommand("REMOVE", ONE, Arity::Exactly(3), "Monitors a master no more.", remove),
        subcommand("REPLICAS", ONE, Arity::Exactly(3), "Shows the state of a master's replicas.", replicas),
        subcommand("RESET", "pattern", Arity::Exactly(3), "Finds replicas and Sentinels of masters again.", reset),
        subcommand("SENTINELS", ONE, Arity::Exactly(3), "Shows the other Sentinels of a master.", |call, args| {
            let name = args.bytes()?;
            seat(call)?.with(|desk| answers::sentinels(desk, name))
        }),
        Command::new(
            Handler::Connection(settings::set),
            CommandSpec {
                secrets: Secrets::Requests,
                ..subcommand(
                    "SET",
                    "master-name option value [option value ...]",
                    Arity::AtLeast(5),
                    "Changes how a master is monitored.",
                    settings::set,
                )
                .spec
            },
        ),
        subcommand(
            "SIMULATE-FAILURE",
            "HELP",
            Arity::AtLeast(3),
            "Lists the failures of a real Sentinel; here SHUTDOWN stops one.",
            simulate_failure,
        ),
        subcommand("SLAVES", ONE, Arity::Exactly(3), "Shows the state of a master's replicas.", replicas),
    ],
);

const HELP: &[&str] = &[
    "SENTINEL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CKQUORUM <master-name>",
    "    Check if the current Sentinel configuration is able to reach the quorum",
    "    needed to failover a master and the majority needed to authorize the",
    "    failover.",
    "CONFIG SET <param> <value>",
    "    Set a global Sentinel configuration parameter.",
    "CONFIG GET <param>",
    "    Get global Sentinel configuration parameter.",
    "GET-MASTER-ADDR-BY-NAME <master-name>",
    "    Return the ip and port number of the master with that name.",
    "FAILOVER <master-name>",
    "    Manually failover a master node without asking for agreement from other",
    "    Sentinels",
    "FLUSHCONFIG",
    "    Force Sentinel to rewrite its configuration on disk, including the current",
    "    Sentinel state.",
    "INFO-CACHE <master-name>",
    "    Return last cached INFO output from masters and all its replicas.",
    "IS-MASTER-DOWN-BY-ADDR <ip> <port> <current-epoch> <runid>",
    "    Check if the master specified by ip:port is down from current Sentinel's",
    "    point of view.",
    "MASTER <master-name>",
    "    Show the state and info of the specified master.",
    "MASTERS",
    "    Show a list of monitored masters and their state.",
    "MONITOR <name> <ip> <port> <quorum>",
    "    Start monitoring a new master with the specified name, ip, port and quorum.",
    "MYID",
    "    Return the ID of the Sentinel instance.",
    "PENDING-SCRIPTS",
    "    Get pending scripts information.",
    "REMOVE <master-name>",
    "    Remove master from Sentinel's monitor list.",
    "REPLICAS <master-name>",
    "    Show a list of replicas for this master and their state.",
    "RESET <pattern>",
    "    Reset masters for specific master name matching this pattern.",
    "SENTINELS <master-name>",
    "    Show a list of Sentinel instances for this master and their state.",
    "SET <master-name> <option> <value> [<option> <value> ...]",
    "    Set configuration parameters for certain masters.",
    "SIMULATE-FAILURE [CRASH-AFTER-ELECTION] [CRASH-AFTER-PROMOTION] [HELP]",
    "    Simulate a Sentinel crash.",
    "HELP",
    "    Prints this help.",
];

/// The Sentinel that runs the command.
fn seat(call: &Call<'_>) -> Result<SentinelSeat, CommandError> {
    call.server.sentinel.clone().ok_or(CLOSED)
}

impl SentinelSeat {
    fn with<R>(&self, run: impl FnOnce(&mut Desk<'_>) -> Result<R, CommandError>) -> Result<R, CommandError> {
        self.all.with(self.place, run)
    }
}

/// A master by its name.
fn found<'d>(desk: &'d mut Desk<'_>, name: &[u8]) -> Result<&'d mut Monitored, CommandError> {
    desk.sentinel().masters.get_mut(name).ok_or(NO_SUCH_MASTER)
}

fn check_quorum(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let name = args.bytes()?;
    let quorum = seat(call)?.with(|desk| Ok(found(desk, name)?.check_quorum()))?;
    let usable = quorum.usable;
    let lacks = [
        (usable < quorum.needed, "Not enough available Sentinels to reach the specified quorum for this master"),
        (usable < quorum.majority, "Not enough available Sentinels to reach the majority and authorize a failover"),
    ];
    let lacks: Vec<_> = lacks.iter().filter(|(lacks, _)| *lacks).map(|(_, text)| *text).collect();
    if lacks.is_empty() {
        let text = format!("OK {usable} usable Sentinels. Quorum and failover authorization can be reached");
        return Ok(Reply::StatusText(text));
    }
    Err(CommandError::new(format!("NOQUORUM {usable} usable Sentinels. {}", lacks.join(". "))))
}

fn master_address(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let name = args.bytes()?;
    seat(call)?.with(|desk| {
        let sentinel = desk.sentinel();
        let naming = sentinel.naming();
        Ok(match sentinel.masters.get(name) {
            None => Reply::NullArray,
            Some(master) => {
                let host = naming.host_of(&master.address).to_owned();
                Reply::strings([host, master.address.port.to_string()])
            }
        })
    })
}

fn replicas(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let name = args.bytes()?;
    seat(call)?.with(|desk| answers::replicas(desk, name))
}

fn fail_over(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let name = args.bytes()?;
    let consequences = seat(call)?.with(|desk| desk.fail_over(name))?;
    let event = async {
        match consequences.await {
            Ok(()) => Reply::OK,
            Err(error) => Reply::Error(error),
        }
    };
    call.flow = Flow::Wait(Box::new(Wait::RunningJob(Box::pin(event))));
    Ok(Reply::Nothing)
}

fn reset(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let pattern = args.bytes()?;
    seat(call)?.with(|desk| {
        let names: Vec<Vec<u8>> = desk.sentinel().masters.keys().cloned().collect();
        let matching = names.iter().filter(|name| glob::matches(pattern, name, true));
        let count = matching.map(|name| desk.reset(name)).count();
        Ok(Reply::Integer(count as i64))
    })
}

fn monitor(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let (name, host, port, quorum) = (args.bytes()?, args.bytes()?, args.bytes()?, args.bytes()?);
    let quorum = parse_integer(quorum).ok_or(CommandError::fixed("ERR Invalid quorum"))?;
    let port = parse_integer(port).ok_or(CommandError::fixed("ERR Invalid port"))?;
    if quorum <= 0 {
        return Err(CommandError::fixed("ERR Quorum must be 1 or greater."));
    }
    let quorum = usize::try_from(quorum).unwrap_or(usize::MAX);
    seat(call)?.with(|desk| {
        let resolves = desk.sentinel().options.resolve_hostnames;
        let address =
            address(host, resolves).ok_or(CommandError::fixed("ERR Invalid IP address or hostname specified"))?;
        let port = u16::try_from(port).map_err(|_| CommandError::fixed("ERR Invalid port number."))?;
        let address = Address { port, ..address };
        if desk.sentinel().masters.contains_key(name) {
            return Err(CommandError::fixed("ERR Duplicate master name."));
        }
        if desk.sentinel().masters.len() >= MOST_MASTERS {
            return Err(CommandError::new(format!("ERR a Sentinel monitors at most {MOST_MASTERS} masters")));
        }
        let mut master = Monitored::new(name, address, quorum, desk.now());
        if let Some(group) = desk.scene().group_at(&master.address) {
            (master.origin, master.number) = (Some(group.origin), Some(group.master.number));
        }
        let own = desk.sentinel().place;
        let monitors = |other: &Monitored| other.address.is_same(&master.address);
        let others = desk.all().iter().filter(|other| other.place != own && other.masters.values().any(monitors));
        master.known_peers = others.map(|other| other.place).collect();
        let described = master.describe(desk.sentinel().naming());
        desk.publish("+monitor", &format!("{described} quorum {quorum}"));
        desk.sentinel().masters.insert(name.to_vec(), master);
        Ok(Reply::OK)
    })
}

/// An address as a client writes it.
fn address(host: &[u8], resolves: bool) -> Option<Address> {
    let text = std::str::from_utf8(host).ok()?;
    match text.parse() {
        Ok(ip) => Some(Address::of(ip, 0)),
        Err(_) if resolves => Some(Address { hostname: text.to_owned(), ..Address::of(resolve(text).ok()?, 0) }),
        Err(_) => None,
    }
}

fn remove(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let name = args.bytes()?;
    seat(call)?.with(|desk| {
        let naming = desk.sentinel().naming();
        let described = found(desk, name)?.describe(naming);
        desk.publish("-monitor", &described);
        desk.sentinel().masters.remove(name);
        Ok(Reply::OK)
    })
}

fn is_master_down(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let (ip, port, epoch, candidate) = (args.bytes()?, args.integer()?, args.integer()?, args.bytes()?);
    seat(call)?.with(|desk| {
        let ip = String::from_utf8_lossy(ip);
        let is_it = |master: &&Monitored| master.address.ip == ip && i64::from(master.address.port) == port;
        let found = desk.sentinel().masters.values().find(is_it);
        let is_down = found.is_some_and(|master| master.down_since.is_some());
        let name = found.map(|master| master.name.clone());
        let vote = match (&name, u64::try_from(epoch)) {
            (Some(name), Ok(epoch)) if candidate != b"*" => desk.vote(name, epoch, &String::from_utf8_lossy(candidate)),
            _ => None,
        };
        let (leader, epoch) = vote.unwrap_or_else(|| ("*".to_owned(), 0));
        Ok(Reply::Array(vec![Reply::Integer(is_down.into()), Reply::text(leader), Reply::Integer(epoch as i64)]))
    })
}

fn simulate_failure(_: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    const FAILURES: [&str; 2] = ["crash-after-election", "crash-after-promotion"];
    if args.take("HELP") {
        return Ok(Reply::strings(FAILURES));
    }
    let asked = args.rest();
    let is_known = |word: &[u8]| FAILURES.iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()));
    if asked.iter().all(is_known) {
        return Err(CommandError::fixed(
            "ERR a failover is one step here, so no Sentinel can crash in the middle; SHUTDOWN stops one",
        ));
    }
    Err(CommandError::fixed("ERR Unknown failure simulation specified"))
}

// ---- what other servers answer in another way

const ROLE: Command = Command::new(
    Handler::Connection(|call, _| {
        seat(call)?.with(|desk| {
            let names = desk.sentinel().masters.keys().map(|name| Reply::bulk(name.clone())).collect();
            Ok(Reply::Array(vec![Reply::text("sentinel"), Reply::Array(names)]))
        })
    }),
    CommandSpec {
        summary: "Tells the names of the masters.",
        group: Group::Server,
        since: Since::redis(2, 8, 12),
        flags: &[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::Fast],
        categories: &[Category::Admin, Category::Dangerous],
        ..CommandSpec::new("ROLE")
    },
);

/// The channel by which real Sentinels find each other.
const HELLO_CHANNEL: &[u8] = b"__sentinel__:hello";

const PUBLISH: Command = Command::new(
    Handler::Connection(|_, args| match args.bytes()? {
        HELLO_CHANNEL => Ok(Reply::Integer(1)),
        _ => Err(CommandError::fixed("ERR Only HELLO messages are accepted by Sentinel instances.")),
    }),
    CommandSpec {
        usage: "channel message",
        summary: "Takes the messages of other Sentinels, which are nothing new.",
        group: Group::PubSub,
        since: Since::redis(2, 0, 0),
        arity: Arity::Exactly(3),
        flags: &[Flag::PubSub, Flag::Loading, Flag::Stale, Flag::Fast, Flag::MayReplicate],
        channels: Channels::First,
        ..CommandSpec::new("PUBLISH")
    },
);

const SHUTDOWN: Command = Command::new(
    Handler::Connection(shut_down),
    CommandSpec {
        usage: "[NOSAVE | SAVE] [NOW] [FORCE] [ABORT]",
        summary: "Stops this Sentinel, and nothing else.",
        group: Group::Server,
        since: Since::redis(1, 0, 0),
        arity: Arity::AtLeast(1),
        flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale, Flag::NoMulti, Flag::AllowBusy],
        for_clients: true,
        ..CommandSpec::new("SHUTDOWN")
    },
);

fn shut_down(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    while !args.is_empty() {
        if !["NOSAVE", "SAVE", "NOW", "FORCE"].iter().any(|word| args.take(word)) {
            return Err(if args.take("ABORT") && args.is_empty() {
                CommandError::fixed("ERR No shutdown in progress.")
            } else {
                CommandError::SYNTAX
            });
        }
    }
    let seat = seat(call)?;
    seat.all.stop(seat.place);
    call.flow = Flow::Drop;
    Ok(Reply::Nothing)
}
