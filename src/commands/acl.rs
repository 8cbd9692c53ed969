//! ACL: users and their permissions.

use std::sync::Arc;

use super::acl_log::LOG;
use super::help::{help, versioned_syntax_error};
use crate::base::error::{CommandError, plain};
use crate::base::identity::random_digits;
use crate::base::profile::{Family, Since};
use crate::clients::acl::{
    Commands, DATABASE_RULES, DEFAULT_USER, Denial, Refusal, Selector, User, category, is_one_word,
};
use crate::clients::session::Flow;
use crate::commands::{Call, Command, CommandResult, Handler, ON_EVERY_NODE};
use crate::protocol::{Reply, parse_integer};
use crate::spec::{Args, Arity, Category, CommandSpec, Flag, Group, ResolvedRow, Secrets};

pub(super) const ROWS: &[Command] = &[ACL];

const ACL: Command = Command::container(
    CommandSpec {
        summary: "Everything about users and what they may do.",
        complexity: "Depends on the subcommand",
        group: Group::Server,
        since: Since::redis(6, 0, 0),
        arity: Arity::AtLeast(2),
        ..CommandSpec::new("ACL")
    },
    &[
        Command::new(
            Handler::Connection(getuser),
            CommandSpec {
                usage: "username",
                summary: "Shows the rules of a user.",
                complexity: "O(N) in the number of the user's rules",
                arity: Arity::Exactly(3),
                ..admin("GETUSER")
            },
        ),
        Command::new(
            Handler::Connection(list),
            CommandSpec {
                summary: "Lists all users as lines of an ACL file.",
                complexity: "O(N) in the number of users",
                arity: Arity::Exactly(2),
                ..admin("LIST")
            },
        ),
        Command::new(
            Handler::Connection(deluser),
            CommandSpec {
                usage: "username [username ...]",
                summary: "Removes users and closes their connections.",
                complexity: "O(N) in the number of connections",
                arity: Arity::AtLeast(3),
                later_tips: ON_EVERY_NODE,
                ..admin("DELUSER")
            },
        ),
        Command::new(
            Handler::Connection(users),
            CommandSpec {
                summary: "Lists the names of all users.",
                complexity: "O(N) in the number of users",
                arity: Arity::Exactly(2),
                ..admin("USERS")
            },
        ),
        Command::new(
            Handler::Connection(|call, _| help(call.table, "ACL", HELP)),
            CommandSpec {
                summary: "Says which subcommands there are.",
                arity: Arity::Exactly(2),
                flags: &[Flag::Loading, Flag::Stale],
                ..admin("HELP")
            },
        ),
        Command::new(
            Handler::Connection(cat),
            CommandSpec {
                usage: "[categoryname]",
                summary: "Lists the categories of commands, or the commands of one.",
                arity: Arity::AtLeast(2),
                flags: NOT_ADMIN,
                ..admin("CAT")
            },
        ),
        Command::new(
            Handler::Connection(load),
            CommandSpec {
                summary: "Reads all users from the ACL file.",
                complexity: "O(N) in the number of users",
                arity: Arity::Exactly(2),
                ..admin("LOAD")
            },
        ),
        Command::new(
            Handler::Connection(whoami),
            CommandSpec {
                summary: "Says which user the connection is.",
                arity: Arity::Exactly(2),
                flags: NOT_ADMIN,
                ..admin("WHOAMI")
            },
        ),
        LOG,
        Command::new(
            Handler::Connection(setuser),
            CommandSpec {
                usage: "username [rule [rule ...]]",
                summary: "Makes a user or changes its rules.",
                complexity: "O(N) in the number of rules",
                arity: Arity::AtLeast(3),
                secrets: Secrets::UserRules,
                later_tips: ON_EVERY_NODE,
                ..admin("SETUSER")
            },
        ),
        Command::new(
            Handler::Connection(save),
            CommandSpec {
                summary: "Writes all users to the ACL file.",
                complexity: "O(N) in the number of users",
                arity: Arity::Exactly(2),
                later_tips: ON_EVERY_NODE,
                ..admin("SAVE")
            },
        ),
        Command::new(
            Handler::Connection(dryrun),
            CommandSpec {
                usage: "username command [arg [arg ...]]",
                summary: "Says whether a user could run a command.",
                since: Since::redis(7, 0, 0),
                arity: Arity::AtLeast(4),
                secrets: Secrets::Request { at: 3 },
                ..admin("DRYRUN")
            },
        ),
        Command::new(
            Handler::Connection(genpass),
            CommandSpec {
                usage: "[bits]",
                summary: "Makes up a password.",
                arity: Arity::AtLeast(2),
                flags: NOT_ADMIN,
                secrets: Secrets::Reply,
                ..admin("GENPASS")
            },
        ),
    ],
);

