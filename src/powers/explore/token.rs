//! An order of commands as a short text that can be kept, sent and replayed.
//!
//! `1-B1.3.2-7k` is version 1, the order, and a checksum. In the order, a digit is the client that has the turn (base 36,
//! from 1; `_` and two digits from 36 on). `.3.` after it means three turns in a row. A capital means that so many clients
//! join before the next turn: A is one, Z is 26. A sign in front of a digit says that the command's reply is lost (`~`), that
//! the client dies before it (`+`) or stands still (`:`). `@` alone is a turn in which the clock goes past the deadline of a key,
//! `%` one in which it goes on because nothing else can happen. `=2` is one in which instance 2 gets the next change, `,21` one in
//! which it becomes the master without the last one.

use std::fmt;

use super::chaos::Action;

/// The first part of every token.
const VERSION: &str = "1";
/// Turns in a row of the same client are written as a number from this many on.
const SHORTEST_RUN: usize = 4;
/// The most turns of an order.
pub const MOST_TURNS: usize = 10_000;
/// The most clients that can race: as many as have a number in a token.
pub const MOST_CLIENTS: usize = 36 * 36 - 1;
const DIGITS: &[u8; 36] = b"0123456789abcdefghijklmnopqrstuvwxyz";

/// The number of a client in one order, from 1.
pub type RacerNumber = u16;

/// One turn: the client whose command runs, or what happens instead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// How many clients get the next numbers before it.
    pub joining: u16,
    /// 0 if the turn is no client's.
    pub client: RacerNumber,
    pub action: Action,
}

impl Turn {
    /// Whether it is one more turn of the same client in a row.
    fn continues(&self, first: &Self) -> bool {
        self.joining == 0 && self.client == first.client && self.action == Action::Run && first.action == Action::Run
    }
}

/// The sign of a turn that is no plain run. The first digits of a number that an action has come behind it.
fn sign_of(action: Action) -> Option<char> {
    match action {
        Action::Run => None,
        Action::LostReply => Some('~'),
        Action::Crash => Some('+'),
        Action::Pause => Some(':'),
        Action::Expiry => Some('@'),
        Action::TimePasses => Some('%'),
        Action::Replicate(_) => Some('='),
        Action::Failover { .. } => Some(','),
    }
}

/// The turns of one run, from the first on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Order(pub Vec<Turn>);

impl Order {
    fn body(&self) -> String {
        let mut text = String::new();
        let mut turns = self.0.as_slice();
        while let Some((first, rest)) = turns.split_first() {
            let mut joining = first.joining;
            while joining > 0 {
                let now = joining.min(26);
                text.push(char::from(b'A' + (now - 1) as u8));
                joining -= now;
            }
            text.extend(sign_of(first.action));
            match first.action {
                Action::Replicate(to) => push_number(&mut text, to),
                Action::Failover { to, losing } => {
                    [to, losing].iter().for_each(|number| push_number(&mut text, *number))
                }
                _ if first.client > 0 => push_number(&mut text, first.client),
                _ => {}
            }
            let again = rest.iter().take_while(|turn| turn.continues(first)).count();
            turns = rest;
            if again + 1 >= SHORTEST_RUN {
                text.push_str(&format!(".{}.", again + 1));
                turns = &rest[again..];
            }
        }
        text
    }

