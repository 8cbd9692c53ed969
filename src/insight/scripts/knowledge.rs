//! The texts of scripts that passed by, and what runs of them did.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use foldhash::fast::FixedState;
use sha1_smol::Sha1;

use super::inference::{ScriptInference, ScriptRequest, ScriptRun};
use super::known_digests::equivalent_of;
use crate::base::profile::Profile;
use crate::powers::{Entry, Outcome, ValueClass};
use crate::protocol::{OwnedWords, Protocol, Words, split_line};
use crate::spec::{CommandKind, ScriptCommand as Which, Table};

/// The most texts that are kept, and the most bytes of them. The oldest ones go first.
const MOST_TEXTS: usize = 2_000;
const MOST_BYTES: usize = 16 << 20;
/// The most libraries that are kept.
const MOST_LIBRARIES: usize = 200;

/// What is known of the scripts of one server.
pub struct ScriptKnowledge {
    commands: Table,
    inference: ScriptInference,
    texts: Texts,
    /// The source of libraries by name, newest last.
    libraries: Vec<(Vec<u8>, Arc<[u8]>)>,
}

/// Texts by their SHA-1.
#[derive(Default)]
struct Texts {
    by_digest: HashMap<[u8; 40], Arc<[u8]>, FixedState>,
    /// In the order in which they came.
    order: VecDeque<[u8; 40]>,
    bytes: usize,
}

/// A script's request with its reply, as a client sent and got it.
#[derive(Clone, Copy)]
pub struct ScriptCall<'r> {
    pub words: Words<'r>,
    pub db: u32,
    /// The whole reply.
    pub reply: &'r [u8],
    /// The client's protocol.
    pub protocol: Protocol,
    /// The commands that the script called, in their order, if MONITOR has shown them.
    pub calls: Option<&'r [OwnedWords]>,
}

impl ScriptKnowledge {
    pub fn new(profile: &Profile, commands: Table) -> Self {
        let inference = ScriptInference::new(profile, commands.clone());
        Self { commands, inference, texts: Texts::default(), libraries: Vec::new() }
    }

    /// Learns from a request what scripts there are: from EVAL, SCRIPT LOAD, FUNCTION LOAD and its kin. A request that was
    /// queued for EXEC counts when it is queued, and again with its reply inside EXEC's.
    pub fn note_command(&mut self, words: Words<'_>, reply: &[u8]) {
        let Some(name) = words.get(0) else { return };
        let is =
            |index: usize, text: &str| words.get(index).is_some_and(|word| word.eq_ignore_ascii_case(text.as_bytes()));
        if is(0, "SCRIPT") && is(1, "LOAD") {
            if let Some(text) = words.get(2) {
                self.texts.add(text);
            }
        } else if is(0, "FUNCTION") {
            self.note_libraries(words, reply);
        } else if let Some(Which::Eval { .. }) = self.which(name)
            && let Some(text) = words.get(1)
        {
            self.texts.add(text);
        }
    }

    /// What the script of a request did. The text of an EVAL is learnt as well.
    pub fn run_of(&mut self, call: &ScriptCall<'_>) -> ScriptRun {
        let (Some(which), Some(named)) = (call.words.get(0).and_then(|name| self.which(name)), call.words.get(1))
        else {
            return ScriptRun::Unknown;
        };
        let request = |source, is_function| ScriptRequest {
            words: call.words,
            source,
            is_function,
            db: call.db,
            reply: call.reply,
            protocol: call.protocol,
            calls: call.calls,
        };
        match which {
            Which::Eval { .. } => {
                self.texts.add(named);
                self.inference.infer(&request(named, false))
            }
            Which::EvalSha { .. } => match (self.texts.find(named), equivalent_of(named)) {
                (Some(source), _) => self.inference.infer(&request(&source, false)),
                (None, Some(source)) => self.inference.infer(&request(source, false)),
                (None, None) => self.inference.infer_without_text(call.reply),
            },
            Which::Function { .. } => {
                let names =
                    |source: &[u8]| memchr::memmem::find(&source.to_ascii_lowercase(), &named.to_ascii_lowercase());
                let mut sources = self.libraries.iter().rev().filter(|(_, source)| names(source).is_some());
                match (sources.next(), sources.next()) {
                    (Some((_, source)), None) => self.inference.infer(&request(source, true)),
                    // Which of several libraries has the function is found by running them.
                    (Some(first), Some(second)) => {
                        let known = [first, second].into_iter().chain(sources);
                        let mut runs = known.map(|(_, source)| self.inference.infer(&request(source, true)));
                        runs.find(|run| *run != ScriptRun::Unknown).unwrap_or(ScriptRun::Unknown)
                    }
                    (None, _) => self.inference.infer_without_text(call.reply),
                }
            }
        }
    }

