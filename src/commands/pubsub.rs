//! SUBSCRIBE, PUBLISH, PUBSUB and their variants for patterns and shards.

use super::help::{help, versioned_syntax_error};
use crate::base::error::CommandError;
use crate::base::profile::Since;
use crate::clients::pubsub::SubscriptionKind;
use crate::commands::{Call, Command, CommandResult, Handler};
use crate::protocol::Reply;
use crate::spec::{Args, Arity, Channels, CommandSpec, Flag, Group, KeySpec};

pub(super) const ROWS: &[Command] =
    &[PSUBSCRIBE, PUBLISH, PUBSUB, PUNSUBSCRIBE, SPUBLISH, SSUBSCRIBE, SUBSCRIBE, SUNSUBSCRIBE, UNSUBSCRIBE];

const LISTEN: &[Flag] = &[Flag::PubSub, Flag::NoScript, Flag::Loading, Flag::Stale];
const SAY: &[Flag] = &[Flag::PubSub, Flag::Loading, Flag::Stale, Flag::Fast, Flag::MayReplicate];
const ASK: &[Flag] = &[Flag::PubSub, Flag::Loading, Flag::Stale];

const TOO_MANY: CommandError = CommandError::fixed("ERR too many subscriptions for one client");

// ---- subscribing

const SUBSCRIBE: Command = Command::new(
    Handler::Connection(|call, args| subscribe(call, args, SubscriptionKind::Channel)),
    CommandSpec {
        usage: "channel [channel ...]",
        summary: "Has the connection listen to channels.",
        complexity: "O(N) for N channels",
        group: Group::PubSub,
        since: Since::redis(2, 0, 0),
        arity: Arity::AtLeast(2),
        flags: LISTEN,
        runs_subscribed: true,
        channels: Channels::All,
        ..CommandSpec::new("SUBSCRIBE")
    },
);

const PSUBSCRIBE: Command = Command::new(
    Handler::Connection(|call, args| subscribe(call, args, SubscriptionKind::Pattern)),
    CommandSpec {
        usage: "pattern [pattern ...]",
        summary: "Has the connection listen to all channels that match patterns.",
        complexity: "O(N) for N patterns",
        channels: Channels::Patterns,
        ..SUBSCRIBE.spec.renamed("PSUBSCRIBE")
    },
);

const SSUBSCRIBE: Command = Command::new(
    Handler::Connection(ssubscribe),
    CommandSpec {
        usage: "shardchannel [shardchannel ...]",
        summary: "Has the connection listen to shard channels.",
        complexity: "O(N) for N shard channels",
        since: Since::redis(7, 0, 0),
        keys: &[KeySpec::range(1, -1, 1, &["not_key"])],
        ..SUBSCRIBE.spec.renamed("SSUBSCRIBE")
    },
);

fn ssubscribe(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    if call.session.executing {
        return Err(CommandError::fixed("ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client"));
    }
    subscribe(call, args, SubscriptionKind::ShardChannel)
}

fn subscribe(call: &mut Call<'_>, args: &mut Args<'_>, topic: SubscriptionKind) -> CommandResult<'static> {
    let kind = match topic {
        SubscriptionKind::Channel => "subscribe",
        SubscriptionKind::Pattern => "psubscribe",
        SubscriptionKind::ShardChannel => "ssubscribe",
    };
    // Publishers read the protocol of the messages from here.
    call.server.pubsub.set_resp3(&call.session.client, call.session.protocol == crate::protocol::Protocol::Resp3);
    let mut replies = Vec::with_capacity(args.left());
    while let Some(name) = args.optional() {
        let Some(count) = call.server.pubsub.subscribe(&call.session.client, topic, name) else {
            replies.push(Reply::Error(TOO_MANY));
            break;
        };
        replies.push(confirmation(kind, Some(name), count));
    }
    call.session.subscriber = call.session.client.seen().is_subscriber();
    Ok(confirm(call, replies))
}

// ---- unsubscribing

const UNSUBSCRIBE: Command = Command::new(
    Handler::Connection(|call, args| unsubscribe(call, args, SubscriptionKind::Channel)),
    CommandSpec {
        usage: "[channel [channel ...]]",
        summary: "Has the connection no longer listen to channels, or to none.",
        complexity: "O(N) for N channels",
        arity: Arity::AtLeast(1),
        channels: Channels::None,
        ..SUBSCRIBE.spec.renamed("UNSUBSCRIBE")
    },
);