    /// Parses a token. The error says what is wrong with it.
    pub fn parse(token: &[u8]) -> Result<Self, &'static str> {
        let text = std::str::from_utf8(token).map_err(|_| MALFORMED)?;
        let [version, body, checksum] = text.split('-').collect::<Vec<_>>()[..] else { return Err(MALFORMED) };
        if version != VERSION {
            return Err("it is of another version");
        }
        if checksum != checksum_of(body) {
            return Err("its checksum is wrong, so it is not complete or was changed");
        }
        let mut bytes = body.bytes().peekable();
        let mut turns = Vec::new();
        let (mut joining, mut joined) = (0u16, 0u16);
        while let Some(byte) = bytes.next() {
            let mut byte = byte;
            let action = match byte {
                b'~' => Action::LostReply,
                b'+' => Action::Crash,
                b':' => Action::Pause,
                b'@' | b'%' | b'=' | b',' => {
                    let action = match byte {
                        b'@' => Action::Expiry,
                        b'%' => Action::TimePasses,
                        b'=' => Action::Replicate(next_number(&mut bytes).ok_or(MALFORMED)?),
                        _ => {
                            let to = next_number(&mut bytes).ok_or(MALFORMED)?;
                            Action::Failover { to, losing: next_number(&mut bytes).ok_or(MALFORMED)? }
                        }
                    };
                    turns.push(Turn { joining: std::mem::take(&mut joining), client: 0, action });
                    joined += turns.last().map_or(0, |turn| turn.joining);
                    if turns.len() > MOST_TURNS {
                        return Err("it has too many turns");
                    }
                    continue;
                }
                _ => Action::Run,
            };
            if action != Action::Run {
                byte = bytes.next().filter(|byte| !byte.is_ascii_uppercase()).ok_or(MALFORMED)?;
            }
            let client = match byte {
                b'A'..=b'Z' => {
                    joining += u16::from(byte - b'A' + 1);
                    if usize::from(joined + joining) > MOST_CLIENTS {
                        return Err("it has too many clients");
                    }
                    continue;
                }
                byte => number_from(byte, &mut bytes).ok_or(MALFORMED)?,
            };
            joined += joining;
            if client == 0 || client > joined {
                return Err("it gives a turn to a client that has not come in");
            }
            turns.push(Turn { joining: std::mem::take(&mut joining), client, action });
            if action == Action::Run && bytes.next_if_eq(&b'.').is_some() {
                let mut count = 0usize;
                while let Some(digit) = bytes.next_if(u8::is_ascii_digit) {
                    count = (count * 10 + usize::from(digit - b'0')).min(MOST_TURNS + 1);
                }
                if bytes.next() != Some(b'.') || count == 0 {
                    return Err(MALFORMED);
                }
                turns.extend(std::iter::repeat_n(Turn { joining: 0, client, action }, count - 1));
            }
            if turns.len() > MOST_TURNS {
                return Err("it has too many turns");
            }
        }
        if joining > 0 { Err(MALFORMED) } else { Ok(Self(turns)) }
    }
}

const MALFORMED: &str = "it is not of the form 1-B1212-xy";

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let body = self.body();
        write!(f, "{VERSION}-{body}-{}", checksum_of(&body))
    }
}

fn push_number(text: &mut String, number: RacerNumber) {
    let digit = |value: u16| char::from(DIGITS[usize::from(value % 36)]);
    if number < 36 {
        text.push(digit(number));
    } else {
        text.push('_');
        text.push(digit(number / 36));
        text.push(digit(number));
    }
}

fn next_number(bytes: &mut impl Iterator<Item = u8>) -> Option<RacerNumber> {
    let first = bytes.next()?;
    number_from(first, bytes)
}

/// Reads a number that begins with this byte.
fn number_from(first: u8, rest: &mut impl Iterator<Item = u8>) -> Option<RacerNumber> {
    if first != b'_' {
        return digit_of(first);
    }
    let high = digit_of(rest.next()?)?;
    Some(high * 36 + digit_of(rest.next()?)?)
}

fn digit_of(byte: u8) -> Option<u16> {
    DIGITS.iter().position(|digit| *digit == byte).map(|value| value as u16)
}

