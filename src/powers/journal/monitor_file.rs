//! The output of MONITOR as a journal: commands with their times, in the order in which they took effect, without replies.

use std::collections::HashMap;

use foldhash::fast::FixedState;

use super::entry::{Child, EffectOrder, Entry, Item, Outcome};
use super::monitor_lines::{MonitorLine, MonitorSource};

/// What MONITOR prints, for an error.
const EXPECTED: &str = r#"a line of MONITOR was expected, such as 1339518083.107412 [0 127.0.0.1:60866] "GET" "key""#;

/// Puts the lines of MONITOR together: scripts with the commands that they called, EXEC with those that it ran.
#[derive(Default)]
pub struct MonitorFile {
    seq: u64,
    clients: HashMap<String, Client, FixedState>,
    /// How many clients there were.
    ids: u64,
    /// The last command, which may be a script whose commands come, with the number of its line.
    last: Option<(u64, Entry)>,
    /// The address of the client in whose transaction the last command was.
    in_transaction: Option<String>,
}

/// A connection.
#[derive(Default)]
struct Client {
    id: u64,
    name: Vec<u8>,
    /// What it has run since MULTI.
    transaction: Option<Vec<Child>>,
}

impl MonitorFile {
    /// Whether a file that begins with this line has the output of MONITOR.
    pub fn begin_with(line: &[u8]) -> bool {
        let line = line.trim_ascii();
        let line = line.strip_prefix(b"+").unwrap_or(line);
        let rest = line.trim_ascii_start();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        line == b"OK" || digits > 0 && rest[digits..].starts_with(b".")
    }

    /// Takes a line; returns the command before it, which is complete now, with the number of its line. The error says what
    /// is wrong.
    pub fn take(&mut self, number: u64, line: &[u8]) -> Result<Option<(u64, Item)>, String> {
        let line = line.trim_ascii();
        // What redis-cli prints first, and a connection without it gets.
        if matches!(line, b"OK" | b"+OK") {
            return Ok(None);
        }
        let MonitorLine { at, db, source, words, is_whole } = MonitorLine::parse(line).ok_or(EXPECTED)?;
        if !is_whole {
            return Err("its words are not quoted as MONITOR quotes them".to_owned());
        }
        let words = words.as_words().iter().map(<[u8]>::to_vec).collect();
        let MonitorSource::Client(address) = source else {
            self.add_called(db, words);
            return Ok(None);
        };
        let before = self.finish();
        self.add(number, at, db, String::from_utf8_lossy(address).into_owned(), words);
        Ok(before)
    }

    /// The last command, when no line follows.
    pub fn finish(&mut self) -> Option<(u64, Item)> {
        self.last.take().map(|(number, entry)| (number, Item::Command(Box::new(entry))))
    }

    /// A script has called a command.
    fn add_called(&mut self, db: u32, words: Vec<Vec<u8>>) {
        let transaction = self.in_transaction.as_ref().and_then(|address| self.clients.get_mut(address));
        let queued = transaction.and_then(|client| client.transaction.as_mut()?.last_mut());
        let children = match queued {
            Some(queued) => Some(&mut queued.children),
            None => self.last.as_mut().map(|(_, entry)| &mut entry.children),
        };
        // Of a script that ran when MONITOR began, nothing else is known.
        if let Some(children) = children {
            children.push(child(db, words));
        }
    }

    fn add(&mut self, number: u64, time: i64, db: u32, address: String, words: Vec<Vec<u8>>) {
        let is = |name: &str| words.first().is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()));
        let client = self.clients.entry(address.clone()).or_default();
        // A connection begins with HELLO: one that was seen before has ended, and its port is used again.
        if client.id == 0 || is("HELLO") && client.transaction.is_none() {
            self.ids += 1;
            *client = Client { id: self.ids, ..Client::default() };
        }
        self.in_transaction = None;
        let mut children = Vec::new();
        match &mut client.transaction {
            Some(transaction) if is("EXEC") || is("DISCARD") => {
                children = std::mem::take(transaction);
                client.transaction = None;
            }
            Some(transaction) => {
                transaction.push(child(db, words));
                self.in_transaction = Some(address);
                return;
            }
            None if is("MULTI") => client.transaction = Some(Vec::new()),
            None => {}
        }
        if let Some(name) = given_name(&words) {
            client.name = name.to_vec();
        }
        self.seq += 1;
        let entry = Entry {
            seq: self.seq,
            at: time,
            real: time,
            sent: None,
            order: EffectOrder::Total,
            duration: 0,
            held_after: None,
            client: client.id,
            name: client.name.clone(),
            address,
            process: None,
            node: None,
            db,
            words,
            words_missing: 0,
            reply: Vec::new(),
            reply_length: 0,
            outcome: Outcome::Answered,
            fault: None,
            gates: Vec::new(),
            children,
            children_missing: 0,
            are_children_unknown: false,
        };
        self.last = Some((number, entry));
    }
}

