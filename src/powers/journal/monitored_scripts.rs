//! Which commands a script called, as MONITOR shows them.
//!
//! A server feeds the line of EVAL, EVALSHA or FCALL, then those of the commands that the script calls, each with the source
//! `lua`; then what follows. While a script is slow, lines of other clients can stand between them (SCRIPT KILL, HELLO), but
//! never another script. So a script's commands are complete with the next line of any other script or, as a server that is
//! idle feeds none, with the line of a PING that is sent to it behind the script's reply.

use std::collections::{HashMap, VecDeque};

use foldhash::fast::FixedState;

use super::monitor_lines::{MonitorLine, MonitorSource};
use crate::protocol::{OwnedWords, Words};

/// The most scripts of one client that are kept while it is watched, the most commands of one script, and their bytes.
const MOST_SCRIPTS: usize = 10_000;
const MOST_CALLS: usize = 10_000;
const MOST_BYTES: usize = 16 << 20;

/// The scripts of clients, in the order in which they ran.
#[derive(Default)]
pub struct MonitoredScripts {
    /// Of the clients that are watched, by address.
    scripts: HashMap<Box<[u8]>, VecDeque<MonitoredScript>, FixedState>,
    /// The client whose script runs, or was the last one.
    running: Option<Box<[u8]>>,
    bytes: usize,
}

/// A script that ran, with the commands that it called.
struct MonitoredScript {
    words: OwnedWords,
    calls: Vec<OwnedWords>,
    /// Not everything of it was kept or shown.
    is_cut: bool,
}

impl MonitoredScript {
    fn size(&self) -> usize {
        self.words.size() + self.calls.iter().map(OwnedWords::size).sum::<usize>()
    }
}

impl MonitoredScripts {
    /// Keeps the scripts of a client from now on, until they are taken. Its address is the one that the server sees.
    pub fn watch(&mut self, address: &[u8]) {
        self.scripts.entry(address.into()).or_default();
    }

    /// Keeps nothing more of a client.
    pub fn forget(&mut self, address: &[u8]) {
        drop(self.end_watch(address));
    }

    fn end_watch(&mut self, address: &[u8]) -> VecDeque<MonitoredScript> {
        let scripts = self.scripts.remove(address).unwrap_or_default();
        self.bytes -= scripts.iter().map(MonitoredScript::size).sum::<usize>();
        if self.running.as_deref() == Some(address) {
            self.running = None;
        }
        scripts
    }

    /// Lines were missed: what was kept may lack its end.
    pub fn begin_anew(&mut self) {
        self.scripts.values_mut().for_each(VecDeque::clear);
        (self.running, self.bytes) = (None, 0);
    }

