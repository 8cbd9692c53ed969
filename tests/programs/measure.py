#!/usr/bin/env python3
"""Measures the auditor: of the wrong programs and histories, how many get an error, and of the right ones, how many do.

    measure.py                           all programs and histories
    measure.py --set a --set b           what is for work on the rules: each program with its findings, and the even seeds
    measure.py --set a wrong/name.py     one program, or a folder; no histories
    measure.py --histories --seeds 0-99  histories alone
    measure.py --compare                 the exit code is 1 if a figure is worse than floors.toml says
    measure.py --record                  writes the figures to floors.toml, and to the page of decision 27

Each program runs under `redouble run --audit` with the declarations (`--locks`, `--resources`) that its entry in the manifest says;
then its journals are audited with all its locks and data declared. A wrong one is found and a right one accused if it gets an
error. What it prints at the end must be what the manifest says, as on a real server.

Each history has two servers of its own, and is judged by its own check (histories.py). Of one whose mistake did not strike
(`any`) nothing is expected. A second audit of the same journals has its locks and data declared.

Of programs of the sets c and d, and of odd seeds only counts are printed: whoever changes the rules must not know
which of them are missed or accused. --details shows them nevertheless.
"""
import argparse
import collections
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import tomllib

import histories
import run

OPEN = ("a", "b", "c", "d", "even")  # for work on the rules; the rest is held back
FLOORS = run.HERE / "floors.toml"
PAGE = run.HERE.parent.parent / "docs/decisions/0027-recall-and-precision.md"
ATTEMPTS = 3  # at a program that does not end as on a real server, because the machine is slow
LIMIT_SECONDS = 60


@dataclasses.dataclass
class Result:
    """What the auditor says of one program or history."""

    name: str
    group: str  # `a`, `b`, `c`, `d`, `even` or `odd`
    expected: str
    about: str = ""
    language: str = ""
    point: int = 0
    findings: list = dataclasses.field(default_factory=list)  # (severity, code, sentence)
    declared: list = dataclasses.field(default_factory=list)  # the same with locks and data declared
    complaint: str = ""

    def has_error(self, declared=False):
        return any(severity == "error" for severity, _, _ in (self.declared if declared else self.findings))

    def warnings(self):
        return sum(severity == "warning" for severity, _, _ in self.findings)

    def is_well(self):
        if self.expected == "any":
            return True
        return self.has_error() == (self.expected == "error") and not (self.expected == "none" and self.has_error(declared=True))


class Redouble:
    """The binary that is measured."""

    def __init__(self, binary):
        self.binary = str(binary)
        said = subprocess.run([self.binary, "help", "run"], capture_output=True, text=True)
        if said.returncode != 0:
            sys.exit(f"{self.binary} help run: exit code {said.returncode}\n{said.stderr}")
        self.knows_resources = "--resources" in said.stdout + said.stderr

    def declaring(self, locks, data):
        flags = [word for glob in locks for word in ("--locks", glob)]
        if self.knows_resources:
            flags += [word for glob in data for word in ("--resources", glob)]
        return flags


# -- programs -----------------------------------------------------------------------------------------------------


def declared_by_user(program):
    said = program["declared"]
    return program["locks"] if "locks" in said else [], program["data"] if "resources" in said else []


def audited(redouble, flags, journals):
    """What `redouble audit` says of journals: (findings, complaint)."""
    done = subprocess.run([redouble.binary, "audit", "--json", *flags, *map(str, journals)], capture_output=True, text=True)
    if done.returncode not in (0, 3):
        return [], f"redouble audit: exit code {done.returncode}\n{done.stderr}"
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [(fields["severity"], fields["code"], fields["sentence"]) for fields in lines], ""


def findings_of(sarif):
    results = json.loads(sarif.read_text())["runs"][0]["results"]
    return [(result["level"], result["ruleId"], result["message"]["text"]) for result in results]


