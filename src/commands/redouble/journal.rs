//! REDOUBLE JOURNAL: what clients have sent, in the order in which it took effect, and what they got for it.

use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::task::yield_now;

use super::pattern::{PATTERN, take_part};
use super::words::{either, option_names};
use super::{
    Action, Power, USUAL_TIMEOUT, answer_after, beside, count, duration, expected, name, nothing_more, number,
    process_fields, text,
};
use crate::base::clock::Clock;
use crate::base::duration::spell_duration;
use crate::base::error::{CommandError, plain};
use crate::base::join::joined;
use crate::clients::config::parse_memory;
use crate::clients::instance::NamedBy;
use crate::commands::{Call, CommandResult};
use crate::powers::{
    Child, Entry, Follower, Journal, LEAST_SIZE, MOST_SIZE, Outcome, Query, USUAL_SIZE, distance, exported_journal,
    rendered, short_line,
};
use crate::protocol::{OwnedWords, Reply};
use crate::spec::{Args, Table};

pub(super) const JOURNAL: Power =
    Power::new("JOURNAL", "Remembers every command that clients have sent, and tells of them.", ACTIONS);

/// Which commands are meant.
const QUERY: &str = joined!(
    " ",
    [
        PATTERN,
        "[REPLY glob] [OUTCOME <ANSWERED | LOST | NEVER-RAN | SILENT | QUEUED | EVICTED | UNKNOWN | MARK>] [FAULT name] [CHILDREN] [SINCE seq]"
    ]
);
const LIST: &str = joined!(" ", ["LIST", QUERY, "[LIMIT number]"]);
const COUNT: &str = joined!(" ", ["COUNT", QUERY]);
const AWAIT: &str = joined!(" ", ["AWAIT", QUERY, "count [timeout]"]);

const ACTIONS: &[Action] = &[
    Action {
        words: "ON [bytes]",
        summary: "Remembers every command from now on, in so much memory (64mb); the oldest go first.",
        run: on,
    },
    Action { words: "OFF", summary: "Remembers nothing more; what is there stays.", run: off },
    Action {
        words: "INFO",
        summary: "Whether it is on, how many entries there are, and how many have fallen out.",
        run: info,
    },
    Action { words: LIST, summary: "The last entries (100), or the first ones after a place in the order.", run: list },
    Action { words: COUNT, summary: "How many commands there are like this.", run: tally },
    Action {
        words: AWAIT,
        summary: "Answers once there are so many; an error with the nearest ones after the timeout (4s of real time).",
        run: wait,
    },
    Action {
        words: "NEAR command [arg [arg ...]]",
        summary: "The entries that come closest to a command, the nearest first.",
        run: near,
    },
    Action { words: "CLEAR", summary: "Forgets all entries; the order goes on.", run: clear },
    Action {
        words: "EXPORT path",
        summary: "Writes all entries to a file, one JSON object a line; how many there were.",
        run: export,
    },
];

const USUAL_LIMIT: u64 = 100;
/// How many of the nearest commands are shown, by NEAR and in an error.
const NEAREST: usize = 10;
const NEAREST_IN_ERROR: usize = 5;
/// Among how many of the last entries the nearest are looked for.
const SEARCHED: u64 = 2000;

fn on(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let is_usual = args.is_empty();
    let bytes = match args.optional() {
        None => USUAL_SIZE,
        Some(word) => parse_memory(word)
            .and_then(|bytes| usize::try_from(bytes).ok())
            .filter(|bytes| (LEAST_SIZE..=MOST_SIZE).contains(bytes))
            .ok_or_else(|| expected("a size from 256kb to 64gb was expected", Some(word)))?,
    };
    nothing_more(args)?;
    if let Some(together) = call.server.journals_may_take().filter(|together| bytes > *together && !is_usual) {
        let text = format!("ERR all journals together may take {together} bytes (journal-memory)");
        return Err(CommandError::new(text.into_bytes()));
    }
    match call.server.start_journal(bytes) {
        Some(shrink) => when_audited(call, shrink),
        None => when_identified(call),
    }
}

/// Answers when it is known which process the client is, so that its next command is recorded with it.
fn when_identified(call: &mut Call<'_>) -> CommandResult<'static> {
    let Some(identified) = call.server.identify(&call.session.client) else { return Ok(Reply::OK) };
    answer_after(call, async move {
        identified.await;
        Reply::OK
    })
}

fn off(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    let stop = call.server.stop_journal();
    when_audited(call, stop)
}

/// Does what the auditor must have read all entries for. If that may take long, other clients do not wait meanwhile.
fn when_audited(call: &mut Call<'_>, work: impl FnOnce() + Send + 'static) -> CommandResult<'static> {
    let is_long = call.server.audit.is_large();
    beside(call, "redouble-audit", is_long, move || {
        work();
        Reply::OK
    })
}

