"""Finds the program ``redouble``."""

from __future__ import annotations

import os
import platform
import shutil
import sys
import sysconfig
from pathlib import Path
from typing import Iterator

from ._errors import BinaryNotFound

VARIABLE = "REDOUBLE_BINARY"


def binary() -> str:
    """Return the path of the program: that of ``REDOUBLE_BINARY``, else the one that was installed with this package,
    else the first in ``PATH``."""
    named = os.environ.get(VARIABLE)
    if named:
        found = shutil.which(named)
        if found is None:
            raise BinaryNotFound(f"{VARIABLE} is {named!r}, and there is no program that can be run")
        return os.path.abspath(found)
    for folder in _script_folders():
        program = folder / "redouble"
        if os.access(program, os.X_OK) and program.is_file():
            return str(program)
    found = shutil.which("redouble")
    if found is not None:
        return os.path.abspath(found)
    machine = f"{platform.system()} {platform.machine()}"
    if sys.platform == "win32":
        raise BinaryNotFound(f"redouble does not run on Windows ({machine}); it does in WSL 2")
    raise BinaryNotFound(
        "the program redouble was not found: it comes with the wheel, and there may be none for "
        f"{machine}, Python {platform.python_version()}. Build it from the sources (`make build`), and put its path "
        f"into {VARIABLE}"
    )


def _script_folders() -> Iterator[Path]:
    """The folders into which an installer may have put this package's program."""
    yield Path(sysconfig.get_path("scripts"))
    # `pip install --target FOLDER` and zipped applications keep programs beside the modules, `pip install --prefix`
    # some folders above them.
    modules = Path(__file__).resolve().parent.parent
    yield modules / "bin"
    for parent in list(modules.parents)[:3]:
        yield parent / "bin"
    # `pip install --user`
    yield Path(sysconfig.get_path("scripts", f"{os.name}_user"))