def run_audited(redouble, program, result, options):
    """Runs a program once, and audits it twice."""
    result.findings, result.declared = [], []
    with tempfile.TemporaryDirectory() as text:
        folder = pathlib.Path(text)
        sarif, flags = folder / "findings.sarif", redouble.declaring(*declared_by_user(program))
        front = [redouble.binary, "run", "--audit", "--sarif", str(sarif), "--journal-out", str(folder / "journal.jsonl"), *flags]
        if program["instances"] > 1:
            front += ["--instances", str(program["instances"])]
        env = dict(os.environ)
        env.setdefault("NODE_PATH", str(options.node_path))
        env.pop("GITHUB_ACTIONS", None)
        command = [*front, "--", *run.command(program, options)]
        try:
            done = subprocess.run(
                command, cwd=folder, env=env, capture_output=True, text=True, timeout=LIMIT_SECONDS, stdin=subprocess.DEVNULL
            )
        except subprocess.TimeoutExpired:
            result.complaint = f"still running after {LIMIT_SECONDS} s"
            return
        errors = [line for line in done.stderr.splitlines() if not line.startswith("redouble run: ")]
        code = 0 if done.returncode == 3 else done.returncode
        _, result.complaint = run.verdict(program, code, done.stdout.splitlines(), errors)
        if not result.complaint:
            result.findings = findings_of(sarif)
            everything = redouble.declaring(program["locks"], program["data"])
            journals = [folder / ("journal.jsonl" if n == 1 else f"journal-{n}.jsonl") for n in range(1, program["instances"] + 1)]
            result.declared, result.complaint = audited(redouble, everything, journals)


def measure_program(redouble, program, options):
    result = Result(program["file"], program["set"], program["expected"], program["kind"], program["language"], program["point"])
    for _ in range(ATTEMPTS):
        run_audited(redouble, program, result, options)
        if not result.complaint:
            break
    return result


# -- histories ----------------------------------------------------------------------------------------------------


def measure_history(redouble, seed):
    """Plays a history on two servers, and audits their journals twice."""
    with tempfile.TemporaryDirectory() as text:
        folder = pathlib.Path(text)
        ports = folder / "ports"
        command = [redouble.binary, "--port", "0", "--port-file", str(ports), "--instances", "2", "--audit", "yes"]
        command += ["--exit-with-parent", "yes", "--dir", str(folder)]
        server = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not ports.exists():
                if server.poll() is not None:
                    sys.exit(f"{' '.join(command)}: exit code {server.returncode}")
                time.sleep(0.005)
            urls = [f"redis://127.0.0.1:{port}" for port in ports.read_text().split()]
            _, verdict = histories.play(seed, urls)
            result = Result(f"seed {seed}", "odd" if seed % 2 else "even", verdict["expected"], "; ".join(verdict["what"]))
            journals = []
            for number, url in enumerate(urls):
                with histories.Link(url) as link:
                    if number == 0:
                        listed = link.ask("REDOUBLE", "AUDIT", "LIST", "final", "limit", 1000)
                        fields = [dict(zip(finding[::2], finding[1::2])) for finding in listed]
                        result.findings = [(each["severity"], each["code"], each["sentence"]) for each in fields]
                    journals.append(folder / f"journal-{number}.jsonl")
                    link.ask("REDOUBLE", "JOURNAL", "EXPORT", journals[-1].name)
        finally:
            server.kill()
            server.wait()
        flags = redouble.declaring(verdict["locks"], verdict["data"])
        result.declared, result.complaint = audited(redouble, flags, journals)
        return result


# -- what is printed ----------------------------------------------------------------------------------------------


def figures(results):
    """The counts of a group, which floors.toml and the page of decision 27 have too."""
    wrong = [result for result in results if result.expected == "error"]
    right = [result for result in results if result.expected == "none"]
    return {
        "wrong": len(wrong),
        "found": sum(result.has_error() for result in wrong),
        "found_declared": sum(result.has_error() or result.has_error(declared=True) for result in wrong),
        "right": len(right),
        "accused": sum(result.has_error() for result in right),
        "accused_declared": sum(result.has_error(declared=True) for result in right),
        "warnings": sum(result.warnings() for result in right),
    }


