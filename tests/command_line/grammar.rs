//! The grammar that all words of the command line share: help, `--flag value` and `--flag=value`, suggestions, error
//! texts, and directories of output files.

use std::fs;
use std::process::{Command, Output, Stdio};

use super::run::{BINARY, Folder, command, errors, out, said};

const SUBCOMMANDS: [&str; 5] = ["run", "explore", "audit", "report", "explain"];

/// Runs the program in a directory that holds only what the test has put there.
fn program(folder: &Folder, arguments: &[&str]) -> Output {
    Command::new(BINARY).args(arguments).current_dir(&folder.0).stdin(Stdio::null()).output().unwrap()
}

#[test]
fn every_help_comes_by_each_of_its_names() {
    let folder = Folder::new("help");
    let help = |arguments: &[&str]| {
        let output = program(&folder, arguments);
        assert_eq!((errors(&output).as_str(), output.status.code()), ("", Some(0)), "{arguments:?}");
        out(&output)
    };
    let general = help(&["--help"]);
    for arguments in [&["-h"][..], &["help"], &["help", "help"]] {
        assert_eq!(help(arguments), general, "{arguments:?}");
    }
    for word in SUBCOMMANDS {
        let text = help(&[word, "--help"]);
        assert_eq!(help(&["help", word]), text);
        assert_eq!(help(&[word, "-h"]), text);
        assert_eq!(help(&[word, "--help", "--nonsense"]), text);
        assert!(
            text.contains(&format!("redouble {word} ")) && general.contains(&format!("redouble {word} ")),
            "{text}"
        );
        assert!(text.contains("\nFlags:\n") && text.contains("\nExample:\n"), "{text}");
        assert!(text.contains("redouble help exit-statuses"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 90), "{text}");
    }
    assert!(help(&["help", "cli"]).starts_with("Usage: redis-cli "));
    let statuses = help(&["help", "exit-statuses"]);
    for word in SUBCOMMANDS {
        assert!(statuses.contains(&format!("\nredouble {word}\n")), "{statuses}");
    }
    let mut rows = statuses.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    assert!(rows.any(|row| row == "127 there is no such command"), "{statuses}");
    assert!(!statuses.contains("](") && !statuses.contains("|"), "{statuses}");
    assert!(general.contains("redouble help exit-statuses") && general.contains("redouble help"), "{general}");
}

