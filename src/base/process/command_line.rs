//! A process's command line as people are shown it: short, on one line, without secrets.

use crate::base::text::printable;

/// How many letters are shown of the whole line, and of one argument.
const LONGEST: usize = 80;
const LONGEST_WORD: usize = 40;
const REST: &str = "...";
const HIDDEN: &str = "***";

/// Parts of the names of options whose value is a secret.
const SECRET_NAMES: [&str; 10] =
    ["pass", "secret", "token", "auth", "credential", "api-key", "api_key", "apikey", "private-key", "dsn"];

/// How the names of scripts end.
const SCRIPTS: [&str; 14] =
    ["py", "js", "mjs", "cjs", "ts", "rb", "php", "pl", "sh", "lua", "jar", "exs", "go", "bash"];

/// A command line as the kernel has it, each word with a NUL behind it. The program and what it runs are shown without
/// their directories. Empty if there is none.
pub fn shown(bytes: &[u8]) -> String {
    let end = bytes.iter().rposition(|byte| !matches!(byte, 0 | b' ')).map_or(0, |last| last + 1);
    let text = String::from_utf8_lossy(&bytes[..end]);
    let mut words: Vec<&str> = text.split('\0').collect();
    // A program that sets its own title has one word with spaces.
    if let [title] = words[..] {
        words = title.split(' ').filter(|word| !word.is_empty()).collect();
    }
    let mut line = String::new();
    let mut hides = Hides::Nothing;
    let mut is_program_shown = false;
    for (place, word) in words.into_iter().enumerate() {
        let (word, next) = without_secret(word, hides, place);
        hides = next;
        let is_option = word.starts_with('-') && place > 0;
        // The program, and the first argument that is no option: what an interpreter runs.
        let is_path = place == 0 || !is_option && !is_program_shown;
        is_program_shown |= place > 0 && !is_option;
        let word = if is_path { file_name(&word) } else { &word };
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(&shortened(&printable(word), LONGEST_WORD));
        if line.chars().count() > LONGEST {
            break;
        }
    }
    shortened(&line, LONGEST)
}

/// A line as it is shown, with the name of the program and of what it runs alone: arguments can be data.
pub fn without_arguments(line: &str) -> String {
    let mut words = line.split(' ');
    let program = words.next().unwrap_or_default();
    match words.find(|word| is_script(word)) {
        Some(script) => format!("{program} {script}"),
        None => program.to_owned(),
    }
}

fn is_script(word: &str) -> bool {
    let ending = word.rsplit_once('.').filter(|(name, _)| !name.is_empty() && !word.contains(['=', ':', '/', '@']));
    ending.is_some_and(|(_, ending)| SCRIPTS.contains(&ending))
}

/// What is hidden of the words that follow.
#[derive(Clone, Copy)]
enum Hides {
    Nothing,
    /// The next word.
    Next,
    /// All of them.
    All,
}

/// A word without its secret, and what follows from it for the next words.
fn without_secret(word: &str, hides: Hides, place: usize) -> (String, Hides) {
    match hides {
        Hides::All => return (HIDDEN.to_owned(), Hides::All),
        Hides::Next => return (HIDDEN.to_owned(), Hides::Nothing),
        Hides::Nothing => {}
    }
    if place == 0 {
        return (word.to_owned(), Hides::Nothing);
    }
    // AUTH, HELLO 3 AUTH, ACL SETUSER, CONFIG SET requirepass and their like, as arguments of a command-line client.
    if ["auth", "setuser", "requirepass", "masterauth"].iter().any(|secret| word.eq_ignore_ascii_case(secret)) {
        return (word.to_owned(), Hides::All);
    }
    if word == "-a" {
        return (word.to_owned(), Hides::Next);
    }
    let name = word.split('=').next().unwrap_or_default();
    let lower = name.to_ascii_lowercase();
    let is_secret = SECRET_NAMES.iter().any(|secret| lower.contains(secret));
    // `--password=x` and `PASSWORD=x`; `--password x`.
    if is_secret && !name.contains(char::is_whitespace) {
        if word.len() > name.len() {
            return (format!("{name}={HIDDEN}"), Hides::Nothing);
        }
        if name.starts_with('-') {
            return (word.to_owned(), Hides::Next);
        }
    }
    (without_credentials(word), Hides::Nothing)
}

