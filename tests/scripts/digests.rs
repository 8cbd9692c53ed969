//! Scripts that are known by their SHA-1 alone.

use std::process::Command;

use redouble::Profile;
use redouble::internals::{KNOWN_DIGESTS, OwnedWords, Protocol, ScriptCall, ScriptKnowledge, ScriptRun, command_table};
use sha1_smol::Sha1;

use crate::support::wire::{Frame, Wire};
use crate::support::{address, spawn_frozen};

fn run(knowledge: &mut ScriptKnowledge, words: &[&str], reply: &str) -> ScriptRun {
    let words: OwnedWords = words.iter().collect();
    let call =
        ScriptCall { words: words.as_words(), db: 0, reply: reply.as_bytes(), protocol: Protocol::Resp2, calls: None };
    knowledge.run_of(&call)
}

fn commands(run: &ScriptRun) -> Vec<String> {
    let ScriptRun::Known(commands) = run else { panic!("{run:?}") };
    let text =
        |word: &Option<Vec<u8>>| word.as_ref().map_or("?".into(), |word| String::from_utf8_lossy(word).into_owned());
    commands.iter().map(|command| command.words.iter().map(text).collect::<Vec<_>>().join(" ")).collect()
}

const RELEASE: &str = "c3f8721cbb97f72bc19e972846bd7aaf91901658";

#[test]
fn a_release_whose_text_was_loaded_before_anybody_looked_is_known() {
    let mut knowledge = ScriptKnowledge::new(&Profile::default(), command_table());
    let released = run(&mut knowledge, &["EVALSHA", RELEASE, "1", "lock", "mine"], ":1\r\n");
    assert_eq!(commands(&released), ["get lock", "del lock"]);
    let refused = run(&mut knowledge, &["evalsha", &RELEASE.to_uppercase(), "1", "lock", "mine"], ":0\r\n");
    assert_eq!(commands(&refused), ["get lock"]);
    let unknown = run(&mut knowledge, &["EVALSHA", &"a".repeat(40), "1", "lock", "mine"], ":1\r\n");
    assert_eq!(unknown, ScriptRun::Unknown);
    let missing = "-NOSCRIPT No matching script. Please use EVAL.\r\n";
    let never_ran = run(&mut knowledge, &["EVALSHA", &"a".repeat(40), "1", "lock", "mine"], missing);
    assert_eq!(never_ran, ScriptRun::Known(Vec::new()));
}

#[test]
fn a_script_that_was_loaded_while_we_looked_is_known_by_its_digest() {
    let mut knowledge = ScriptKnowledge::new(&Profile::default(), command_table());
    let text = "if redis.call('get', KEYS[1]) ~= ARGV[1] then return 7 end redis.call('persist', KEYS[1]) return 8";
    let digest = Sha1::from(text).digest().to_string();
    let words: OwnedWords = ["script", "load", text].iter().collect();
    knowledge.note_command(words.as_words(), b"+QUEUED\r\n");
    let kept = run(&mut knowledge, &["EVALSHA_RO", &digest, "1", "lock", "mine"], ":7\r\n");
    assert_eq!(commands(&kept), ["get lock"]);
}

#[test]
fn a_function_is_known_by_the_library_that_was_loaded() {
    let mut knowledge = ScriptKnowledge::new(&Profile::default(), command_table());
    let library = "#!lua name=locks\nlocal function mine(key, token) return redis.call('get', key) == token end\n\
        redis.register_function('release', function(keys, args) if mine(keys[1], args[1]) then return redis.call('del', keys[1]) \
        end return 0 end)\nredis.register_function{function_name = 'drop', callback = function(keys) return redis.call('unlink', \
        keys[1]) end}";
    let words: OwnedWords = ["FUNCTION", "LOAD", library].iter().collect();
    knowledge.note_command(words.as_words(), b"$5\r\nlocks\r\n");
    let released = run(&mut knowledge, &["FCALL", "Release", "1", "lock", "mine"], ":1\r\n");
    assert_eq!(commands(&released), ["get lock", "del lock"]);
    assert_eq!(commands(&run(&mut knowledge, &["FCALL", "drop", "1", "lock"], ":1\r\n")), ["unlink lock"]);
    let words: OwnedWords = ["FUNCTION", "FLUSH"].iter().collect();
    knowledge.note_command(words.as_words(), b"+OK\r\n");
    assert_eq!(run(&mut knowledge, &["FCALL", "drop", "1", "lock"], ":1\r\n"), ScriptRun::Unknown);
}

