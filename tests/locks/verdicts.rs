//! Parses the output of test runners.

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    Passed,
    Failed,
    Skipped,
}

/// The tests that a runner reported, with their results.
#[derive(Default)]
pub struct Verdicts(Vec<(String, Verdict)>);

impl Verdicts {
    /// Parses the summary of `pytest -rA`, which has a line for each test.
    pub fn of_pytest(output: &str) -> Self {
        let mut verdicts = Self::default();
        let summary = output.rsplit_once("= short test summary info =").map_or("", |(_, summary)| summary);
        for line in summary.lines() {
            let Some((word, rest)) = line.split_once(' ') else { continue };
            let name = rest.split(" - ").next().unwrap_or(rest);
            match word {
                "PASSED" | "XPASS" => verdicts.add(name, Verdict::Passed),
                "FAILED" | "ERROR" => verdicts.add(name, Verdict::Failed),
                "XFAIL" => verdicts.add(name, Verdict::Skipped),
                // `SKIPPED [3] file.py:12: why` counts three tests without names.
                "SKIPPED" => {
                    let (count, place) = rest.trim_start_matches('[').split_once("] ").unwrap_or(("1", rest));
                    for _ in 0..count.parse().unwrap_or(1) {
                        verdicts.add(place, Verdict::Skipped);
                    }
                }
                _ => {}
            }
        }
        verdicts
    }

    /// Parses the Test Anything Protocol, which mocha can print.
    pub fn of_tap(output: &str) -> Self {
        let mut verdicts = Self::default();
        for line in output.lines() {
            let (verdict, rest) = match (line.strip_prefix("ok "), line.strip_prefix("not ok ")) {
                (Some(rest), _) => (Verdict::Passed, rest),
                (_, Some(rest)) => (Verdict::Failed, rest),
                _ => continue,
            };
            let Some((_, name)) = rest.split_once(' ') else { continue };
            match name.split_once(" # SKIP") {
                Some((name, _)) => verdicts.add(name, Verdict::Skipped),
                None => verdicts.add(name, verdict),
            }
        }
        verdicts
    }

    /// Parses the output of `cargo test`.
    pub fn of_libtest(output: &str) -> Self {
        let mut verdicts = Self::default();
        for line in output.lines() {
            let Some((name, end)) = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... ")) else {
                continue;
            };
            match end.split(',').next().unwrap_or(end) {
                "ok" => verdicts.add(name, Verdict::Passed),
                "FAILED" => verdicts.add(name, Verdict::Failed),
                "ignored" => verdicts.add(name, Verdict::Skipped),
                _ => {}
            }
        }
        verdicts
    }

    /// Parses the output of Redis's own suite.
    pub fn of_tcl(output: &str) -> Self {
        let mut verdicts = Self::default();
        for line in output.lines() {
            let line = without_colours(line);
            if let Some(rest) = line.strip_prefix("[ok]: ") {
                // ` (12 ms)` follows the name.
                verdicts.add(rest.rsplit_once(" (").map_or(rest, |(name, _)| name), Verdict::Passed);
            } else if let Some((name, _)) = line.strip_prefix("[err]: ").and_then(|rest| rest.rsplit_once(" in tests/"))
            {
                verdicts.add(name, Verdict::Failed);
            }
        }
        verdicts
    }

    /// Parses the output of hiredis's test program: `#07 What it does: PASSED`, with colours.
    pub fn of_hiredis(output: &str) -> Self {
        let mut verdicts = Self::default();
        for line in output.lines() {
            let line = without_colours(line);
            let Some((name, verdict)) = line.strip_prefix('#').and_then(|rest| rest.rsplit_once(": ")) else {
                continue;
            };
            let name = name.split_once(' ').map_or(name, |(_, name)| name);
            match verdict {
                "PASSED" => verdicts.add(name, Verdict::Passed),
                "SKIPPED" => verdicts.add(name, Verdict::Skipped),
                verdict if verdict.starts_with("FAILED") => verdicts.add(name, Verdict::Failed),
                _ => {}
            }
        }
        verdicts
    }

    fn add(&mut self, name: &str, verdict: Verdict) {
        self.0.push((name.trim().to_owned(), verdict));
    }

    pub fn count(&self) -> usize {
        self.0.len()
    }

    pub fn passed(&self) -> usize {
        self.named(Verdict::Passed).count()
    }

    /// Returns the tests with this result, in order.
    pub fn named(&self, verdict: Verdict) -> impl Iterator<Item = &str> {
        self.0.iter().filter(move |(_, found)| *found == verdict).map(|(name, _)| name.as_str())
    }
}

/// A line without the codes that colour it in a terminal.
fn without_colours(line: &str) -> String {
    let mut pieces = line.split('\x1b');
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |text, piece| text + piece.split_once('m').map_or("", |(_, rest)| rest))
}

/// Checks the parsers. This binary has no test harness, so it calls this before it relies on them.
pub fn check_readers() {
    let pytest = Verdicts::of_pytest(
        "PASSED by somebody's print\n== short test summary info ==\nPASSED t.py::a[x y]\nSKIPPED [2] t.py:3: no\n\
         FAILED t.py::b - assert 1 == 2\nERROR t.py::c - boom\n1 passed, 2 failed, 2 skipped in 0.1s\n",
    );
    assert_eq!((pytest.count(), pytest.passed()), (5, 1));
    assert_eq!(pytest.named(Verdict::Failed).collect::<Vec<_>>(), ["t.py::b", "t.py::c"]);
    let tap = Verdicts::of_tap("1..3\nok 1 a b\nnot ok 2 c\n  Error: ok 7\nok 3 d # SKIP -\n# tests 2\n");
    assert_eq!((tap.count(), tap.passed()), (3, 1));
    assert_eq!(tap.named(Verdict::Failed).collect::<Vec<_>>(), ["c"]);
    let tcl = Verdicts::of_tcl(
        "[\x1b[0;32;49mok\x1b[0m]: SET (a) (1 ms)\n[err]: GET in tests/unit/x.tcl\n[ignore]: no\n[ok]: SET (a) (12 ms)\n",
    );
    assert_eq!((tcl.count(), tcl.passed()), (3, 2));
    assert_eq!(tcl.named(Verdict::Passed).collect::<Vec<_>>(), ["SET (a)"; 2]);
    assert_eq!(tcl.named(Verdict::Failed).collect::<Vec<_>>(), ["GET"]);
    let hiredis = Verdicts::of_hiredis(
        "#01 Says: this: \x1b[0;32mPASSED\x1b[0;0m\n#02 b: \x1b[0;31mFAILED\x1b[0;0m\n#03 c: \x1b[01;33mSKIPPED\x1b[0;0m\n\
         #04 Throughput:\n",
    );
    assert_eq!((hiredis.count(), hiredis.passed()), (3, 1));
    assert_eq!(hiredis.named(Verdict::Failed).collect::<Vec<_>>(), ["b"]);
    let libtest =
        Verdicts::of_libtest("running 3 tests\ntest m::a ... ok\ntest m::b ... FAILED\ntest c ... ignored, no\n");
    assert_eq!((libtest.count(), libtest.passed()), (3, 1));
}
