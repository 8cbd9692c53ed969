//! What changed in commands since they exist, for COMMAND DOCS: facts of releases, in this project's words.

use super::usage::Argument;
use crate::base::profile::Since;

/// What changed in one command.
pub struct History {
    /// The full name, such as `client|list`.
    pub command: &'static str,
    pub changes: &'static [(Since, &'static str)],
    /// Arguments that came later than the command: by their word, or by their name if they have none. A choice is meant by
    /// the first of its words after a `|`.
    pub arguments: &'static [(&'static str, Since)],
}

impl History {
    /// The release in which an argument came.
    pub fn since(&self, argument: &Argument) -> Option<Since> {
        let is_meant = |wanted: &str| match (wanted.strip_prefix('|'), argument.token) {
            (Some(first), None) => {
                argument.kind.is_group() && argument.arguments.first().is_some_and(|choice| choice.token == Some(first))
            }
            (None, Some(token)) => token == wanted,
            (None, None) => argument.name == wanted,
            (Some(_), Some(_)) => false,
        };
        self.arguments.iter().find(|(wanted, _)| is_meant(wanted)).map(|(_, since)| *since)
    }
}

/// The history of a command, by its full name.
pub fn history(command: &str) -> Option<&'static History> {
    HISTORIES.iter().find(|history| history.command == command)
}

