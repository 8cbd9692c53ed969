//! CLIENT TRACKING, CACHING, GETREDIR and TRACKINGINFO.

use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::clients::session::{Choice, TrackingMode};
use crate::clients::tracking::PrefixOverlap;
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::protocol::{Reply, parse_integer};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group};

const PLAIN: &[Flag] = &[Flag::NoScript, Flag::Loading, Flag::Stale];
/// Valkey 9 runs them while a slow script runs.
const AT_ANY_TIME: &[(Since, &[Flag])] =
    &[(Since::valkey(9, 0, 0), &[Flag::NoScript, Flag::Loading, Flag::Stale, Flag::AllowBusy])];

pub(super) const TRACKING: Command = Command::new(
    Handler::Connection(tracking),
    CommandSpec {
        usage: "<ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
        summary: "Turns on or off that the client is told when keys change that it may hold in a cache.",
        complexity: "O(1), and O(N) in the number of prefixes",
        group: Group::Connection,
        since: Since::redis(6, 0, 0),
        arity: Arity::AtLeast(3),
        flags: PLAIN,
        categories: &[Category::Connection],
        ..CommandSpec::new("TRACKING")
    },
);

const TWO_REDIRECTS: CommandError = CommandError::fixed("ERR A client can only redirect to a single other client");
const NO_REDIRECT_TARGET: CommandError = CommandError::fixed("ERR The client ID you want redirect to does not exist");
const PREFIX_NEEDS_BCAST: CommandError = CommandError::fixed("ERR PREFIX option requires BCAST mode to be enabled");
const BCAST_CHOICE: CommandError = CommandError::fixed("ERR OPTIN and OPTOUT are not compatible with BCAST");
const BOTH_CHOICES: CommandError = CommandError::fixed("ERR You can't specify both OPTIN mode and OPTOUT mode");
const BCAST_SWITCHED: CommandError = CommandError::fixed(
    "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then re-enabling it with a \
     different mode.",
);
const CHOICE_SWITCHED: CommandError = CommandError::fixed(
    "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then re-enabling it with a \
     different mode.",
);

/// The options before they are checked against each other.
#[derive(Default)]
struct Options<'a> {
    redirect: u64,
    prefixes: Vec<&'a [u8]>,
    broadcast: bool,
    opt_in: bool,
    opt_out: bool,
    no_loop: bool,
}

fn tracking(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let switch = args.bytes()?;
    let options = parse_options(call, args)?;
    let settings = call.server.keyspace.settings();
    if switch.eq_ignore_ascii_case(b"OFF") {
        call.server.tracking.stop(call.session, settings);
        return Ok(Reply::OK);
    }
    if !switch.eq_ignore_ascii_case(b"ON") {
        return Err(CommandError::SYNTAX);
    }
    let mode = mode(&options, call.session.tracking.mode)?;
    let overlap = call.server.tracking.overlap(call.session.client.id(), &options.prefixes);
    let error = match overlap {
        None => None,
        // Redis replies with the error and continues, unless the first prefix is the one that overlaps.
        Some(overlap) if replies_error_and_continues(args, &overlap) => Some(overlap_error(&overlap)),
        Some(overlap) => return Err(overlap_error(&overlap)),
    };
    call.server.tracking.start(call.session, mode, &options.prefixes, settings);
    Ok(match error {
        None => Reply::OK,
        Some(error) => Reply::Several(vec![Reply::Error(error), Reply::OK]),
    })
}

fn parse_options<'a>(call: &Call<'_>, args: &mut Args<'a>) -> Result<Options<'a>, CommandError> {
    let mut options = Options::default();
    while let Some(option) = args.optional() {
        let is = |name: &[u8]| option.eq_ignore_ascii_case(name);
        match () {
            () if is(b"REDIRECT") && !args.is_empty() => {
                let id = args.bytes()?;
                if options.redirect != 0 {
                    return Err(TWO_REDIRECTS);
                }
                let id = parse_integer(id).ok_or(CommandError::NOT_AN_INTEGER)?;
                let target = u64::try_from(id).ok().and_then(|id| call.server.clients.get(id));
                options.redirect = target.ok_or(NO_REDIRECT_TARGET)?.id();
            }
            () if is(b"BCAST") => options.broadcast = true,
            () if is(b"OPTIN") => options.opt_in = true,
            () if is(b"OPTOUT") => options.opt_out = true,
            () if is(b"NOLOOP") => options.no_loop = true,
            () if is(b"PREFIX") && !args.is_empty() => options.prefixes.push(args.bytes()?),
            () => return Err(CommandError::SYNTAX),
        }
    }
    Ok(options)
}

/// The mode that the options select. An error if they contradict each other or the current mode.
fn mode(options: &Options<'_>, old: Option<TrackingMode>) -> Result<TrackingMode, CommandError> {
    let Options { broadcast, opt_in, opt_out, no_loop, redirect, .. } = *options;
    if !broadcast && !options.prefixes.is_empty() {
        return Err(PREFIX_NEEDS_BCAST);
    }
    if old.is_some_and(|old| old.broadcast != broadcast) {
        return Err(BCAST_SWITCHED);
    }
    if broadcast && (opt_in || opt_out) {
        return Err(BCAST_CHOICE);
    }
    let choice = match (opt_in, opt_out) {
        (true, true) => return Err(BOTH_CHOICES),
        (true, false) => Choice::OptIn,
        (false, true) => Choice::OptOut,
        (false, false) => Choice::All,
    };
    let opposite = |old: TrackingMode| {
        matches!((old.choice, choice), (Choice::OptIn, Choice::OptOut) | (Choice::OptOut, Choice::OptIn))
    };
    if old.is_some_and(opposite) {
        return Err(CHOICE_SWITCHED);
    }
    Ok(TrackingMode { redirect, broadcast, no_loop, choice })
}

