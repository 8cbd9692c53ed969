"""The files and lines by which a step talks with GitHub's runner."""

import os
import secrets
import sys


def give(file_variable: str, text: str) -> None:
    """Appends to one of the runner's files: GITHUB_PATH, GITHUB_STEP_SUMMARY. Elsewhere there is none."""
    path = os.environ.get(file_variable)
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(text)


def output(name: str, value: str) -> None:
    # A word that the value cannot contain ends it, so that it can have several lines.
    end = f"end-{secrets.token_hex(16)}"
    give("GITHUB_OUTPUT", f"{name}<<{end}\n{value}\n{end}\n")


def fail(reason: str) -> None:
    """Ends the step with an annotation."""
    print(f"::error title=redouble::{escape(reason)}", flush=True)
    sys.exit(1)


def escape(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def setting(name: str) -> str:
    return os.environ.get(f"INPUT_{name}", "").strip()


def lines(name: str) -> list[str]:
    return [line.strip() for line in setting(name).splitlines() if line.strip()]


def is_on(name: str) -> bool:
    value = setting(name).lower()
    if value not in ("true", "false", ""):
        fail(f"{name.lower().replace('_', '-')}: {value} is neither true nor false")
    return value == "true"