const fn changed(command: &'static str, changes: &'static [(Since, &'static str)]) -> History {
    History { command, changes, arguments: &[] }
}

const V2_0: Since = Since::redis(2, 0, 0);
const V2_1_6: Since = Since::redis(2, 1, 6);
const V2_4: Since = Since::redis(2, 4, 0);
const V2_6: Since = Since::redis(2, 6, 0);
const V2_6_12: Since = Since::redis(2, 6, 12);
const V2_8: Since = Since::redis(2, 8, 0);
const V2_8_12: Since = Since::redis(2, 8, 12);
const V3_0: Since = Since::redis(3, 0, 0);
const V3_0_2: Since = Since::redis(3, 0, 2);
const V3_0_3: Since = Since::redis(3, 0, 3);
const V3_2: Since = Since::redis(3, 2, 0);
const V4_0: Since = Since::redis(4, 0, 0);
const V5_0: Since = Since::redis(5, 0, 0);
const V6_0: Since = Since::redis(6, 0, 0);
const V6_2: Since = Since::redis(6, 2, 0);
const V7_0: Since = Since::redis(7, 0, 0);
const V7_0_3: Since = Since::redis(7, 0, 3);
const V7_2: Since = Since::redis(7, 2, 0);
const V7_4: Since = Since::redis(7, 4, 0);
const V8_0: Since = Since::redis(8, 0, 0);
const VALKEY_8_0: Since = Since::valkey(8, 0, 0);
const VALKEY_8_1: Since = Since::valkey(8, 1, 0);
const VALKEY_9_0: Since = Since::valkey(9, 0, 0);
const VALKEY_9_1: Since = Since::valkey(9, 1, 0);

const SEVERAL_FIELDS: &str = "Takes several fields.";
const SEVERAL_ELEMENTS: &str = "Takes several elements.";
const SEVERAL_MEMBERS: &str = "Takes several members.";
const EXPIRE_CONDITIONS: &str = "Has the conditions NX, XX, GT and LT.";
const FRACTIONS: &str = "The timeout can have fractions of a second.";
const COUNT: &str = "Takes a count.";
const EXCLUSIVE: &str = "The ends of the range can be excluded.";
const ANY: &str = "COUNT has the option ANY.";
const UPPER_CASE_UNITS: &str = "Units can be written in upper case.";
const BITS: &str = "Positions can be those of bytes or of bits.";
const ASYNC: &str = "Has the option ASYNC.";
const SYNC: &str = "Has the option SYNC.";
const MINUS_TWO: &str = "Answers -2 for a key that does not exist.";
const TRIMMING: &str = "Can trim by MINID, and has the option LIMIT.";
const WITH_SCORE: &str = "Has the option WITHSCORE.";
const MORE_FILTERS: &str = "Has filters for more attributes of a client, and for what a client must not have.";
const PRIMARY: &str = "The type `primary` stands for `master`, which still works.";
const BY_POLYGON: &str = "Has the option BYPOLYGON.";

/// By the names of the commands.
pub const HISTORIES: &[History] = &[
    changed(
        "acl|getuser",
        &[
            (V6_2, "Shows patterns of channels."),
            (V7_0, "Shows selectors, and patterns in the form in which rules are written."),
            (VALKEY_9_1, "Shows which databases a user may use."),
        ],
    ),
    changed("acl|log", &[(V7_2, "Entries have an id, and the times of their creation and last change.")]),
    changed(
        "acl|setuser",
        &[
            (V6_2, "Has rules for patterns of channels."),
            (V7_0, "Has selectors, and separate rules for reading and writing keys."),
            (VALKEY_9_1, "Has rules for databases."),
        ],
    ),
    History { command: "auth", changes: &[(V6_0, "Takes the name of a user, too.")], arguments: &[("username", V6_0)] },
    History {
        command: "bitcount",
        changes: &[(V7_0, BITS), (VALKEY_8_0, "The end can be left out.")],
        arguments: &[("|BYTE", V7_0)],
    },
    History {
        command: "bgsave",
        changes: &[(Since::redis(3, 2, 2), "Has the option SCHEDULE."), (VALKEY_8_1, "Has the option CANCEL.")],
        arguments: &[("SCHEDULE", Since::redis(3, 2, 2))],
    },
    History { command: "bitpos", changes: &[(V7_0, BITS)], arguments: &[("|BYTE", V7_0)] },
    changed("blpop", &[(V6_0, FRACTIONS)]),
    changed("brpop", &[(V6_0, FRACTIONS)]),
    changed("brpoplpush", &[(V6_0, FRACTIONS)]),
    changed("bzpopmax", &[(V6_0, FRACTIONS)]),
    changed("bzpopmin", &[(V6_0, FRACTIONS)]),
    History {
        command: "client|kill",
        changes: &[
            (V2_8_12, "Takes filters."),
            (V2_8_12, "Has the filter ID."),
            (V3_2, "The filter TYPE knows `master`."),
            (V5_0, "The type `replica` stands for `slave`, which still works."),
            (V6_2, "Has the filter LADDR."),
            (V7_4, "Has the filter MAXAGE."),
            (VALKEY_8_0, "Has the filter MAXAGE."),
            (VALKEY_8_0, PRIMARY),
            (VALKEY_8_1, "The filter ID takes several ids."),
            (VALKEY_9_0, MORE_FILTERS),
        ],
        arguments: &[
            ("ID", V2_8_12),
            ("TYPE", V2_8_12),
            ("MASTER", V3_2),
            ("REPLICA", V5_0),
            ("LADDR", V6_2),
            ("PRIMARY", VALKEY_8_0),
            ("MAXAGE", Since { redis: V7_4.redis, valkey: VALKEY_8_0.valkey }),
        ],
    },
    History {
        command: "client|list",
        changes: &[
            (V2_8_12, "Shows the `id`."),
            (V5_0, "Has the filter TYPE."),
            (V6_0, "Shows the `user`."),
            (V6_2, "Shows `argv-mem`, `tot-mem`, `laddr` and `redir`, and has the filter ID."),
            (V7_0, "Shows `resp`, `multi-mem`, `rbs` and `rbp`."),
            (V7_0_3, "Shows `ssub`."),
            (V7_2, "Shows `lib-name` and `lib-ver`."),
            (V7_4, "Shows `watch`."),
            (V8_0, "Shows `io-thread`."),
            (VALKEY_8_0, PRIMARY),
            (VALKEY_8_1, "Has the filters USER, ADDR, LADDR, SKIPME and MAXAGE."),
            (VALKEY_9_0, MORE_FILTERS),
        ],
        arguments: &[
            ("TYPE", V5_0),
            ("ID", V6_2),
            ("USER", VALKEY_8_1),
            ("ADDR", VALKEY_8_1),
            ("LADDR", VALKEY_8_1),
            ("SKIPME", VALKEY_8_1),
            ("MAXAGE", VALKEY_8_1),
        ],
    },
    History { command: "client|pause", changes: &[(V6_2, "Can pause writes only.")], arguments: &[("|WRITE", V6_2)] },
    History {
        command: "cluster|meet",
        changes: &[(V4_0, "Takes the port of the other node's bus.")],
        arguments: &[("cluster-bus-port", V4_0)],
    },
    changed("cluster|shards", &[(VALKEY_9_1, "Shows the ids of shards, and the availability zones of nodes.")]),
    changed(
        "cluster|slots",
        &[
            (V4_0, "Shows the ids of nodes."),
            (V7_0, "Shows further addresses of nodes."),
            (VALKEY_9_1, "Shows the availability zones of nodes."),
        ],
    ),
    changed("command|info", &[(V7_0, "Without a name, describes all commands.")]),
    changed("config|get", &[(V7_0, "Takes several patterns.")]),
    changed("config|set", &[(V7_0, "Takes several settings.")]),
    changed("exists", &[(V3_0_3, "Takes several keys.")]),
    History { command: "expire", changes: &[(V7_0, EXPIRE_CONDITIONS)], arguments: &[("|NX", V7_0)] },
    History { command: "expireat", changes: &[(V7_0, EXPIRE_CONDITIONS)], arguments: &[("|NX", V7_0)] },
    History {
        command: "flushall",
        changes: &[(V4_0, ASYNC), (V6_2, SYNC)],
        arguments: &[("ASYNC", V4_0), ("SYNC", V6_2)],
    },
    History {
        command: "flushdb",
        changes: &[(V4_0, ASYNC), (V6_2, SYNC)],
        arguments: &[("ASYNC", V4_0), ("SYNC", V6_2)],
    },
    History {
        command: "geoadd",
        changes: &[(V6_2, "Has the options CH, NX and XX.")],
        arguments: &[("|NX", V6_2), ("CH", V6_2)],
    },
    History { command: "georadius", changes: &[(V6_2, ANY), (V7_0, UPPER_CASE_UNITS)], arguments: &[("ANY", V6_2)] },
    History { command: "georadius_ro", changes: &[(V6_2, ANY)], arguments: &[("ANY", V6_2)] },
    changed("georadiusbymember", &[(V7_0, UPPER_CASE_UNITS)]),
    changed("geosearch", &[(V7_0, UPPER_CASE_UNITS), (VALKEY_9_0, BY_POLYGON)]),
    changed("geosearchstore", &[(V7_0, UPPER_CASE_UNITS), (VALKEY_9_0, BY_POLYGON)]),
    changed("hdel", &[(V2_4, SEVERAL_FIELDS)]),
    changed(
        "hello",
        &[
            (V6_2, "Without a version, tells about the connection as it is."),
            (VALKEY_8_1, "Tells the availability zone, if the server has one."),
        ],
    ),
    changed("hset", &[(V4_0, SEVERAL_FIELDS)]),
    changed("info", &[(V7_0, "Takes several sections.")]),
    History { command: "lpop", changes: &[(V6_2, COUNT)], arguments: &[("count", V6_2)] },
    changed("lpush", &[(V2_4, SEVERAL_ELEMENTS)]),
    changed("lpushx", &[(V4_0, SEVERAL_ELEMENTS)]),
    History { command: "pexpire", changes: &[(V7_0, EXPIRE_CONDITIONS)], arguments: &[("|NX", V7_0)] },
    History { command: "pexpireat", changes: &[(V7_0, EXPIRE_CONDITIONS)], arguments: &[("|NX", V7_0)] },
    changed("pttl", &[(V2_8, MINUS_TWO)]),
    changed("renamenx", &[(V3_2, "The two names can be the same.")]),
    History {
        command: "restore",
        changes: &[
            (V3_0, "Has the option REPLACE."),
            (V5_0, "Has the option ABSTTL."),
            (V5_0, "Has the options IDLETIME and FREQ."),
        ],
        arguments: &[("REPLACE", V3_0), ("ABSTTL", V5_0), ("IDLETIME", V5_0), ("FREQ", V5_0)],
    },
    History { command: "rpop", changes: &[(V6_2, COUNT)], arguments: &[("count", V6_2)] },
    changed("rpush", &[(V2_4, SEVERAL_ELEMENTS)]),
    changed("rpushx", &[(V4_0, SEVERAL_ELEMENTS)]),
    changed("sadd", &[(V2_4, SEVERAL_MEMBERS)]),
    History { command: "scan", changes: &[(V6_0, "Has the option TYPE.")], arguments: &[("TYPE", V6_0)] },
    History {
        command: "script|flush",
        changes: &[(V6_2, "Has the options ASYNC and SYNC.")],
        arguments: &[("|ASYNC", V6_2)],
    },
    History {
        command: "set",
        changes: &[
            (V2_6_12, "Has the options EX, PX, NX and XX."),
            (V6_0, "Has the option KEEPTTL."),
            (V6_2, "Has the options GET, EXAT and PXAT."),
            (V7_0, "NX and GET can be used together."),
            (VALKEY_8_1, "Has the option IFEQ."),
        ],
        arguments: &[
            ("|NX", V2_6_12),
            ("IFEQ", VALKEY_8_1),
            ("GET", V6_2),
            ("EX", V2_6_12),
            ("PX", V2_6_12),
            ("EXAT", V6_2),
            ("PXAT", V6_2),
            ("KEEPTTL", V6_0),
        ],
    },
    History {
        command: "shutdown",
        changes: &[(V7_0, "Has the options NOW, FORCE and ABORT.")],
        arguments: &[("NOW", V7_0), ("FORCE", V7_0), ("ABORT", V7_0)],
    },
    changed("slowlog|get", &[(V4_0, "Entries have the client's address and name.")]),
    History { command: "spop", changes: &[(V3_2, COUNT)], arguments: &[("count", V3_2)] },
    History { command: "srandmember", changes: &[(V2_6, COUNT)], arguments: &[("count", V2_6)] },
    changed("srem", &[(V2_4, SEVERAL_MEMBERS)]),
    changed("ttl", &[(V2_8, MINUS_TWO)]),
    History {
        command: "xadd",
        changes: &[
            (V6_2, "Has the option NOMKSTREAM; can trim by MINID, and has the option LIMIT."),
            (V7_0, "An id can leave only its sequence number to the server."),
        ],
        arguments: &[("NOMKSTREAM", V6_2), ("MINID", V6_2), ("LIMIT", V6_2)],
    },
    changed("xautoclaim", &[(V7_0, "Tells which entries were deleted, and so are no longer pending.")]),
    changed("xgroup|create", &[(V7_0, "Has the option ENTRIESREAD.")]),
    changed("xgroup|setid", &[(V7_0, "Has the option ENTRIESREAD.")]),
    changed("xinfo|consumers", &[(V7_2, "Shows `inactive`, and `idle` counts attempts, too.")]),
    changed("xinfo|groups", &[(V7_0, "Shows `entries-read` and `lag`.")]),
    changed(
        "xinfo|stream",
        &[
            (V6_0, "Has the option FULL."),
            (
                V7_0,
                "Shows `max-deleted-entry-id`, `entries-added`, `recorded-first-entry-id`, `entries-read` and `lag`.",
            ),
            (V7_2, "Shows `active-time`, and `seen-time` counts attempts, too."),
        ],
    ),
    History {
        command: "xpending",
        changes: &[(V6_2, "Has the option IDLE, and the ends of the range can be excluded.")],
        arguments: &[("IDLE", V6_2)],
    },
    changed("xrange", &[(V6_2, EXCLUSIVE)]),
    changed("xrevrange", &[(V6_2, EXCLUSIVE)]),
    History {
        command: "xsetid",
        changes: &[(V7_0, "Has the options ENTRIESADDED and MAXDELETEDID.")],
        arguments: &[("ENTRIESADDED", V7_0), ("MAXDELETEDID", V7_0)],
    },
    History { command: "xtrim", changes: &[(V6_2, TRIMMING)], arguments: &[("MINID", V6_2), ("LIMIT", V6_2)] },
    History {
        command: "zadd",
        changes: &[
            (V2_4, SEVERAL_ELEMENTS),
            (V3_0_2, "Has the options XX, NX, CH and INCR."),
            (V6_2, "Has the options GT and LT."),
        ],
        arguments: &[("|NX", V3_0_2), ("|GT", V6_2), ("CH", V3_0_2), ("INCR", V3_0_2)],
    },
    History {
        command: "zrange",
        changes: &[(V6_2, "Has the options REV, BYSCORE, BYLEX and LIMIT.")],
        arguments: &[("|BYSCORE", V6_2), ("REV", V6_2), ("LIMIT", V6_2)],
    },
    History {
        command: "zrangebyscore",
        changes: &[(V2_0, "Has the option WITHSCORES.")],
        arguments: &[("WITHSCORES", V2_0)],
    },
    changed("zrank", &[(V7_2, WITH_SCORE)]),
    changed("zrem", &[(V2_4, SEVERAL_MEMBERS)]),
    changed("zrevrangebyscore", &[(V2_1_6, EXCLUSIVE)]),
    changed("zrevrank", &[(V7_2, WITH_SCORE)]),
    changed("zscan", &[(VALKEY_8_0, "Has the option NOSCORES.")]),
];