    /// Fills in what the script of a recorded command did, if that is missing and can be told. Learns from all commands.
    pub fn complete(&mut self, entry: &mut Entry) {
        let is_named = |name: &str| entry.words.first().is_some_and(|word| word.eq_ignore_ascii_case(name.as_bytes()));
        let runs_script = entry.words.first().is_some_and(|name| self.which(name).is_some());
        if entry.words_missing > 0
            || entry.outcome == Outcome::NeverRan
            || !(runs_script || is_named("SCRIPT") || is_named("FUNCTION"))
        {
            return;
        }
        let words: OwnedWords = entry.words.iter().collect();
        self.note_command(words.as_words(), &entry.reply);
        let is_whole = entry.reply_length == entry.reply.len() as u64;
        let is_queued = entry.reply == b"+QUEUED\r\n";
        let is_answered =
            !is_queued && matches!(entry.outcome, Outcome::Answered | Outcome::Lost) && !entry.reply.is_empty();
        // A recording has hashes in place of arguments. Whoever wrote it had the arguments, and has tried this before.
        let has_hashes = entry.words.iter().any(|word| ValueClass::of_hashed(word).is_some());
        if !entry.are_children_unknown || !is_whole || !is_answered || has_hashes {
            return;
        }
        let protocol = if is_resp3(&entry.reply) { Protocol::Resp3 } else { Protocol::Resp2 };
        let call = ScriptCall { words: words.as_words(), db: entry.db, reply: &entry.reply, protocol, calls: None };
        if let Some(children) = self.run_of(&call).children() {
            entry.children = children;
            entry.are_children_unknown = false;
        }
    }

    fn which(&self, name: &[u8]) -> Option<Which> {
        match self.commands.find(name)?.kind {
            CommandKind::Script(which) => Some(which),
            _ => None,
        }
    }

    /// `FUNCTION LOAD [REPLACE] source`, `FUNCTION DELETE name`, `FUNCTION FLUSH`, `FUNCTION RESTORE …`
    fn note_libraries(&mut self, words: Words<'_>, reply: &[u8]) {
        let is = |text: &str| words.get(1).is_some_and(|word| word.eq_ignore_ascii_case(text.as_bytes()));
        if matches!(reply.first(), None | Some(b'-')) || reply.starts_with(b"+QUEUED") {
            return;
        }
        if is("LOAD") {
            let Some(source) = words.iter().last() else { return };
            let Some(name) = library_name(source) else { return };
            self.libraries.retain(|(known, _)| *known != name);
            if self.libraries.len() >= MOST_LIBRARIES {
                self.libraries.remove(0);
            }
            if source.len() <= MOST_BYTES / MOST_LIBRARIES {
                self.libraries.push((name, source.into()));
            }
        } else if is("DELETE") {
            self.libraries.retain(|(known, _)| words.get(2) != Some(known));
        } else if is("FLUSH") || is("RESTORE") {
            self.libraries.clear();
        }
    }
}

impl Texts {
    fn add(&mut self, text: &[u8]) {
        let digest = digest(text);
        if text.len() > MOST_BYTES || self.by_digest.contains_key(&digest) {
            return;
        }
        self.by_digest.insert(digest, text.into());
        self.order.push_back(digest);
        self.bytes += text.len();
        while self.order.len() > MOST_TEXTS || self.bytes > MOST_BYTES {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= self.by_digest.remove(&oldest).map_or(0, |text| text.len());
        }
    }

    /// A text by its SHA-1, in any case.
    fn find(&self, digest: &[u8]) -> Option<Arc<[u8]>> {
        let mut digest = <[u8; 40]>::try_from(digest).ok()?;
        digest.make_ascii_lowercase();
        self.by_digest.get(&digest).cloned()
    }
}

/// Whether a reply can only be one of RESP3. What both protocols write alike says nothing, and needs no answer.
fn is_resp3(reply: &[u8]) -> bool {
    matches!(reply.first(), Some(b'_' | b'%' | b'~' | b'#' | b',' | b'(' | b'='))
        || [b"\r\n_", b"\r\n%", b"\r\n~"].iter().any(|kind| memchr::memmem::find(reply, *kind).is_some())
}

fn digest(text: &[u8]) -> [u8; 40] {
    let mut digest = [0; 40];
    digest.copy_from_slice(Sha1::from(text).digest().to_string().as_bytes());
    digest
}

/// The name in the first line of a library.
fn library_name(source: &[u8]) -> Option<Vec<u8>> {
    let line = source.split(|byte| *byte == b'\n').next()?;
    split_line(line)?.iter().find_map(|word| word.strip_prefix(b"name=").map(<[u8]>::to_vec))
}