fn info(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    let extent = call.server.control.journal.stats();
    Ok(Reply::Map(vec![
        (text("state"), text(if extent.is_on { "on" } else { "off" })),
        (text("entries"), count(extent.entries)),
        (text("forgotten"), count(extent.forgotten)),
        (text("last-seq"), count(extent.last)),
        (text("bytes"), count(extent.used as u64)),
        (text("most-bytes"), count(extent.most as u64)),
        (text("bytes-together"), count(extent.together.0 as u64)),
        (text("most-bytes-together"), count(extent.together.1 as u64)),
    ]))
}

/// Takes the next part of a query, if there is one.
fn take_query(query: &mut Query, call: &Call<'_>, args: &mut Args<'_>) -> Result<bool, CommandError> {
    if take_part(&mut query.pattern, call, args, LIST)? {
        return Ok(true);
    }
    if args.take("reply") {
        let glob = args.optional().ok_or_else(|| expected("a glob for replies was expected", None))?;
        query.reply = Some(glob.to_vec());
    } else if args.take("outcome") {
        query.outcome = Some(outcome(args)?);
    } else if args.take("fault") {
        query.fault = Some(name(args)?);
    } else if args.take("children") {
        query.children = true;
    } else if args.take("since") {
        query.since = Some(number(args, "a place in the order", 0)?);
    } else {
        return Ok(false);
    }
    Ok(true)
}

fn outcome(args: &mut Args<'_>) -> Result<Outcome, CommandError> {
    let word = args.optional();
    Outcome::ALL
        .into_iter()
        .find(|outcome| word.is_some_and(|word| word.eq_ignore_ascii_case(outcome.name().as_bytes())))
        .ok_or_else(|| {
            let names = Outcome::ALL.map(|outcome| outcome.name().to_owned());
            expected(&format!("{} was expected", either(&names)), word)
        })
}

/// The journal, if there can be anything in it: that a test finds nothing must not come from its never having been on.
fn opened<'c>(call: &'c Call<'_>) -> Result<&'c Arc<Journal>, CommandError> {
    const NEVER_ON: CommandError = CommandError::fixed("ERR the journal was never on; REDOUBLE JOURNAL ON begins it");
    let journal = &call.server.control.journal;
    if journal.was_on() { Ok(journal) } else { Err(NEVER_ON) }
}

fn list(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let mut query = Query::default();
    let mut limit = USUAL_LIMIT;
    loop {
        if args.take("limit") {
            limit = number(args, "the limit", 1)?;
        } else if !take_query(&mut query, call, args)? {
            break;
        }
    }
    end_of_query(args)?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let protocol = call.session.protocol;
    answer(call, move |journal, table| {
        let entries = journal.entries(&query, limit, &|words| table.name(words));
        Reply::encoded_array(protocol, entries.into_iter().map(|entry| described(entry, Vec::new())))
    })
}

/// Answers a question about the journal. If it is large, other clients do not wait meanwhile.
fn answer(
    call: &mut Call<'_>,
    find: impl FnOnce(&Journal, &Table) -> Reply<'static> + Send + 'static,
) -> CommandResult<'static> {
    let (journal, table) = (Arc::clone(opened(call)?), call.table.clone());
    beside(call, "redouble-journal", journal.is_large(), move || find(&journal, &table))
}

/// Fails if another argument follows a query.
fn end_of_query(args: &Args<'_>) -> Result<(), CommandError> {
    let names = || either(&option_names(QUERY));
    if args.is_empty() { Ok(()) } else { Err(expected(&format!("{} was expected", names()), args.peek())) }
}

fn tally(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let mut query = Query::default();
    while take_query(&mut query, call, args)? {}
    end_of_query(args)?;
    answer(call, move |journal, table| {
        count(journal.read(0, |all| all.map(|seen| query.count(&seen, &|words| table.name(words))).sum()))
    })
}

fn wait(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let mut query = Query::default();
    while take_query(&mut query, call, args)? {}
    let wanted = number(args, "the count", 1)?;
    let timeout = if args.is_empty() { USUAL_TIMEOUT } else { duration(args)? };
    nothing_more(args)?;
    let follower = opened(call)?.follower();
    let event = reached(follower, query, (wanted, timeout), Clock::sleep(timeout), call.table.clone());
    let event = async move { event.await.map_or_else(Reply::Error, count) };
    answer_after(call, event)
}

