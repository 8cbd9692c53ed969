#!/usr/bin/env python3
"""Tries the npm packages as their users do, in a fresh folder, from the tarballs alone.

    python3 packages/node/tests/run.py FOLDER|FILE... [--only WORD]

Needs Node 20 or later with npm, and the registry that npm is configured for (for vitest, jest, ioredis and others). The
programs that the stories can run are node, npm and the shell's: no compiler, no Python. Prints a line for each story.
"""

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROGRAMS = ["node", "npm", "npx", "sh", "env", "cat", "sleep", "kill", "true", "uname", "dirname", "basename", "sed"]
COMPILERS = ["cc", "gcc", "clang", "make", "cargo", "rustc", "python3"]
LIMIT = 300
"""Seconds after which a command counts as hanging."""


class Failed(Exception):
    pass


def check(holds: bool, text: str) -> None:
    if not holds:
        raise Failed(text)


class Place:
    """A folder with the packages of a user's project, and the environment of its commands."""

    def __init__(self, folder: Path, main: Path, platform: Path):
        self.folder = folder
        self.main = main
        self.platform = platform
        self.project = folder / "project"
        self.bin = folder / "bin"
        self.bin.mkdir()
        for name in PROGRAMS:
            found = shutil.which(name)
            if found is not None:
                (self.bin / name).symlink_to(found)
        kept = {
            name: value
            for name, value in os.environ.items()
            if not re.match(r"(REDOUBLE|REDIS|CI$|GITHUB_|FORCE_COLOR|NODE_OPTIONS|NODE_PATH|VITEST|JEST|npm_)", name)
        }
        home = folder / "home"
        home.mkdir()
        settings = Path.home() / ".npmrc"
        kept |= {"NPM_CONFIG_USERCONFIG": str(settings)} if settings.exists() else {}
        # The cache saves downloads, and is no part of the environment.
        kept |= {"NPM_CONFIG_CACHE": os.environ.get("NPM_CONFIG_CACHE", str(Path.home() / ".npm"))}
        kept |= {"NPM_CONFIG_LOGLEVEL": "error", "NPM_CONFIG_UPDATE_NOTIFIER": "false", "NO_COLOR": "1"}
        self.env = kept | {"PATH": str(self.bin), "HOME": str(home), "TMPDIR": str(self.temporary())}

    def temporary(self) -> Path:
        path = self.folder / "tmp"
        path.mkdir(exist_ok=True)
        return path

    def start(self, *words: str, folder: Path | None = None, **env: str) -> subprocess.Popen:
        return subprocess.Popen(
            words, cwd=folder or self.project, env=self.env | env, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
        )

    def run(self, *words: str, folder: Path | None = None, status: int = 0, **env: str) -> str:
        process = self.start(*words, folder=folder, **env)
        try:
            said, _ = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise Failed(f"{' '.join(words)} hangs") from None
        check(process.returncode == status, f"{' '.join(words)} ended with {process.returncode}:\n{said}")
        return said

    def servers(self) -> list[int]:
        """The processes that run the program of these packages."""
        found = []
        for process in Path("/proc").iterdir():
            if process.name.isdigit():
                try:
                    program = os.readlink(process / "exe")
                except OSError:
                    continue
                if program.startswith(str(self.folder)):
                    found.append(int(process.name))
        return found

    def until(self, holds, what: str) -> None:
        """Waits for an event of another process."""
        end = time.monotonic() + 30
        while not holds():
            check(time.monotonic() < end, f"waited in vain: {what}")
            time.sleep(0.005)

    def of_session(self, session: int) -> list[int]:
        """The processes that a command has started, and it itself."""
        found = []
        for process in Path("/proc").iterdir():
            if process.name.isdigit():
                try:
                    # The name of the program stands in brackets, and may have spaces.
                    status = (process / "stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                if int(status[3]) == session and status[0] != "Z":
                    found.append(int(process.name))
        return found

    def until_no_server(self) -> None:
        self.until(lambda: not self.servers(), f"the servers {self.servers()} end")


STORIES = []


def story(function):
    STORIES.append((function.__name__.replace("_", " "), function))
    return function


@story
def no_compiler_is_in_reach(place: Place) -> None:
    for name in COMPILERS:
        check(shutil.which(name, path=place.env["PATH"]) is None, f"{name} is in reach")


@story
def the_installed_program_runs_and_passes_its_status_on(place: Place) -> None:
    said = place.run("npx", "--no-install", "redouble", "--version")
    check(said.startswith("Redis server v="), said)
    place.run("npx", "--no-install", "redouble", "run", "--", "sh", "-c", "exit 7", status=7)
    said = place.run("npx", "--no-install", "redouble", "run", "--", "sh", "-c", "echo $REDIS_URL")
    check(said.startswith("redis://127.0.0.1:"), said)


def started(place: Place, *flags: str) -> tuple[subprocess.Popen, str]:
    """Starts a server through the package's command, waits until it serves, and returns its port, too."""
    port_file = place.temporary() / f"port-{time.monotonic_ns()}"
    command = [str(place.project / "node_modules" / ".bin" / "redouble"), "--port", "0", "--port-file", str(port_file)]
    server = place.start(*command, *flags)
    place.until(port_file.exists, "the server is ready")
    return server, port_file.read_text().strip()


@story
def the_command_passes_signals_on(place: Place) -> None:
    server, _ = started(place)
    server.send_signal(signal.SIGTERM)
    check(server.wait(30) == 0, f"SIGTERM: {server.returncode}")
    running = place.start("npx", "--no-install", "redouble", "run", "--", "sh", "-c", "kill -TERM $$")
    check(running.wait(30) == 143, f"a command that ends by SIGTERM: {running.returncode}")


@story
def killing_the_command_ends_the_server(place: Place) -> None:
    server, _ = started(place)
    check(len(place.servers()) == 1, "one server")
    server.kill()
    server.wait()
    place.until_no_server()


@story
def without_optional_dependencies_the_error_names_the_package_and_the_variable(place: Place) -> None:
    folder = place.folder / "omitted"
    folder.mkdir()
    (folder / "package.json").write_text('{"private": true}')
    place.run("npm", "install", "--omit=optional", "--ignore-scripts", str(place.main), folder=folder)
    check(not (folder / "node_modules" / "redouble-linux-x64").exists(), "the optional package is there")
    start = "require('redouble').startRedouble().then((s) => s.stop()).then(() => console.log('ok'), (e) => console.log(e.message))"
    said = place.run("node", "-e", start, folder=folder)
    for word in ["redouble-linux-x64", "REDOUBLE_BINARY", "--omit=optional", "npm install"]:
        check(word in said, f"{word} is missing in: {said}")
    said = place.run("npx", "--no-install", "redouble", "--version", folder=folder, status=125)
    check("redouble-linux-x64" in said, said)
    program = program_of(place)
    check(place.run("node", "-e", start, folder=folder, REDOUBLE_BINARY=program) == "ok\n", "REDOUBLE_BINARY")
    said = place.run("node", "-e", start, folder=folder, REDOUBLE_BINARY="/nowhere/redouble")
    check("REDOUBLE_BINARY names /nowhere/redouble, which does not exist" in said, said)


def program_of(place: Place) -> str:
    return str(place.project / "node_modules" / "redouble-linux-x64" / "bin" / "redouble")


@story
def on_another_platform_the_error_lists_those_that_there_are(place: Place) -> None:
    pretend = "Object.defineProperty(process, 'platform', { value: 'aix' });"
    said = place.run("node", "-e", f"{pretend} try {{ require('redouble').findBinary() }} catch (e) {{ console.log(e.message) }}")
    check("no program for aix-x64" in said and "linux-arm64" in said and "REDOUBLE_BINARY" in said, said)


@story
def a_program_that_lost_its_permission_to_execute_gets_it_back(place: Place) -> None:
    os.chmod(program_of(place), 0o644)
    said = place.run("node", "-p", "require('redouble').findBinary()")
    check(said.strip() == program_of(place) and os.access(program_of(place), os.X_OK), said)


@story
def a_script_that_stops_nothing_ends_and_leaves_nothing(place: Place) -> None:
    before = sorted(place.temporary().iterdir())
    place.run("node", "-e", "require('redouble').startRedouble().then((s) => s.clock.now())")
    place.run("node", "--input-type=module", "-e", "import { startRedouble } from 'redouble'; await startRedouble();")
    place.until_no_server()
    check(sorted(place.temporary().iterdir()) == before, f"{sorted(place.temporary().iterdir())}")


def eight(place: Place, pool: str) -> str:
    return place.run("node", "../node_modules/vitest/vitest.mjs", "run", folder=place.project / "vitest", POOL=pool)


def sharing_nothing(pool: str):
    def run(place: Place) -> None:
        said = eight(place, pool)
        check("Tests  24 passed (24)" in said, said)
        place.until_no_server()

    run.__name__ = f"eight_workers_of_vitest_share_nothing_in_the_pool_{pool}"
    return run


for pool in ["forks", "threads", "vmThreads"]:
    story(sharing_nothing(pool))


@story
def two_runs_of_vitest_at_once_share_nothing(place: Place) -> None:
    with ThreadPoolExecutor(2) as runs:
        for said in runs.map(lambda _: eight(place, "forks"), range(2)):
            check("Tests  24 passed (24)" in said, said)


@story
def four_workers_of_vitest_have_a_server_each_where_that_is_wanted(place: Place) -> None:
    server, port = started(place, "--journal", "yes")
    folder = place.project / "vitest_servers"
    said = place.run("node", "../node_modules/vitest/vitest.mjs", "run", folder=folder, MEETING=port)
    check("Tests  4 passed (4)" in said, said)
    server.terminate()
    server.wait()
    place.until_no_server()


EVIDENCE = [
    'the fault "on DEL close-after" never fired',
    "error blind-delete: two (client",
    "error two-holders:",
    "one (client",
    "instead:",
]


@story
def vitest_fails_the_test_that_misuses_a_lock_and_shows_commands_of_one_that_fails(place: Place) -> None:
    said = place.run("node", "../node_modules/vitest/vitest.mjs", "run", folder=place.project / "failing_vitest", status=1)
    for words in [*EVIDENCE, 'the gate "on DEL before" was never reached', "Tests  4 failed | 3 passed (7)"]:
        check(words in said, f"{words} is missing in:\n{said}")
    for words in ['the test "a wrong value" has failed; its last commands:', "set colour green  =>  OK", 'get colour  =>  "green"']:
        check(words in said, f"{words} is missing in:\n{said}")


@story
def four_workers_of_jest_share_nothing(place: Place) -> None:
    said = place.run("node", "../node_modules/jest/bin/jest.js", folder=place.project / "jest")
    check("Tests:       12 passed, 12 total" in said, said)
    place.until_no_server()


@story
def jest_fails_the_test_that_misuses_a_lock_and_shows_commands_of_one_that_fails(place: Place) -> None:
    said = place.run("node", "../node_modules/jest/bin/jest.js", folder=place.project / "failing_jest", status=1)
    for words in [*EVIDENCE, 'the test "a wrong value" has failed; its last commands:', "set colour green  =>  OK"]:
        check(words in said, f"{words} is missing in:\n{said}")
    check("Tests:       3 failed, 3 total" in said, said)


@story
def the_clients_and_all_powers_under_the_test_runner_of_node(place: Place) -> None:
    said = place.run("node", "--test", "clients/clients.test.mjs")
    check("# fail 0" in said or "ℹ fail 0" in said, said)


@story
def tests_for_redis_memory_server_run_with_the_name_changed(place: Place) -> None:
    said = place.run("node", "--test", "memory_server/memory-server.test.cjs")
    check("# fail 0" in said or "ℹ fail 0" in said, said)


@story
def strict_typescript_compiles_under_node16_bundler_and_commonjs_and_runs(place: Place) -> None:
    compiler = ["node", "node_modules/typescript/bin/tsc", "--strict", "--target", "es2022"]
    for module, resolution in [("node16", "node16"), ("esnext", "bundler"), ("commonjs", "node10")]:
        how = ["--module", module, "--moduleResolution", resolution]
        place.run(*compiler, *how, "--types", "node", "--skipLibCheck", "--outDir", f"out/{module}", "typescript/main.ts")
        place.run(*compiler, *how, "--typeRoots", "none", "--lib", "es2022", "--noEmit", "typescript/types.ts")
    how = ["--module", "node16", "--moduleResolution", "node16"]
    place.run(*compiler, *how, "--types", "node", "--skipLibCheck", "--noEmit", "typescript/vitest.mts")
    for module in ["node16", "commonjs"]:
        said = place.run("node", f"out/{module}/main.js")
        check("the program has run" in said, said)


def killed(place: Place, words: list[str], **env: str) -> None:
    marker = place.temporary() / f"marker-{time.monotonic_ns()}"
    runner = place.start(*words, folder=place.project / "hanging", MARKER=str(marker), **env)
    place.until(lambda: marker.exists() or runner.poll() is not None, "the test runs")
    check(runner.poll() is None, f"the runner has ended:\n{runner.stdout.read() if runner.poll() is not None else ''}")
    check(place.servers() != [], "a server runs")
    # The runner alone, and not its group: its workers notice by themselves.
    os.kill(runner.pid, signal.SIGKILL)
    runner.wait()
    place.until(lambda: not place.of_session(runner.pid), "all processes of the run end")
    place.until_no_server()


@story
def killing_vitest_ends_its_servers_in_every_pool(place: Place) -> None:
    for pool in ["forks", "threads", "vmThreads"]:
        killed(place, ["node", "../node_modules/vitest/vitest.mjs", "run"], POOL=pool)


@story
def killing_jest_ends_its_server(place: Place) -> None:
    killed(place, ["node", "../node_modules/jest/bin/jest.js"])


@story
def killing_a_program_ends_the_server_of_its_worker_thread(place: Place) -> None:
    killed(place, ["node", "thread.cjs"])


PROGRAM = """
const { startRedouble, findBinary } = require('redouble');
const Redis = require('ioredis');
startRedouble().then(async (server) => {
  const client = new Redis(server.url);
  console.log(await client.ping(), findBinary());
  client.disconnect();
  await server.stop();
});
"""

TOOLS = ["pnpm@10.34.9", "@yarnpkg/cli-dist@4.18.1"]


def other_project(place: Place, name: str, more: dict) -> Path:
    """A project that another package manager is to install. The platforms' packages, which no registry may have, are files."""
    tools = place.folder / "tools"
    if not tools.exists():
        tools.mkdir()
        (tools / "package.json").write_text('{"private": true}')
        place.run("npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", *TOOLS, folder=tools)
    folder = place.folder / name
    folder.mkdir()
    wanted = {"redouble": f"file:{place.main}", "ioredis": "5.11.1"}
    (folder / "package.json").write_text(json.dumps({"private": True, "devDependencies": wanted} | more))
    (folder / "program.cjs").write_text(PROGRAM)
    return folder


@story
def pnpm_installs_it_and_its_server_starts(place: Place) -> None:
    folder = other_project(place, "pnpm", {})
    (folder / "pnpm-workspace.yaml").write_text(f"overrides:\n  redouble-linux-x64: 'file:{place.platform}'\n")
    pnpm = ["node", str(place.folder / "tools" / "node_modules" / "pnpm" / "bin" / "pnpm.cjs")]
    place.run(*pnpm, "install", "--ignore-scripts", folder=folder, XDG_CACHE_HOME=str(place.temporary()))
    check("PONG" in place.run("node", "program.cjs", folder=folder), "no PONG")
    said = place.run(*pnpm, "exec", "redouble", "--version", folder=folder)
    check("Redis server v=" in said, said)


@story
def yarn_keeps_the_program_out_of_its_archives_under_plug_and_play(place: Place) -> None:
    platforms = ["linux-x64", "linux-arm64", "darwin-x64", "darwin-arm64"]
    files = {f"redouble-{platform}": f"file:{place.platform}" for platform in platforms}
    folder = other_project(place, "yarn", {"resolutions": files})
    (folder / "yarn.lock").write_text("")
    (folder / ".yarnrc.yml").write_text("nodeLinker: pnp\nenableScripts: false\nenableTelemetry: false\n")

    def of_npm(setting: str) -> str:
        return place.run("npm", "config", "get", setting).strip().split("\n")[-1]

    env = {"YARN_NPM_REGISTRY_SERVER": of_npm("registry").rstrip("/"), "YARN_ENABLE_GLOBAL_CACHE": "false"}
    if (certificates := of_npm("cafile")) not in ("null", "undefined", ""):
        env["YARN_HTTPS_CA_FILE_PATH"] = certificates
    yarn = ["node", str(place.folder / "tools" / "node_modules" / "@yarnpkg" / "cli-dist" / "bin" / "yarn.js")]
    place.run(*yarn, "install", "--no-immutable", folder=folder, **env)
    said = place.run(*yarn, "node", "program.cjs", folder=folder, **env)
    check("PONG" in said and "/.yarn/unplugged/redouble-linux-x64" in said, said)
    said = place.run(*yarn, "redouble", "--version", folder=folder, **env)
    check("Redis server v=" in said, said)


@story
def the_examples_of_the_page_do_what_it_shows(place: Place) -> None:
    page = (HERE / "node.md").read_text()
    folder = place.project / "page"
    folder.mkdir()
    steps = re.findall(r"\n```(\w+)( \S+)?\n(.*?)\n```", page, re.DOTALL)
    played = 0
    for language, name, text in steps:
        if name:
            (folder / name.strip()).write_text(text + "\n")
        elif language == "console":
            command, *expected = text.split("\n")
            said = place.run("sh", "-c", command.removeprefix("$ "), folder=folder)
            rest = said
            for line in (line.removesuffix("...") for line in expected):
                check(line in rest, f"{command}\nprints no {line!r}, or in another order:\n{said}")
                rest = rest.partition(line)[2] if line.strip() else rest
            played += 1
    check(played == 4, f"the page has {played} commands")


def install(place: Place) -> None:
    shutil.copytree(HERE / "project", place.project)
    for folder, name, count, line in [
        ("vitest", "worker{}.test.mjs", 8, "import {{ worksAlone }} from './worker.mjs';\n\nworksAlone({});\n"),
        ("vitest_servers", "worker{}.test.mjs", 4, "import {{ worksAlone }} from './worker.mjs';\n\nworksAlone({});\n"),
        ("jest", "worker{}.test.js", 4, "require('./worker.js')({});\n"),
    ]:
        for number in range(1, count + 1):
            (place.project / folder / name.format(number)).write_text(line.format(number))
    # Not `npm ci`: it refuses a lock file in which optional packages of other platforms have no version.
    place.run("npm", "install", "--save-dev", "--ignore-scripts", "--no-audit", "--no-fund", str(place.main), str(place.platform))


def main() -> int:
    parser = argparse.ArgumentParser(description="Tries the npm packages in a fresh folder.")
    parser.add_argument("files", nargs="+", type=Path, help="the tarballs, or their folder")
    parser.add_argument("--only", help="only stories with these words in their name")
    chosen = parser.parse_args()
    files = [file for path in chosen.files for file in (path.glob("*.tgz") if path.is_dir() else [path])]
    tarballs = {re.sub(r"-\d+\..*", "", file.name): file.resolve() for file in files if file.suffix == ".tgz"}
    missing = {"redouble", "redouble-linux-x64"} - tarballs.keys()
    if missing:
        parser.error(f"no tarball of {', '.join(sorted(missing))} among {', '.join(map(str, files)) or 'no files'}")
    failures = 0
    with tempfile.TemporaryDirectory(prefix="redouble-node-") as folder:
        place = Place(Path(folder).resolve(), tarballs["redouble"], tarballs["redouble-linux-x64"])
        for name, tell in [("a project installs the tarballs without any script", install), *STORIES]:
            if chosen.only and tell is not install and chosen.only not in name:
                continue
            begun = time.monotonic()
            try:
                tell(place)
                print(f"ok {name} ({time.monotonic() - begun:.1f} s)", flush=True)
            except Failed as reason:
                failures += 1
                for left in place.servers():
                    os.kill(left, signal.SIGKILL)
                print(f"FAILED {name}\n{reason}", flush=True)
                if tell is install:
                    break
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