const PUNSUBSCRIBE: Command = Command::new(
    Handler::Connection(|call, args| unsubscribe(call, args, SubscriptionKind::Pattern)),
    CommandSpec {
        usage: "[pattern [pattern ...]]",
        summary: "Has the connection no longer listen to patterns, or to none.",
        complexity: "O(N) for N patterns",
        ..UNSUBSCRIBE.spec.renamed("PUNSUBSCRIBE")
    },
);

const SUNSUBSCRIBE: Command = Command::new(
    Handler::Connection(|call, args| unsubscribe(call, args, SubscriptionKind::ShardChannel)),
    CommandSpec {
        usage: "[shardchannel [shardchannel ...]]",
        summary: "Has the connection no longer listen to shard channels, or to none.",
        complexity: "O(N) for N shard channels",
        since: Since::redis(7, 0, 0),
        keys: &[KeySpec::range(1, -1, 1, &["not_key"])],
        ..UNSUBSCRIBE.spec.renamed("SUNSUBSCRIBE")
    },
);

fn unsubscribe(call: &mut Call<'_>, args: &mut Args<'_>, topic: SubscriptionKind) -> CommandResult<'static> {
    let kind = match topic {
        SubscriptionKind::Channel => "unsubscribe",
        SubscriptionKind::Pattern => "punsubscribe",
        SubscriptionKind::ShardChannel => "sunsubscribe",
    };
    let pubsub = &call.server.pubsub;
    let client = &call.session.client;
    let mut replies = Vec::with_capacity(args.left());
    if args.is_empty() {
        let left = pubsub.unsubscribe_all(client, topic);
        replies.extend(left.into_iter().map(|(name, left)| confirmation(kind, Some(&name), left)));
        if replies.is_empty() {
            replies.push(confirmation(kind, None, pubsub.count(client, topic)));
        }
    }
    while let Some(name) = args.optional() {
        replies.push(confirmation(kind, Some(name), pubsub.unsubscribe(client, topic, name)));
    }
    call.session.subscriber = client.seen().is_subscriber();
    // Messages sent so far precede the reply, so that none follows it.
    client.take_mail(&mut call.session.messages_ahead);
    Ok(confirm(call, replies))
}

fn confirmation(kind: &'static str, name: Option<&[u8]>, count: usize) -> Reply<'static> {
    let name = name.map_or(Reply::Null, |name| Reply::bulk(name.to_vec()));
    Reply::Push(vec![Reply::text(kind), name, Reply::Integer(count as i64)])
}

/// One reply for each name. Redis writes them even after CLIENT REPLY OFF.
fn confirm(call: &mut Call<'_>, replies: Vec<Reply<'static>>) -> Reply<'static> {
    if !call.session.replies.are_suppressed() {
        return Reply::Several(replies);
    }
    for reply in replies {
        reply.write(call.session.protocol, &mut call.session.messages_behind);
    }
    Reply::Nothing
}

// ---- publishing

const PUBLISH: Command = Command::new(
    Handler::Connection(|call, args| publish(call, args, SubscriptionKind::Channel)),
    CommandSpec {
        usage: "channel message",
        summary: "Sends a message to everybody who listens to a channel.",
        complexity: "O(N+M) for N clients that listen to the channel and M patterns that anybody listens to",
        group: Group::PubSub,
        since: Since::redis(2, 0, 0),
        arity: Arity::Exactly(3),
        flags: SAY,
        channels: Channels::First,
        ..CommandSpec::new("PUBLISH")
    },
);

const SPUBLISH: Command = Command::new(
    Handler::Connection(|call, args| publish(call, args, SubscriptionKind::ShardChannel)),
    CommandSpec {
        usage: "shardchannel message",
        summary: "Sends a message to everybody who listens to a shard channel.",
        complexity: "O(N) for N clients that listen to the shard channel",
        since: Since::redis(7, 0, 0),
        keys: &[KeySpec::one(1, &["not_key"])],
        ..PUBLISH.spec.renamed("SPUBLISH")
    },
);

fn publish(call: &mut Call<'_>, args: &mut Args<'_>, topic: SubscriptionKind) -> CommandResult<'static> {
    let (channel, message) = (args.bytes()?, args.bytes()?);
    let count = call.server.publish(topic, channel, message, Some(call.session));
    Ok(Reply::Integer(count as i64))
}

// ---- querying