/// Waits until there are so many commands like this; how many there are then. When `time` is up, which is after
/// `timeout`, an error says what there is instead.
pub async fn reached(
    mut follower: Follower,
    query: Query,
    (wanted, timeout): (u64, Duration),
    time: impl Future<Output = ()>,
    table: Table,
) -> Result<u64, CommandError> {
    let mut found = 0;
    let mut time = pin!(time);
    let is_reached = poll_fn(|cx| {
        let (new, is_anew, has_more) =
            follower.read(cx, |new| new.map(|seen| query.count(&seen, &|words| table.name(words))).sum::<u64>());
        found = if is_anew { new } else { found + new };
        if found >= wanted {
            return Poll::Ready(true);
        }
        if has_more {
            // Others have their turn in between.
            return pin!(yield_now()).poll(cx).map(|()| false);
        }
        if !follower.journal().is_on() {
            return Poll::Ready(false);
        }
        time.as_mut().poll(cx).map(|()| false)
    })
    .await;
    if is_reached {
        return Ok(found);
    }
    Err(too_few(follower.journal(), &query, &table, (found, wanted, follower.missed), timeout))
}

fn too_few(
    journal: &Journal,
    query: &Query,
    table: &Table,
    (found, wanted, missed): (u64, u64, u64),
    timeout: Duration,
) -> CommandError {
    let mut line = match journal.is_on() {
        true => format!("TIMEOUT {found} of {wanted} commands after {}", spell_duration(timeout)),
        false => format!("ERR {found} of {wanted} commands, and the journal is off"),
    };
    let forgotten = journal.stats().forgotten;
    if forgotten > 0 {
        line.push_str(&format!(" ({forgotten} older entries have fallen out)"));
    }
    if missed > 0 {
        line.push_str(&format!(" ({missed} fell out before they were looked at)"));
    }
    let name = query.pattern.commands().first().map_or(&[][..], |name| name.as_bytes());
    let key: Vec<u8> =
        query.pattern.key_glob().unwrap_or_default().iter().copied().filter(|byte| !b"*?[]\\".contains(byte)).collect();
    let nearest = nearest(journal, NEAREST_IN_ERROR, |words| {
        let keys = table.name(words.as_words()).keys;
        let named = words.as_words().get(0).unwrap_or_default();
        let first = if name.is_empty() {
            0
        } else {
            distance(&[name.split(|byte| *byte == b'|').next().unwrap_or_default()], &[named])
        };
        // Only what comes behind the name is about keys.
        let second = keys.iter().map(|given| distance(&[b"", &key], &[b"", given])).min();
        first + if key.is_empty() { 0 } else { second.unwrap_or(key.len()) }
    });
    let shown: Vec<String> = nearest.iter().map(nearest_line).collect();
    line.push_str(if shown.is_empty() { "; the journal is empty" } else { "; nearest: " });
    line.push_str(&shown.join(", "));
    CommandError::new(line)
}

/// A command that comes close, with how often it was sent.
struct Near {
    distance: usize,
    times: u64,
    last: u64,
    words: OwnedWords,
}

fn nearest_line(near: &Near) -> String {
    let words: Vec<&[u8]> = near.words.as_words().iter().collect();
    let times = if near.times > 1 { format!(" ({} times)", near.times) } else { String::new() };
    short_line(&words) + &times
}

/// The commands among the last ones that are least far away, the nearest first. Of the same, only one.
fn nearest(journal: &Journal, most: usize, far: impl Fn(&OwnedWords) -> usize) -> Vec<Near> {
    let first = journal.stats().written.saturating_sub(SEARCHED);
    let mut known: BTreeMap<Vec<Vec<u8>>, Near> = BTreeMap::new();
    journal.read(first, |last| {
        for seen in last.filter(|seen| seen.record.event.is_none()) {
            let words: Vec<Vec<u8>> = seen.record.words().iter().map(<[u8]>::to_vec).collect();
            let near = known.entry(words).or_insert_with_key(|words| {
                let words: OwnedWords = words.iter().collect();
                Near { distance: far(&words), times: 0, last: 0, words }
            });
            near.times += 1;
            near.last = seen.index;
        }
    });
    let mut nearest: Vec<Near> = known.into_values().collect();
    nearest.sort_by_key(|near| (near.distance, std::cmp::Reverse(near.last)));
    nearest.truncate(most);
    nearest
}

