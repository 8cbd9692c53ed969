#!/usr/bin/env python3
"""Measures what the npm packages cost beside others, and prints a table for docs/figures.md.

    python3 packages/node/figures.py FOLDER

FOLDER has the tarballs. Needs Node with npm, and redis-server for redis-memory-server, which would otherwise download and
compile one. Installs are timed with a warm cache of npm, so that the network does not count.
"""

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RUNS = 7
CLIENT = "ioredis@5.11.1"

FIRST_COMMAND = """
const begun = performance.now();
{start}
await client.ping();
console.log(performance.now() - begun);
await client.quit();
{stop}
process.exit();
"""

OPEN = "const {{ default: Redis }} = await import('ioredis'); const client = new Redis({});"

PEERS = {
    "redouble": (
        [],
        "const { startRedouble } = await import('redouble'); const server = await startRedouble();" + OPEN.format("server.url"),
        "await server.stop();",
    ),
    "redis-memory-server 0.17.1, with redis-server 7.0.15": (
        ["redis-memory-server@0.17.1"],
        "const { RedisMemoryServer } = await import('redis-memory-server');"
        f"const server = new RedisMemoryServer({{ binary: {{ systemBinary: '{shutil.which('redis-server')}' }} }});"
        "const port = await server.getPort();" + OPEN.format("port"),
        "await server.stop();",
    ),
    "ioredis-mock 8.13.1": (
        ["ioredis-mock@8.13.1"],
        "const { default: Redis } = await import('ioredis-mock'); const client = new Redis();",
        "",
    ),
}


def size(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir())


def main() -> None:
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    tarballs = [str(file.resolve()) for file in sorted(Path(sys.argv[1]).glob("*.tgz"))]
    PEERS["redouble"][0].extend(tarballs)
    env = os.environ | {"REDISMS_DISABLE_POSTINSTALL": "1", "NPM_CONFIG_LOGLEVEL": "error"}
    quiet = ["--no-audit", "--no-fund", "--save-dev", "--ignore-scripts"]
    print("| | install | packages | on disk | import to first reply |\n|---|---|---|---|---|")
    for name, (packages, start, stop) in PEERS.items():
        with tempfile.TemporaryDirectory(prefix="redouble-figures-") as folder:
            folder = Path(folder)
            (folder / "package.json").write_text('{"private": true}')
            subprocess.run(["npm", "install", *quiet, CLIENT], cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
            before = (size(folder / "node_modules"), count(folder))
            command = ["npm", "install", *quiet, *packages]
            times = []
            for _ in range(3):
                subprocess.run(["npm", "uninstall", *(bare(each) for each in packages)], cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
                begun = time.monotonic()
                subprocess.run(command, cwd=folder, env=env, check=True, stdout=subprocess.DEVNULL)
                times.append(time.monotonic() - begun)
            grown = size(folder / "node_modules") - before[0]
            added = count(folder) - before[1]
            (folder / "first.mjs").write_text(FIRST_COMMAND.replace("{start}", start).replace("{stop}", stop))
            replies = [
                float(subprocess.run(["node", "first.mjs"], cwd=folder, env=env, check=True, capture_output=True, text=True).stdout)
                for _ in range(RUNS)
            ]
            install = f"{statistics.median(times):.1f} s"
            print(f"| {name} | {install} | {added} | {grown / 1e6:.1f} MB | {statistics.median(replies):.0f} ms |", flush=True)


def bare(package: str) -> str:
    """The name of a package that was given with its version or as a tarball."""
    if package.endswith(".tgz"):
        return Path(package).name.rsplit("-", 1)[0]
    return package.rsplit("@", 1)[0]


def count(folder: Path) -> int:
    return sum(1 for _ in (folder / "node_modules").rglob("package.json") if is_package(_))


def is_package(manifest: Path) -> bool:
    parent = manifest.parent.parent
    return parent.name == "node_modules" or (parent.name.startswith("@") and parent.parent.name == "node_modules")


if __name__ == "__main__":
    main()
