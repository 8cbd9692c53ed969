#!/usr/bin/env python3
"""Tries the wheels as a user would: `run.py [--only NAME] [--every-python] [--suites] FILE ...`, or the folder of the files.

Each story installs the wheel from its file into a fresh environment in a temporary folder, copies a project there, and
runs it without the sources of redouble and without a compiler in PATH. Prints `ok NAME` or `FAILED NAME` for each.
"""

import contextlib
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
PYTEST = ["redis", "pytest", "pytest-xdist", "pytest-asyncio", "anyio"]
USUAL = [*PYTEST, "django", "django-redis", "mypy", "auditwheel"]
STORIES = []

# Real time for which a process may take to end, and a command to finish. Reached only when something hangs.
PATIENCE = 60
LONGEST = 300


def story(function):
    STORIES.append(function)
    return function


class Skipped(Exception):
    """What a story needs is not on this machine."""


class Files:
    """The built files."""

    def __init__(self, paths):
        files = [file for path in paths for file in (sorted(path.iterdir()) if path.is_dir() else [path])]
        wheels = [file for file in files if file.suffix == ".whl"]
        self.pure = next((file for file in wheels if file.name.endswith("-py3-none-any.whl")), None)
        machine = os.uname().machine
        fitting = [file for file in wheels if machine in file.name and "linux" in file.name]
        if not fitting:
            sys.exit(f"no wheel for Linux on {machine} among {', '.join(map(str, paths))}")
        self.wheel = fitting[0]


