#!/usr/bin/env python3
"""Packs a program that is built already into wheels: `build_wheel.py BINARY VERSION OUT`.

The wheel's platform is that of the program, for which this machine needs no compiler. A second wheel, without a program,
is for the machines for which there is none.
"""

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
HATCHLING = "hatchling==1.33.0"


def build(binary: Path, version: str, out: Path) -> "list[Path]":
    """Build the wheels into the folder `out`, and return their paths."""
    out.mkdir(parents=True, exist_ok=True)
    hatchling = installed(out / ".tools" / HATCHLING)
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "REDOUBLE_BINARY")}
    environment.update(REDOUBLE_VERSION=version, PYTHONDONTWRITEBYTECODE="1")
    environment.setdefault("SOURCE_DATE_EPOCH", "1767225600")  # the same input gives the same bytes
    wheels = []
    for program in ({"REDOUBLE_BINARY": str(Path(binary).resolve())}, {}):
        with tempfile.TemporaryDirectory() as folder:
            command = [hatchling, "build", "-t", "wheel", "-d", folder]
            done = subprocess.run(command, cwd=HERE, env={**environment, **program}, capture_output=True, text=True)
            if done.returncode != 0:
                raise RuntimeError(f"hatchling failed:\n{done.stdout}{done.stderr}")
            (wheel,) = Path(folder).glob("*.whl")
            wheels.append(Path(shutil.copy(wheel, out)))
    return wheels


def installed(folder: Path) -> Path:
    """Return the program hatchling of an environment of its own, which is made once."""
    program = folder / "bin" / "hatchling"
    if not program.exists():
        shutil.rmtree(folder, ignore_errors=True)
        venv.create(folder, with_pip=True)
        pip = [folder / "bin" / "python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, HATCHLING], check=True)
    return program


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit("usage: build_wheel.py BINARY VERSION OUT")
    for path in build(Path(sys.argv[1]), sys.argv[2], Path(sys.argv[3])):
        print(path)