/// The name that a command gives its client.
pub(super) fn given_name(words: &[Vec<u8>]) -> Option<&[u8]> {
    let is = |at: usize, name: &str| words.get(at).is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()));
    if is(0, "CLIENT") && is(1, "SETNAME") {
        return words.get(2).map(Vec::as_slice);
    }
    if is(0, "RESET") {
        return Some(b"");
    }
    let named = (1..words.len()).find(|at| is(*at, "SETNAME")).filter(|_| is(0, "HELLO"))?;
    words.get(named + 1).map(Vec::as_slice)
}

fn child(db: u32, words: Vec<Vec<u8>>) -> Child {
    let (reply, children) = (Vec::new(), Vec::new());
    Child { db, words, words_missing: 0, reply, reply_length: 0, fault: None, children }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(text: &str) -> Vec<Entry> {
        let mut lines = MonitorFile::default();
        let mut items: Vec<Item> = Vec::new();
        for (number, line) in (1..).zip(text.lines()) {
            items.extend(lines.take(number, line.as_bytes()).unwrap().map(|(_, item)| item));
        }
        items.extend(lines.finish().map(|(_, item)| item));
        let entry = |item| if let Item::Command(entry) = item { *entry } else { panic!("{item:?}") };
        items.into_iter().map(entry).collect()
    }

    fn names(children: &[Child]) -> Vec<String> {
        children.iter().map(|child| String::from_utf8_lossy(&child.words[0]).into_owned()).collect()
    }

    #[test]
    fn a_line_has_a_time_a_database_an_address_and_words() {
        let line = r#"1339518083.107412 [3 unix:/run/a b.sock] "SET" "k\"\\\n\r\t\a\b\x01\xff" """#;
        let entry = entries(&format!("OK\n{line}")).remove(0);
        assert_eq!((entry.seq, entry.at, entry.db, entry.client), (1, 1_339_518_083_107_412, 3, 1));
        assert_eq!(entry.address, "unix:/run/a b.sock");
        assert_eq!(entry.words, [b"SET".to_vec(), b"k\"\\\n\r\t\x07\x08\x01\xff".to_vec(), Vec::new()]);
        assert_eq!(entries("+1.5 [0 [::1]:7] \"PING\"")[0].address, "[::1]:7");
    }

    #[test]
    fn scripts_and_transactions_have_the_commands_that_they_ran() {
        let all = entries(
            "1.0 [0 a:1] \"CLIENT\" \"SETNAME\" \"worker\"\n1.1 [0 a:1] \"MULTI\"\n1.2 [0 b:2] \"EVAL\" \"...\" \"0\"\n\
             1.2 [0 lua] \"GET\" \"k\"\n1.2 [0 lua] \"DEL\" \"k\"\n1.3 [0 a:1] \"SET\" \"k\" \"1\"\n\
             1.3 [0 a:1] \"EVAL\" \"...\" \"0\"\n1.3 [0 lua] \"INCR\" \"n\"\n1.3 [0 a:1] \"EXEC\"\n1.4 [0 b:2] \"PING\"",
        );
        let commands: Vec<_> = all.iter().map(|entry| String::from_utf8_lossy(&entry.words[0]).into_owned()).collect();
        assert_eq!(commands, ["CLIENT", "MULTI", "EVAL", "EXEC", "PING"]);
        assert_eq!(names(&all[2].children), ["GET", "DEL"]);
        assert_eq!(names(&all[3].children), ["SET", "EVAL"]);
        assert_eq!(names(&all[3].children[1].children), ["INCR"]);
        assert_eq!((all[3].name.as_slice(), all[4].name.as_slice()), (&b"worker"[..], &b""[..]));
        assert_eq!((all[3].client, all[4].client), (1, 2));
    }

    #[test]
    fn a_port_that_is_used_again_is_another_client() {
        let all = entries(
            "1.0 [0 a:1] \"HELLO\" \"3\"\n1.0 [0 a:1] \"PING\"\n1.1 [0 a:1] \"HELLO\" \"3\"\n1.2 [0 a:1] \"PING\"",
        );
        assert_eq!(all.iter().map(|entry| entry.client).collect::<Vec<_>>(), [1, 1, 2, 2]);
    }

    #[test]
    fn what_is_no_line_of_monitor_is_explained() {
        for (line, why) in [
            ("Error: Server closed the connection", "a line of MONITOR was expected"),
            ("1.0 [0 a:1] PING", "a line of MONITOR was expected"),
            ("1.0 [x a:1] \"PING\"", "a line of MONITOR was expected"),
            ("1.x [0 a:1] \"PING\"", "a line of MONITOR was expected"),
            ("1.0 [0 a:1] \"PING", "a line of MONITOR was expected"),
        ] {
            let error = MonitorFile::default().take(1, line.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