def share(part, whole):
    return f"{part:4} of {whole:3} ({100 * part / whole:3.0f} %)" if whole else f"{'-':^18}"


def table(head, groups):
    print(f"{head:36} {'wrong: found':20} {'all declared':20} {'right: accused':20} {'all declared':20} warnings")
    for name, results in groups:
        count = figures(results)
        columns = [("found", "wrong"), ("found_declared", "wrong"), ("accused", "right"), ("accused_declared", "right")]
        cells = [share(count[part], count[whole]) for part, whole in columns]
        print(f"{name:36} {' '.join(f'{cell:20}' for cell in cells)} {count['warnings']:4}")
    print()


def grouped(results, key):
    groups = collections.defaultdict(list)
    for result in results:
        groups[key(result)].append(result)
    return sorted(groups.items(), key=lambda group: str(group[0]))


def detail(result):
    mark = "    " if result.is_well() else "MISS" if result.expected == "error" else "FALSE"
    lines = [f"{mark:5} {result.name:34} {result.about[:160]}"]
    shown = [("", finding) for finding in result.findings]
    more = [finding for finding in result.declared if finding[0] == "error" and finding not in result.findings]
    shown += [("declared: ", finding) for finding in more]
    lines += [f"        {prefix}{severity} {code}: {sentence.splitlines()[0]}" for prefix, (severity, code, sentence) in shown]
    return "\n".join(lines)


def is_shown(result, options):
    return options.details or result.group in OPEN


def print_results(programs, played, options):
    shown = [result for result in programs + played if is_shown(result, options)]
    for result in shown:
        if result.expected != "any" or result.findings:
            print(detail(result))
    if shown:
        print()
    if programs:
        table("programs", [(f"set {name}", of) for name, of in grouped(programs, lambda r: r.group)])
        known = [result for result in programs if is_shown(result, options)]
        if known:
            points = [(f"point {point}", of) for point, of in grouped(known, lambda r: r.point)]
            table("of those shown", grouped(known, lambda r: r.language) + points + grouped(known, lambda r: r.about))
    if played:
        table("histories", [(f"{parity} seeds", of) for parity, of in grouped(played, lambda r: r.group)])


def compare(results):
    """The figures that are worse than recorded, as lines."""
    floors = tomllib.loads(FLOORS.read_text())
    worse = []
    for group, of in grouped(results, lambda result: result.group):
        now, recorded = figures(of), floors.get(group)
        if recorded is None:
            worse.append(f"{group}: floors.toml has nothing about it")
            continue
        for name, figure in now.items():
            limit = recorded[name]
            if name in ("wrong", "right"):
                if figure != limit:
                    worse.append(f"{group}: {figure} {name}, and floors.toml has {limit}: record the figures anew")
            elif name.startswith("found"):
                if figure < limit:
                    worse.append(f"{group}: {name.replace('_', ', all ')}: {figure} of {now['wrong']}, and it was {limit}")
            elif figure > limit:
                worse.append(f"{group}: {name.replace('_', ', all ')}: {figure}, and it was {limit}")
    return worse


NAMES = {
    "a": "programs, set a",
    "b": "programs, set b",
    "c": "programs, set c",
    "d": "programs, set d",
    "e": "programs, set e",
    "even": "histories, even seeds",
    "odd": "histories, odd seeds",
}


def row(group, count):
    """As the page of decision 27 has it; tests/repository/recall_page.rs compares."""
    columns = [("found", "wrong"), ("found_declared", "wrong"), ("accused", "right"), ("accused_declared", "right")]
    cells = [f"{count[part]} of {count[whole]}" for part, whole in columns]
    return f"| {' | '.join([NAMES[group], *cells, str(count['warnings'])])} |"


