#!/usr/bin/env python3
"""Plays the GitHub Action without GitHub: reads action.yml, and runs its steps with files in place of the runner's.

    python3 packages/action/tests/run.py FOLDER    the folder of the built files, which has the archive of the binary

A virtual environment gets check-jsonschema, which has GitHub's own schema of actions, and with it a reader of YAML.
"""

import functools
import hashlib
import http.server
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import threading
import traceback
import venv
from pathlib import Path

ACTION = Path(__file__).resolve().parent.parent
MACHINE = {"amd64": "x86_64", "arm64": "aarch64"}.get(os.uname().machine, os.uname().machine)

# The token is compared in one step, and the lock deleted in another.
MISUSE = "printf 'set lock:1 8f1e93aa57c2 NX PX 60000\\nget lock:1\\ndel lock:1\\n' | redis-cli -u $REDIS_URL\n"

stories = []


def story(function):
    stories.append(function)
    return function


class Runner:
    """What a job has: a folder, and the files in which steps leave something."""

    def __init__(self, binary: Path):
        import ruamel.yaml

        self.action = ruamel.yaml.YAML(typ="safe").load((ACTION / "action.yml").read_text())
        self.binary = binary
        self.place = tempfile.TemporaryDirectory(prefix="redouble-action-")
        self.folder = Path(self.place.name)

    def play(self, environment=(), **inputs: str) -> "Played":
        """A step `uses: redouble/…/packages/action` with these inputs; `_` stands for `-`."""
        given = {name: str(declared.get("default", "")) for name, declared in self.action["inputs"].items()}
        given["token"] = ""
        for name, value in inputs.items():
            assert name.replace("_", "-") in given, name
            given[name.replace("_", "-")] = value
        if not {"binary", "version"} & inputs.keys():
            given["binary"] = str(self.binary)
        played = Played(given)
        for step in self.action["runs"]["steps"]:
            if played.failed and "always()" not in step.get("if", ""):
                continue
            if "if" in step and not played.condition(step["if"]):
                continue
            if "uses" in step:
                played.used[step["uses"].split("@")[0]] = {
                    name: played.filled(str(value)) for name, value in step["with"].items()
                }
                continue
            played.run(step, self.folder, dict(environment))
        return played


class Played:
    """A play of the action, and what its steps have left."""

    def __init__(self, inputs: dict):
        self.inputs, self.outputs, self.used = inputs, {}, {}
        self.failed, self.said, self.summary, self.path, self.variables = False, "", "", "", {}

    def run(self, step: dict, folder: Path, environment: dict) -> None:
        files = {name: folder / name for name in ["GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_ENV", "GITHUB_STEP_SUMMARY"]}
        for file in files.values():
            file.write_text("")
        env = {name: os.environ[name] for name in ["HOME", "PATH"] if name in os.environ}
        env["PATH"] = self.path + env["PATH"]
        env |= {name: str(file) for name, file in files.items()} | self.variables
        env |= {
            "GITHUB_ACTION_PATH": str(ACTION),
            "GITHUB_ACTIONS": "true",
            "RUNNER_TEMP": str(folder / "temp"),
        } | environment
        env |= {name: self.filled(str(value)) for name, value in step.get("env", {}).items()}
        where = folder / self.filled(step.get("working-directory", "."))
        script = self.filled(step["run"])
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", script], cwd=where, env=env, capture_output=True, text=True
        )
        self.failed = self.failed or done.returncode != 0
        self.said += done.stdout + done.stderr
        written = files["GITHUB_OUTPUT"].read_text()
        found = re.findall(r"^([\w-]+)<<(end-\w+)\n(.*?)\n\2$", written, re.MULTILINE | re.DOTALL)
        self.outputs[step["id"]] = {name: value for name, _, value in found}
        self.path = "".join(line + ":" for line in files["GITHUB_PATH"].read_text().splitlines()) + self.path
        self.variables |= dict(line.split("=", 1) for line in files["GITHUB_ENV"].read_text().splitlines())
        self.summary += files["GITHUB_STEP_SUMMARY"].read_text()

    def value(self, expression: str) -> str:
        parts = expression.split(".")
        if parts[0] == "inputs":
            return self.inputs[parts[1]]
        if parts[0] == "steps":
            return self.outputs.get(parts[1], {}).get(parts[3], "")
        return {"github.token": "", "github.action_repository": "owner/redouble"}[expression]

    def filled(self, text: str) -> str:
        return re.sub(r"\$\{\{ *([\w.-]+) *\}\}", lambda found: self.value(found[1]), text)

    def condition(self, text: str) -> bool:
        """An `if` of comparisons with strings, joined by &&."""
        for part in text.split("&&"):
            if part.strip() == "always()":
                continue
            left, operator, right = re.fullmatch(r"\s*([\w.-]+) (==|!=) '(.*)'\s*", part).groups()
            if (self.value(left) == right) != (operator == "=="):
                return False
        return True

    def output(self, name: str) -> str:
        return self.outputs.get("run", {}).get(name, "")


