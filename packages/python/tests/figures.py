#!/usr/bin/env python3
"""Measures the Python package beside fakeredis, and pytest-redis with redis-server: `figures.py FILE ...`.

Prints a table for docs/figures.md. Each time is the least of several, in fresh processes.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from run import Environment, Files

TIMES = 10

PEERS = {
    "redouble": {
        "install": [],
        "first": "import redouble\nwith redouble.Server() as server:\n    server.client().set('key', 'value')\n{done}",
        "test": "def test(redouble):\n    assert redouble.client().set('key', 'value')\n",
    },
    "fakeredis": {
        "install": ["fakeredis"],
        "first": "import fakeredis\nfakeredis.FakeRedis().set('key', 'value')\n{done}",
        "test": "import fakeredis\ndef test():\n    assert fakeredis.FakeRedis().set('key', 'value')\n",
    },
    "pytest-redis, redis-server": {
        "install": ["pytest-redis"],
        "test": "def test(redisdb):\n    assert redisdb.set('key', 'value')\n",
    },
}

DONE = "import os, time; print(time.perf_counter() - began, flush=True); os._exit(0)"


def size(folder):
    """Bytes of all files, without compiled modules, which installers may or may not make."""
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file() and file.suffix != ".pyc")


def least(measure):
    return min(measure() for _ in range(TIMES))


def clock(command, **options):
    began = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **options)
    return time.perf_counter() - began


def main():
    files = Files([Path(word).resolve() for word in sys.argv[1:]])
    rows = []
    with tempfile.TemporaryDirectory(prefix="redouble-figures-") as name:
        folder = Path(name)
        for number, (peer, of) in enumerate(PEERS.items()):
            wheel = str(files.wheel)
            cache = folder / f"cache-{number}"
            base = ["redis", "pytest"]
            environment = Environment(folder / str(number), sys.executable, None, base)
            before = size(environment.folder)
            pip = [environment.python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-compile"]
            wanted = ["--no-index", wheel] if peer == "redouble" else of["install"]
            # From files on this machine, so that it is not the network that is measured.
            if peer != "redouble":
                subprocess.run([*pip[:3], "download", *pip[4:6], "--dest", str(cache), *wanted], check=True)
                wanted = ["--no-index", "--find-links", str(cache), *wanted]
            downloaded = files.wheel.stat().st_size if peer == "redouble" else sum(
                file.stat().st_size for file in cache.iterdir() if not file.name.startswith("redis-")
            )  # fmt: skip
            install = clock([*pip, *wanted])
            installed = size(environment.folder) - before
            again = []
            for _ in range(4):
                again.append(clock([*pip, "--force-reinstall", "--no-deps", *wanted]))
            install = min([install, *again])
            variables = environment.variables(PATH=f"{environment.folder / 'bin'}:{os.defpath}")
            first = "–"
            if "first" in of:
                code = "import time; began = time.perf_counter()\n" + of["first"].format(
                    done=("    " if "with" in of["first"] else "") + DONE
                )

                def measure():
                    said = subprocess.run(
                        [environment.python, "-c", code], env=variables, stdout=subprocess.PIPE, text=True, check=True
                    )
                    return float(said.stdout)

                measure()
                first = f"{least(measure) * 1000:.0f} ms"
            project = folder / f"project-{number}"
            project.mkdir()
            (project / "test_it.py").write_text(of["test"])
            test = least(
                lambda: clock(
                    [environment.python, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=project, env=variables
                )
            )
            rows.append(
                (
                    peer,
                    f"{downloaded / 1e6:.1f} MB",
                    f"{installed / 1e6:.1f} MB",
                    f"{install:.1f} s",
                    first,
                    f"{test * 1000:.0f} ms",
                )
            )
        bare = folder / "bare"
        bare.mkdir()
        (bare / "test_it.py").write_text("import redis\ndef test():\n    pass\n")
        least_bare = least(
            lambda: clock([environment.python, "-m", "pytest", "-q", "-p", "no:cacheprovider"], cwd=bare, env=variables)
        )
    print(
        "| | downloaded | installed | `pip install` of the files | from `import` to the first reply | `pytest` with one test |"
    )
    print("|---|---|---|---|---|---|")
    for row in rows:
        print(f"| {' | '.join(row)} |")
    print(f"\nA test that only imports redis-py: {least_bare * 1000:.0f} ms.")
    server = shutil.which("redis-server")
    if server:
        print(
            f"redis-server itself: {os.path.getsize(os.path.realpath(server)) / 1e6:.1f} MB, by the system's package."
        )


if __name__ == "__main__":
    main()