fn near(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    if args.is_empty() {
        return Err(expected("a command was expected", None));
    }
    let wanted: Vec<&[u8]> = args.rest().iter().collect();
    let journal = opened(call)?;
    let nearest = nearest(journal, NEAREST, |words| distance(&wanted, &words.as_words().iter().collect::<Vec<_>>()));
    let entries = nearest.into_iter().filter_map(|near| {
        let entry = journal.read(near.last, |from| from.next().map(|seen| seen.entry()))?;
        let further = vec![(text("distance"), count(near.distance as u64)), (text("times"), count(near.times))];
        Some(described(entry, further))
    });
    Ok(Reply::Array(entries.collect()))
}

fn clear(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    nothing_more(args)?;
    let clear = call.server.clear_journal();
    when_audited(call, clear)
}

fn export(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    use std::os::unix::ffi::OsStrExt;
    let word = args.optional().filter(|path| !path.is_empty() && !path.contains(&0));
    let word = word.ok_or_else(|| expected("the path of a file was expected", None))?;
    nothing_more(args)?;
    let path = PathBuf::from(std::ffi::OsStr::from_bytes(word));
    call.permit_at_root(args)?;
    let (write, named) = (call.server.file_writer(NamedBy::Client), word.to_vec());
    answer(call, move |journal, _| {
        let (content, written) = exported_journal(&journal.items());
        let failed = |error: &io::Error| {
            CommandError::quoting("ERR the journal cannot be written to '", &named, &format!("': {}", plain(error)))
        };
        write(&path, &content).map_or_else(|error| Reply::Error(failed(&error)), |()| count(written))
    })
}

/// An entry as LIST gives it.
fn described(entry: Entry, further: Vec<(Reply<'static>, Reply<'static>)>) -> Reply<'static> {
    let strings = |strings: Vec<String>| Reply::Array(strings.into_iter().map(text).collect());
    let mut fields = vec![
        (text("seq"), count(entry.seq)),
        (text("time-us"), Reply::Integer(entry.at)),
        (text("real-time-us"), Reply::Integer(entry.real)),
        (text("sent-us"), entry.sent.map_or(Reply::Null, Reply::Integer)),
        (text("order"), text(entry.order.name())),
        (text("duration-us"), count(entry.duration)),
        (text("held-after-us"), entry.held_after.map_or(Reply::Null, count)),
        (text("client"), count(entry.client)),
        (text("name"), text(entry.name)),
        (text("address"), text(entry.address)),
    ];
    fields.extend(process_fields(entry.process.as_deref()));
    fields.extend(entry.node.map(|node| (text("node"), text(node))));
    fields.extend([
        (text("db"), count(entry.db.into())),
        (text("command"), words(entry.words)),
        (text("command-missing"), count(entry.words_missing)),
        (text("outcome"), text(entry.outcome.name())),
        (text("reply"), text(rendered(&entry.reply))),
        (text("raw"), text(entry.reply)),
        (text("reply-length"), count(entry.reply_length)),
        (text("fault"), entry.fault.map_or(Reply::Null, text)),
        (text("gates"), strings(entry.gates)),
        (text("children"), children(entry.children)),
        (text("children-missing"), count(entry.children_missing)),
        (text("children-known"), text(if entry.are_children_unknown { "no" } else { "yes" })),
    ]);
    fields.extend(further);
    Reply::Map(fields)
}

fn words(words: Vec<Vec<u8>>) -> Reply<'static> {
    Reply::Array(words.into_iter().map(text).collect())
}

fn children(inside: Vec<Child>) -> Reply<'static> {
    Reply::Array(inside.into_iter().map(described_child).collect())
}

fn described_child(child: Child) -> Reply<'static> {
    Reply::Map(vec![
        (text("db"), count(child.db.into())),
        (text("command"), words(child.words)),
        (text("command-missing"), count(child.words_missing)),
        (text("reply"), text(rendered(&child.reply))),
        (text("raw"), text(child.reply)),
        (text("reply-length"), count(child.reply_length)),
        (text("fault"), child.fault.map_or(Reply::Null, text)),
        (text("children"), children(child.children)),
    ])
}

#[cfg(test)]
mod tests {
    use super::super::words::keywords;
    use super::*;

    #[test]
    fn a_query_has_every_outcome() {
        for outcome in Outcome::ALL {
            assert!(keywords(QUERY).any(|word| word.eq_ignore_ascii_case(outcome.name())), "{}", outcome.name());
        }
    }
}
