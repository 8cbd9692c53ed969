"""Python values as the words of REDOUBLE commands."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import Any, Iterable, Optional, Union

Duration = Union[str, int, float, timedelta]
"""A length of time: seconds as a number, a ``timedelta``, or text as ``"30s"``, ``"250ms"``, ``"1.5s"``, ``"2m"``, ``"1h"``."""

Instant = Union[int, float, datetime]
"""A moment: seconds since 1970 as those of ``time.time()``, or a ``datetime``."""

Commands = Union[str, Iterable[str]]
"""The names of commands: ``"SET"``, ``"SET GETSET"``, ``["SET", "GETSET"]``, ``"CLIENT|KILL"``, ``"@write"``."""


def milliseconds(duration: Duration) -> str:
    """The words of a duration."""
    if isinstance(duration, str):
        return duration
    seconds = duration.total_seconds() if isinstance(duration, timedelta) else duration
    return f"{round(seconds * 1000)}ms"


def instant(moment: Instant) -> int:
    """Milliseconds since 1970. A ``datetime`` without a time zone is local time, as everywhere in Python."""
    if isinstance(moment, str):
        raise TypeError(f"a moment is seconds since 1970 or a datetime, not {moment!r}")
    seconds = moment.timestamp() if isinstance(moment, datetime) else moment
    return round(seconds * 1000)


def moment(microseconds: int) -> datetime:
    return datetime.fromtimestamp(microseconds / 1_000_000, timezone.utc)


def pattern(
    on: Optional[Commands] = None,
    key: Optional[str] = None,
    client: Union[str, int, None] = None,
    db: Optional[int] = None,
    **more: Any,
) -> list[str]:
    """The words of the conditions that are given. The value of a condition in ``more`` that is ``True`` has no word."""
    words: list[str] = []
    if on is not None:
        names = on.replace(",", " ").split() if isinstance(on, str) else list(on)
        if not names:
            raise ValueError("on= names no command")
        words += ["on", *names]
    for name, value in {"key": key, "client": client, "db": db, **more}.items():
        if value is True:
            words.append(name)
        elif value is not None and value is not False:
            words += [name, str(value)]
    return words


def fields(reply: list[Any]) -> dict[str, Any]:
    """A list of names and values as a dictionary, with ``_`` for ``-`` in the names."""
    return {name.replace("-", "_"): value for name, value in zip(reply[::2], reply[1::2])}
