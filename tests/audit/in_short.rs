//! What clients do to locks, in any order: what is noted in short, and told later, is told as if each line had been looked at whole.

use std::fmt::Write;

use proptest::prelude::*;
use proptest::sample::select;

use super::many_locks::MET;
use super::story::play;

/// A line of a story.
#[derive(Clone, Debug)]
enum Line {
    /// Who takes which lock, by a command with a token and how many milliseconds in it.
    Take(&'static str, &'static str, &'static str, Token, u32),
    /// Who gives it back, or extends it, with a token of its own or of another client.
    GiveBack(&'static str, &'static str, &'static str, Token),
    /// Who does something else to a key.
    Other(&'static str, &'static str, &'static str),
    /// Milliseconds pass.
    Pass(u32),
    Close(&'static str),
}

/// Which token a client sends.
#[derive(Clone, Copy, Debug)]
enum Token {
    /// A new one, and from then on the last one.
    New,
    Last,
    OfOther,
    Fixed(&'static str),
}

/// Two clients with names and two without.
const CLIENTS: [&str; 4] = ["A", "B", "a", "b"];
const LOCKS: [&str; 3] = ["lock:job", "jobs:7", "lock:b"];

fn client() -> impl Strategy<Value = &'static str> {
    select(CLIENTS.to_vec())
}

fn lock() -> impl Strategy<Value = &'static str> {
    select(LOCKS.to_vec())
}

fn taking() -> impl Strategy<Value = Token> {
    prop_oneof![8 => Just(Token::New), 2 => Just(Token::Last), 1 => Just(Token::OfOther),
        2 => select(vec!["1", "owner-7", "1700000000", "w1-{ms+0}"]).prop_map(Token::Fixed)]
}

fn line() -> impl Strategy<Value = Line> {
    let take = select(vec!["SET %k %t NX PX %m", "SET %k %t PX %m NX", "SETNX %k %t", "SET %k %t PX %m"]);
    let give = select(vec!["RELEASE %k %t", "RELEASE %k %t", "RELEASE %k %t", "EXTEND %k %t 1000"]);
    let owner = prop_oneof![12 => Just(Token::Last), 2 => Just(Token::OfOther), 1 => Just(Token::Fixed("1"))];
    let other = vec!["DEL %k", "GET %k", "PTTL %k", "SET data 1", "GET data", "INCR runs", "PERSIST %k", "GETDEL %k"];
    let millis = select(vec![30_000, 30_000, 1000, 100, 5]);
    prop_oneof![
        8 => (client(), lock(), take, taking(), millis).prop_map(|(by, key, take, token, millis)| {
            Line::Take(by, key, take, token, millis)
        }),
        8 => (client(), lock(), give, owner).prop_map(|(by, key, give, token)| Line::GiveBack(by, key, give, token)),
        4 => (client(), lock(), select(other)).prop_map(|(by, key, command)| Line::Other(by, key, command)),
        3 => select(vec![1, 90, 95, 900, 990, 31_000]).prop_map(Line::Pass),
        1 => client().prop_map(Line::Close),
    ]
}

/// The story that lines make, in which each client has met a lock already.
fn told(lines: &[Line]) -> String {
    let mut story = MET.to_owned();
    let mut last = CLIENTS.map(|client| format!("first-token-of-{client}"));
    let place = |client: &str| CLIENTS.iter().position(|known| *known == client).expect("a client");
    for (number, line) in lines.iter().enumerate() {
        let mut token_of = |client: &str, token: Token| match token {
            Token::New => {
                last[place(client)] = super::story::token(&format!("{number}"));
                last[place(client)].clone()
            }
            Token::Last => last[place(client)].clone(),
            Token::OfOther => last[(place(client) + 1) % CLIENTS.len()].clone(),
            Token::Fixed(token) => token.to_owned(),
        };
        let told = match line {
            Line::Take(by, key, command, token, millis) => {
                let command = command.replace("%k", key).replace("%t", &token_of(by, *token));
                format!("{by}: {}", command.replace("%m", &millis.to_string()))
            }
            Line::GiveBack(by, key, command, token) => {
                format!("{by}: {}", command.replace("%k", key).replace("%t", &token_of(by, *token)))
            }
            Line::Other(by, key, command) => format!("{by}: {}", command.replace("%k", key)),
            Line::Pass(millis) => format!("+{millis}ms"),
            Line::Close(client) => format!("close {client}\n{client}: PING"),
        };
        writeln!(story, "{told}").expect("a string takes all");
    }
    story
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    /// A story is judged by each path: see `assert_live_is_the_same`.
    #[test]
    fn whatever_clients_do_to_locks_is_judged_in_short_as_it_is_judged_whole(lines in prop::collection::vec(line(), 1..60)) {
        play(&told(&lines));
    }
}
