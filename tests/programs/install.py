#!/usr/bin/env python3
"""Installs what the programs use into target/programs, once: a virtual environment, and packages for Node.

The versions are those of requirements.txt and package-lock.json, from the registries that pip and npm are configured for.
"""
import shutil
import subprocess
import sys

from run import HERE, INSTALLED

STAMP = INSTALLED / ".installed"
FIXED = ("requirements.txt", "package.json", "package-lock.json")


def output(*command):
    """What a command prints, which must succeed."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    except OSError as error:
        sys.exit(f"{command[0]} cannot be started ({error.strerror}): `make languages` installs it")
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    made_from = sys.version + output("node", "--version") + "".join((HERE / name).read_text() for name in FIXED)
    if STAMP.exists() and STAMP.read_text() == made_from:
        return
    print(f"installing {INSTALLED}", flush=True)
    shutil.rmtree(INSTALLED, ignore_errors=True)
    INSTALLED.mkdir(parents=True)
    output(sys.executable, "-m", "venv", INSTALLED)
    output(INSTALLED / "bin/python", "-m", "pip", "install", "--quiet", "--requirement", HERE / "requirements.txt")
    for name in FIXED[1:]:
        shutil.copy(HERE / name, INSTALLED)
    output("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--prefix", INSTALLED)
    STAMP.write_text(made_from)


if __name__ == "__main__":
    main()