@story
def the_action_is_what_github_takes_for_one(runner: Runner):
    command = [Path(sys.executable).parent / "check-jsonschema", "--builtin-schema", "vendor.github-actions"]
    done = subprocess.run([*command, ACTION / "action.yml"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    # Every input reaches a step.
    text = (ACTION / "action.yml").read_text()
    page = ACTION.parent.parent / "docs/action.md"
    for name in runner.action["inputs"]:
        assert re.search(rf"inputs\.{name}\b", text), name
        # The tests may have been copied without the pages.
        assert not page.exists() or f"`{name}`" in page.read_text(), name


@story
def a_suite_without_misuse_passes_and_its_report_is_kept(runner: Runner):
    played = runner.play(run="redis-cli -u $REDIS_URL set lock:1 a NX PX 1000 | grep -q OK")
    assert not played.failed, played.said
    assert (played.output("status"), played.output("errors")) == ("0", "0")
    assert "No lock was misused" in played.summary
    kept = played.used["actions/upload-artifact"]
    assert kept["name"] == "redouble"
    names = {Path(path).name for path in kept["path"].splitlines()}
    assert names == {"report.html", "audit.sarif", "journal.jsonl"}, names
    assert all(Path(path).is_file() for path in kept["path"].splitlines())
    assert "github/codeql-action/upload-sarif" not in played.used


@story
def a_misused_lock_fails_the_step_and_is_said_where_people_look(runner: Runner):
    played = runner.play(run=MISUSE, upload_sarif="true")
    assert played.failed and played.output("status") == "3", played.said
    assert int(played.output("errors")) > 0
    assert "::error" in played.said, played.said
    assert "| error | `" in played.summary and "<code>lock:1</code>" in played.summary, played.summary
    assert "actions/upload-artifact" in played.used
    sarif = played.used["github/codeql-action/upload-sarif"]["sarif_file"]
    assert json.loads(Path(sarif).read_text())["version"] == "2.1.0"


@story
def the_commands_own_failure_counts_and_the_reports_are_uploaded_all_the_same(runner: Runner):
    played = runner.play(run="redis-cli -u $REDIS_URL ping\nfalse | cat\necho not reached")
    assert played.failed and played.output("status") == "1", played.said
    assert "not reached" not in played.said
    assert "report.html" in played.used["actions/upload-artifact"]["path"]


@story
def nothing_of_an_earlier_run_is_taken_for_a_result(runner: Runner):
    runner.play(run=MISUSE)
    played = runner.play(run="true", args="--nosuch-flag yes")
    assert played.failed and played.output("status") == "125", played.said
    assert (played.output("files"), played.output("errors")) == ("", "0")
    assert "No audit was written" in played.summary


@story
def inputs_become_the_flags_of_run(runner: Runner):
    (runner.folder / "sub").mkdir(exist_ok=True)
    (runner.folder / "sub/seed.txt").write_text("SET seeded yes\n")
    (runner.folder / "sub/known.txt").write_text("* lock:* known here\n")
    script = (
        'redis-cli -u $REDIS_URL get seeded\nredis-cli -u $REDIS_URL info server | grep redis_version\necho "$PWD"\n'
        + MISUSE
    )
    played = runner.play(
        run=script,
        working_directory="sub",
        load="seed.txt",
        allow="known.txt",
        locks="lock:*\nmutex *",
        not_locks="cache:*",
        compat="redis-6.2",
        args="--databases '3'",
        junit="out/audit.xml",
        report_html="",
        journal="",
    )
    assert not played.failed, played.said
    assert "yes\n" in played.said and "redis_version:6.2" in played.said and "/sub\n" in played.said
    assert {Path(path).name for path in played.output("files").splitlines()} == {"audit.sarif", "audit.xml"}
    assert "No lock was misused" in played.summary


@story
def an_audit_can_be_left_out_or_be_stricter(runner: Runner):
    no_expiry = "redis-cli -u $REDIS_URL set lock:1 8f1e93aa57c2 NX"
    assert not runner.play(run=no_expiry, locks="lock:*").failed
    played = runner.play(run=no_expiry, locks="lock:*", audit="warn")
    assert played.failed and int(played.output("warnings")) > 0, played.said
    played = runner.play(run=MISUSE, audit="off")
    assert not played.failed and played.summary == "" and played.output("sarif") == "", played.said
    played = runner.play(run="true", audit="loud")
    assert played.failed and "audit: loud is neither error nor warn nor off" in played.said
    assert runner.play(run="true", strict="true").failed
    assert "neither true nor false" in runner.play(run="true", strict="maybe").said


@story
def names_of_keys_cannot_break_the_summary(runner: Runner):
    key = r'"lock:|`</details>\n### broken<script>"'
    script = f"cat <<'END' | redis-cli -u $REDIS_URL\nset {key} 8f1e93aa57c2 NX PX 60000\nget {key}\ndel {key}\nEND\n"
    played = runner.play(run=script, locks="lock:*")
    assert played.failed and "::error" in played.said, played.said
    outside_fences = re.sub(r"^(`{3,})text\n.*?^\1$", "", played.summary, flags=re.MULTILINE | re.DOTALL)
    assert "\n### broken" not in played.summary and "<script>" not in outside_fences, played.summary
    assert played.summary.count("<details>") == played.summary.count("\n</details>\n"), played.summary


@story
def without_a_command_it_only_installs(runner: Runner):
    played = runner.play()
    assert not played.failed and played.used == {}, played.said
    said = subprocess.run(
        ["bash", "-c", "redouble --version && test -x $REDOUBLE_BINARY"],
        env={"PATH": played.path + os.environ["PATH"]} | played.variables,
        capture_output=True,
        text=True,
    )
    assert said.returncode == 0, said
    other = runner.folder / "named-otherwise"
    other.unlink(missing_ok=True)
    other.symlink_to(runner.binary)
    assert not runner.play(run="redouble --version", binary=str(other)).failed
    played = runner.play(binary="/nosuch/redouble")
    assert played.failed and "::error title=redouble::binary: there is no /nosuch/redouble" in played.said


@story
def a_release_is_taken_only_if_its_sum_is_right(runner: Runner):
    releases = runner.folder / "releases"
    folder = releases / "owner/redouble/releases/download/v9.9.9"
    folder.mkdir(parents=True)
    name = f"redouble-9.9.9-{MACHINE}-linux"
    with tarfile.open(folder / f"{name}.tar.gz", "w:gz") as tar:
        tar.add(runner.binary, f"{name}/redouble")
    digest = hashlib.sha256((folder / f"{name}.tar.gz").read_bytes()).hexdigest()
    handler = functools.partial(Quiet, directory=str(releases))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        environment = {"GITHUB_SERVER_URL": f"http://127.0.0.1:{server.server_port}"}
        (folder / "SHA256SUMS").write_text(f"{'0' * 64}  {name}.tar.gz\n")
        played = runner.play(environment, version="9.9.9", run="true")
        assert played.failed and "is not what SHA256SUMS says" in played.said, played.said
        (folder / "SHA256SUMS").write_text(f"{digest}  other\n{digest}  {name}.tar.gz\n")
        played = runner.play(environment, version="v9.9.9", run="redis-cli -u $REDIS_URL ping")
        assert not played.failed, played.said
        # Another step of the job does not download it again.
        (folder / f"{name}.tar.gz").unlink()
        assert not runner.play(environment, version="9.9.9", run="true").failed
        played = runner.play(environment, version="1.2.3", run="true")
        assert played.failed and "404" in played.said and "version: source" in played.said, played.said
        server.shutdown()


@story
def a_build_from_source_says_what_it_needs(runner: Runner):
    nowhere = {"PATH": str(runner.folder / "bin")}
    (runner.folder / "bin").mkdir()
    for tool in ["python3", "bash"]:
        (runner.folder / "bin" / tool).symlink_to(Path(sys.executable) if tool == "python3" else "/bin/bash")
    played = runner.play(nowhere, version="source", run="true")
    assert played.failed and "version: source needs cargo" in played.said, played.said


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def main() -> int:
    if len(sys.argv) not in (2, 3):
        raise SystemExit("usage: run.py FOLDER [NAME]")
    with tempfile.TemporaryDirectory(prefix="redouble-action-tools-") as tools:
        if "REDOUBLE_ACTION_TOOLS" not in os.environ:
            venv.create(tools, with_pip=True)
            python = Path(tools) / "bin/python"
            subprocess.run(
                [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "check-jsonschema"],
                check=True,
            )
            environment = os.environ | {"REDOUBLE_ACTION_TOOLS": tools}
            return subprocess.run([python, *sys.argv], env=environment).returncode
        [archive] = Path(sys.argv[1]).rglob(f"redouble-*-{MACHINE}-linux.tar.gz")
        with tarfile.open(archive) as tar:
            [member] = [member for member in tar if member.name.endswith("/redouble")]
            binary = Path(tools) / "redouble"
            binary.write_bytes(tar.extractfile(member).read())
            binary.chmod(0o755)
        (Path(tools) / "redis-cli").symlink_to(binary)
        os.environ["PATH"] = f"{tools}:{os.environ['PATH']}"
        failed = 0
        for function in stories:
            name = function.__name__.replace("_", " ")
            if len(sys.argv) == 3 and sys.argv[2] not in name:
                continue
            try:
                function(Runner(binary))
                print(f"ok {name}", flush=True)
            except (AssertionError, OSError, ValueError) as error:
                failed += 1
                line = traceback.extract_tb(error.__traceback__)[-1].line
                print(f"FAILED {name}\n    {line}\n    {error!r}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
