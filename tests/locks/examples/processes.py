"""What the examples share: each starts itself anew, as several processes with a role."""
import itertools
import os
import subprocess
import sys

URL = os.environ["REDIS_URL"]
count = itertools.count(1)


def start(role, *words):
    """This program as another process."""
    return subprocess.Popen([sys.executable, sys.argv[0], role, *map(str, words)])


def join(processes):
    for process in processes:
        if process.wait() != 0:
            sys.exit(f"{process.args} ended with {process.returncode}")


def done(what, found, expected=True):
    """One line for each thing that a program has done as its library's README says."""
    if found != expected:
        sys.exit(f"{what}: {found!r} instead of {expected!r}")
    print("ok", next(count), what, flush=True)


def play(roles):
    """Calls the function of this process's role."""
    role, *words = sys.argv[1:] or ["main"]
    roles[role](*words)