#[test]
fn what_was_mistyped_is_told_with_what_was_probably_meant() {
    let folder = Folder::new("mistyped");
    fs::write(folder.text("journal"), "").unwrap();
    for (arguments, status, reason) in [
        // Words.
        (&["runn"][..], 1, "redouble: there is no file 'runn'; did you mean redouble run?"),
        (&["runn", "--report", "--", "true"], 1, "did you mean redouble run?"),
        (&["rnu", "--", "true"], 1, "did you mean redouble run?"),
        (&["exlpore", "--", "true"], 1, "did you mean redouble explore?"),
        (&["audti", "journal"], 1, "did you mean redouble audit?"),
        (&["Report", "journal"], 1, "did you mean redouble report?"),
        (&["halp"], 1, "did you mean redouble help?"),
        (&["help", "reprot"], 1, "redouble help: there is no 'reprot'; did you mean redouble help report?"),
        (
            &["help", "port"],
            1,
            "redouble help: there is no 'port'; there are run, explore, record, audit, report, explain, cli, exit-statuses",
        ),
        // Directives.
        (&["--prot", "6400"], 1, "Bad directive or wrong number of arguments\nDid you mean --port?\n"),
        (&["--prot=6400"], 1, "Did you mean --port?\n"),
        (&["--versoin"], 1, "Did you mean --version?\n"),
        (&["--report", "--", "true"], 1, "--report is a flag of redouble run\n"),
        (&["run", "--prot", "0", "--", "true"], 125, "in 'prot \"0\"'; did you mean --port?\n"),
        (&["explore", "--databsaes=4", "--", "true"], 125, "did you mean --databases?\n"),
        // Flags.
        (
            &["run", "--reprt", "--", "true"],
            125,
            "redouble run: -- was taken for the value of '--reprt', which is no flag of redouble run, and those of the \
             server have values; did you mean --report?\n",
        ),
        (&["run", "--reprt", "x", "--", "true"], 125, "in 'reprt \"x\"'; did you mean --report?\n"),
        (&["run", "--journal-uot=x", "--", "true"], 125, "did you mean --journal-out?\n"),
        (&["run", "--json", "x", "--", "true"], 125, "in 'json \"x\"'; --json is a flag of redouble audit\n"),
        (&["run", "--nonsense", "x", "--", "true"], 125, "in 'nonsense \"x\"'; see redouble run --help\n"),
        (&["explore", "--rnus", "5", "--", "true"], 125, "in 'rnus \"5\"'; did you mean --runs?\n"),
        (&["explore", "--sarch", "5", "--", "true"], 125, "in 'sarch \"5\"'; did you mean --sarif?\n"),
        (
            &["explore", "--sarch", "--", "true"],
            125,
            "taken for the value of '--sarch', which is no flag of redouble explore",
        ),
        (&["audit", "--lokcs=a", "journal"], 2, "redouble audit: there is no flag '--lokcs'; did you mean --locks?\n"),
        (&["audit", "--text", "journal"], 2, "there is no flag '--text'; --text is a flag of redouble report\n"),
        (&["audit", "-j", "journal"], 2, "there is no flag '-j'; see redouble audit --help\n"),
        (&["expalin"], 1, "did you mean redouble explain?"),
        (
            &["explain", "two-holder"],
            2,
            "redouble explain: there is no finding 'two-holder'; did you mean two-holders?\n",
        ),
        (&["explain", "nonsense"], 2, "there is no finding 'nonsense'; redouble explain lists all\n"),
        (&["explain", "--text"], 2, "there is no flag '--text'; --text is a flag of redouble report\n"),
        (&["report", "--txet", "journal"], 1, "redouble report: there is no flag '--txet'; did you mean --text?\n"),
    ] {
        let output = program(&folder, arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", errors(&output));
        assert!(errors(&output).contains(reason), "{arguments:?}: {}", errors(&output));
    }
}

#[test]
fn a_configuration_file_may_be_called_like_a_mistyped_word() {
    let folder = Folder::new("like-a-word");
    fs::write(folder.text("runn"), "prot 1\n").unwrap();
    let said = errors(&program(&folder, &["runn"]));
    assert!(said.contains("at line 1\n>>> 'prot 1'\n") && said.ends_with("Did you mean port?\n"), "{said}");
    assert!(!said.contains("redouble run"), "{said}");
    // A word that resembles nothing is a missing configuration file, without a suggestion.
    assert_eq!(errors(&program(&folder, &["redis.conf"])), "");
    assert_eq!(errors(&program(&folder, &["./rnu"])), "");
}

#[test]
fn values_stand_behind_their_flags_or_behind_an_equals_sign() {
    let folder = Folder::new("equals");
    fs::write(folder.text("known"), "* other:* it is a test\n").unwrap();
    let script = "redis-cli -u $REDIS_URL CONFIG GET databases; redis-cli -u $REDIS_URL CONFIG GET save";
    for flags in [
        &["--databases", "3", "--save", "900 1", "--requirepass", "a=b", "--port", "0"][..],
        &["--databases=3", "--save=900 1", "--requirepass=a=b", "--port=0"],
        &["--DATABASES=3", "--save 900 1", "--requirepass a=b"],
    ] {
        assert_eq!(
            said(flags, &script.replace("-u", "--no-auth-warning -u")),
            "databases\n3\nsave\n900 1\n",
            "{flags:?}"
        );
    }
    // An empty value is a value.
    assert_eq!(said(&["--save="], "redis-cli -u $REDIS_URL CONFIG GET save"), "save\n\n");
    // A flag that takes a value accepts a value that begins with a hyphen.
    let script = "redis-cli --no-auth-warning -a --databases=3 -u redis://$REDIS_HOST:$REDIS_PORT CONFIG GET databases";
    assert_eq!(said(&["--requirepass", "--databases=3"], script), "databases\n16\n");
    let journal = folder.text("j.jsonl");
    for flags in [
        ["--audit", "warn", "--locks", "l:*", "--not-locks", "o:*", "--allow", "known", "--journal-out", &journal]
            .as_slice(),
        &["--audit=warn", "--locks=l:*", "--not-locks=o:*", "--allow=known", &format!("--journal-out={journal}")],
    ] {
        let script = "redis-cli -u $REDIS_URL SET l:1 a NX >/dev/null";
        let mut run = command(flags, script);
        let output = run.current_dir(&folder.0).output().unwrap();
        assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
        assert!(fs::read_to_string(&journal).unwrap().contains("l:1"));
    }
    for flags in [
        &["--runs", "1", "--random", "1", "--seed", "1", "--settle", "1ms", "--clients", "1", "--limit", "20s"][..],
        &["--runs=1", "--random=1", "--seed=1", "--settle=1ms", "--clients=1", "--client=*", "--limit=20s", "--port=0"],
    ] {
        let arguments = [&["explore"][..], flags, &["--", "redis-cli", "-u", "redis://127.0.0.1:1", "PING"]].concat();
        let output = program(&folder, &arguments);
        let said = errors(&output);
        assert!(said.contains("order 1 fails") && output.status.code() == Some(1), "{said}");
        // The command line for a replay holds only the flags that the run depends on.
        let replay = said.lines().find(|line| line.contains("replay: ")).unwrap();
        let replayed = replay.contains("settle") && replay.contains("limit");
        assert!(replayed && !replay.contains("--runs") && !replay.contains("--random"), "{replay}");
    }
}

#[test]
fn a_value_that_is_not_understood_is_told_with_what_the_flag_takes() {
    let folder = Folder::new("values");
    fs::write(folder.text("journal"), "").unwrap();
    for (arguments, status, reason) in [
        (&["run", "--report=yes", "--", "true"][..], 125, "redouble run: --report takes no value; received 'yes'\n"),
        (&["run", "--port", "0", "--report", "yes", "--", "true"], 125, "--report takes no value; received 'yes'\n"),
        (&["run", "--report", "yes", "--", "true"], 125, "can't open config file"),
        (
            &["run", "--port=0", "--audit", "x.conf", "--", "true"],
            125,
            "--audit takes error or warn, or nothing; received 'x.conf'\n",
        ),
        (
            &["run", "--port=0", "--audit", "--junit", "a", "b", "--", "true"],
            125,
            "--junit takes one value; received another, 'b'\n",
        ),
        (&["run", "--audit=", "--", "true"], 125, "--audit takes error or warn, not ''\n"),
        (
            &["run", "--audit", "--junit", "--", "true"],
            125,
            "--junit takes a file, as in --junit audit.xml, not '--'\n",
        ),
        (&["run", "--audit", "--junit=", "--", "true"], 125, "--junit takes a file, as in --junit audit.xml, not ''\n"),
        (
            &["run", "--audit", "--locks"],
            125,
            "--locks takes a glob, as in --locks 'lock:*', and nothing stands behind it\n",
        ),
        (&["run", "--port", "x", "--", "true"], 125, "argument couldn't be parsed into an integer, in 'port \"x\"'\n"),
        (&["explore", "--runs=many", "--", "true"], 125, "redouble explore: --runs takes a number, not 'many'\n"),
        (
            &["explore", "--limit", "soon", "--", "true"],
            125,
            "--limit takes a duration such as 20ms or 1.5s, not 'soon'\n",
        ),
        (&["explore", "--replay", "--", "true"], 125, "--replay takes the token of an order, not '--'\n"),
        (&["explore", "--verbose=1", "--", "true"], 125, "--verbose takes no value; received '1'\n"),
        (&["explore", "--strict", "--", "true"], 125, "--strict"),
        (&["audit", "--audit=note", "journal"], 2, "redouble audit: --audit takes error or warn, not 'note'\n"),
        (&["audit", "--json=x", "journal"], 2, "--json takes no value; received 'x'\n"),
        (&["audit", "journal", "--level"], 2, "--level takes error or warn, and nothing stands behind it\n"),
        (
            &["report", "journal", "-o"],
            1,
            "redouble report: -o takes a file, as in -o report.html, and nothing stands behind it\n",
        ),
        (&["report", "journal", "--text", "--report-html", "x"], 1, "--report-html"),
    ] {
        let output = program(&folder, arguments);
        assert_eq!(
            (output.status.code(), out(&output).as_str()),
            (Some(status), ""),
            "{arguments:?}: {}",
            errors(&output)
        );
        assert!(errors(&output).contains(reason), "{arguments:?}: {}", errors(&output));
    }
}

#[test]
fn one_word_means_the_same_behind_every_word() {
    let folder = Folder::new("same-words");
    let script =
        "redis-cli -u $REDIS_URL SET lock:1 a NX >/dev/null; redis-cli -u $REDIS_URL SET lock:1 b NX >/dev/null";
    let flags = ["--audit=warn", "--locks=lock:*", "--journal-out=j.jsonl", "--report-html=run.html"];
    assert_eq!(command(&flags, script).current_dir(&folder.0).output().unwrap().status.code(), Some(3));
    for arguments in [
        &["audit", "--audit=warn", "--locks=lock:*", "j.jsonl"][..],
        &["audit", "j.jsonl", "--audit", "warn", "--locks", "lock:*"],
        &["audit", "--level=warn", "--locks=lock:*", "--", "j.jsonl"],
    ] {
        assert_eq!(program(&folder, arguments).status.code(), Some(3), "{arguments:?}");
    }
    assert_eq!(program(&folder, &["audit", "--locks=lock:*", "j.jsonl"]).status.code(), Some(0));
    for arguments in [
        &["report", "j.jsonl", "--locks=lock:*", "--report-html", "a.html"][..],
        &["report", "--report-html=b.html", "--locks", "lock:*", "--", "j.jsonl"],
        &["report", "j.jsonl", "-o=c.html"],
        &["report", "j.jsonl", "-o", "d.html"],
    ] {
        let output = program(&folder, arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", errors(&output));
    }
    for name in ["run.html", "a.html", "b.html", "c.html", "d.html"] {
        assert!(fs::read_to_string(folder.text(name)).unwrap().contains("lock:1"), "{name}");
    }
}

#[test]
fn directories_of_files_that_are_written_are_made() {
    let folder = Folder::new("directories");
    let flags = [
        "--audit=warn",
        "--junit=a/b/audit.xml",
        "--sarif=c/audit.sarif",
        "--journal-out=d/e/f/j.jsonl",
        "--report-html=g/r.html",
        "--port-file=h/i/port",
        "--pidfile=p/pid",
        "--logfile=l/m/log",
    ];
    let script = "cat h/i/port p/pid | grep -c .; redis-cli -u $REDIS_URL PING";
    let output = command(&flags, script).current_dir(&folder.0).output().unwrap();
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(0), "2\nPONG\n"), "{}", errors(&output));
    for name in ["a/b/audit.xml", "c/audit.sarif", "d/e/f/j.jsonl", "g/r.html", "l/m/log"] {
        assert!(folder.0.join(name).is_file(), "{name}");
    }
    let journal = "d/e/f/j.jsonl";
    assert_eq!(program(&folder, &["audit", journal, "--junit=q/x.xml", "--sarif", "r/x.sarif"]).status.code(), Some(0));
    assert_eq!(program(&folder, &["report", journal, "-o", "s/t/r.html"]).status.code(), Some(0));
    assert_eq!(program(&folder, &["report", journal, "--text", "-o", "s/u/r.txt"]).status.code(), Some(0));
    for name in ["q/x.xml", "r/x.sarif", "s/t/r.html", "s/u/r.txt"] {
        assert!(folder.0.join(name).is_file(), "{name}");
    }
    // Relative paths of a server's directives start at its `dir`; all others start at the current directory.
    fs::create_dir(folder.text("server")).unwrap();
    let flags = ["--dir=server", "--port-file=ports/port", "--journal-out=out/j.jsonl"];
    let output = command(&flags, "cat server/ports/port | grep -c .").current_dir(&folder.0).output().unwrap();
    assert_eq!((output.status.code(), out(&output).as_str()), (Some(0), "1\n"), "{}", errors(&output));
    assert!(folder.0.join("out/j.jsonl").is_file());
}