fn replies_error_and_continues(args: &Args<'_>, overlap: &PrefixOverlap) -> bool {
    !overlap.holds && overlap.at > 0 && !args.profile().has(Since::valkey(9, 0, 0))
}

fn overlap_error(overlap: &PrefixOverlap) -> CommandError {
    let visible = |prefix: &[u8]| prefix.split(|&byte| byte == 0).next().unwrap_or_default().to_vec();
    let which: &[u8] = if overlap.holds { b"an existing" } else { b"another provided" };
    let parts: [&[u8]; 7] = [
        b"ERR Prefix '",
        &visible(&overlap.new),
        b"' overlaps with ",
        which,
        b" prefix '",
        &visible(&overlap.other),
        b"'. Prefixes for a single client must not overlap.",
    ];
    CommandError::new(parts.concat())
}

pub(super) const CACHING: Command = Command::new(
    Handler::Connection(caching),
    CommandSpec {
        usage: "<YES | NO>",
        summary: "Says whether the next command's keys are tracked, against what holds otherwise.",
        group: Group::Connection,
        since: Since::redis(6, 0, 0),
        arity: Arity::Exactly(3),
        flags: PLAIN,
        later_flags: AT_ANY_TIME,
        categories: &[Category::Connection],
        ..CommandSpec::new("CACHING")
    },
);

const CACHING_WITHOUT_TRACKING: CommandError = CommandError::fixed(
    "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
);
const YES_WITHOUT_OPTIN: CommandError =
    CommandError::fixed("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.");
const NO_WITHOUT_OPTOUT: CommandError =
    CommandError::fixed("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.");

fn caching(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let tracking = &mut call.session.tracking;
    let choice = tracking.mode.ok_or(CACHING_WITHOUT_TRACKING)?.choice;
    match () {
        () if args.take("YES") && choice != Choice::OptIn => return Err(YES_WITHOUT_OPTIN),
        () if args.take("NO") && choice != Choice::OptOut => return Err(NO_WITHOUT_OPTOUT),
        () => args.end()?,
    }
    tracking.excepted = true;
    Ok(Reply::OK)
}

pub(super) const GETREDIR: Command = Command::new(
    Handler::Connection(getredir),
    CommandSpec {
        summary: "Returns which connection is told instead of this one.",
        group: Group::Connection,
        since: Since::redis(6, 0, 0),
        arity: Arity::Exactly(2),
        flags: PLAIN,
        later_flags: AT_ANY_TIME,
        categories: &[Category::Connection],
        ..CommandSpec::new("GETREDIR")
    },
);

fn getredir(call: &mut Call<'_>, _: &mut Args<'_>) -> CommandResult<'static> {
    Ok(redirect(call.session.tracking.mode))
}

fn redirect(mode: Option<TrackingMode>) -> Reply<'static> {
    Reply::Integer(mode.map_or(-1, |mode| mode.redirect as i64))
}

pub(super) const TRACKINGINFO: Command = Command::new(
    Handler::Connection(trackinginfo),
    CommandSpec {
        summary: "Describes what the connection is told of when keys change.",
        group: Group::Connection,
        since: Since::redis(6, 2, 0),
        arity: Arity::Exactly(2),
        flags: PLAIN,
        categories: &[Category::Connection],
        ..CommandSpec::new("TRACKINGINFO")
    },
);

fn trackinginfo(call: &mut Call<'_>, _: &mut Args<'_>) -> CommandResult<'static> {
    let shown = call.server.tracking.info(call.session.client.id());
    let excepted = call.session.tracking.excepted;
    let mut flags = vec![if shown.is_some() { "on" } else { "off" }];
    let mut prefixes = Vec::new();
    let mode = shown.as_ref().map(|shown| shown.mode);
    if let Some(shown) = shown {
        let opt = |choice| shown.mode.choice == choice;
        let more = [
            ("bcast", shown.mode.broadcast),
            ("optin", opt(Choice::OptIn)),
            ("caching-yes", opt(Choice::OptIn) && excepted),
            ("optout", opt(Choice::OptOut)),
            ("caching-no", opt(Choice::OptOut) && excepted),
            ("noloop", shown.mode.no_loop),
            ("broken_redirect", shown.broken),
        ];
        flags.extend(more.iter().filter(|(_, is_set)| *is_set).map(|(flag, _)| flag));
        prefixes.extend(shown.prefixes.into_iter().map(|prefix| Reply::bulk(Vec::from(prefix))));
    }
    Ok(Reply::Map(vec![
        (Reply::text("flags"), Reply::Set(flags.into_iter().map(Reply::text).collect())),
        (Reply::text("redirect"), redirect(mode)),
        (Reply::text("prefixes"), Reply::Array(prefixes)),
    ]))
}