    /// Takes a line. `runs_script` says whether a command runs a script.
    pub fn add(&mut self, line: MonitorLine<'_>, runs_script: impl FnOnce(Words<'_>) -> bool) {
        match line.source {
            MonitorSource::Script => {
                let script = self.running.as_ref().and_then(|client| self.scripts.get_mut(client)?.back_mut());
                let Some(script) = script else { return };
                let size = line.words.size();
                if script.calls.len() < MOST_CALLS && self.bytes + size <= MOST_BYTES {
                    script.is_cut |= !line.is_whole;
                    script.calls.push(line.words);
                    self.bytes += size;
                } else {
                    script.is_cut = true;
                }
            }
            MonitorSource::Client(address) if runs_script(line.words.as_words()) => {
                self.running = None;
                let Some(scripts) = self.scripts.get_mut(address) else { return };
                let script = MonitoredScript { words: line.words, calls: Vec::new(), is_cut: !line.is_whole };
                self.bytes += script.size();
                scripts.push_back(script);
                self.running = Some(address.into());
                while scripts.len() > MOST_SCRIPTS || self.bytes > MOST_BYTES && scripts.len() > 1 {
                    self.bytes -= scripts.pop_front().map_or(0, |oldest| oldest.size());
                }
            }
            MonitorSource::Client(_) => {}
        }
    }

    /// The commands that the last scripts of a client called, which these requests ran one after the other. The client is
    /// not watched any more. `None` for one that was not shown, or not all of it.
    pub fn take(&mut self, address: &[u8], requests: &[Words<'_>]) -> Vec<Option<Vec<OwnedWords>>> {
        let mut shown = self.end_watch(address);
        // From the last one: in front there can be one that nobody has waited for.
        let mut calls: Vec<_> = requests
            .iter()
            .rev()
            .map(|request| {
                let is_last = shown.back().is_some_and(|script| script.words.as_words().iter().eq(request.iter()));
                let script = if is_last { shown.pop_back()? } else { return None };
                (!script.is_cut).then_some(script.calls)
            })
            .collect();
        calls.reverse();
        calls
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(scripts: &mut MonitoredScripts, lines: &str) {
        for line in lines.lines() {
            let line = MonitorLine::parse(line.trim().as_bytes()).unwrap();
            scripts.add(line, |words| words.get(0).is_some_and(|name| name.starts_with(b"EVAL")));
        }
    }

    fn taken(scripts: &mut MonitoredScripts, address: &str, requests: &[&str]) -> Vec<Option<Vec<String>>> {
        let requests: Vec<OwnedWords> = requests.iter().map(|request| request.split(' ').collect()).collect();
        let requests: Vec<Words<'_>> = requests.iter().map(OwnedWords::as_words).collect();
        let text = |call: &OwnedWords| {
            let words = call.as_words();
            words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>().join(" ")
        };
        let calls = scripts.take(address.as_bytes(), &requests);
        calls.into_iter().map(|calls| Some(calls?.iter().map(text).collect())).collect()
    }

    fn known(calls: &[&str]) -> Option<Vec<String>> {
        Some(calls.iter().map(|call| (*call).to_owned()).collect())
    }

    #[test]
    fn each_script_has_the_commands_that_it_called() {
        let mut scripts = MonitoredScripts::default();
        scripts.watch(b"a:1");
        scripts.watch(b"b:2");
        fed(
            &mut scripts,
            r#"1.0 [0 a:1] "EVAL" "x" "0"
               1.0 [0 lua] "get" "k"
               1.0 [0 lua] "del" "k"
               1.1 [0 b:2] "EVAL" "y" "0"
               1.1 [0 b:2] "HELLO"
               1.1 [0 lua] "set" "k" "1"
               1.2 [0 c:3] "EVAL" "z" "0"
               1.2 [0 lua] "flushall"
               1.3 [0 a:1] "EVAL" "x" "0"
               1.4 [0 a:1] "PING""#,
        );
        assert_eq!(taken(&mut scripts, "b:2", &["EVAL y 0"]), [known(&["set k 1"])]);
        assert_eq!(taken(&mut scripts, "a:1", &["EVAL x 0", "EVAL x 0"]), [known(&["get k", "del k"]), known(&[])]);
        assert_eq!(taken(&mut scripts, "a:1", &["EVAL x 0"]), [None]);
        assert_eq!(taken(&mut scripts, "c:3", &["EVAL z 0"]), [None]);
        assert_eq!(scripts.bytes, 0);
    }

    #[test]
    fn a_script_that_nobody_waited_for_is_not_taken_for_the_next_one() {
        let mut scripts = MonitoredScripts::default();
        scripts.watch(b"a:1");
        fed(
            &mut scripts,
            "1.0 [0 a:1] \"EVAL\" \"x\" \"0\"\n1.0 [0 lua] \"del\" \"k\"\n1.1 [0 a:1] \"EVAL\" \"x\" \"0\"",
        );
        assert_eq!(taken(&mut scripts, "a:1", &["EVAL x 0"]), [known(&[])]);
    }

    #[test]
    fn what_was_not_shown_whole_is_not_known() {
        let mut scripts = MonitoredScripts::default();
        scripts.watch(b"a:1");
        fed(&mut scripts, "1.0 [0 a:1] \"EVAL\" \"x\" \"0\"\n1.0 [0 lua] \"set\" \"k\" \"cut");
        fed(&mut scripts, "1.0 [0 a:1] \"EVAL\" \"y\" \"0\"");
        assert_eq!(taken(&mut scripts, "a:1", &["EVAL x 0", "EVAL y 0"]), [None, known(&[])]);
        scripts.watch(b"a:1");
        fed(&mut scripts, "1.0 [0 a:1] \"EVAL\" \"y\" \"0\"\n1.0 [0 lua] \"del\" \"k\"");
        scripts.begin_anew();
        fed(&mut scripts, "1.0 [0 lua] \"del\" \"l\"");
        assert_eq!(taken(&mut scripts, "a:1", &["EVAL y 0"]), [None]);
        assert_eq!(scripts.bytes, 0);
    }
}
