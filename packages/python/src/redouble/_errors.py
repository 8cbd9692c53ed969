"""What can go wrong. Every error says in words what to do."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

if TYPE_CHECKING:
    from ._audit import Finding


class RedoubleError(Exception):
    """The root of all errors of this package."""

    def __init_subclass__(cls) -> None:
        # Tracebacks and reports show the name under which it is imported.
        cls.__module__ = "redouble"


RedoubleError.__module__ = "redouble"


class BinaryNotFound(RedoubleError):
    """The program ``redouble`` is not there, or cannot be run on this machine."""


class ServerDied(RedoubleError):
    """The server did not start, or has ended. The message has the end of its log."""


class ConnectionLost(RedoubleError, ConnectionError):
    """The server closed the connection, or cannot be reached."""


class ClientLibraryMissing(RedoubleError, ImportError):
    """Neither redis-py nor valkey-py is installed."""


class CommandError(RedoubleError):
    """The server answered a command with an error; ``code`` is its first word."""

    @property
    def code(self) -> str:
        return str(self).partition(" ")[0]


class TimedOut(CommandError, TimeoutError):
    """What was waited for did not come in time. The message says what came instead."""


class FaultNotFired(RedoubleError, AssertionError):
    """A fault met no command: the test would have passed without it."""


class GateNotReached(RedoubleError, AssertionError):
    """No command came to a gate: the test would have passed without it."""


class LockMisuse(RedoubleError, AssertionError):
    """Locks were misused; ``findings`` has each case."""

    def __init__(self, message: str, findings: Optional[list[Finding]] = None):
        super().__init__(message)
        self.findings = findings or []

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.findings)
