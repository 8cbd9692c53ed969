#!/usr/bin/env python3
"""Runs the programs of the corpus and compares what they print with the manifest.

    run.py                              all programs, each on a fresh redis-server
    run.py wrong/payroll_run.py right   one program, or a folder
    run.py --set a --repeat 5           one set, five times
    run.py --url redis://127.0.0.1:6379 on a server that is there already: FLUSHALL before each program

A wrong program ends with a line `damage: …` or `would: …`, a right one with `ok: …`, and all with exit code 0.
The exit code is 1 if a program did not do as its entry in the manifest says.
"""
import argparse
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse

try:
    import tomllib
except ImportError:
    sys.exit(f"the programs are run by Python 3.11 or later, and this is {sys.version.split()[0]}")

HERE = pathlib.Path(__file__).resolve().parent
SETS = ["a", "b", "c", "d", "e"]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent.parent / "target"))
INSTALLED = TARGET / "programs"  # where install.py puts what the programs use
LIMIT_SECONDS = 20


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ask(port, *words, host="127.0.0.1"):
    """One command over a connection of its own; the first line of the reply."""
    with socket.create_connection((host, port), timeout=1) as link:
        parts = [f"*{len(words)}\r\n"] + [f"${len(word)}\r\n{word}\r\n" for word in words]
        link.sendall("".join(parts).encode())
        return link.recv(100).decode().splitlines()[0]


def flush(url):
    parts = urllib.parse.urlsplit(url)
    answer = ask(parts.port or 6379, "FLUSHALL", host=parts.hostname)
    if answer != "+OK":
        sys.exit(f"{url}: FLUSHALL answers {answer}")


class Server:
    """A redis-server that keeps nothing, ended by its process id."""

    def __init__(self, binary):
        for _ in range(5):
            self.port, self.folder = free_port(), tempfile.TemporaryDirectory()
            command = [binary, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
            self.process = subprocess.Popen(command, cwd=self.folder.name, stdout=subprocess.DEVNULL)
            if self.is_ready():
                return
            self.stop()
        sys.exit("redis-server does not start")

    def is_ready(self):
        for _ in range(200):
            if self.process.poll() is not None:
                return False
            try:
                if ask(self.port, "PING") == "+PONG":
                    return True
            except OSError:
                pass
            time.sleep(0.02)
        return False

    def stop(self):
        self.process.kill()
        self.process.wait()
        self.folder.cleanup()

    @property
    def url(self):
        return f"redis://127.0.0.1:{self.port}"


def default_python():
    installed = INSTALLED / "bin" / "python"
    return str(installed) if installed.exists() else sys.executable


def environment(urls):
    env = dict(os.environ, REDIS_URL=urls[0], REDIS_URLS=",".join(urls))
    env.setdefault("NODE_PATH", str(INSTALLED / "node_modules"))
    return env


def command(program, options):
    return [options.python if program["language"] == "python" else options.node, str(HERE / program["file"])]


def verdict(program, code, lines, errors):
    """What a program said at its end: (verdict line, complaint), one of which is empty."""
    words = ("damage: ", "would: ") if program["expected"] == "error" else ("ok: ",)
    other = ("ok: ",) if program["expected"] == "error" else ("damage: ", "would: ")
    verdicts = [line for line in lines if line.startswith(words)]
    tail = "\n".join((lines + errors)[-12:])
    if code != 0:
        return "", f"exit code {code}\n{tail}"
    if len(verdicts) != 1 or any(line.startswith(other) for line in lines):
        return "", f"{len(verdicts)} lines that begin with {' or '.join(words)}\n{tail}"
    return verdicts[0], ""


def play(program, urls, options):
    """Runs one program. Returns (verdict line, complaint): one of them is empty."""
    try:
        done = subprocess.run(
            command(program, options),
            env=environment(urls),
            capture_output=True,
            text=True,
            timeout=LIMIT_SECONDS,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return "", f"still running after {LIMIT_SECONDS} s"
    return verdict(program, done.returncode, done.stdout.splitlines(), done.stderr.splitlines())


def chosen(options):
    programs = tomllib.loads((HERE / "manifest.toml").read_text())["program"]
    listed, there = {program["file"] for program in programs}, set()
    for folder in ("wrong", "right"):
        there |= {f"{folder}/{path.name}" for path in (HERE / folder).iterdir() if path.suffix in (".py", ".js")}
    if listed != there:
        sys.exit(f"not both in the manifest and in its folder: {', '.join(sorted(listed ^ there))}")
    for name in options.names:
        if not any(program["file"].startswith(name.rstrip("/")) for program in programs):
            sys.exit(f"no program {name}")
    names = tuple(name.rstrip("/") for name in options.names)
    return [
        program
        for program in programs
        if (not names or program["file"].startswith(names))
        and (not options.set or program["set"] in options.set)
        and options.language in (None, program["language"])
    ]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="programs or folders; all if none is named")
    parser.add_argument("--url", help="a server that is there already; several with commas")
    parser.add_argument("--set", action="append", choices=SETS)
    parser.add_argument("--language", choices=["python", "node"])
    parser.add_argument("--repeat", type=int, default=1)
    parser.add_argument("--server", default="redis-server", help="the binary to start")
    parser.add_argument("--python", default=default_python(), help="an interpreter that has requirements.txt installed")
    parser.add_argument("--node", default="node", help="NODE_PATH leads it to the packages of package.json")
    options = parser.parse_args()

    failures = runs = 0
    for program in chosen(options):
        for _ in range(options.repeat):
            servers = [] if options.url else [Server(options.server) for _ in range(program["instances"])]
            urls = options.url.split(",") if options.url else [server.url for server in servers]
            if len(urls) < program["instances"]:
                print(f"skip {program['file']:36} needs {program['instances']} servers, --url names {len(urls)}")
                break
            begin = time.monotonic()
            try:
                if options.url:
                    for url in urls:
                        flush(url)
                said, complaint = play(program, urls[: program["instances"]], options)
            finally:
                for server in servers:
                    server.stop()
            runs += 1
            failures += bool(complaint)
            mark = "FAIL" if complaint else "    "
            print(f"{mark} {program['file']:36} {time.monotonic() - begin:5.2f} s  {complaint or said}", flush=True)
    print(f"{runs} runs, {failures} not as the manifest says")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