/// Prints the scripts in the texts of some Python packages, in hexadecimal digits.
const PYTHON_SCRIPTS: &str = "
import ast, glob, os, sys
for path in glob.glob(os.path.join(sys.argv[1], '**', '*.py'), recursive=True):
    for node in ast.walk(ast.parse(open(path, encoding='utf-8').read())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and 'redis.call' in node.value:
            print(node.value.encode().hex())";

/// The same of Node packages, whose scripts are template strings.
const NODE_SCRIPTS: &str = r"
const fs = require('fs'), path = require('path');
for (const file of fs.readdirSync(process.argv[1], {recursive: true})) {
  if (!file.endsWith('.js')) continue;
  const text = fs.readFileSync(path.join(process.argv[1], file), 'utf8');
  for (const [, script] of text.matchAll(/`([^`]*redis\.call[^`]*)`/g)) console.log(Buffer.from(script).toString('hex'));
}";

const PYTHON_PACKAGES: [&str; 5] =
    ["redis==6.4.0", "pottery==3.0.1", "aioredlock==0.7.3", "redlock-ng==2.0.4", "valkey==6.2.0"];
const NODE_PACKAGES: [&str; 2] = ["redlock@4.2.0", "redlock@5.0.0-beta.2"];

fn output(program: &str, arguments: &[&str], folder: &std::path::Path) -> String {
    let output = Command::new(program).args(arguments).current_dir(folder).output().expect("the program starts");
    assert!(output.status.success(), "{program} {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// All scripts of the packages.
fn texts() -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("digests");
    std::fs::create_dir_all(&folder).expect("a folder");
    let mut found = String::new();
    for package in PYTHON_PACKAGES {
        output("pip", &["install", "--quiet", "--no-deps", "--upgrade", "--target", "python", package], &folder);
        found += &output("python3", &["-c", PYTHON_SCRIPTS, "python"], &folder);
    }
    for package in NODE_PACKAGES {
        let archive = output("npm", &["pack", "--silent", package], &folder);
        output("tar", &["xzf", archive.trim()], &folder);
        found += &output("node", &["-e", NODE_SCRIPTS, "package"], &folder);
    }
    let byte = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).expect("digits"), 16).expect("a byte");
    found.lines().map(|line| line.as_bytes().chunks(2).map(byte).collect()).collect()
}

/// What a script does to some data: its reply, and the data afterwards.
fn effect(client: &mut Wire, text: &[u8], data: &[&str], keys: &str) -> (Frame, Vec<Frame>) {
    client.ask("FLUSHALL");
    data.iter().for_each(|command| drop(client.ask(command)));
    let count = keys.split(' ').count().to_string();
    let words: Vec<&[u8]> =
        [b"EVAL", text, count.as_bytes()].into_iter().chain(keys.split(' ').map(str::as_bytes)).collect();
    let reply = client.call(&[words.as_slice(), &[b"mine", b"9000", b"0"]].concat());
    let reply = if reply.is_error() { Frame::error("an error") } else { reply };
    let after = ["DUMP lock", "PTTL lock", "DUMP second", "PTTL second"].map(|question| client.ask(question));
    (reply, after.to_vec())
}

#[test]
#[ignore = "installs packages: `make locks`"]
fn the_digests_are_those_of_the_libraries_and_their_scripts_do_the_same() {
    let (texts, server) = (texts(), spawn_frozen());
    let mut client = Wire::connect(address(&server));
    for (digest, ours, library) in KNOWN_DIGESTS {
        let text = texts.iter().find(|text| Sha1::from(text).digest().to_string() == *digest);
        let text = text.unwrap_or_else(|| panic!("{library} has no script {digest}"));
        for data in [
            &[][..],
            &["SET lock mine PX 5000", "SET second mine PX 5000"],
            &["SET lock mine"],
            &["SET lock theirs PX 5000"],
            &["SET second theirs"],
            &["HSET lock a b"],
        ] {
            for keys in ["lock", "lock second"] {
                let expected = effect(&mut client, text, data, keys);
                assert_eq!(
                    effect(&mut client, ours.as_bytes(), data, keys),
                    expected,
                    "{library} {digest} on {data:?}"
                );
            }
        }
    }
}