const NOT_ADMIN: &[Flag] = &[Flag::NoScript, Flag::Loading, Flag::Stale];

const fn admin(name: &'static str) -> CommandSpec {
    CommandSpec {
        group: Group::Server,
        since: Since::redis(6, 0, 0),
        flags: &[Flag::Admin, Flag::NoScript, Flag::Loading, Flag::Stale],
        ..CommandSpec::new(name)
    }
}

// ---- queries

fn getuser(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let Some(user) = call.server.acl.user(args.bytes()?) else { return Ok(Reply::Null) };
    let (rules, commands) = (user.rules(), call.server.acl.commands());
    let flags = rules.flags(commands).into_iter().map(Reply::text).collect();
    let passwords = rules.passwords.iter().map(|password| Reply::text(password.hex())).collect();
    let mut fields =
        vec![(Reply::text("flags"), Reply::Set(flags)), (Reply::text("passwords"), Reply::Array(passwords))];
    let Some(root) = rules.root() else { return Ok(Reply::Map(fields)) };
    if args.profile().since_redis(7, 0) {
        let others = rules.others().iter().map(|other| Reply::Map(permissions(other, commands)));
        fields.extend(permissions(root, commands));
        fields.push((Reply::text("selectors"), Reply::Array(others.collect())));
    } else {
        let patterns = |text: Vec<u8>| {
            let rules = text.split(|&byte| byte == b' ').filter(|rule| !rule.is_empty());
            Reply::Array(rules.map(|rule| Reply::bulk(rule[1..].to_vec())).collect())
        };
        fields.push((Reply::text("commands"), Reply::bulk(root.commands.describe(commands))));
        fields.push((Reply::text("keys"), patterns(root.describe_keys())));
        fields.push((Reply::text("channels"), patterns(root.describe_channels())));
    }
    Ok(Reply::Map(fields))
}

fn permissions(selector: &Selector, commands: &Commands) -> Vec<(Reply<'static>, Reply<'static>)> {
    let mut fields = vec![
        (Reply::text("commands"), Reply::bulk(selector.commands.describe(commands))),
        (Reply::text("keys"), Reply::bulk(selector.describe_keys())),
        (Reply::text("channels"), Reply::bulk(selector.describe_channels())),
    ];
    if commands.profile().has(DATABASE_RULES) {
        fields.push((Reply::text("databases"), Reply::text(selector.databases.describe())));
    }
    fields
}

fn list(call: &mut Call<'_>, _: &mut Args<'_>) -> CommandResult<'static> {
    Ok(Reply::Array(call.server.acl.lines().into_iter().map(Reply::bulk).collect()))
}

fn users(call: &mut Call<'_>, _: &mut Args<'_>) -> CommandResult<'static> {
    let name = |user: &Arc<User>| Reply::bulk(user.name().to_vec());
    Ok(Reply::Array(call.server.acl.all().iter().map(name).collect()))
}

fn whoami(call: &mut Call<'_>, _: &mut Args<'_>) -> CommandResult<'static> {
    Ok(Reply::bulk(call.session.user.name().to_vec()))
}

fn cat(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    match (args.left(), args.optional()) {
        (0, _) => Ok(Reply::strings(Category::ALL.iter().map(|category| category.name()))),
        (1, Some(name)) => {
            let category = category(name).ok_or_else(|| CommandError::quoting("ERR Unknown category '", name, "'"))?;
            Ok(Reply::strings(call.server.acl.commands().in_category(category)))
        }
        _ => Err(versioned_syntax_error(args, "ACL")),
    }
}

fn genpass(_: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    const USUAL: i64 = 256;
    const MOST: i64 = 4096;
    if args.left() > 1 {
        return Err(versioned_syntax_error(args, "ACL"));
    }
    let bits = args.optional().map_or(Some(USUAL), parse_integer).ok_or(CommandError::NOT_AN_INTEGER)?;
    if !(1..=MOST).contains(&bits) {
        return Err(CommandError::new(format!(
            "ERR ACL GENPASS argument must be the number of bits for the output password, a positive number up to {MOST}"
        )));
    }
    Ok(Reply::text(random_digits(bits.unsigned_abs().div_ceil(4) as usize)))
}