/// A word without what stands in front of the host in a URL.
fn without_credentials(word: &str) -> String {
    let mut shown = String::with_capacity(word.len());
    let mut rest = word;
    while let Some(at) = rest.find("://") {
        let (head, tail) = rest.split_at(at + 3);
        shown.push_str(head);
        let end = tail.find(|letter: char| matches!(letter, '/' | '?' | '#' | '"' | '\'') || letter.is_whitespace());
        let authority = &tail[..end.unwrap_or(tail.len())];
        rest = match authority.rfind('@') {
            Some(host) => {
                shown.push_str(HIDDEN);
                &tail[host..]
            }
            None => tail,
        };
    }
    shown.push_str(rest);
    shown
}

fn file_name(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some((folder, name)) if !name.is_empty() && !folder.contains("://") && !path.contains(' ') => name,
        _ => path,
    }
}

fn shortened(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most - REST.len()).collect();
    kept + REST
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(words: &[&str]) -> String {
        let bytes: Vec<u8> = words.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect();
        shown(&bytes)
    }

    #[test]
    fn the_program_and_what_it_runs_are_shown_without_their_directories() {
        assert_eq!(line(&["/usr/bin/python3", "-u", "/srv/app/worker.py", "/data/a"]), "python3 -u worker.py /data/a");
        assert_eq!(line(&["redis-cli", "-p", "7000", "SET", "a", "b"]), "redis-cli -p 7000 SET a b");
        assert_eq!(shown(b"sidekiq 7.1 app [0 of 5 busy]\0\0\0"), "sidekiq 7.1 app [0 of 5 busy]");
        assert_eq!(shown(b""), "");
    }

    #[test]
    fn arguments_are_left_out_where_values_are() {
        for (line, name) in [
            ("python3 -u worker.py alice", "python3 worker.py"),
            ("redis-cli -p 7000 SET name alice", "redis-cli"),
            ("node --inspect app.mjs", "node app.mjs"),
            ("worker alice@example.py", "worker"),
            ("", ""),
        ] {
            assert_eq!(without_arguments(line), name);
        }
    }

    #[test]
    fn secrets_are_hidden_wherever_they_stand() {
        for words in [
            &["redis-cli", "-a", "hush", "PING"][..],
            &["redis-cli", "--pass", "hush"],
            &["worker", "--password=hush"],
            &["worker", "--redis-token", "hush"],
            &["env", "REDIS_PASSWORD=hush"],
            &["worker", "redis://user:hush@10.0.0.1:6379/0"],
            &["worker", "--url=rediss://:hush@host"],
            &["worker", "redis://u:a@hush@host"],
            &["redis-cli", "AUTH", "hush"],
            &["redis-cli", "HELLO", "3", "AUTH", "default", "hush"],
            &["redis-cli", "ACL", "SETUSER", "bob", ">hush"],
            &["redis-cli", "CONFIG", "SET", "requirepass", "hush"],
        ] {
            let shown = line(words);
            assert!(!shown.contains("hush") && shown.contains(HIDDEN), "{shown}");
        }
        assert_eq!(line(&["w", "redis://user:pw@host:1/0"]), "w redis://***@host:1/0");
        assert_eq!(shown(b"worker --password hush\0"), "worker --password ***");
    }

    #[test]
    fn a_line_is_short_and_obeyed_by_no_terminal() {
        let long = line(&["python", "-c", &"import redis\n".repeat(50), &"x".repeat(500), &"y".repeat(500)]);
        assert!(long.chars().count() <= LONGEST && long.ends_with(REST), "{long}");
        assert!(long.starts_with("python -c import redis\\nimport redis\\n"), "{long}");
        assert_eq!(line(&["a", "\u{1b}[31m"]), "a \\u{1b}[31m");
    }
}