def record(results):
    """Writes the figures to floors.toml and into the table of the page."""
    sections, rows = [line for line in FLOORS.read_text().splitlines() if line.startswith("#")], {}
    for group, of in grouped(results, lambda result: result.group):
        count = figures(of)
        sections += ["", f"[{group}]", *(f"{name} = {figure}" for name, figure in count.items())]
        rows[f"| {NAMES[group]} |"] = row(group, count)
    FLOORS.write_text("\n".join(sections) + "\n")
    lines = []
    for line in PAGE.read_text().splitlines():
        lines.append(next((now for beginning, now in rows.items() if line.startswith(beginning)), line))
    PAGE.write_text("\n".join(lines) + "\n")


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="programs or folders; all programs and histories if none is named")
    parser.add_argument("--redouble", type=pathlib.Path, help="the binary; that of target/debug or target/release, the newer one")
    parser.add_argument("--set", action="append", choices=run.SETS, help="a: with the even seeds, c: with the odd ones")
    parser.add_argument("--language", choices=["python", "node"])
    parser.add_argument("--programs", action="store_true", help="programs alone")
    parser.add_argument("--histories", action="store_true", help="histories alone")
    parser.add_argument("--seeds", type=histories.seeds, default=histories.seeds("0-399"), help="7 or 0-399")
    parser.add_argument("--compare", action="store_true", help="with the figures of floors.toml")
    parser.add_argument("--record", action="store_true", help="the figures in floors.toml; of everything, or nothing is recorded")
    parser.add_argument("--details", action="store_true", help="also of what is held back")
    parser.add_argument("--jobs", type=int, default=3, help="how many run side by side")
    parser.add_argument("--python", default=run.default_python(), help="an interpreter that has requirements.txt installed")
    parser.add_argument("--node", default="node")
    parser.add_argument("--node-path", default=run.INSTALLED / "node_modules", help="the packages of package.json")
    options = parser.parse_args()
    is_part = options.names or options.language or options.programs or options.histories or options.seeds != histories.seeds("0-399")
    if (is_part and options.compare) or ((is_part or options.set) and options.record):
        parser.error("only the figures of a whole set are compared, and only those of everything are recorded")
    return options


def newest_binary():
    built = [path for path in (run.TARGET / "debug/redouble", run.TARGET / "release/redouble") if path.exists()]
    if not built:
        sys.exit(f"no binary in {run.TARGET}: cargo build makes one, or --redouble names one")
    return max(built, key=lambda path: path.stat().st_mtime)


def main():
    options = arguments()
    redouble = Redouble((options.redouble or newest_binary()).resolve())
    begin = time.monotonic()
    programs = [] if options.histories else run.chosen(options)
    seeds = [] if options.programs or options.names or options.language else options.seeds
    if options.set:
        seeds = [seed for seed in seeds if ("c" if seed % 2 else "a") in options.set]
    # Histories fork, which a process with threads should not: they are played by processes.
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as threads:
        measured = list(threads.map(lambda program: measure_program(redouble, program, options), programs))
    with concurrent.futures.ProcessPoolExecutor(options.jobs) as processes:
        played = list(processes.map(measure_history, [redouble] * len(seeds), seeds))
    print_results(measured, played, options)
    complaints = [result for result in measured + played if result.complaint]
    for result in complaints:
        print(f"FAIL {result.name}: {result.complaint}")
    if options.record and not complaints:
        record(measured + played)
    # A program that could not run has found nothing, which says nothing about the auditor.
    worse = compare(measured + played) if options.compare and not complaints else []
    for line in worse:
        print(f"WORSE {line}")
    print(f"{len(measured)} programs and {len(played)} histories in {time.monotonic() - begin:.0f} s; {redouble.binary}")
    if not redouble.knows_resources:
        print("this binary has no --resources, so no data was declared")
    return 1 if complaints or worse else 0


if __name__ == "__main__":
    sys.exit(main())