const PUBSUB: Command = Command::container(
    CommandSpec {
        summary: "Who listens to what.",
        complexity: "Depends on the subcommand",
        group: Group::PubSub,
        since: Since::redis(2, 8, 0),
        arity: Arity::AtLeast(2),
        ..CommandSpec::new("PUBSUB")
    },
    &[NUMPAT, HELP, CHANNELS, NUMSUB, SHARDNUMSUB, SHARDCHANNELS],
);

const CHANNELS: Command = Command::new(
    Handler::Connection(|call, args| active_channels(call, args, SubscriptionKind::Channel)),
    CommandSpec {
        usage: "[pattern]",
        summary: "Lists the channels that somebody listens to.",
        complexity: "O(N) for N channels",
        group: Group::PubSub,
        since: Since::redis(2, 8, 0),
        arity: Arity::AtLeast(2),
        flags: ASK,
        ..CommandSpec::new("CHANNELS")
    },
);

const SHARDCHANNELS: Command = Command::new(
    Handler::Connection(|call, args| active_channels(call, args, SubscriptionKind::ShardChannel)),
    CommandSpec {
        summary: "Lists the shard channels that somebody listens to.",
        complexity: "O(N) for N shard channels",
        since: Since::redis(7, 0, 0),
        ..CHANNELS.spec.renamed("SHARDCHANNELS")
    },
);

fn active_channels(call: &mut Call<'_>, args: &mut Args<'_>, topic: SubscriptionKind) -> CommandResult<'static> {
    if args.left() > 1 {
        return Err(versioned_syntax_error(args, "PUBSUB"));
    }
    let names = call.server.pubsub.active(topic, args.optional());
    Ok(Reply::Array(names.iter().map(|name| Reply::bulk(name.to_vec())).collect()))
}

const NUMSUB: Command = Command::new(
    Handler::Connection(|call, args| count_subscribers(call, args, SubscriptionKind::Channel)),
    CommandSpec {
        usage: "[channel [channel ...]]",
        summary: "Counts who listens to channels.",
        complexity: "O(N) for N channels",
        ..CHANNELS.spec.renamed("NUMSUB")
    },
);

const SHARDNUMSUB: Command = Command::new(
    Handler::Connection(|call, args| count_subscribers(call, args, SubscriptionKind::ShardChannel)),
    CommandSpec {
        usage: "[shardchannel [shardchannel ...]]",
        summary: "Counts who listens to shard channels.",
        complexity: "O(N) for N shard channels",
        since: Since::redis(7, 0, 0),
        ..NUMSUB.spec.renamed("SHARDNUMSUB")
    },
);

fn count_subscribers(call: &mut Call<'_>, args: &mut Args<'_>, topic: SubscriptionKind) -> CommandResult<'static> {
    let mut counts = Vec::with_capacity(args.left() * 2);
    while let Some(name) = args.optional() {
        counts.push(Reply::bulk(name.to_vec()));
        counts.push(Reply::Integer(call.server.pubsub.subscribers(topic, name) as i64));
    }
    Ok(Reply::Array(counts))
}

const NUMPAT: Command = Command::new(
    Handler::Connection(|call, _| Ok(Reply::Integer(call.server.pubsub.len(SubscriptionKind::Pattern) as i64))),
    CommandSpec {
        usage: "",
        summary: "Counts the patterns that somebody listens to.",
        complexity: "O(1)",
        arity: Arity::Exactly(2),
        ..CHANNELS.spec.renamed("NUMPAT")
    },
);

const HELP: Command = Command::new(
    Handler::Connection(|call, _| help(call.table, "PUBSUB", HELP_LINES)),
    CommandSpec {
        summary: "Lists the subcommands.",
        group: Group::PubSub,
        since: Since::redis(6, 2, 0),
        arity: Arity::Exactly(2),
        flags: &[Flag::Loading, Flag::Stale],
        ..CommandSpec::new("HELP")
    },
);

const HELP_LINES: &[&str] = &[
    "PUBSUB <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CHANNELS [<pattern>]",
    "    Return the currently active channels matching a <pattern> (default: '*').",
    "NUMPAT",
    "    Return number of subscriptions to patterns.",
    "NUMSUB [<channel> ...]",
    "    Return the number of subscribers for the specified channels, excluding",
    "    pattern subscriptions(default: no channels).",
    "SHARDCHANNELS [<pattern>]",
    "    Return the currently active shard level channels matching a <pattern> (default: '*').",
    "SHARDNUMSUB [<shardchannel> ...]",
    "    Return the number of subscribers for the specified shard level channel(s)",
    "HELP",
    "    Prints this help.",
];