/// Two digits (Fletcher's sum), which show a wrong character and two exchanged ones.
fn checksum_of(body: &str) -> String {
    // 36 * 36 has small factors; with these primes every change of one character and every exchange of two shows.
    let (mut sum, mut sums) = (1u32, 0u32);
    for byte in body.bytes() {
        sum = (sum + u32::from(byte)) % 1291;
        sums = (sums + sum) % 1291;
    }
    let mut text = String::new();
    for value in [(sum * 31 + sums * 7 + body.len() as u32) % 1296, (sums * 17 + sum) % 1296] {
        text.push(char::from(DIGITS[(value / 36) as usize]));
        text.push(char::from(DIGITS[(value % 36) as usize]));
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn order(turns: &[(u16, RacerNumber)]) -> Order {
        let turn = |&(joining, client)| Turn { joining, client, action: Action::Run };
        Order(turns.iter().map(turn).collect())
    }

    #[test]
    fn an_order_reads_like_its_turns() {
        let token = order(&[(2, 1), (0, 1), (0, 2), (1, 3), (0, 2), (0, 2), (0, 2), (0, 2)]).to_string();
        assert!(token.starts_with("1-B112A32.4.-"), "{token}");
        let turn = |client, action| Turn { joining: 0, client, action };
        let chaos =
            [turn(1, Action::LostReply), turn(0, Action::Expiry), turn(2, Action::Pause), turn(1, Action::Crash)];
        let token = Order([order(&[(2, 1)]).0, chaos.to_vec()].concat()).to_string();
        assert!(token.starts_with("1-B1~1@:2+1-"), "{token}");
        let links = [turn(0, Action::Replicate(2)), turn(0, Action::Failover { to: 40, losing: 1 })];
        let token = Order([order(&[(2, 1)]).0, links.to_vec()].concat()).to_string();
        assert!(token.starts_with("1-B1=2,_141-"), "{token}");
    }

    #[test]
    fn what_is_no_token_is_refused_with_a_reason() {
        let token = order(&[(2, 1), (0, 2), (0, 1)]).to_string();
        assert!(Order::parse(token.as_bytes()).is_ok());
        let reason = |token: &str| Order::parse(token.as_bytes()).unwrap_err();
        assert_eq!(reason(&token.replacen('2', "1", 1)), "its checksum is wrong, so it is not complete or was changed");
        assert_eq!(reason(&token.replacen('1', "2", 1)), "it is of another version");
        assert_eq!(reason(""), MALFORMED);
        assert_eq!(reason("1-B12"), MALFORMED);
        let signed = |body: &str| format!("1-{body}-{}", checksum_of(body));
        assert_eq!(reason(&signed("A2")), "it gives a turn to a client that has not come in");
        assert_eq!(reason(&signed("A0")), "it gives a turn to a client that has not come in");
        assert_eq!(reason(&signed("A1B")), MALFORMED);
        assert_eq!(reason(&signed("A1.")), MALFORMED);
        assert_eq!(reason(&signed("A1.0.")), MALFORMED);
        assert_eq!(reason(&signed("A_1")), MALFORMED);
        assert_eq!(reason(&signed("A1.99999999999999999999999.")), "it has too many turns");
        assert_eq!(reason(&signed(&"Z".repeat(60))), "it has too many clients");
        assert_eq!(reason(&signed("A1~")), MALFORMED);
        assert_eq!(reason(&signed("A1~B1")), MALFORMED);
        assert_eq!(reason(&signed("A1+1.4.")), MALFORMED);
        assert_eq!(reason(&signed("A1:2")), "it gives a turn to a client that has not come in");
        for wrong in ["A1=", "A1=A", "A1,", "A1,2", "A1,2_1", "A1=_"] {
            assert_eq!(reason(&signed(wrong)), MALFORMED, "{wrong}");
        }
    }

    #[test]
    fn a_changed_character_shows() {
        let token = order(&[(3, 1), (0, 2), (0, 3), (0, 1), (0, 1), (0, 2)]).to_string();
        for at in 2..token.len() {
            for other in b"123ABC.-" {
                let mut changed = token.clone().into_bytes();
                changed[at] = *other;
                assert!(changed == token.as_bytes() || Order::parse(&changed).is_err(), "{token}: {at}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_token_says_everything(turns in prop::collection::vec((0u16..40, 0u16..1000, 0u8..12), 0..60)) {
            let mut joined = 0;
            let mut order = Order::default();
            for (joining, client, action) in turns {
                let joining = if joined == 0 { joining.max(1) } else { joining / 20 };
                joined += joining;
                let action = match action {
                    0 => Action::LostReply,
                    1 => Action::Crash,
                    2 => Action::Pause,
                    3 => Action::Expiry,
                    4 => Action::TimePasses,
                    5 => Action::Replicate(client),
                    6 => Action::Failover { to: client, losing: 999 - client },
                    _ => Action::Run,
                };
                let client = if action.is_of_client() { client % joined + 1 } else { 0 };
                order.0.push(Turn { joining, client, action });
            }
            prop_assert_eq!(Order::parse(order.to_string().as_bytes()), Ok(order));
        }

        #[test]
        fn anything_else_is_refused_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            let _ = Order::parse(&bytes);
        }
    }
}
