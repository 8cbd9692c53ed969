"""A Redis for tests that can stop time, lose replies, hold clients and audit locks.

    import redouble

    with redouble.Server() as server:
        client = server.client()  # redis-py or valkey-py, whichever is installed
        client.set("lock:tea", "token", nx=True, px=30_000)
        server.clock.advance("30.001s")
        assert client.get("lock:tea") is None

With pytest, the fixture ``redouble`` is the same for one test. Everything here is imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._audit import Audit, Evidence, Finding, Lock
    from ._binary import binary
    from ._clock import Clock, ClockInfo, Frozen
    from ._endpoint import Endpoint
    from ._errors import (
        BinaryNotFound,
        ClientLibraryMissing,
        CommandError,
        ConnectionLost,
        FaultNotFired,
        GateNotReached,
        LockMisuse,
        RedoubleError,
        ServerDied,
        TimedOut,
    )
    from ._journal import Entry, Journal
    from ._rules import Fault, Gate
    from ._server import Instance, Server, Space

    __version__: str

# The module of each name.
_HOMES = {
    "_audit": ("Audit", "Evidence", "Finding", "Lock"),
    "_binary": ("binary",),
    "_clock": ("Clock", "ClockInfo", "Frozen"),
    "_endpoint": ("Endpoint",),
    "_errors": (
        "BinaryNotFound",
        "ClientLibraryMissing",
        "CommandError",
        "ConnectionLost",
        "FaultNotFired",
        "GateNotReached",
        "LockMisuse",
        "RedoubleError",
        "ServerDied",
        "TimedOut",
    ),
    "_journal": ("Entry", "Journal"),
    "_rules": ("Fault", "Gate"),
    "_server": ("Instance", "Server", "Space"),
}

__all__ = [
    "Audit",
    "BinaryNotFound",
    "ClientLibraryMissing",
    "Clock",
    "ClockInfo",
    "CommandError",
    "ConnectionLost",
    "Endpoint",
    "Entry",
    "Evidence",
    "Fault",
    "FaultNotFired",
    "Finding",
    "Frozen",
    "Gate",
    "GateNotReached",
    "Instance",
    "Journal",
    "Lock",
    "LockMisuse",
    "RedoubleError",
    "Server",
    "ServerDied",
    "Space",
    "TimedOut",
    "__version__",
    "binary",
]


def __getattr__(name: str) -> object:
    if name == "__version__":
        from importlib.metadata import PackageNotFoundError, version

        try:
            return version("redouble")
        except PackageNotFoundError:  # used from the sources, without having been installed
            return "0+unknown"
    for home, names in _HOMES.items():
        if name in names:
            value = getattr(importlib.import_module(f"{__name__}.{home}"), name)
            globals()[name] = value
            return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