fn dryrun(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let name = args.bytes()?;
    let user = call.server.acl.user(name);
    let user = user.ok_or_else(|| CommandError::quoting("ERR User '", name, "' not found"))?;
    let words = args.rest();
    let command = words.get(0).unwrap_or_default();
    let unknown = || CommandError::quoting("ERR Command '", command, "' not found");
    let (row, full_name) = match call.table.row_of(words) {
        Some(ResolvedRow { spec, .. }) => (spec, call.table.full_name(spec)),
        None => {
            let absent = call.server.acl.commands().absent_row(words).ok_or_else(unknown)?;
            (absent.0, absent.1.to_owned())
        }
    };
    if !row.arity_in(args.profile()).admits(words.len()) {
        return Err(CommandError::new(format!("ERR wrong number of arguments for '{full_name}' command")));
    }
    let databases = call.server.database_context(call.session);
    let foretold = |denial: Denial| denial.foretold(args.profile(), name, &full_name, words);
    Ok(match call.server.acl.may_run(&user, row, words, databases) {
        Ok(()) => Reply::OK,
        Err(denial) => Reply::bulk(foretold(denial)),
    })
}

// ---- changes

fn setuser(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let name = args.bytes()?;
    if !is_one_word(name) {
        return Err(CommandError::fixed("ERR Usernames can't contain spaces or null characters"));
    }
    let rules: Vec<&[u8]> = args.rest().iter().collect();
    let changed = call.server.acl.set_user(name, &rules).map_err(|refusal| match refusal {
        Refusal::Unmatched(start) => {
            CommandError::quoting("ERR Unmatched parenthesis in acl selector starting at '", start, "'.")
        }
        Refusal::Rule(rule, error) => {
            CommandError::quoting("ERR Error in ACL SETUSER modifier '", &rule, &format!("': {error}"))
        }
    })?;
    if let Some(rules) = changed.with_fewer_channels() {
        call.server.revoke_channels(&changed.user, &rules);
    }
    Ok(Reply::OK)
}

fn deluser(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let mut removed = 0;
    while let Some(name) = args.optional() {
        if name == DEFAULT_USER {
            return Err(CommandError::fixed("ERR The 'default' user cannot be removed"));
        }
        if let Some(user) = call.server.acl.remove(name) {
            close_clients_of(call, &user);
            removed += 1;
        }
    }
    Ok(Reply::Integer(removed))
}

/// Closes a removed user's connections. The caller gets its reply first.
fn close_clients_of(call: &mut Call<'_>, user: &Arc<User>) {
    if Arc::ptr_eq(&call.session.user, user) {
        let default = Arc::clone(call.server.acl.default_user());
        call.session.become_user(&default, false);
        call.flow = Flow::Close;
    }
    call.server.kill_user(user);
}

// ---- the ACL file

fn no_acl_file(args: &Args<'_>) -> CommandError {
    CommandError::fixed(match args.profile().family() {
        Family::Redis => {
            "ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL \
             SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in \
             order to store users in the Redis configuration."
        }
        Family::Valkey => {
            "ERR This instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER \
             command and then issue a CONFIG REWRITE (assuming you have a configuration file set) in order to store \
             users in the configuration."
        }
    })
}

fn load(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let file = call.server.config.path("aclfile").ok_or_else(|| no_acl_file(args))?;
    let gone =
        call.server.acl.load(&file).map_err(|errors| CommandError::new([b"ERR ", errors.as_slice()].concat()))?;
    gone.iter().for_each(|user| close_clients_of(call, user));
    Ok(Reply::OK)
}

fn save(call: &mut Call<'_>, args: &mut Args<'_>) -> CommandResult<'static> {
    let file = call.server.config.path("aclfile").ok_or_else(|| no_acl_file(args))?;
    call.server.acl.save(&file).map_err(|error| {
        call.server.log.warn(format!("Writing the ACL file for ACL SAVE: {}", plain(&error)));
        CommandError::fixed(
            "ERR There was an error trying to save the ACLs. Please check the server logs for more information",
        )
    })?;
    Ok(Reply::OK)
}

const HELP: &[&str] = &[
    "ACL <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
    "CAT [<category>]",
    "    List all commands that belong to <category>, or all command categories",
    "    when no category is specified.",
    "DELUSER <username> [<username> ...]",
    "    Delete a list of users.",
    "DRYRUN <username> <command> [<arg> ...]",
    "    Returns whether the user can execute the given command without executing the command.",
    "GETUSER <username>",
    "    Get the user's details.",
    "GENPASS [<bits>]",
    "    Generate a secure 256-bit user password. The optional `bits` argument can",
    "    be used to specify a different size.",
    "LIST",
    "    Show users details in config file format.",
    "LOAD",
    "    Reload users from the ACL file.",
    "LOG [<count> | RESET]",
    "    Show the ACL log entries.",
    "SAVE",
    "    Save the current config to the ACL file.",
    "SETUSER <username> <attribute> [<attribute> ...]",
    "    Create or modify a user with the specified attributes.",
    "USERS",
    "    List all the registered usernames.",
    "WHOAMI",
    "    Return the current connection username.",
    "HELP",
    "    Prints this help.",
];