class Environment:
    """A Python with the wheel and some packages."""

    def __init__(self, folder, interpreter, wheel, packages):
        self.folder = folder
        subprocess.run([interpreter, "-m", "venv", folder], check=True)
        self.python = str(folder / "bin" / "python")
        pip = [self.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if packages:
            subprocess.run([*pip, *packages], check=True)
        # From the file alone: whatever the registry has under this name is not asked for.
        if wheel is not None:
            subprocess.run([*pip, "--no-index", str(wheel)], check=True)

    def variables(self, **more):
        home = {name: os.environ[name] for name in ("HOME", "LANG", "TMPDIR") if name in os.environ}
        return {**home, "PATH": str(self.folder / "bin"), "PYTHONDONTWRITEBYTECODE": "1", **more}

    def command(self, *words):
        return [self.python, *words]

    def run(self, project, *words, expect=0, **variables):
        """Run Python in a project, and return what it prints."""
        done = subprocess.run(
            self.command(*words),
            cwd=project,
            env=self.variables(**variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LONGEST,
        )
        assert done.returncode == expect, f"{words}: exit status {done.returncode}\n{done.stdout}"
        return done.stdout

    def pytest(self, project, *flags, expect=0, **variables):
        return self.run(project, "-m", "pytest", "-p", "no:cacheprovider", *flags, expect=expect, **variables)


class World:
    """The files, a temporary folder, and the environments made in it."""

    def __init__(self, files, folder, flags):
        self.files = files
        self.every_python = "--every-python" in flags
        self.suites = "--suites" in flags
        self.folder = folder
        self._environments = {}
        self._numbers = iter(range(1_000_000))

    def environment(self, *packages, interpreter=sys.executable, wheel=None):
        key = (interpreter, packages, wheel)
        if key not in self._environments:
            folder = self.folder / f"environment-{next(self._numbers)}"
            self._environments[key] = Environment(folder, interpreter, wheel or self.files.wheel, packages)
        return self._environments[key]

    def usual(self):
        return self.environment(*USUAL)

    def project(self, name):
        """A copy of a project, outside of the sources."""
        folder = self.folder / f"{name}-{next(self._numbers)}"
        return Path(shutil.copytree(HERE / "projects" / name, folder))


def processes(folder):
    """The processes whose program is in a folder."""
    found = []
    for link in glob.glob("/proc/[0-9]*/exe"):
        with contextlib.suppress(OSError):
            if os.readlink(link).startswith(str(folder)):
                found.append(int(link.split("/")[2]))
    return found


def wait_until(condition, what):
    give_up = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < give_up, f"{what} within {PATIENCE} s"
        time.sleep(0.01)


def interpreters():
    """Every Python from 3.9 on that is here: version and path."""
    patterns = [f"{folder}/python3.*" for folder in os.environ.get("PATH", "").split(":")]
    patterns.append(os.path.expanduser("~/.pyenv/versions/*/bin/python3.*"))
    found = {}
    for path in [sys.executable, *(path for pattern in patterns for path in sorted(glob.glob(pattern)))]:
        if path != sys.executable and not re.search(r"/python3\.\d+$", path):
            continue
        told = subprocess.run(
            [path, "-c", "import sys, venv, ensurepip; print('%d.%d' % sys.version_info[:2])"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        version = told.stdout.strip()
        if told.returncode == 0 and tuple(map(int, version.split("."))) >= (3, 9):
            found.setdefault(version, path)
    return found


@story
def the_wheel_says_truly_where_it_runs(world):
    """Debian's pip and Alpine's choose it, and its program needs no C library at all."""
    environment = world.usual()
    name = world.files.wheel.name
    tags = set(re.findall(r"(?:many|musl)linux[^.-]*", name))
    assert any(tag.startswith("manylinux_2_17") for tag in tags) and any(tag.startswith("musllinux") for tag in tags)
    machine = os.uname().machine
    # What the installers there ask for, the newest first: Debian 11 and later, Alpine 3.19 and 3.12.
    for system, platforms in {
        "debian": [f"manylinux_2_31_{machine}", f"manylinux_2_17_{machine}"],
        "alpine": [f"musllinux_1_2_{machine}", f"musllinux_1_1_{machine}"],
        "old-alpine": [f"musllinux_1_1_{machine}"],
    }.items():
        target = world.folder / f"target-{system}"
        pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index", "--only-binary=:all:"]
        place = ["--find-links", str(world.files.wheel.parent), "--target", str(target)]
        environment.run(
            world.folder, *pip, *place, *(word for tag in platforms for word in ("--platform", tag)), "redouble"
        )
        assert (target / "bin" / "redouble").stat().st_mode & 0o111 == 0o111
    said = environment.run(world.folder, "-m", "auditwheel", "show", str(world.files.wheel))
    assert "requires no external shared libraries" in " ".join(said.split()), said


@story
def the_program_runs_in_a_root_without_any_c_library(world):
    """There is no Python for musl in the registries, so it is the program alone: as on Alpine, and with nothing else."""
    if os.geteuid() != 0:
        raise Skipped("only root can change the root")
    root = world.folder / "root"
    (root / "tmp").mkdir(parents=True)
    shutil.copy(world.usual().folder / "bin" / "redouble", root / "redouble")
    assert sorted(each.name for each in root.iterdir()) == ["redouble", "tmp"]

    def enter():
        os.chroot(root)
        os.chdir("/")

    told = subprocess.run(["/redouble", "--version"], preexec_fn=enter, stdout=subprocess.PIPE, text=True, check=True)
    assert "redouble" in told.stdout
    flags = ["--port", "0", "--port-file", "/tmp/port", "--exit-with-parent", "yes", "--logfile", "/tmp/log"]
    server = subprocess.Popen(["/redouble", *flags], preexec_fn=enter)
    try:
        wait_until((root / "tmp" / "port").exists, "the server was not ready")
        port = (root / "tmp" / "port").read_text().strip()
        code = f"import redouble; print(redouble.Server.connect('redis://localhost:{port}').execute('PING'))"
        assert world.usual().run(world.folder, "-c", code).strip() == "PONG"
    finally:
        server.terminate()
        server.wait()


@story
def the_whole_package_works_on_the_oldest_and_the_newest_python(world):
    """With --every-python on those between, too."""
    found = sorted(interpreters().items(), key=lambda each: tuple(map(int, each[0].split("."))))
    for version, interpreter in found if world.every_python else [found[0], found[-1]][: len(found)]:
        environment = world.environment(*PYTEST, interpreter=interpreter)
        servers = world.folder / f"servers-{version}"
        # The pytest-asyncio for Python 3.9 leaves event loops open.
        strict = [] if version == "3.9" else ["-W", "error"]
        said = environment.pytest(world.project("features"), "-q", *strict, SERVERS=str(servers))
        print(f"   Python {version}: {said.strip().splitlines()[-1]}")


@story
def eight_workers_share_a_server_and_nothing_else(world):
    servers = world.folder / "servers"
    flags = ["-q", "-n", "8", "--redouble-audit", "report"]
    said = world.usual().pytest(world.project("features"), *flags, SERVERS=str(servers))
    assert "failed" not in said, said
    assert len(set(servers.read_text().split())) == 1
    # What follows from that: they end with the run.
    assert processes(world.usual().folder / "bin" / "redouble") == []


@story
def two_runs_at_once_share_nothing(world):
    environment = world.usual()
    runs = []
    for number in range(2):
        servers = world.folder / f"servers-of-run-{number}"
        command = environment.command("-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "2")
        variables = environment.variables(SERVERS=str(servers))
        runs.append((servers, subprocess.Popen(
            command, cwd=world.project("features"), env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )))  # fmt: skip
    addresses = []
    for servers, run in runs:
        said, _ = run.communicate(timeout=LONGEST)
        assert run.returncode == 0, said
        addresses += set(servers.read_text().split())
    assert len(addresses) == len(set(addresses)) == 2


@story
def nothing_is_left_of_a_runner_that_is_killed(world):
    for flags in ([], ["-n", "2"]):
        environment = world.usual()
        project = world.folder / f"killed-{len(flags)}"
        project.mkdir()
        (project / "test_endless.py").write_text(
            "import os, pytest\n"
            "@pytest.mark.parametrize('number', [1, 2])\n"
            "def test_endless(redouble, number):\n"
            "    open(os.environ['BEGUN'], 'w').close()\n"
            "    redouble.client(socket_timeout=None).blpop('nothing', 0)\n"
        )
        begun = project / "begun"
        command = environment.command("-m", "pytest", "-q", "-p", "no:cacheprovider", *flags)
        runner = subprocess.Popen(
            command, cwd=project, env=environment.variables(BEGUN=str(begun)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )  # fmt: skip
        try:
            wait_until(begun.exists, "no test has begun")
            program = environment.folder / "bin" / "redouble"
            assert len(processes(program)) == 1
        finally:
            runner.send_signal(signal.SIGKILL)
            runner.wait()
        wait_until(lambda: processes(program) == [], f"the server did not end {flags}")


@story
def a_failing_test_tells_its_commands_and_its_findings(world):
    said = world.usual().pytest(world.project("failing"), "-q", expect=1)
    assert "4 failed" not in said and "2 failed, 4 passed" in said, said
    report = said[said.index("_ test_failure _") : said.index("_ test_unfired _")]
    assert "redouble: lock findings" in report and "error blind-delete: two (client" in report
    commands = report[report.index("redouble: last commands") :]
    assert (
        "two (client" in commands and ": DEL lock:cup -> (integer) 1" in commands and ": GET cup -> (nil)" in commands
    )
    # Nothing of the other tests, nor of what client libraries say when they connect.
    assert "before" not in commands and "HELLO" not in commands and "SETINFO" not in commands
    assert "faults that never fired: fault-" in said
    assert "error blind-delete in test_failing.py::test_misuse:" in said


@story
def an_audit_that_fails_names_the_test_whose_commands_did_it(world):
    for flags in ([], ["-n", "3"]):
        said = world.usual().pytest(world.project("failing"), "-q", "--redouble-audit=error", *flags, expect=1)
        summary = said[said.index("short test summary info") :]
        for name in ("FAILED test_failing.py::test_misuse ", "FAILED test_failing.py::test_failure ",
                     "FAILED test_failing.py::test_unfired ", "ERROR test_failing.py::test_misuse_at_the_end "):  # fmt: skip
            assert name in summary, said
        assert "3 failed, 3 passed, 1 error" in summary, said
    silent = world.usual().pytest(world.project("failing"), "-q", "--redouble-audit=off", expect=1)
    assert "lock findings" not in silent and "2 failed, 4 passed" in silent


@story
def the_report_has_a_page_for_each_test(world):
    project = world.project("failing")
    world.usual().pytest(project, "-q", "-n", "2", "--redouble-report", "out/locks.html", expect=1)
    page = (project / "out" / "locks.html").read_text()
    links = re.findall(r'href="([^"]+)">([^<]+)<', page)
    assert len(links) == 6 and "error blind-delete" in page
    for link, _ in links:
        assert "<html" in (project / "out" / link).read_text()[:1000]


@story
def the_powers_work_without_a_client_library(world):
    said = world.environment("pytest").pytest(world.project("without_client"), "-q")
    assert "3 passed" in said


@story
def valkey_py_will_do(world):
    project = world.folder / "valkey"
    project.mkdir()
    (project / "test_valkey.py").write_text(
        "import asyncio\n"
        "def test_clients(redouble):\n"
        "    client = redouble.client(decode_responses=True)\n"
        "    assert type(client).__module__.startswith('valkey') and client.set('key', 'value', px=1000)\n"
        "    async def get():\n"
        "        async with redouble.async_client() as other:\n"
        "            return await other.get('key')\n"
        "    assert asyncio.run(get()) == b'value'\n"
        "    redouble.clock.advance(2)\n"
        "    assert client.get('key') is None\n"
    )
    world.environment("valkey", "pytest").pytest(project, "-q", "-W", "error")


@story
def a_suite_that_reads_the_environment_needs_no_change(world):
    for flags in ([], ["-n", "2"]):
        project = world.project("environment")
        said = world.usual().pytest(project, "-q", "--redouble-report", "locks.html", *flags, expect=1)
        assert "FAILED test_environment.py::test_misuse" in said and "1 failed, 2 passed" in said, said
        assert "<td>failed<td" in (project / "locks.html").read_text()
        assert list((project / "locks_tests").glob("all-*.html"))


@story
def a_server_that_runs_already_will_do(world):
    environment = world.usual()
    flags = ["--redouble-audit=error", "--redouble-report", "out/locks.html", "-q", "-n", "2"]
    pytest = environment.command("-m", "pytest", "-p", "no:cacheprovider", *flags)
    program = str(environment.folder / "bin" / "redouble")
    command = [program, "run", "--", "sh", "-c", 'exec "$@" --redouble-url "$REDIS_URL"', "sh", *pytest]
    done = subprocess.run(
        command, cwd=world.project("failing"), env=environment.variables(PATH=f"{environment.folder / 'bin'}:{os.defpath}"),
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LONGEST,
    )  # fmt: skip
    assert "3 failed, 3 passed, 1 error" in done.stdout, done.stdout


@story
def a_server_that_a_test_shuts_down_is_told_and_started_again(world):
    for flags in ([], ["-n", "1"]):
        said = world.usual().pytest(world.project("shutdown"), "-q", *flags, expect=1)
        assert "1 failed, 2 passed" in said and "ServerDied: the server has ended" in said, said
        assert "User requested shutdown" in said, said


@story
def other_plugins_go_on_working(world):
    """pytest-redis and fakeredis beside it, tests in random order, tests run again."""
    more = ["pytest-redis", "fakeredis", "pytest-randomly", "pytest-rerunfailures", "pytest-timeout", "pytest-cov"]
    environment = world.environment(*PYTEST, *more)
    project = world.folder / "beside"
    project.mkdir()
    (project / "test_beside.py").write_text(
        "import fakeredis, os\n"
        "def test_both(redouble):\n"
        "    fake = fakeredis.FakeRedis()\n"
        "    fake.set('key', 'fake')\n"
        "    assert redouble.client().get('key') is None\n"
        "def test_at_the_second_try(redouble):\n"
        "    client = redouble.client()\n"
        "    assert client.dbsize() == 0\n"
        "    client.set('key', 'value')\n"
        "    tried = os.path.exists('tried')\n"
        "    open('tried', 'w').close()\n"
        "    assert tried\n"
    )
    said = environment.pytest(project, "-q", "--reruns", "1", "--timeout", "60", "--cov", ".")
    assert "2 passed, 1 rerun" in said, said
    said = environment.pytest(world.project("features"), "-q", SERVERS=str(world.folder / "servers-beside"))
    assert "failed" not in said


@story
def the_plugin_costs_nothing_where_it_is_not_used(world):
    environment = world.usual()
    project = world.folder / "unused"
    project.mkdir()
    (project / "test_unused.py").write_text("def test_unused(): pass\n")
    (project / "conftest.py").write_text(
        "import os, subprocess, sys, threading\n"
        "def pytest_unconfigure(config):\n"
        "    loaded = sorted(name for name in sys.modules if name.partition('.')[0] in ('redouble', 'redis'))\n"
        "    assert loaded == ['redouble', 'redouble.pytest_plugin'], loaded\n"
        "    assert threading.active_count() == 1\n"
    )
    environment.pytest(project, "-q")
    code = (
        "import pytest, sys, time\n"
        "began = time.perf_counter(); import redouble.pytest_plugin; took = time.perf_counter() - began\n"
        "print(round(took * 1000, 2))"
    )
    least = min(float(environment.run(project, "-c", code)) for _ in range(10))
    print(f"   importing the plugin takes {least} ms")
    assert least < 5


@story
def unittest_and_django_have_it_too(world):
    environment = world.usual()
    said = environment.run(world.project("unittest"), "-W", "error", "-m", "unittest", "-v")
    assert "Ran 3 tests" in said and "OK" in said, said
    for flags in ([], ["--parallel", "2"]):
        said = environment.run(world.project("django"), "manage.py", "test", *flags)
        assert "Ran 4 tests" in said and "OK" in said, said


@story
def the_types_are_checked(world):
    world.usual().run(world.project("typed"), "-m", "mypy", "--strict", "typed.py")


@story
def the_program_is_there_under_its_name(world):
    environment = world.usual()
    program = environment.folder / "bin" / "redouble"
    for command in ([str(program)], environment.command("-m", "redouble")):
        said = subprocess.run([*command, "run", "--", environment.python, "-c", "import os; print(os.environ['REDIS_URL'])"],
                              env=environment.variables(), stdout=subprocess.PIPE, text=True, check=True)  # fmt: skip
        assert said.stdout.startswith("redis://127.0.0.1:")


@story
def a_program_that_is_missing_is_told_in_words(world):
    start = "import redouble; redouble.Server().start()"
    environment = world.usual()
    said = environment.run(world.folder, "-c", start, expect=1, REDOUBLE_BINARY="/nowhere/redouble")
    assert "BinaryNotFound: REDOUBLE_BINARY is '/nowhere/redouble'" in said, said
    broken = world.folder / "broken"
    broken.write_bytes(b"\x7fELF nothing")
    broken.chmod(0o755)
    said = environment.run(world.folder, "-c", start, expect=1, REDOUBLE_BINARY=str(broken))
    assert "cannot be run" in said and "Is it built for this system and processor?" in said, said
    if world.files.pure is None:
        raise Skipped("there is no wheel without a program")
    without = world.environment("pytest", wheel=world.files.pure)
    said = without.run(world.folder, "-c", start, expect=1)
    assert "there may be none for Linux" in said and "REDOUBLE_BINARY" in said, said
    said = without.pytest(world.project("without_client"), "-q", expect=1)
    assert "BinaryNotFound" in said
    said = without.pytest(
        world.project("without_client"),
        "-q",
        "-k",
        "powers",
        REDOUBLE_BINARY=str(environment.folder / "bin" / "redouble"),
    )
    assert "1 passed" in said


# The suites of others: version, where their fixtures go, what they need, what is left out as in tests/locks/suites.rs, and
# how many tests pass on a real server there.
SUITES = {
    "pottery": (
        "3.0.1",
        "tests/conftest.py",
        ["redis==8.1.0", "mmh3==5.3.1", "typing_extensions", "pytest-asyncio==1.5.0"],
        ["--asyncio-mode=auto", "tests/test_redlock.py", "tests/test_aioredlock.py", "tests/test_nextid.py",
         "tests/test_aionextid.py"],
        94,
    ),
    "rq": (
        "2.12.0",
        "conftest.py",
        ["redis==8.1.0", "click", "croniter", "psutil"],
        ["tests", "--ignore=tests/test_cli.py", "--ignore=tests/test_timeouts.py", "--ignore=tests/test_worker_pool.py",
         "-k", "not TestWorkerSubprocess and not test_execution_order"],
        565,
    ),
}  # fmt: skip


@story
def the_suites_of_pottery_and_rq_pass_with_our_server(world):
    """Only with --suites, because that of rq sleeps for more than a minute."""
    if not world.suites:
        raise Skipped("--suites")
    for name, (version, conftest, packages, flags, passes) in SUITES.items():
        # Their locks live for 200 ms of real time, which is too short where the machine is busy.
        environment = world.environment("pytest==9.2.0", "pytest-rerunfailures", *packages)
        flags = [*flags, "--reruns", "3"]
        folder = world.folder / f"suite-{name}"
        download = ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-binary", name]
        # Where pip builds what it downloads, it needs the usual folders.
        path = {"PATH": f"{environment.folder / 'bin'}:{os.defpath}"}
        environment.run(world.folder, *download, "--dest", str(folder), f"{name}=={version}", **path)
        (archive,) = folder.iterdir()
        shutil.unpack_archive(archive, folder)
        (project,) = (each for each in folder.iterdir() if each.is_dir())
        shutil.copy(HERE / "suites" / f"{name}_conftest.py", project / conftest)
        command = environment.command(
            "-m", "pytest", "-p", "no:cacheprovider", "-q", "--redouble-env", "REDIS_URL", *flags
        )
        began = time.monotonic()
        done = subprocess.run(
            command, cwd=project, env=environment.variables(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True, timeout=900,
        )  # fmt: skip
        passed = int((re.findall(r"(\d+) passed", done.stdout) or [0])[-1])
        print(f"   {name} {version}: {passed} passed in {time.monotonic() - began:.0f} s")
        assert passed >= passes, done.stdout[-10_000:]


def main():
    words = sys.argv[1:]
    only = words.pop(words.index("--only") + 1) if "--only" in words else ""
    paths = [Path(word).resolve() for word in words if not word.startswith("--")]
    if not paths:
        sys.exit("usage: run.py [--only NAME] [--every-python] [--suites] FILE ...")
    failed = 0
    with tempfile.TemporaryDirectory(prefix="redouble-python-") as folder:
        world = World(Files(paths), Path(folder), words)
        for each in (each for each in STORIES if only in each.__name__):
            began = time.monotonic()
            try:
                each(world)
                outcome = "ok"
            except Skipped as reason:
                outcome = f"skipped ({reason})"
            except Exception:
                traceback.print_exc(file=sys.stdout)
                outcome = "FAILED"
                failed += 1
            print(f"{outcome} {each.__name__} ({time.monotonic() - began:.1f} s)", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
